"""Ashore brings trained robot policies ashore: out of the simulator, onto the robot."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ashore.errors import AshoreError

if TYPE_CHECKING:
    from ashore.package import Package, Recording
    from ashore.runtime import Policy, load
    from ashore.spec import Manifest

__version__ = "0.1.0"

__all__ = ["AshoreError", "Manifest", "Package", "Policy", "Recording", "__version__", "load"]

_MODULES = ("cli", "package", "processors", "runtime", "spec", "verify")
_LAZY = {
    "Manifest": "ashore.spec",
    "Package": "ashore.package",
    "Policy": "ashore.runtime",
    "Recording": "ashore.package",
    "load": "ashore.runtime",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"ashore.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'ashore' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
