"""Objects of the user's own code, by their import path."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from ashore.errors import InputError, suggestion


def is_import_path(path: str) -> bool:
    """Whether a text is something to import, as in ``package.module:make_env``."""
    module, _, name = path.partition(":")
    return bool(name) and all(part.isidentifier() for part in (*module.split("."), name))


def made(option: str, path: str) -> Any:
    """What a function or a class of the user's own makes, called without arguments.

    Args:
        option: where it was said, for errors.
        path: ``package.module:name``.
    """
    make = imported(option, path)
    if not callable(make):
        raise InputError(f"{option} {path}: expected a function or a class, got {type(make).__name__}")
    try:
        return make()
    except TypeError as error:
        raise InputError(
            f"{option} {path}: it cannot be called without arguments ({error}); give a function that makes it as the "
            "training script does"
        ) from error
    except Exception as error:  # it is somebody else's, and may raise anything at all
        raise InputError(f"{option} {path}: it failed: {type(error).__name__}: {error}") from error


def imported(option: str, path: str) -> Any:
    """What an import path names; the current folder is searched too.

    Args:
        option: where it was said, for errors.
        path: ``package.module:name``.
    """
    if not is_import_path(path):
        raise InputError(f"{option} {path}: expected package.module:name")
    folder, (module, _, name) = str(Path.cwd()), path.partition(":")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise InputError(f"{option} {path}: there is no module {error.name!r}, also not in {folder}") from error
    if not hasattr(found, name):
        raise InputError(f"{option} {path}: {module} has no {name!r}{suggestion(name, vars(found))}")
    return getattr(found, name)
