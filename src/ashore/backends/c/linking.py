"""From generated sources to object files and libraries."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from ashore.backends.c.compiler import Compiler

SOURCE_FLAGS = ("-std=c99", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast")
"""How generated sources are compiled, on whatever target. They change finite results by rounding only, if at all."""

LIBRARY_FLAGS = (*SOURCE_FLAGS, "-fPIC", "-fvisibility=hidden")
NATIVE_FLAGS = ("-march=native",)
"""For the machine that compiles; such a library need not run on another."""

_LINK_FLAGS = ("-shared", "-Wl,-Bsymbolic", "-Wl,-z,noexecstack")
"""Names are bound within the library: a function of the same name elsewhere in the process is never called."""

_SOURCES = (".c", ".S")


def write_sources(files: Mapping[str, bytes], folder: Path) -> None:
    """Write generated files into a folder."""
    for name, data in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def compiled_names(folder: Path) -> list[str]:
    """The files of a folder that are compiled, in order."""
    return sorted(path.name for path in folder.iterdir() if path.suffix in _SOURCES)


def link_library(compiler: Compiler, folder: Path, library: str, what: str) -> None:
    """Compile the sources in a folder to a shared library beside them."""
    compiler.run([*_LINK_FLAGS, "-I.", *compiled_names(folder), "-o", library, "-lm"], folder, what)


def link_libraries(compiler: Compiler, folder: Path, name: str, what: str) -> None:
    """Compile the sources in a folder to a shared and a static library beside them, ``lib<name>.so`` and ``.a``."""
    objects: list[str] = []
    for source in compiled_names(folder):
        objects.append(f"{source}.o")
        compiler.run(["-I.", "-c", source, "-o", objects[-1]], folder, what)
    compiler.run([*_LINK_FLAGS, *objects, "-o", f"lib{name}.so", "-lm"], folder, what)
    archiver = Compiler(tuple(shlex.split(os.environ.get("AR", ""))) or ("ar",), (), "")
    archiver.run(["rcsD", f"lib{name}.a", *objects], folder, what)
    for name in objects:
        (folder / name).unlink()
