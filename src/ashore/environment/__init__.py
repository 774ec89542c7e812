"""Environments that are classes: exported by wrapping them, and run again from one ONNX file.

`SessionWrapper` needs no torch; everything else does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ashore.environment.components import Connection, Group, Input, Memory, Output
    from ashore.environment.context import ContextManager
    from ashore.environment.evaluating import evaluate
    from ashore.environment.exportable import (
        ExportableActor,
        ExportableEnvironment,
        add_actor_memory,
        make_exportable_actor,
    )
    from ashore.environment.exporting import export_environment, export_environment_as_onnx
    from ashore.environment.session import SessionWrapper

__all__ = [
    "Connection",
    "ContextManager",
    "ExportableActor",
    "ExportableEnvironment",
    "Group",
    "Input",
    "Memory",
    "Output",
    "SessionWrapper",
    "add_actor_memory",
    "evaluate",
    "export_environment",
    "export_environment_as_onnx",
    "make_exportable_actor",
]

_MODULES = {
    "components": ("Connection", "Group", "Input", "Memory", "Output"),
    "context": ("ContextManager",),
    "evaluating": ("evaluate",),
    "exportable": ("ExportableActor", "ExportableEnvironment", "add_actor_memory", "make_exportable_actor"),
    "exporting": ("export_environment", "export_environment_as_onnx"),
    "session": ("SessionWrapper",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            try:
                return getattr(importlib.import_module(f"ashore.environment.{module}"), name)
            except ModuleNotFoundError as error:
                if error.name is None or error.name.split(".")[0] == "ashore":
                    raise
                message = f"ashore.environment.{name} needs {error.name}; use pip install 'ashore[export]'"
                raise ModuleNotFoundError(message, name=error.name) from error
    raise AttributeError(f"module 'ashore.environment' has no attribute {name!r}")
