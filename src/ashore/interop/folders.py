"""Neighbours' formats that are directories: read never through a link, written whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from ashore.errors import PackageError
from ashore.spec import FORMAT, MANIFEST


def read_inside(folder: Path, path: str, where: str, limit: int = -1) -> bytes:
    """The bytes of a plain file in a directory.

    Args:
        folder: the directory; it may itself be reached through a link.
        path: of the file, relative to it, with forward slashes.
        where: what to call the place that names the file in an error.
        limit: how many bytes are read at most; -1 reads all of them.
    """
    place = folder
    try:
        for part in path.split("/"):
            place = place / part
            if place.is_symlink():
                raise PackageError(f"{where}: {path!r} is a link; a directory is read only where it lies")
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
        with os.fdopen(os.open(place, flags), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise PackageError(f"{where}: {path!r} is not a plain file")
            return stream.read(limit)
    except IsADirectoryError:
        raise PackageError(f"{where}: {path!r} is not a plain file") from None
    except FileNotFoundError:
        raise PackageError(f"{where}: {path!r} is missing") from None
    except OSError as error:
        raise PackageError(f"{where}: {path!r} cannot be read: {error.strerror or error}") from error


def check_free(target: Path, replaceable: Callable[[Path], bool] = lambda _: False) -> None:
    """Raise `PackageError` unless a directory may be made: nothing is lost, and no package gets files of others.

    Args:
        target: the directory.
        replaceable: whether a directory that is there, with something in it, may be replaced.
    """
    try:
        if target.is_symlink():
            raise PackageError(f"{target}: is a link; name the place it points to")
        empty = target.is_dir() and not any(target.iterdir())
        if target.exists() and not empty and not (target.is_dir() and replaceable(target)):
            raise PackageError(f"{target}: is there already; remove it or choose another place")
        for parent in target.absolute().parents:
            manifest = parent / MANIFEST
            if manifest.is_file() and FORMAT.encode() in manifest.read_bytes()[:4096]:
                raise PackageError(f"{target}: lies in the package {parent}, which holds nothing but its own files")
    except OSError as error:
        raise PackageError(f"{target}: cannot be written: {error.strerror or error}") from error
    except ValueError as error:  # what the system says to a path with a NUL in it
        raise PackageError(f"{str(target)!r}: cannot be a path: {error}") from error


def place_folder(target: Path, contents: Mapping[str, bytes], check: Callable[[Path], object]) -> None:
    """Put files at `target`, all or nothing.

    Args:
        target: a directory that `check_free` lets pass.
        contents: path -> bytes.
        check: given the directory as it was written, elsewhere; raises if it may not be kept.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
            fresh = Path(scratch) / "new"
            fresh.mkdir(mode=0o755)
            for path, data in contents.items():
                (fresh / path).parent.mkdir(parents=True, exist_ok=True)
                with open(fresh / path, "xb") as stream:
                    stream.write(data)
                    stream.flush()
                    os.fsync(stream.fileno())
            check(fresh)
            old = Path(scratch) / "old"
            try:
                if target.is_dir():
                    target.rename(old)
                fresh.rename(target)
            except BaseException:  # an interrupt between the two must not cost what was there
                if old.exists() and not target.exists():
                    old.rename(target)
                raise
    except OSError as error:
        raise PackageError(f"{target}: cannot be written: {error.strerror or error}") from error
