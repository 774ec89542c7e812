"""The files of a LEAPP directory: found beside its YAML file, never through a link, never elsewhere."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ashore.errors import PackageError
from ashore.interop.folders import read_inside
from ashore.interop.leapp.document import Parameters
from ashore.interop.leapp.yaml_text import MAX_YAML_BYTES
from ashore.spec import path_problem

_SUFFIXES = (".yaml", ".yml")


def find_yaml(source: Path) -> Path:
    """The YAML file that a path means: itself, or the one in that directory."""
    try:
        if source.is_file():
            return source
        if not source.is_dir():
            raise PackageError(f"{source}: there is nothing here; expected a LEAPP directory or its .yaml file")
        found = sorted(path for path in source.iterdir() if path.suffix in _SUFFIXES)
    except OSError as error:
        raise PackageError(f"{source}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # what the system says to a path with a NUL in it
        raise PackageError(f"{str(source)!r}: cannot be a path: {error}") from error
    named = [path for path in found if path.stem == source.resolve().name]
    if len(named) == 1:
        return named[0]
    if len(found) == 1:
        return found[0]
    names = ", ".join(path.name for path in found) or "none"
    raise PackageError(f"{source}: expected one .yaml file here, found {names}; name the one to read")


def read_yaml_bytes(path: Path) -> bytes:
    """The bytes of the YAML file, up to one more than it may have."""
    return read_inside(path.parent, path.name, str(path), MAX_YAML_BYTES + 1)


def read_beside(yaml: Path, path: str, where: str) -> bytes:
    """The bytes of a file that a YAML file names.

    Args:
        yaml: the YAML file.
        path: what it says, relative to its own directory.
        where: what to call the place where it says so.
    """
    path = path.removeprefix("./")
    if problem := path_problem(path):
        raise PackageError(f"{where}: {path!r}: {problem}")
    return read_inside(yaml.parent, path, where)


def check_digests(data: bytes, parameters: Parameters, where: str) -> None:
    """Raise `PackageError` unless a model file is the one that was written."""
    found = {
        "sha256sum": hashlib.sha256(data).hexdigest(),
        "md5sum": hashlib.md5(data, usedforsecurity=False).hexdigest(),
    }
    for field, digest in found.items():
        said: str = getattr(parameters, field)
        if said != digest:
            raise PackageError(
                f"{where}: {parameters.model_path!r} is not what was exported: {field} says {said[:12]}…, "
                f"the file has {digest[:12]}…"
            )
