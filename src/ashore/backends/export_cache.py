"""Finds a stage that was exported before, exactly so, in the user's cache, and keeps what was exported anew.

Two thirds of an export are spent in torch's exporters, and people export the same policy again and again: with another
description, another tolerance, another picture. An exported stage is found by everything that shapes its file:

    what it computes      the fingerprint of the module: operations, lines, constants (`ashore.capture.fingerprint`)
    what was asked for    the exporter, opset, IR version, names of the ports, shapes of the examples, the batch axes
    who writes it         versions of Python, torch, onnx and the like, and the sources of Ashore that take part
    what else they read   torch's switches, its variables of the environment, the processor

If any of it is another, so is the key, and the stage is exported. A stage is kept once it was proven. What was found is
proven against the recording like any file: if that fails, it is exported anew.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import torch

from ashore import __version__
from ashore.backends.cache import EXPORTS, digest_of_sources
from ashore.backends.exporting import EXPORTERS, Exported, Request, exporter_name
from ashore.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Sequence

SWITCH = "ASHORE_EXPORT_CACHE"
"""The variable that switches the cache off, with the value ``off``."""

FILE = "stage.msgpack"
TOOLS = ("torch", "onnx", "onnx-ir", "onnxscript", "numpy", "ml-dtypes", "protobuf", "sympy", "openvino")
"""Distributions that shape a file."""

CACHED = ("onnx-dynamo", "openvino", "jit-script")
"""Exporters whose files are kept. The others run the module on the examples or put them into the file, or ask for
translations that anybody may register; two of them are as quick as looking for a file."""

_VARIABLES = ("TORCH", "PYTORCH", "ONNX", "OPENVINO")
_SOURCES = Path(__file__).parents[1]
_LOG = logging.getLogger(__name__)


def is_cache_on() -> bool:
    """Whether the environment leaves the cache switched on; a value that means nothing is an error."""
    value = os.environ.get(SWITCH, "on")
    if value not in ("on", "off"):
        raise BackendError(f"{SWITCH}={value}: expected on or off")
    return value == "on"


def find_export(exporter: str, request: Request) -> Exported | None:
    """What an exporter once wrote for the same request, if it was kept."""
    key = export_key(exporter, request)
    if key is None or not _is_there():
        return None
    data = EXPORTS.find(exporter_name(exporter), key, FILE)
    return None if data is None else msgspec.msgpack.decode(data, type=Exported)


def keep_export(exporter: str, request: Request, exported: Exported) -> None:
    """Keep what an exporter wrote. Where that fails, a warning says why: the export itself is none the worse."""
    key = export_key(exporter, request)
    if key is None:
        return
    size = len(exported.data) + sum(map(len, exported.more.values()))
    if EXPORTS.most_bytes is not None and size > EXPORTS.most_bytes // 4:
        _LOG.info("a stage of %d MiB is too large for the cache, and will be exported again", size >> 20)
        return
    try:
        EXPORTS.keep(exporter_name(exporter), key, FILE, msgspec.msgpack.encode(exported))
    except (BackendError, OSError, ValueError, msgspec.MsgspecError) as error:
        _LOG.warning("%s; or switch the cache off: cache=False, --no-cache, %s=off", error, SWITCH)


def _is_there() -> bool:
    """Whether there is a folder to look into. Where there can be none, keeping says why."""
    try:
        return EXPORTS.folder.is_dir()
    except (BackendError, OSError):
        return False


def export_key(exporter: str, request: Request) -> str | None:
    """A digest of everything that shapes the file of a stage, or None if nobody can vouch for it."""
    name = exporter_name(exporter)
    if request.fingerprint is None or name not in CACHED or not _is_ours(name):
        return None
    asked_for = (
        name,
        request.fingerprint,
        request.inputs,
        request.outputs,
        sorted(request.dynamic.items()),
        request.opset,
        request.ir_version,
        [_shape_of(tensor) for tensor in request.example],
    )
    sources = digest_of_sources(*source_folders(name))
    parts = (asked_for, __version__, versions(TOOLS), sources, _switches(), _variables(), _machine())
    return hashlib.sha256("\0".join(map(repr, parts)).encode()).hexdigest()


@cache
def versions(tools: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The versions of distributions, and of Python; what is not installed has none."""
    own = (("python", sys.version), ("torch's commit", str(torch.version.git_version)))
    return (*own, *((tool, _version(tool)) for tool in tools))


def _version(tool: str) -> str:
    try:
        return version(tool)
    except PackageNotFoundError:
        return ""


def source_folders(name: str) -> tuple[Path, ...]:
    """What of Ashore itself shapes a file: modules become graphs in `capture`, and files in `backends`."""
    folders = ("capture", "backends", "runtime") if name == "openvino" else ("capture", "backends")
    return tuple(_SOURCES / folder for folder in folders)


def _is_ours(name: str) -> bool:
    """Whether an exporter is still the one that Ashore brings: somebody may have put another in its place."""
    module_name, _, function_name = EXPORTERS[name].partition(":")
    module = sys.modules.get(module_name)
    if module is None:
        return True
    function = getattr(module, function_name, None)
    code = getattr(function, "__code__", None)
    return code is not None and (code.co_filename, code.co_name) == (module.__file__, function_name)


def _shape_of(tensor: torch.Tensor) -> tuple[object, ...]:
    return type(tensor).__name__, str(tensor.dtype), str(tensor.device), tuple(tensor.shape), tuple(tensor.stride())


def _switches() -> tuple[object, ...]:
    """Settings of torch by which the same operations are taken apart in another way."""
    cuda = torch.backends.cuda
    attention = (cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled())
    return (
        str(torch.get_default_dtype()),
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.mkldnn.enabled,  # type: ignore[attr-defined]
        attention,
    )


def _variables() -> list[tuple[str, str]]:
    """Variables of the environment that exporters look at, whatever they do with them."""
    return sorted((name, value) for name, value in os.environ.items() if name.startswith(_VARIABLES))


def _machine() -> tuple[str, str]:
    """Constants are folded on this processor, and another one may round otherwise."""
    return platform.machine(), torch.backends.cpu.get_cpu_capability()


for _name in CACHED:  # as they are now, while they are imported: somebody may change them while this process runs
    digest_of_sources(*source_folders(_name))
versions(TOOLS)
