"""What a difference looks like, for whoever has to find where it comes from.

A wrong number says little. The right numbers in a wrong order, or all of them by the same factor, say what was done.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ashore.package import Array

_FEWEST = 2
_SPREAD = 1e-3
"""Factors that differ by less than this are the same factor."""


def hint(
    wanted: Array, got: Array, allowed: Array, names: Sequence[str] | None, standard: str = "what they should be"
) -> str:
    """Say what the elements of an array that differ have in common; empty if nothing is seen.

    Args:
        wanted: what was recorded.
        got: what came out, of the same shape.
        allowed: how far each element may be off.
        names: of the elements of the last axis.
        standard: what to call the recorded values in a sentence.
    """
    if wanted.dtype.kind not in "fiu" or not (np.isfinite(wanted).all() and np.isfinite(got).all()):
        return ""
    a, b, slack = (np.asarray(one, np.float64).reshape(-1) for one in (wanted, got, allowed))
    wrong = np.abs(a - b) > slack
    if wrong.sum() < _FEWEST:
        return ""
    return _moved(a, b, slack, wrong, wanted.shape, names) or _factor(a, b, wrong, standard)


def _moved(a: Array, b: Array, slack: Array, wrong: Array, shape: tuple[int, ...], names: Sequence[str] | None) -> str:
    """The same numbers elsewhere."""
    places = np.flatnonzero(wrong)
    old, new = places[np.argsort(a[places])], places[np.argsort(b[places])]
    room = np.maximum(slack[old], slack[new])
    distinct = bool((np.diff(a[old]) > 2 * room[1:]).all())
    if not distinct or not (np.abs(a[old] - b[new]) <= room).all():
        return ""
    origin = dict(zip(new.tolist(), old.tolist(), strict=True))
    first = int(places[0])
    label, other = (_label(place, shape, names) for place in (first, origin[first]))
    if len(places) == _FEWEST:
        return f"the two elements {label} and {other} are swapped"
    return f"the same {len(places)} values in another order: {label} has what belongs to {other}"


def _factor(a: Array, b: Array, wrong: Array, standard: str) -> str:
    """Everything by the same factor."""
    if not b[wrong].any():
        return "all of them are 0"
    if (a[wrong] == 0).any():
        return ""
    factors = b[wrong] / a[wrong]
    middle = float(np.median(factors))
    if np.ptp(factors) > _SPREAD * abs(middle - 1):
        return ""
    return f"all of them are {middle:.5g} times {standard}"


def _label(place: int, shape: tuple[int, ...], names: Sequence[str] | None) -> str:
    index = np.unravel_index(place, shape)
    return repr(names[int(index[-1])]) if names and index else str([int(one) for one in index])
