"""Keeps torch's table of ONNX translations from one export to the next.

In every call, `torch.onnx.export` makes a table of how each of its 800 operators is said in ONNX, and reads the source
of every translation for that: a quarter of a second, half of the time it needs for a small policy. The table depends on
the opset, and on which operators there are. So while Ashore exports, the first table of each opset is kept, and later
calls get a copy of it, which they may change as they like.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

try:
    from torch.onnx._internal.exporter import _registration
except ImportError:  # another version of torch, which may keep its table elsewhere, or need none
    _registration = None

_tables: dict[object, Any] = {}
"""Opset, as the exporter asks for it -> the table that was made for it."""


@contextmanager
def kept_translations() -> Iterator[None]:
    """Have torch's exporter use tables that it made before. Where it has none that are known, it works as ever."""
    owner: Any = getattr(_registration, "ONNXRegistry", object)
    make = vars(owner).get("from_torchlib")
    if not isinstance(make, classmethod):
        yield
        return

    def find_or_make(*asked: Any, **named: Any) -> Any:
        # What is defined later, such as by importing torchvision, has translations too.
        operators = getattr(import_module("torch._C"), "_dispatch_get_all_op_names", list)()
        key = (asked, tuple(sorted(named.items())), len(operators))
        if key not in _tables:
            _tables[key] = make.__get__(None, owner)(*asked, **named)
        return _copied(_tables[key])

    owner.from_torchlib = staticmethod(find_or_make)
    try:
        yield
    finally:
        owner.from_torchlib = make


def _copied(table: Any) -> Any:
    """A table of its own, with the same translations."""
    fresh = copy.copy(table)
    fresh.functions = {target: list(translations) for target, translations in table.functions.items()}
    return fresh
