"""Reading a package: every file accounted for, and what it was when it was written, before anything uses it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import msgspec

from ashore.errors import ManifestError, PackageError
from ashore.package.container import Container, opened
from ashore.package.golden import Golden, load_golden
from ashore.package.seal import check_seal
from ashore.package.tensors import Array, Arrays, check_array, load_arrays
from ashore.spec import GOLDEN, MANIFEST, MAX_MANIFEST_BYTES, STATE, FileEntry, Manifest, State, concrete, decode

_CHUNK = 1 << 20


class Package(msgspec.Struct, frozen=True):
    """A package whose files were all checked when it was opened."""

    path: Path
    manifest: Manifest

    def read(self, path: str) -> bytes:
        """The bytes of one file, checked again as they are read, so that what was checked is what is used."""
        entry = self.manifest.files.get(path)
        if entry is None and path != MANIFEST:
            raise PackageError(f"{self.path}: the package has no file {path!r}")
        with opened(self.path) as container, container.open(path) as stream:
            data = stream.read((MAX_MANIFEST_BYTES if entry is None else entry.size) + 1)
        same = decode(data) == self.manifest if entry is None else hashlib.sha256(data).hexdigest() == entry.sha256
        if not same:
            raise PackageError(f"{self.path}: {path} changed after the package was opened; open it again")
        return data

    def initial_state(self) -> dict[str, Array]:
        """State name -> initial value; a symbolic batch axis has length 1."""
        states, where = self.manifest.states, f"{self.path}: {STATE}"
        arrays = load_arrays(self.read(STATE), where) if states else {}
        check_initial(arrays, states, where)
        return arrays

    def golden(self) -> Golden | None:
        """The golden rollout, or None if the package was written without one."""
        if GOLDEN not in self.manifest.files:
            return None
        return load_golden(self.read(GOLDEN), self.manifest, f"{self.path}: {GOLDEN}")

    @property
    def size(self) -> int:
        """Bytes of all files but the manifest."""
        return sum(entry.size for entry in self.manifest.files.values())


def read(path: str | os.PathLike[str]) -> Package:
    """Open the package at `path`, a directory or an ``.ashore`` file.

    Raises:
        ManifestError: the manifest does not describe a package that could run.
        PackageError: a file is missing, extra, damaged, or not a plain file.
    """
    where = Path(path)
    with opened(where) as container:
        sizes = container.sizes()
        manifest = _read_manifest(container, sizes, where)
        _check_listing(manifest, sizes, where)
        for name, entry in manifest.files.items():
            with container.open(name) as stream:
                _check_file(stream, name, entry, where)
    return Package(where, manifest)


def check_initial(arrays: Arrays, states: Mapping[str, State], where: str = STATE) -> None:
    """Raise `PackageError` unless there is exactly one fitting initial value for each state."""
    if arrays.keys() != states.keys():
        raise PackageError(f"{where}: expected the states {sorted(states)}, got {sorted(arrays)}")
    for name, state in states.items():
        check_array(f"{where}: {name}", arrays[name], state.dtype, concrete(state.shape, 1), state.finite)


def _read_manifest(container: Container, sizes: Mapping[str, int], where: Path) -> Manifest:
    if MANIFEST not in sizes:
        raise PackageError(f"{where}: there is no {MANIFEST} here, so this is not a package")
    with container.open(MANIFEST) as stream:
        data = stream.read(MAX_MANIFEST_BYTES + 1)
    try:
        manifest = decode(data)
    except ManifestError as error:
        raise ManifestError(f"{where}: {error}") from error
    check_seal(data, manifest, str(where))
    return manifest


def _check_listing(manifest: Manifest, sizes: Mapping[str, int], where: Path) -> None:
    listed = {MANIFEST, *manifest.files}
    for name in sorted(listed - sizes.keys()):
        raise PackageError(f"{where}: {name} is missing; copy the package again")
    for name in sorted(sizes.keys() - listed):
        raise PackageError(f"{where}: {name} is not listed in the manifest; a package holds nothing else")
    for name, entry in manifest.files.items():
        if sizes[name] != entry.size:
            raise PackageError(
                f"{where}: {name}: expected {entry.size} bytes, got {sizes[name]}; copy the package again"
            )


def _check_file(stream: IO[bytes], name: str, entry: FileEntry, where: Path) -> None:
    digest = hashlib.sha256()
    while chunk := stream.read(_CHUNK):
        digest.update(chunk)
    if digest.hexdigest() != entry.sha256:
        raise PackageError(
            f"{where}: {name} is damaged: its sha256 is {digest.hexdigest()[:12]}…, the manifest says "
            f"{entry.sha256[:12]}…; copy the package again"
        )
