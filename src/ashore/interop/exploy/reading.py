"""From one ONNX file to a package: one that Ashore wrote, or one that Exploy did."""

from __future__ import annotations

import os
from pathlib import Path

from ashore.errors import BackendError, PackageError
from ashore.interop.contents import Contents, check_contents
from ashore.interop.exploy.foreign import convert_foreign
from ashore.interop.exploy.own import take_apart
from ashore.interop.exploy.stages import parse
from ashore.package import Package, write
from ashore.runtime.one_file import NOTE
from ashore.runtime.protobuf import external_data


def from_exploy(path: str | os.PathLike[str], out: str | os.PathLike[str]) -> Package:
    """Turn a one-file policy into a package.

    Args:
        path: the ONNX file.
        out: the package to write: a directory, or a path that ends in ``.ashore``.

    Returns:
        The package. For a file that Ashore wrote, that is the package it was written from, without what the file has no
        place for. For one that Exploy wrote, its `findings` say what the file left open.

    Raises:
        PackageError: the file is not what Exploy or Ashore writes. Nothing was written.
    """
    contents = convert(Path(path))
    return write(out, contents.manifest, files=contents.files, initial=contents.initial)


def convert(path: Path) -> Contents:
    """Read a one-file policy and check all of it."""
    where = str(path)
    data = _read(path)
    try:
        outside = external_data(data)
    except BackendError as error:
        raise PackageError(f"{where}: {error}") from error
    if outside is not None:
        raise PackageError(f"{where}: keeps weights outside the file, in {outside!r}; save it with its weights inside")
    model = parse(data, where)
    noted = any(entry.key == NOTE for entry in model.metadata_props)
    contents = take_apart(model, where) if noted else convert_foreign(model, path.stem, where)
    check_contents(contents, where)
    return contents


def _read(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise PackageError(f"{path}: there is no file here; expected a policy as one .onnx file")
        return path.read_bytes()
    except OSError as error:
        raise PackageError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # what the system says to a path with a NUL in it
        raise PackageError(f"{str(path)!r}: cannot be a path: {error}") from error
