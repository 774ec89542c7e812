"""Counters in a state: how much of what is remembered is there since the last reset.

One for each row, so that rows can be reset one by one, or one for all of them. A counter starts at 0.
"""

from __future__ import annotations

from collections.abc import Mapping

from ashore.package import Array
from ashore.processors.contract import expect
from ashore.spec import Dim, Port


def expect_counter(where: str, ports: Mapping[str, Port], name: str, rows: Dim) -> None:
    """Raise unless `name` and ``<name>_next`` are int64, of shape [rows] or [1]."""
    each: tuple[Dim, ...] = (rows,)
    expect(where, name, ports[name], ("int64",), *dict.fromkeys((each, (1,))))
    expect(where, f"{name}_next", ports[f"{name}_next"], ("int64",), ports[name].shape)


def check_count(name: str, count: Array, most: int) -> None:
    """Raise `ValueError` if a counter holds what no run can have left there."""
    if (count < 0).any() or (count > most).any():
        raise ValueError(f"{name} is {count.tolist()}; expected 0 to {most}")
