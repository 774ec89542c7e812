"""Ashore brings trained robot policies ashore: out of the simulator, onto the robot."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ashore.errors import AshoreError

if TYPE_CHECKING:
    from ashore.actor import export_actor
    from ashore.capture import (
        GraphConfigs,
        InputKindEnum,
        OutputKindEnum,
        TemporalAxis,
        TensorSemantics,
        annotate,
        compile_graph,
        record,
        start,
        stop,
    )
    from ashore.package import Package, Recording
    from ashore.runtime import InferenceManager, Policy, load
    from ashore.spec import Manifest

__version__ = "0.1.0"

__all__ = [
    "AshoreError",
    "GraphConfigs",
    "InferenceManager",
    "InputKindEnum",
    "Manifest",
    "OutputKindEnum",
    "Package",
    "Policy",
    "Recording",
    "TemporalAxis",
    "TensorSemantics",
    "__version__",
    "annotate",
    "compile_graph",
    "export_actor",
    "load",
    "record",
    "start",
    "stop",
]

_MODULES = (
    *(
        "actor",
        "backends",
        "capture",
        "cli",
        "deploy",
        "environment",
        "integrations",
        "interop",
        "package",
        "processors",
        "runtime",
    ),
    *("spec", "staged", "verify", "view"),
)
_LAZY = {
    "GraphConfigs": "ashore.capture",
    "InferenceManager": "ashore.runtime",
    "InputKindEnum": "ashore.capture",
    "Manifest": "ashore.spec",
    "OutputKindEnum": "ashore.capture",
    "Package": "ashore.package",
    "Policy": "ashore.runtime",
    "Recording": "ashore.package",
    "TemporalAxis": "ashore.capture",
    "TensorSemantics": "ashore.capture",
    "annotate": "ashore.capture",
    "compile_graph": "ashore.capture",
    "export_actor": "ashore.actor",
    "load": "ashore.runtime",
    "record": "ashore.capture",
    "start": "ashore.capture",
    "stop": "ashore.capture",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"ashore.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'ashore' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_LAZY[name]), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "ashore":
            raise
        message = f"ashore.{name} needs {error.name}; use pip install 'ashore[export]'"
        raise ModuleNotFoundError(message, name=error.name) from error
