"""A package's files, whether they lie in a directory or in one ``.ashore`` file.

Nothing here trusts what it reads: links, special files and paths that lead elsewhere are refused before a byte of
content is looked at.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Protocol

from ashore.errors import PackageError
from ashore.spec import path_problem

ARCHIVE_SUFFIX = ".ashore"
MAX_FILES = 4096


class Container(Protocol):
    """Files by their path in the package."""

    def sizes(self) -> dict[str, int]:
        """Path -> length in bytes, of every file there is."""
        ...

    def open(self, path: str) -> IO[bytes]:
        """Open one of the files that `sizes` lists."""
        ...


@contextmanager
def opened(path: Path) -> Generator[Container]:
    """Open the directory or the ``.ashore`` file at `path`; errors of the file system become `PackageError`."""
    try:
        if path.is_dir():
            yield Directory(path)
        elif path.is_file():
            from ashore.package.archive import opened_archive  # a package in a directory needs no zip

            with opened_archive(path) as archive:
                yield archive
        else:
            raise PackageError(f"{path}: there is no package here; expected a directory or an {ARCHIVE_SUFFIX} file")
    except OSError as error:
        raise PackageError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # what the system says to a path with a NUL in it
        raise PackageError(f"{path}: cannot be a path: {error}") from error


class Directory:
    """A package as a directory. The directory itself may be reached through a link; nothing in it may be one."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def sizes(self) -> dict[str, int]:
        """Path -> length in bytes, of every file there is."""
        seen = list(islice(self._walk(self._root, ""), 2 * MAX_FILES))
        found = {path: size for path, size in seen if size is not None}
        if len(found) > MAX_FILES or len(seen) == 2 * MAX_FILES:
            raise PackageError(f"{self._root}: more than {MAX_FILES} files")
        return found

    def open(self, path: str) -> IO[bytes]:
        """Open one of the files that `sizes` lists, not following a link put there since."""
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        return os.fdopen(os.open(self._root / path, flags), "rb")

    def _walk(self, folder: Path, prefix: str) -> Iterator[tuple[str, int | None]]:
        """Path and length of every file, and folders with None for a length."""
        with os.scandir(folder) as entries:
            for entry in entries:
                path = prefix + entry.name
                if entry.is_symlink():
                    raise PackageError(f"{self._root}: {path!r} is a link; a package holds plain files only")
                if problem := path_problem(path):
                    raise PackageError(f"{self._root}: {path!r}: {problem}")
                info = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(info.st_mode):
                    yield path, None
                    yield from self._walk(folder / entry.name, path + "/")
                elif stat.S_ISREG(info.st_mode):
                    yield path, info.st_size
                else:
                    raise PackageError(f"{self._root}: {path!r} is a special file; a package holds plain files only")
