"""Files put in their places together: all of them, after they were checked, or none."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from ashore.errors import PackageError
from ashore.spec import FORMAT, MANIFEST


def check_place(target: Path) -> None:
    """Raise `PackageError` unless a file may be written, or replaced, at `target`."""
    if "\0" in str(target):
        raise PackageError(f"{str(target)!r}: cannot be a path")
    try:
        if target.is_symlink():
            raise PackageError(f"{target}: is a link; name the place it points to")
        if target.exists() and not target.is_file():
            raise PackageError(f"{target}: is there already, and is no plain file")
        for parent in target.absolute().parents:
            manifest = parent / MANIFEST
            if manifest.is_file() and FORMAT.encode() in manifest.read_bytes()[:4096]:
                raise PackageError(f"{target}: lies in the package {parent}, which holds nothing but its own files")
    except OSError as error:
        raise PackageError(f"{target}: cannot be written: {error.strerror or error}") from error


def place(contents: Mapping[Path, bytes], check: Callable[[Path, Path], None]) -> None:
    """Write files beside their places, check what was written, and put them there.

    Args:
        contents: where each file goes -> its bytes; the last one is the one that matters.
        check: given where a file lies while it is checked, and where it will lie; raises if it may not.
    """
    target = list(contents)[-1]
    made: list[Path] = []
    try:
        try:
            _make_folder(target.parent, made)
            with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
                written = [_write(Path(scratch) / str(index), data) for index, data in enumerate(contents.values())]
                for file, final in zip(written, contents, strict=True):
                    check(file, final)
                for final in contents:
                    _make_folder(final.parent, made)
                _swap(dict(zip(contents, written, strict=True)), Path(scratch))
        except BaseException:
            for folder in reversed(made):
                with suppress(OSError):  # something else may lie there by now
                    folder.rmdir()
            raise
    except OSError as error:
        raise PackageError(f"{target}: cannot be written: {error.strerror or error}") from error


def _make_folder(folder: Path, made: list[Path]) -> None:
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir()
        made.append(parent)


def _write(file: Path, data: bytes) -> Path:
    with open(file, "xb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    file.chmod(0o644)
    return file


def _swap(files: Mapping[Path, Path], scratch: Path) -> None:
    """Put files in their places; if one cannot be put there, what was there before comes back."""
    old: dict[Path, Path | None] = {}
    try:
        for index, (final, fresh) in enumerate(files.items()):
            aside = scratch / f"old{index}" if final.exists() else None
            if aside is not None and index + 1 < len(files):  # the last one is replaced in one step
                final.replace(aside)
            old[final] = aside
            fresh.replace(final)
    except BaseException:
        for final, aside in old.items():
            if aside is not None and aside.exists():
                aside.replace(final)
            elif aside is None:
                final.unlink(missing_ok=True)
        raise
