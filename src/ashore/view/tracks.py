"""Wires side by side in the gap between two columns.

Every wire crosses a gap along one vertical trunk, with branches to the left and to the right of it. Which trunk stands
left of which decides how many wires cross, and whether two of them would lie on each other; where no order prevents
that, a trunk is split in two, with a step between. A trunk moves to the leftmost track that is free over its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_ROUNDS = 3
_CLEAR = 8.0
"""Wires nearer than this to each other are read as one."""

_OVERLAY = 1000.0
"""Two wires on each other are worse than any number of crossings."""


@dataclass
class Trunk:
    """The vertical part of one wire, or of several that carry the same value, in one gap."""

    left: list[float] = field(default_factory=list[float])
    """The y of each branch to the left."""

    right: list[float] = field(default_factory=list[float])
    """The y of each branch to the right."""

    track: int = 0
    rest: Trunk | None = None
    """Its second part, if it had to be split; they meet on the height of `right` of the first and `left` of this."""

    @property
    def span(self) -> tuple[float, float]:
        """From the highest branch to the lowest."""
        ys = [*self.left, *self.right]
        return min(ys), max(ys)

    @property
    def straight(self) -> bool:
        """Whether it needs no track, for all of it is on one height."""
        top, bottom = self.span
        return bottom - top < 0.5

    @property
    def parts(self) -> list[Trunk]:
        """Itself and what was split off it, from left to right."""
        return [self, *(self.rest.parts if self.rest else ())]


def assign(trunks: Sequence[Trunk]) -> int:
    """Give every trunk its track, and say how many there are."""
    bent = [trunk for trunk in trunks if not trunk.straight]
    ordered = _sifted(bent)
    for _ in range(len(bent)):
        overlaid = _overlaid(ordered)
        height = overlaid and _free_height(overlaid.span, trunks)
        if not overlaid or not height:
            break
        overlaid.rest = Trunk([height], overlaid.right, rest=overlaid.rest)
        overlaid.right = [height]
        ordered = _sifted([*ordered, overlaid.rest])
    for place, trunk in enumerate(ordered):
        before = [other.track for other in ordered[:place] if _beside(trunk, other)]
        trunk.track = max(before, default=-1) + 1
    return max((trunk.track + 1 for trunk in ordered), default=0)


def _sifted(trunks: list[Trunk]) -> list[Trunk]:
    """Each trunk in turn goes to the place where it costs least, until none moves."""
    trunks = sorted(trunks, key=lambda trunk: trunk.span)
    cost = {(id(a), id(b)): _cost(a, b) for a in trunks for b in trunks if a is not b}
    for _ in range(_ROUNDS):
        moved = False
        for trunk in tuple(trunks):
            rest = [other for other in trunks if other is not trunk]
            total = sum(cost[id(trunk), id(other)] for other in rest)
            here, best, least = trunks.index(trunk), 0, total
            costs = [total]
            for place, other in enumerate(rest, 1):
                total += cost[id(other), id(trunk)] - cost[id(trunk), id(other)]
                costs.append(total)
                if total < least:
                    best, least = place, total
            if costs[here] > least:
                trunks, moved = [*rest[:best], trunk, *rest[best:]], True
        if not moved:
            break
    return trunks


def _overlaid(ordered: Sequence[Trunk]) -> Trunk | None:
    """The first trunk that lies on another in spite of its place and has two sides to be split between."""
    for place, a in enumerate(ordered):
        for b in ordered[place + 1 :]:
            if _cost(a, b) >= _OVERLAY and a.left and a.right:
                return a
    return None


def _free_height(span: tuple[float, float], trunks: Sequence[Trunk]) -> float | None:
    """The middle of the widest room between the branches of all trunks that is inside a span."""
    ys = sorted(y for trunk in trunks for part in trunk.parts for y in (*part.left, *part.right))
    rooms = [(high - low, (low + high) / 2) for low, high in pairwise(ys) if span[0] <= low and high <= span[1]]
    room, height = max(rooms, default=(0.0, 0.0))
    return height if room >= _CLEAR else None


def _cost(a: Trunk, b: Trunk) -> float:
    """What it costs that `a` is left of `b`."""
    if a.rest is b or b.rest is a:
        return 0.0 if a.rest is b else _OVERLAY**2
    crossings = _inside(b.left, a.span) + _inside(a.right, b.span)
    overlays = sum(abs(y - other) < _CLEAR for y in a.right for other in b.left)
    return crossings + _OVERLAY * overlays


def _inside(ys: Sequence[float], span: tuple[float, float]) -> int:
    return sum(span[0] < y < span[1] for y in ys)


def _beside(a: Trunk, b: Trunk) -> bool:
    (top, bottom), (other_top, other_bottom) = a.span, b.span
    return top < other_bottom + _CLEAR and other_top < bottom + _CLEAR
