"""What makes a compiled policy a library that C++ programs find: `ashore.hpp` and a CMake project."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import PurePosixPath

from ashore.backends.c.linking import SOURCE_FLAGS

_VERSION = re.compile(r"\d+(\.\d+){0,3}")


def text(path: str) -> str:
    """A file that is the same for every policy, such as ``ashore.hpp``."""
    found = files("ashore.backends.c") / "texts"
    for part in PurePosixPath(path).parts:
        found /= part
    return found.read_text(encoding="utf-8")


def project_files(name: str, compiled: Mapping[str, bytes], *, version: str | None, native: bool) -> dict[str, bytes]:
    """The files beside those of a compiled policy that make a CMake project of them.

    Args:
        name: the policy as a C identifier; ``find_package(name)`` will find the target ``ashore::name``.
        compiled: the files of the policy: sources, headers, and weights that a source includes.
        version: of the package; what CMake does not take for one is left out.
        native: whether the library is for the processor of this machine only, where the project does not say.
    """
    headers = sorted([path for path in compiled if path.endswith(".h")] + ["ashore.hpp"])
    sources = sorted(path for path in compiled if path.endswith((".c", ".S")))
    values = {
        "NAME": name,
        "VERSION": version if version and _VERSION.fullmatch(version) else "0.0.0",
        "LANGUAGES": "C ASM" if any(path.endswith(".S") for path in sources) else "C",
        "NATIVE": "ON" if native else "OFF",
        "SOURCES": " ".join(sources),
        "HEADERS": " ".join(headers),
        "FLAGS": ";".join(SOURCE_FLAGS[1:]),
    }
    made = {
        "ashore.hpp": text("ashore.hpp"),
        "CMakeLists.txt": fill(text("cmake/CMakeLists.txt"), values),
        "config.cmake.in": text("cmake/config.cmake.in"),
    }
    return {path: content.encode() for path, content in made.items()}


def fill(template: str, values: Mapping[str, str]) -> str:
    """Put values where a template has ``@NAME@``."""
    return re.sub(r"@([A-Z_]+)@", lambda match: values[match[1]], template)
