"""Writing a package so that it is there whole or not at all."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ashore.errors import PackageError
from ashore.package.container import ARCHIVE_SUFFIX, MAX_FILES
from ashore.package.golden import Golden, dump_golden
from ashore.package.reading import Package, check_initial, read
from ashore.package.seal import seal
from ashore.package.tensors import Arrays, save_arrays
from ashore.spec import FORMAT, GOLDEN, MANIFEST, STATE, FileEntry, Manifest, decode, encode


def write(
    out: str | os.PathLike[str],
    manifest: Manifest,
    *,
    files: Mapping[str, bytes],
    initial: Arrays | None = None,
    golden: Golden | None = None,
) -> Package:
    """Write a package, replacing one that is already there only once the new one is whole.

    Args:
        out: a directory to create, or a path that ends in ``.ashore`` for a single file.
        manifest: the contract; its `files` and `manifest_sha256` are filled in here.
        files: path in the package -> bytes: the artifacts of the stages, and other assets.
        initial: state name -> initial value; a symbolic batch axis has length 1.
        golden: the rollout to keep. One that was read from a package keeps the contract it was recorded with.

    Returns:
        The package as read back from where it was written.
    """
    manifest = decode(encode(msgspec.structs.replace(manifest, files={}, manifest_sha256=None)))
    contents = dict(files)
    for path, data in contents.items():
        if path in (MANIFEST, STATE, GOLDEN):
            raise PackageError(f"files: {path!r} is written by Ashore itself")
        if type(path) is not str or type(data) is not bytes:
            raise PackageError(f"files: expected paths and bytes, got {path!r}: {type(data).__name__}")
    check_initial(initial or {}, manifest.states)
    if manifest.states:
        contents[STATE] = save_arrays(initial or {})
    entries = _entries(contents)
    if golden is not None:
        contents[GOLDEN] = dump_golden(golden, msgspec.structs.replace(manifest, files=entries))
        entries = _entries({GOLDEN: contents[GOLDEN]}, entries)
    contents[MANIFEST] = seal(msgspec.structs.replace(manifest, files=entries))
    return _place(Path(out), contents)


def _entries(contents: Mapping[str, bytes], others: Mapping[str, FileEntry] | None = None) -> dict[str, FileEntry]:
    """What the manifest says of files, by their paths in order, together with others."""
    made = {path: FileEntry(sha256=hashlib.sha256(data).hexdigest(), size=len(data)) for path, data in contents.items()}
    return dict(sorted({**made, **(others or {})}.items()))


def pack(package: Package, out: str | os.PathLike[str]) -> Package:
    """Write a package as one ``.ashore`` file. The same package gives the same bytes."""
    target = Path(out)
    if target.suffix != ARCHIVE_SUFFIX:
        raise PackageError(f"{target}: a packed package ends in {ARCHIVE_SUFFIX}")
    return _place(target, _contents(package))


def unpack(package: Package, out: str | os.PathLike[str]) -> Package:
    """Write a package as a directory."""
    target = Path(out)
    if target.suffix == ARCHIVE_SUFFIX:
        raise PackageError(f"{target}: an unpacked package is a directory; leave out {ARCHIVE_SUFFIX}")
    return _place(target, _contents(package))


def add_files(package: Package, files: Mapping[str, bytes]) -> Package:
    """Put further files into a package, such as a report, in place of those of the same names."""
    manifest = package.manifest
    for path in files:
        if not path.startswith("report/"):
            raise PackageError(f"{path!r}: what is added to a package lies in report/")
    own = {path: package.read(path) for path in manifest.files if path not in (STATE, GOLDEN)}
    initial = package.initial_state() if manifest.states else None
    return write(package.path, manifest, files={**own, **files}, initial=initial, golden=package.golden())


def _contents(package: Package) -> dict[str, bytes]:
    return {path: package.read(path) for path in (MANIFEST, *package.manifest.files)}


def _place(target: Path, contents: Mapping[str, bytes]) -> Package:
    """Put files at `target`, as a directory or as an ``.ashore`` file, all or nothing.

    What was written is read back and checked before it takes the place of what was there.
    """
    import tempfile  # running a package does not need it

    if len(contents) > MAX_FILES:  # reading refuses it too, but only after all of them were written
        raise PackageError(f"{target}: more than {MAX_FILES} files")
    as_archive = target.suffix == ARCHIVE_SUFFIX
    try:
        _check_replaceable(target, as_archive)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix=f".{target.name}.", dir=target.parent, ignore_cleanup_errors=True
        ) as scratch:
            fresh, old = Path(scratch) / "new", Path(scratch) / "old"
            if as_archive:
                _write_archive(fresh, contents)
            else:
                _write_directory(fresh, contents)
            manifest = read(fresh).manifest
            _swap_in(fresh, target, old)
            _sync_directory(target.parent)
    except OSError as error:
        raise PackageError(f"{target}: cannot be written: {error.strerror or error}") from error
    except ValueError as error:  # what the system says to a path with a NUL in it
        raise PackageError(f"{str(target)!r}: cannot be a path: {error}") from error
    return Package(target, manifest)


def _check_replaceable(target: Path, as_archive: bool) -> None:
    """Only a package, an empty directory or nothing at all may be replaced."""
    if target.is_symlink():
        raise PackageError(f"{target}: is a link; name the place it points to")
    for parent in target.absolute().parents:
        if _is_package(parent / MANIFEST):
            raise PackageError(f"{target}: lies in the package {parent}, which holds nothing but its own files")
    if not target.exists():
        return
    if as_archive != target.is_file():
        raise PackageError(f"{target}: is there already, as {'a directory' if as_archive else 'a file'}")
    empty = target.is_dir() and not any(target.iterdir())
    if not empty and not _is_package(target if as_archive else target / MANIFEST):
        raise PackageError(f"{target}: is there already and is not a package; remove it or choose another place")


def _is_package(file: Path) -> bool:
    """Whether a file looks like one of our manifests, or an archive that starts with one, damaged or not."""
    if not file.is_file():
        return False
    with open(file, "rb") as stream:
        return FORMAT.encode() in stream.read(4096)


def _swap_in(fresh: Path, target: Path, old: Path) -> None:
    if not target.is_dir():
        os.replace(fresh, target)
        return
    try:
        os.rename(target, old)
        os.rename(fresh, target)
    except BaseException:  # an interrupt between the two must not cost the user the package that was there
        if old.exists() and not target.exists():
            os.rename(old, target)
        raise


def _write_directory(folder: Path, contents: Mapping[str, bytes]) -> None:
    folder.mkdir(mode=0o755)
    for path, data in contents.items():
        place_at = folder / path
        place_at.parent.mkdir(parents=True, exist_ok=True)
        with open(place_at, "xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    for parent in {place_at.parent for place_at in folder.rglob("*")}:
        _sync_directory(parent)


def _write_archive(file: Path, contents: Mapping[str, bytes]) -> None:
    from ashore.package.archive import write_archive

    with open(file, "xb") as stream:
        write_archive(stream, contents)
        stream.flush()
        os.fsync(stream.fileno())


def _sync_directory(folder: Path) -> None:
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
