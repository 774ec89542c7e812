"""A package as files to build on: sources, libraries, and a note that says what they are."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from ashore.backends.c.compiler import find_compiler
from ashore.backends.c.foreign import policy_size
from ashore.backends.c.generating import Figures, Source, generate
from ashore.backends.c.linking import LIBRARY_FLAGS, NATIVE_FLAGS, link_libraries, write_sources
from ashore.errors import InputError
from ashore.package import Package

NOTE = "compiled.json"
"""Says what the other files are."""

FORMAT = "ashore-compiled-package"


class Compiled(NamedTuple):
    """A compiled package."""

    name: str
    """What its symbols are called after ``ashore_``."""

    files: dict[str, bytes]
    figures: Figures
    made: dict[str, Any]
    """What was found out by compiling, such as the size of the struct that the caller owns."""


class File(msgspec.Struct, frozen=True):
    """A file, in the note."""

    sha256: str
    size: int


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a folder with a compiled package."""

    format: str = FORMAT
    name: str
    package: str
    """The name in its manifest."""

    manifest_sha256: str | None
    """The seal of its manifest, which has the digests of all its files."""

    target: str
    batch: int
    files: dict[str, File]


def compile_package(package: Package, *, target: str = "host", batch: int = 1) -> Compiled:
    """Compile a package for a target.

    Args:
        package: all of it is compiled.
        target: one of `TARGETS`.
        batch: the length of the symbolic batch axis.
    """
    if target not in TARGETS:
        raise InputError(f"target: expected one of {sorted(TARGETS)}, got {target!r}")
    source = generate(package, batch=batch, target=target)
    with tempfile.TemporaryDirectory(prefix="ashore-") as scratch:
        folder = Path(scratch)
        write_sources(source.files, folder)
        made = TARGETS[target](package, source, folder)
        files = {
            str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
        }
    note = Note(
        name=source.name,
        package=package.manifest.name,
        manifest_sha256=package.manifest.manifest_sha256,
        target=target,
        batch=batch,
        files={path: File(hashlib.sha256(data).hexdigest(), len(data)) for path, data in files.items()},
    )
    files[NOTE] = msgspec.json.format(msgspec.json.encode(note), indent=2) + b"\n"
    return Compiled(source.name, files, source.figures, made)


def is_compiled(folder: Path) -> bool:
    """Whether a folder holds a compiled package and nothing else, so that another one may take its place."""
    try:
        note = msgspec.json.decode((folder / NOTE).read_bytes(), type=Note)
    except (OSError, msgspec.MsgspecError):
        return False
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()}
    return note.format == FORMAT and found <= {NOTE, *note.files}


def _for_this_machine(package: Package, source: Source, folder: Path) -> dict[str, Any]:
    return _libraries(package, source, folder, NATIVE_FLAGS)


def _for_any_machine(package: Package, source: Source, folder: Path) -> dict[str, Any]:
    return _libraries(package, source, folder, ())


def _libraries(package: Package, source: Source, folder: Path, native: tuple[str, ...]) -> dict[str, Any]:
    compiler, name = find_compiler(LIBRARY_FLAGS, native), f"ashore_{source.name}"
    link_libraries(compiler, folder, name, str(package.path))
    size = policy_size(folder / f"lib{name}.so", f"{name}_contract")
    return {"compiler": " ".join((*compiler.command, *compiler.flags)), "policy_bytes": size}


def _for_a_microcontroller(package: Package, source: Source, folder: Path) -> dict[str, Any]:
    """The sources, which any cross-compiler takes."""
    return {}


TARGETS: Mapping[str, Callable[[Package, Source, Path], dict[str, Any]]] = MappingProxyType(
    {"host": _for_this_machine, "generic": _for_any_machine, "cortex-m": _for_a_microcontroller}
)
"""Target -> what adds to the sources that lie in a folder, and says what it found out."""
