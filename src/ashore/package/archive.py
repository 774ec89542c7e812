"""A package as one ``.ashore`` file: an uncompressed zip of its directory.

Compressed or encrypted entries, links, names twice and entries that overlap are refused before a byte of content is
looked at: what a hostile zip may expand to is what it is.
"""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ashore.errors import PackageError
from ashore.package.container import ARCHIVE_SUFFIX, MAX_FILES
from ashore.spec import MANIFEST, path_problem

_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeError, RuntimeError)
_TIME = (1980, 1, 1, 0, 0, 0)
"""Every entry gets the same time, so that the same package gives the same bytes."""


@contextmanager
def opened_archive(path: Path) -> Generator[Archive]:
    """Open the ``.ashore`` file at `path`; errors of the format become `PackageError`."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield Archive(archive, path.stat().st_size)
    except _UNREADABLE as error:
        raise PackageError(f"{path}: not a readable {ARCHIVE_SUFFIX} file: {error}") from error


def write_archive(stream: IO[bytes], contents: Mapping[str, bytes]) -> None:
    """Write files as an ``.ashore`` file, the manifest first."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for path, data in sorted(contents.items(), key=lambda item: (item[0] != MANIFEST, item[0])):
            entry = zipfile.ZipInfo(path, _TIME)
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, data)


class Archive:
    """A package as one uncompressed zip."""

    def __init__(self, archive: zipfile.ZipFile, length: int) -> None:
        self._archive = archive
        self._length = length

    def sizes(self) -> dict[str, int]:
        """Path -> length in bytes, of every file there is."""
        where = self._archive.filename
        entries = self._archive.infolist()
        if len(entries) > MAX_FILES:
            raise PackageError(f"{where}: more than {MAX_FILES} files")
        found: dict[str, int] = {}
        for entry in entries:
            if entry.is_dir() and entry.file_size == 0 and path_problem(entry.filename.rstrip("/")) is None:
                continue
            # ZipInfo cuts a name at a NUL byte, so what the archive really says is in orig_filename.
            if problem := path_problem(entry.orig_filename):
                raise PackageError(f"{where}: {entry.orig_filename!r}: {problem}")
            if entry.filename in found:
                raise PackageError(f"{where}: {entry.filename!r} stands twice")
            if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
                raise PackageError(f"{where}: {entry.filename!r} is a link or a special file")
            if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
                raise PackageError(f"{where}: {entry.filename!r} is compressed; an {ARCHIVE_SUFFIX} file is not")
            if entry.flag_bits & 0x1:
                raise PackageError(f"{where}: {entry.filename!r} is encrypted")
            found[entry.filename] = entry.file_size
        # Stored entries cannot hold more than the archive does, unless they overlap.
        if sum(found.values()) > self._length:
            raise PackageError(f"{where}: its entries claim more bytes than the file has")
        return found

    def open(self, path: str) -> IO[bytes]:
        """Open one of the files that `sizes` lists."""
        return self._archive.open(path)
