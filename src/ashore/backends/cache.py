"""Keeps what takes long to make in the user's cache folder, and checks it before it is used again.

Two things are kept: libraries that were compiled of packages, and stages that were exported. Each is one file in a
folder of its own, with a seal beside it that says for which key it was made and which bytes it has:

    ~/.cache/ashore/c/leg-41f0…/                policy.so        seal.json
    ~/.cache/ashore/exports/onnx-dynamo-9be2…/  stage.msgpack    seal.json

A library is code, and a robot moves as an exported stage says. So nothing is used that somebody else could have put
there: folder and files must belong to the user or to root, nobody else may be able to write to them, and the bytes must
be those that were made for just this key. What is not as it should be is an error that names the file; nothing is
mended in silence.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from ashore.errors import BackendError

SEAL = "seal.json"
VARIABLE = "ASHORE_CACHE"
_CHUNK = 1 << 20
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


class Entry(NamedTuple):
    """A file of the cache that was checked."""

    file: Path
    size: int
    notes: Mapping[str, str]
    """What whoever made it wrote down."""


class _Seal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is written down beside a file."""

    key: str
    sha256: str
    size: int
    notes: dict[str, str]


@dataclass(frozen=True)
class Cache:
    """One folder of the cache, and the words in which its errors speak."""

    name: str
    """Of the folder."""

    noun: str
    """What one of its files is: a library."""

    made: str
    """How such a file comes about: it is compiled."""

    danger: str
    """Why nobody else may write there."""

    most_bytes: int | None = None
    """How much is kept: beyond that, what was not used for longest is dropped."""

    @property
    def folder(self) -> Path:
        """Where it is: in ``~/.cache/ashore``, unless XDG_CACHE_HOME or ASHORE_CACHE say otherwise."""
        if own := os.environ.get(VARIABLE):
            return Path(own).absolute() / self.name
        cache_home = Path(os.environ.get("XDG_CACHE_HOME", ""))
        if cache_home.is_absolute():  # others are to be ignored, as the specification says
            return cache_home / "ashore" / self.name
        try:
            return Path.home() / ".cache" / "ashore" / self.name
        except RuntimeError as error:
            raise BackendError(
                f"there is no home folder to keep what is {self.made} in ({error}); set {VARIABLE}"
            ) from error

    def find_or_make(self, name: str, key: str, file: str, make: Callable[[Path], Mapping[str, str]]) -> Entry:
        """Find a file in the cache, or make it and put it there.

        Several processes may do this at once: each makes its own, the first one is kept, and all use that.

        Args:
            name: what to call its folder.
            key: a digest of everything that decides what is in it.
            file: what the file is called.
            make: writes that file into a new folder, and gives notes to keep with it.
        """
        entry = self._entry(name, key)
        if not os.path.lexists(entry):
            self._make(entry, key, file, make)
        return self._check(entry, key, file)

    def find(self, name: str, key: str, file: str) -> bytes | None:
        """The bytes of a file in the cache, if it is there; finding it counts as using it."""
        entry = self._entry(name, key)
        for attempt in ("first", "last"):
            try:
                data = self._check(entry, key, file).file.read_bytes()
            except (BackendError, OSError):
                # Another process may be dropping it, and a third one putting it back: a real fault is there twice.
                if attempt == "last" and os.path.lexists(entry):
                    raise
                continue
            with contextlib.suppress(OSError):  # a cache of root's can be read, and not marked as used
                os.utime(entry)
            return data
        return None

    def keep(self, name: str, key: str, file: str, data: bytes) -> None:
        """Put a file into the cache; if another process was faster, its file is as good."""

        def make(folder: Path) -> Mapping[str, str]:
            (folder / file).write_bytes(data)
            return {}

        self._make(self._entry(name, key), key, file, make)
        if self.most_bytes is not None:
            self._drop_unused(self.most_bytes, file)

    def _entry(self, name: str, key: str) -> Path:
        return self.folder / f"{name[:40]}-{key[:32]}"

    def _make(self, entry: Path, key: str, file: str, make: Callable[[Path], Mapping[str, str]]) -> None:
        try:
            entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_owner(entry.parent, stat.S_ISDIR, "a folder", follow=True)
            with tempfile.TemporaryDirectory(
                prefix=".making-", dir=entry.parent, ignore_cleanup_errors=True
            ) as scratch:
                work, fresh = Path(scratch) / "work", Path(scratch) / "new"
                work.mkdir()
                fresh.mkdir(mode=0o700)
                notes = make(work)
                data = (work / file).read_bytes()
                seal = _Seal(key=key, sha256=hashlib.sha256(data).hexdigest(), size=len(data), notes=dict(notes))
                _write(fresh / file, data)
                _write(fresh / SEAL, msgspec.json.encode(seal))
                _put(fresh, entry)
        except OSError as error:
            raise BackendError(
                f"{entry.parent}: what is {self.made} cannot be kept there: {error.strerror or error} "
                f"({error.filename or entry}); set {VARIABLE} to a folder that you can write to"
            ) from error

    def _check(self, entry: Path, key: str, name: str) -> Entry:
        file, seal_file = entry / name, entry / SEAL
        try:
            for path, is_kind, kind in (
                (entry.parent, stat.S_ISDIR, "a folder"),
                (entry, stat.S_ISDIR, "a folder"),
                (seal_file, stat.S_ISREG, "a plain file"),
                (file, stat.S_ISREG, "a plain file"),
            ):
                self._check_owner(path, is_kind, kind, follow=path == entry.parent)
            seal = self._read_seal(seal_file, entry)
            digest, size = _digest(file)
        except OSError as error:
            raise BackendError(
                f"{error.filename or entry}: cannot be read from the cache: {error.strerror or error}; "
                f"{self._remedy(entry)}"
            ) from error
        if seal.key != key:
            raise BackendError(
                f"{seal_file}: belongs to another {self.noun} than {entry.name}; somebody put it there; "
                f"{self._remedy(entry)}"
            )
        if (seal.sha256, seal.size) != (digest, size):
            raise BackendError(
                f"{file}: is not the {self.noun} that was {self.made}: its sha256 is {digest[:12]}…, and {SEAL} says "
                f"{seal.sha256[:12]}…; it was changed, and is not opened; {self._remedy(entry)}"
            )
        return Entry(file, size, seal.notes)

    def _check_owner(self, path: Path, is_kind: Callable[[int], bool], kind: str, *, follow: bool) -> None:
        about = path.stat() if follow else path.lstat()
        if not is_kind(about.st_mode):
            raise BackendError(f"{path}: expected {kind} of the cache; {self._remedy(path)}")
        if about.st_uid not in (os.geteuid(), 0):
            raise BackendError(
                f"{path}: belongs to the user {about.st_uid}, not to {os.geteuid()}, and {self.danger}; set "
                f"{VARIABLE} to a folder of your own"
            )
        if about.st_mode & _OTHERS_MAY_WRITE:
            raise BackendError(
                f"{path}: can be written to by others (mode {stat.S_IMODE(about.st_mode):o}), and {self.danger}; use "
                f"chmod go-w, after making sure that nobody did, or set {VARIABLE} to a folder of your own"
            )

    def _read_seal(self, seal: Path, entry: Path) -> _Seal:
        try:
            return msgspec.json.decode(seal.read_bytes(), type=_Seal)
        except msgspec.MsgspecError as error:
            raise BackendError(
                f"{seal}: is damaged, so nobody knows what lies beside it: {error}; {self._remedy(entry)}"
            ) from error

    def _remedy(self, path: Path) -> str:
        return f"remove {path}, and it is {self.made} again"

    def _drop_unused(self, most_bytes: int, file: str) -> None:
        """Drop entries until no more than so many bytes are left, those that were not used for longest first.

        Only what a cache itself writes is removed: a folder with a file, its seal, and nothing else. It gets another
        name first, so that nobody ever finds half of it.
        """
        entries = [entry for entry in self.folder.iterdir() if not entry.name.startswith(".")]
        measured = sorted(found for entry in entries if (found := _measured(entry, file)) is not None)
        total = sum(size for _, size, _ in measured)
        for _, size, entry in measured:
            if total <= most_bytes:
                return
            total -= size
            with contextlib.suppress(OSError):  # another process was faster; nothing depends on it
                _drop(entry, file)


LIBRARIES = Cache("c", "library", "compiled", "a library is code")

EXPORTS = Cache("exports", "stage", "exported", "a robot moves as it says", most_bytes=2 << 30)


@cache
def digest_of_sources(*folders: Path) -> str:
    """A digest of the files below some folders: other sources may make something else."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"):
            digest.update(f"{path.relative_to(folder)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _measured(entry: Path, file: str) -> tuple[float, int, Path] | None:
    """When an entry was last used and how many bytes it has; None for what no cache has written."""
    try:
        if {path.name for path in entry.iterdir()} != {file, SEAL}:
            return None
        return entry.stat().st_mtime, (entry / file).stat().st_size, entry
    except OSError:  # another process dropped it meanwhile, or it is no folder
        return None


def _drop(entry: Path, file: str) -> None:
    dropped = Path(tempfile.mkdtemp(prefix=".dropping-", dir=entry.parent))
    try:
        entry.rename(dropped / entry.name)
        (dropped / entry.name / SEAL).unlink()
        (dropped / entry.name / file).unlink()
        (dropped / entry.name).rmdir()
    finally:
        dropped.rmdir()


def _put(fresh: Path, entry: Path) -> None:
    try:
        fresh.rename(entry)
    except OSError:
        if not entry.is_dir():  # else another process was faster, and its file is as good
            raise


def _write(file: Path, data: bytes) -> None:
    # Read-only, and on the disk before it gets its name: a robot may lose its power at any moment.
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o500)
    with open(handle, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _digest(file: Path) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    with open(file, "rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return digest.hexdigest(), size
