"""Trained actor-critics: from the object that the trainer gives, in one call, to a file or to a package.

`export_policy_as_onnx` and `export_policy_as_jit` have the signatures that people's scripts already call, and write
plain files; `export_actor` writes a whole package. All of it runs the trainer's own inference call, and records it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ashore.actor.actors import Actor, Spread
    from ashore.actor.normalisers import Normalizer
    from ashore.actor.plain import export_policy_as_jit, export_policy_as_onnx
    from ashore.actor.recognition import as_actor
    from ashore.actor.recording import export_actor

__all__ = [
    "Actor",
    "Normalizer",
    "Spread",
    "as_actor",
    "export_actor",
    "export_policy_as_jit",
    "export_policy_as_onnx",
]

_MODULES = {
    "actors": ("Actor", "Spread"),
    "normalisers": ("Normalizer",),
    "plain": ("export_policy_as_jit", "export_policy_as_onnx"),
    "recognition": ("as_actor",),
    "recording": ("export_actor",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            try:
                return getattr(importlib.import_module(f"ashore.actor.{module}"), name)
            except ModuleNotFoundError as error:
                if error.name is None or error.name.split(".")[0] == "ashore":
                    raise
                message = f"ashore.actor.{name} needs {error.name}; use pip install 'ashore[export]'"
                raise ModuleNotFoundError(message, name=error.name) from error
    raise AttributeError(f"module 'ashore.actor' has no attribute {name!r}")
