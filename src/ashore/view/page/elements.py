"""What the elements of an array are called, one by one."""

from __future__ import annotations

from math import prod

import numpy as np

from ashore.spec import Port, State, concrete


def count(array: Port | State, batch: int = 1) -> int:
    """How many elements there are."""
    return prod(concrete(array.shape, batch))


def name_of(array: Port | State, place: int, batch: int = 1) -> str:
    """The name of an element, counted row by row: ``FL_hip``, ``x``, ``3, FL_hip``, ``[2, 7]``.

    Axes of one element are left out where others tell which one is meant.
    """
    shape = concrete(array.shape, batch)
    index = tuple(int(part) for part in np.unravel_index(place, shape)) if shape else ()
    named = (array.element_names if isinstance(array, Port) else None) or (None,) * len(shape)
    parts = [
        names[at] if names and at < len(names) else str(at)
        for at, length, names in zip(index, shape, named, strict=True)
        if length > 1 or names
    ]
    if not parts:
        return "value"
    told = any(names for names in named)
    return ", ".join(parts) if told else f"[{', '.join(parts)}]"


def unit_of(port: Port, place: int, batch: int = 1) -> str | None:
    """The unit of an element."""
    if port.unit is None or isinstance(port.unit, str):
        return port.unit
    last = concrete(port.shape, batch)[-1]
    return port.unit[place % last]


def limits_of(port: Port, place: int, batch: int = 1) -> tuple[float | None, float | None]:
    """The limits of an element."""
    if port.limits is None:
        return None, None
    shape = concrete(port.shape, batch)
    at = place % shape[-1] if shape else 0
    lower, upper = (side[at] if isinstance(side, tuple) else side for side in (port.limits.lower, port.limits.upper))
    return lower, upper
