"""How high the boxes of each column stand: near to what they are wired to, in their order, never over each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from ashore.view import theme
from ashore.view.boxes import Box
from ashore.view.ordering import Link

_SWEEPS = 4
_SMALL, _KINK = 14.0, 30.0
"""A step of less than so many pixels in a wire looks like a mistake; it counts as if it were so much longer."""

_FAR = 120.0


def place(columns: Sequence[Sequence[Box]], links: Sequence[Sequence[Link]]) -> None:
    """Give every box its y, so that as many wires as can be are straight. The highest box is at 0."""
    for column in columns:
        _settle(column, [0.0] * len(column))
    last = len(columns) - 1
    for _ in range(_SWEEPS):
        for index in range(last - 1, -1, -1):
            _settle(columns[index], _wanted(columns[index], links[index], forward=False))
        for index in range(1, last + 1):
            _settle(columns[index], _wanted(columns[index], links[index - 1], forward=True))
    for _ in range(_SWEEPS):
        for index, column in enumerate(columns):
            _straighten(column, links[index - 1] if index else (), links[index] if index < last else ())
    top = min((box.y for column in columns for box in column), default=0.0)
    for box in (box for column in columns for box in column):
        box.y -= top


def gap(above: Box, below: Box) -> float:
    """The room between two boxes of a column."""
    kinds = {above.kind, below.kind}
    if "lane" in kinds:
        return theme.LANE_GAP
    return theme.STAGE_GAP if "stage" in kinds else theme.CARD_GAP


def _wanted(column: Sequence[Box], links: Sequence[Link], *, forward: bool) -> list[float]:
    """Where each box would have a straight wire; those without any stay."""
    straight = _straights(links, forward=forward)
    return [_choice(straight[id(box)]) if id(box) in straight else box.y for box in column]


def _straights(links: Sequence[Link], *, forward: bool) -> dict[int, list[float]]:
    """Box -> the heights on which one of its wires to the left, or to the right, is straight."""
    straight: dict[int, list[float]] = {}
    for link in links:
        here, there = (link.right, link.left) if forward else (link.left, link.right)
        pin, far = (link.right_pin, link.left_pin) if forward else (link.left_pin, link.right_pin)
        straight.setdefault(id(here), []).append(there.pin(far) - here.offsets[pin])
    return straight


def _straighten(column: Sequence[Box], before: Sequence[Link], after: Sequence[Link]) -> None:
    """Move lanes and cards that have room to a height on which a wire of theirs is straight."""
    straight = _straights(before, forward=True)
    for box, heights in _straights(after, forward=False).items():
        straight.setdefault(box, []).extend(heights)
    for place_, box in enumerate(column):
        low = column[place_ - 1].y + column[place_ - 1].height + gap(column[place_ - 1], box) if place_ else -math.inf
        high = math.inf
        if place_ + 1 < len(column):
            high = column[place_ + 1].y - gap(box, column[place_ + 1]) - box.height
        if box.kind != "stage" and (near := [y for y in straight.get(id(box), ()) if low <= y <= high]):
            box.y = _choice(near)


def _choice(heights: Sequence[float]) -> float:
    """The one of some heights that keeps the others near, and leaves no wire with a small step in it."""

    def cost(height: float) -> float:
        steps = [abs(height - other) for other in heights]
        return sum(min(step, _FAR) + (_KINK if 0.5 < step < _SMALL else 0.0) for step in steps)

    return min(dict.fromkeys(heights), key=cost)


def _settle(column: Sequence[Box], wanted: Sequence[float]) -> None:
    """Move boxes to where they want to be, as near as their order and the gaps allow."""
    stack, offsets = 0.0, [0.0]
    for above, below in pairwise(column):
        stack += above.height + gap(above, below)
        offsets.append(stack)
    pools: list[list[tuple[float, int]]] = []  # boxes that touch: where each would put the pool, and how much it counts
    for box, goal, offset in zip(column, wanted, offsets, strict=False):
        pool = [(goal - offset, max(1, len(box.left) + len(box.right)))]
        while pools and _middle(pools[-1]) > _middle(pool):
            pool = pools.pop() + pool
        pools.append(pool)
    tops = [_middle(pool) for pool in pools for _ in pool]
    for box, top, offset in zip(column, tops, offsets, strict=False):
        box.y = round(top + offset, 2)


def _middle(pool: Sequence[tuple[float, int]]) -> float:
    """The weighted median: one of the boxes gets its wish, where a mean would bend the wires of all."""
    ranked, passed = sorted(pool), 0
    half = sum(weight for _, weight in ranked) / 2
    for goal, weight in ranked:
        passed += weight
        if passed >= half:
            return goal
    return ranked[-1][0]
