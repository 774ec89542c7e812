"""Packages as C: a policy without a runtime, for a controller in C++ or a processor without an operating system.

What generates is imported when it is needed: a library that was compiled before is opened without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ashore.backends.c.generating import TARGETS, Source, generate
    from ashore.backends.c.writing import Compiled, compile_package

__all__ = ["TARGETS", "Compiled", "Source", "compile_package", "generate"]

_MODULES = {"Compiled": "writing", "compile_package": "writing"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ashore.backends.c' has no attribute {name!r}")
    return getattr(importlib.import_module(f"ashore.backends.c.{_MODULES.get(name, 'generating')}"), name)
