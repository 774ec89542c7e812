"""What calls compiled policies: an extension of our own, else ctypes.

The extension is compiled once for each version of Python and numpy, and kept in the cache like the policies.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import logging
import platform
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ashore.backends.c.compiler import CompileError, find_compiler
from ashore.backends.cache import LIBRARIES
from ashore.errors import BackendError

HERE = Path(__file__).parent
MODULE = "ashore_native"
SOURCES = {"extension.c": HERE / "extension.c", "ashore.h": HERE / "texts" / "ashore.h"}
_FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w")
_LOG = logging.getLogger(__name__)


@functools.cache
def caller() -> Any:
    """The class that opens compiled policies: that of the extension, or `Foreign` where it cannot be compiled."""
    include = _headers()
    if include is None:
        reason = "Python's headers are not installed here (Debian: apt-get install python3-dev)"
    else:
        try:
            return _load_extension(include)
        except (CompileError, ImportError) as error:
            reason = str(error)
    _LOG.warning("compiled policies are called through ctypes, which takes a few microseconds longer: %s", reason)
    from ashore.backends.c.foreign import Foreign

    return Foreign


def _headers() -> tuple[str, ...] | None:
    """The folders with the headers of Python and numpy, if they are there."""
    folders = dict.fromkeys((sysconfig.get_path("include"), sysconfig.get_path("platinclude")))
    if not any((Path(folder) / "Python.h").is_file() for folder in folders):
        return None
    return (*folders, np.get_include())


def _load_extension(include: tuple[str, ...]) -> Any:
    folders = [f"-I{folder}" for folder in include]
    compiler = find_compiler((*_FLAGS, *folders))
    sources = {name: path.read_bytes() for name, path in SOURCES.items()}
    told = (sys.version, str(sysconfig.get_config_var("SOABI")), np.__version__, platform.machine(), compiler.identity)
    key = hashlib.sha256("\0".join(told).encode())
    for source in sources.values():
        key.update(hashlib.sha256(source).digest())
    library = f"{MODULE}.so"

    def make(folder: Path) -> Mapping[str, str]:
        for name, source in sources.items():
            (folder / name).write_bytes(source)
        compiler.run(["extension.c", "-o", library], folder, "the extension that calls compiled policies")
        return {}

    path = LIBRARIES.find_or_make(MODULE, key.hexdigest(), library, make).file
    spec = importlib.util.spec_from_file_location(MODULE, path)
    if spec is None or spec.loader is None:
        raise BackendError(f"{path}: Python does not take it for an extension")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Native
