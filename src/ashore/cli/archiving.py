"""``ashore pack`` and ``ashore unpack``."""

from __future__ import annotations

from pathlib import Path

from ashore.cli.output import print_json
from ashore.errors import PackageError
from ashore.package import ARCHIVE_SUFFIX, Package, pack, read, unpack


def run_pack(path: Path, out: Path | None, *, as_json: bool) -> None:
    """Put the package at `path` into one file, by default beside it."""
    path = path.resolve()  # its name, where it is written as a dot
    if path.is_file():
        raise PackageError(f"{path}: is one file already")
    _report(pack(read(path), out or path.with_name(path.name + ARCHIVE_SUFFIX)), as_json=as_json)


def run_unpack(path: Path, out: Path | None, *, as_json: bool) -> None:
    """Put the package at `path` into a directory, by default beside it."""
    if path.is_dir():
        raise PackageError(f"{path}: is a directory already")
    if out is None and path.suffix != ARCHIVE_SUFFIX:
        raise PackageError(f"{path}: does not end in {ARCHIVE_SUFFIX}; say where to unpack it")
    _report(unpack(read(path), out or path.with_suffix("")), as_json=as_json)


def _report(package: Package, *, as_json: bool) -> None:
    files = len(package.manifest.files) + 1
    if as_json:
        print_json({"path": str(package.path), "files": files, "size_bytes": package.size})
    else:
        print(f"{package.path}: {files} files, {package.size:,} bytes")
