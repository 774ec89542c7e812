"""The door for policies of several stages: chunks, diffusion, flow matching, language."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ashore.staged.exportable import Exportable, ExportInputs
from ashore.staged.loading import load_exported_policy

if TYPE_CHECKING:
    from ashore.staged.exporting import adapts, export_policy

__all__ = ["ExportInputs", "Exportable", "adapts", "export_policy", "load_exported_policy"]

_LAZY = {"adapts": "ashore.staged.exporting", "export_policy": "ashore.staged.exporting"}


def __getattr__(name: str) -> Any:
    """Exporting needs torch; running what was exported does not."""
    if name not in _LAZY:
        raise AttributeError(f"module 'ashore.staged' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_LAZY[name]), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "ashore":
            raise
        message = f"ashore.staged.{name} needs {error.name}; use pip install 'ashore[export]'"
        raise ModuleNotFoundError(message, name=error.name) from error
