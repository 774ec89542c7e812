"""In which order the things of a column stand, and the pins of a stage, so that few wires cross.

The usual sweeps: each column is sorted by where its neighbours are, forth and back, and the best order seen is kept.
What does not matter keeps the order of the manifest.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from ashore.spec import Endpoint
from ashore.view.boxes import Box

_SWEEPS = 6


class Link(NamedTuple):
    """A value's way from one column into the next: two boxes and the pins on them."""

    source: Endpoint
    """Whose value it is."""

    left: Box
    left_pin: Endpoint
    right: Box
    right_pin: Endpoint


def order(columns: Sequence[list[Box]], links: Sequence[Sequence[Link]], states: Mapping[Endpoint, float]) -> None:
    """Sort the boxes of each column, and the pins of each stage, in place.

    Args:
        columns: their boxes.
        links: per gap between two columns, the links that cross it.
        states: for every pin that a state is wired to, where the state stands among the states.
    """
    for box in (box for column in columns for box in column):
        box.left.sort(key=lambda pin: _zone(box, pin, states))
        box.right.sort(key=lambda pin: _zone(box, pin, states))
    best, fewest = _snapshot(columns), _crossings(columns, links)
    for sweep in range(_SWEEPS):
        for index in range(1, len(columns)) if sweep % 2 == 0 else range(len(columns) - 2, -1, -1):
            _sort(columns, links, index, states, forward=sweep % 2 == 0)
        crossings = _crossings(columns, links)
        if crossings < fewest:
            best, fewest = _snapshot(columns), crossings
    for column, boxes in zip(columns, best, strict=True):
        column[:] = [box for box, _, _ in boxes]
        for box, left, right in boxes:
            box.left, box.right = left, right


def _zone(box: Box, pin: Endpoint, states: Mapping[Endpoint, float]) -> tuple[int, float]:
    """Values first, then values that a state keeps too, then what only states have; those in the states' order."""
    if pin in box.memory:
        return 2, states[pin]
    return int(pin in states), 0.0


def _sort(
    columns: Sequence[list[Box]],
    links: Sequence[Sequence[Link]],
    index: int,
    states: Mapping[Endpoint, float],
    *,
    forward: bool,
) -> None:
    """Sort one column by the order of the one before it, or after it."""
    ranks = _ranks(columns[index - 1 if forward else index + 1], right=forward)
    near: dict[tuple[int, Endpoint], list[float]] = {}
    for link in links[index - 1 if forward else index]:
        here, pin = (link.right, link.right_pin) if forward else (link.left, link.left_pin)
        there, far_pin = (link.left, link.left_pin) if forward else (link.right, link.right_pin)
        near.setdefault((id(here), pin), []).append(ranks[id(there), far_pin])
    share = len(ranks) / max(1, len(columns[index]))
    wanted: dict[int, float] = {}
    for place, box in enumerate(columns[index]):
        pins = box.left if forward else box.right
        means = {pin: fmean(near[id(box), pin]) for pin in pins if (id(box), pin) in near}
        pins.sort(key=lambda pin: (*_zone(box, pin, states), means.get(pin, 0.0)))
        wanted[id(box)] = fmean(means.values()) if means else place * share
    columns[index].sort(key=lambda box: wanted[id(box)])


def _ranks(column: Sequence[Box], *, right: bool) -> dict[tuple[int, Endpoint], int]:
    pins = [(id(box), pin) for box in column for pin in (box.right if right else box.left)]
    return {pin: rank for rank, pin in enumerate(pins)}


def _crossings(columns: Sequence[list[Box]], links: Sequence[Sequence[Link]]) -> int:
    total = 0
    for index, between in enumerate(links):
        left, right = _ranks(columns[index], right=True), _ranks(columns[index + 1], right=False)
        seen: list[int] = []
        ends = sorted((left[id(k.left), k.left_pin], right[id(k.right), k.right_pin]) for k in between)
        for _, end in ends:
            total += len(seen) - bisect_right(seen, end)
            insort(seen, end)
    return total


def _snapshot(columns: Sequence[list[Box]]) -> list[list[tuple[Box, list[Endpoint], list[Endpoint]]]]:
    return [[(box, list(box.left), list(box.right)) for box in column] for column in columns]
