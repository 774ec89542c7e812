"""The user's cache of what was compiled: each library in a folder of its own, with a seal that says what it is.

A library is code, and opening one runs it. So nothing is opened that somebody else could have put there: folder and
files must belong to the user or to root, nobody else may be able to write to them, and the bytes must be those that
were compiled for just this key. What is not as it should be is an error that names the file; nothing is mended in
silence.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from ashore.errors import BackendError

SEAL = "seal.json"
VARIABLE = "ASHORE_CACHE"
_CHUNK = 1 << 20
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


class Entry(NamedTuple):
    """A library that was checked."""

    library: Path
    size: int
    notes: Mapping[str, str]
    """What whoever compiled it wrote down."""


class _Seal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is written down beside a library."""

    key: str
    sha256: str
    size: int
    notes: dict[str, str]


def cache_folder() -> Path:
    """Where compiled libraries are kept: ``~/.cache/ashore/c``, unless XDG_CACHE_HOME or ASHORE_CACHE say otherwise."""
    if own := os.environ.get(VARIABLE):
        return Path(own).absolute() / "c"
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if cache.is_absolute():  # others are to be ignored, as the specification says
        return cache / "ashore" / "c"
    try:
        return Path.home() / ".cache" / "ashore" / "c"
    except RuntimeError as error:
        raise BackendError(f"there is no home folder to keep what is compiled in ({error}); set {VARIABLE}") from error


def cached(name: str, key: str, library: str, make: Callable[[Path], Mapping[str, str]]) -> Entry:
    """Find a library in the cache, or make it and put it there.

    Several processes may do this at once: each makes its own, the first one is kept, and all use that.

    Args:
        name: what to call its folder.
        key: a digest of everything that decides what is in it.
        library: the name of its file.
        make: writes that file into a new folder, and gives notes to keep with it.
    """
    entry = cache_folder() / f"{name[:40]}-{key[:32]}"
    if not os.path.lexists(entry):
        _make(entry, key, library, make)
    return _check(entry, key, library)


def _make(entry: Path, key: str, library: str, make: Callable[[Path], Mapping[str, str]]) -> None:
    try:
        entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".making-", dir=entry.parent, ignore_cleanup_errors=True) as scratch:
            work, fresh = Path(scratch) / "work", Path(scratch) / "new"
            work.mkdir()
            fresh.mkdir(mode=0o700)
            notes = make(work)
            data = (work / library).read_bytes()
            seal = _Seal(key=key, sha256=hashlib.sha256(data).hexdigest(), size=len(data), notes=dict(notes))
            _write(fresh / library, data)
            _write(fresh / SEAL, msgspec.json.encode(seal))
            _put(fresh, entry)
    except OSError as error:
        raise BackendError(
            f"{entry.parent}: what is compiled cannot be kept there: {error.strerror or error} "
            f"({error.filename or entry}); set {VARIABLE} to a folder that you can write to"
        ) from error


def _put(fresh: Path, entry: Path) -> None:
    try:
        fresh.rename(entry)
    except OSError:
        if not entry.is_dir():  # else another process was faster, and its library is as good
            raise


def _write(file: Path, data: bytes) -> None:
    # Read-only, and on the disk before it gets its name: a robot may lose its power at any moment.
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o500)
    with open(handle, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _check(entry: Path, key: str, library: str) -> Entry:
    file, seal = entry / library, entry / SEAL
    try:
        for path, is_kind, kind in (
            (entry.parent, stat.S_ISDIR, "a folder"),
            (entry, stat.S_ISDIR, "a folder"),
            (seal, stat.S_ISREG, "a plain file"),
            (file, stat.S_ISREG, "a plain file"),
        ):
            _check_owner(path, is_kind, kind, follow=path == entry.parent)
        said = _read_seal(seal, entry)
        digest, size = _digest(file)
    except OSError as error:
        raise BackendError(
            f"{error.filename or entry}: cannot be read from the cache: {error.strerror or error}; {_remedy(entry)}"
        ) from error
    if said.key != key:
        raise BackendError(
            f"{seal}: belongs to another library than {entry.name}; somebody put it there; {_remedy(entry)}"
        )
    if (said.sha256, said.size) != (digest, size):
        raise BackendError(
            f"{file}: is not the library that was compiled: its sha256 is {digest[:12]}…, and {SEAL} says "
            f"{said.sha256[:12]}…; it was changed, and is not opened; {_remedy(entry)}"
        )
    return Entry(file, size, said.notes)


def _check_owner(path: Path, is_kind: Callable[[int], bool], kind: str, *, follow: bool) -> None:
    about = path.stat() if follow else path.lstat()
    if not is_kind(about.st_mode):
        raise BackendError(f"{path}: expected {kind} of the cache; {_remedy(path)}")
    if about.st_uid not in (os.geteuid(), 0):
        raise BackendError(
            f"{path}: belongs to the user {about.st_uid}, not to {os.geteuid()}, and a library is code; set {VARIABLE} "
            f"to a folder of your own"
        )
    if about.st_mode & _OTHERS_MAY_WRITE:
        raise BackendError(
            f"{path}: can be written to by others (mode {stat.S_IMODE(about.st_mode):o}), and a library is code; use "
            f"chmod go-w, after making sure that nobody did, or set {VARIABLE} to a folder of your own"
        )


def _read_seal(seal: Path, entry: Path) -> _Seal:
    try:
        return msgspec.json.decode(seal.read_bytes(), type=_Seal)
    except msgspec.MsgspecError as error:
        raise BackendError(
            f"{seal}: is damaged, so nobody knows what lies beside it: {error}; {_remedy(entry)}"
        ) from error


def _digest(file: Path) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    with open(file, "rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return digest.hexdigest(), size


def _remedy(path: Path) -> str:
    return f"remove {path}, and it is compiled again"
