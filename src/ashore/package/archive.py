"""A package as one ``.ashore`` file: an uncompressed zip of its directory.

Compressed or encrypted entries, links, names twice and entries that overlap are refused before a byte of content is
looked at: what a hostile zip may expand to is what it is.
"""

from __future__ import annotations

import os
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
_LOCAL_HEADER, _END_RECORD = 30, 22
_TIME = (1980, 1, 1, 0, 0, 0)
"""Every entry gets the same time, so that the same package gives the same bytes."""


@contextmanager
def opened_archive(path: Path) -> Generator[Archive]:
    """Open the ``.ashore`` file at `path`; errors of the format become `PackageError`."""
    try:
        with open(path, "rb") as stream, zipfile.ZipFile(stream) as archive:
            length = stream.seek(-_END_RECORD, os.SEEK_END) + _END_RECORD
            if not stream.read(_END_RECORD).startswith(b"PK\x05\x06"):
                raise PackageError(f"{path}: something lies after the archive, or it ends in a comment")
            yield Archive(archive, str(path), length)
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

    def __init__(self, archive: zipfile.ZipFile, where: str, length: int) -> None:
        self._archive = archive
        self._where = where
        self._length = length

    def sizes(self) -> dict[str, int]:
        """Path -> length in bytes, of every file there is."""
        where = self._where
        entries = self._archive.infolist()
        if len(entries) > MAX_FILES:
            raise PackageError(f"{where}: more than {MAX_FILES} files")
        found: dict[str, int] = {}
        for entry in entries:
            # ZipInfo cuts a name at a NUL byte, so what the archive really says is in orig_filename.
            name = entry.orig_filename
            folder = name.endswith("/") and entry.file_size == 0
            if problem := path_problem(name[:-1] if folder else name):
                raise PackageError(f"{where}: {name!r}: {problem}")
            if folder:
                continue
            if entry.filename in found:
                raise PackageError(f"{where}: {entry.filename!r} stands twice")
            if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
                raise PackageError(f"{where}: {entry.filename!r} is a link or a special file")
            if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
                raise PackageError(f"{where}: {entry.filename!r} is compressed; an {ARCHIVE_SUFFIX} file is not")
            if entry.flag_bits & 0x1:
                raise PackageError(f"{where}: {entry.filename!r} is encrypted")
            found[entry.filename] = entry.file_size
        self._check_extent(entries)
        return found

    def _check_extent(self, entries: list[zipfile.ZipInfo]) -> None:
        """The archive is its entries, one after the other, and nothing before, between or after them is hidden."""
        where, end = self._where, 0
        for entry in sorted(entries, key=lambda entry: entry.header_offset):
            if entry.header_offset != end and (end == 0 or entry.header_offset < end):
                raise PackageError(f"{where}: {entry.filename!r} overlaps another entry, or something lies before it")
            end = entry.header_offset + _LOCAL_HEADER + len(entry.orig_filename) + entry.file_size
        if end > self._length:
            raise PackageError(f"{where}: its entries claim more bytes than the file has")

    def open(self, path: str) -> IO[bytes]:
        """Open one of the files that `sizes` lists."""
        return self._archive.open(path)
