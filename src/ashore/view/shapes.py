"""The display list: what is drawn, said once, so that the SVG and the PNG cannot differ.

Lengths are in pixels at scale one, y grows downwards, colours are ``#rrggbb``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

Anchor: TypeAlias = Literal["start", "middle", "end"]


class Point(NamedTuple):
    """A place in the drawing."""

    x: float
    y: float


@dataclass(frozen=True)
class Rect:
    """A box, with round corners if `radius` is not 0."""

    x: float
    y: float
    width: float
    height: float
    fill: str | None
    stroke: str | None = None
    radius: float = 0.0
    line: float = 1.0


@dataclass(frozen=True)
class Line:
    """An open line through points, its corners rounded with `radius`."""

    points: tuple[Point, ...]
    stroke: str
    width: float
    radius: float = 0.0
    dash: tuple[float, float] | None = None


@dataclass(frozen=True)
class Polygon:
    """A filled area."""

    points: tuple[Point, ...]
    fill: str


@dataclass(frozen=True)
class Circle:
    """A filled disc."""

    centre: Point
    radius: float
    fill: str
    stroke: str | None = None


@dataclass(frozen=True)
class Text:
    """One line of text; `y` is its baseline, `length` the width it was measured to have."""

    x: float
    y: float
    text: str
    size: float
    fill: str
    length: float
    anchor: Anchor = "start"

    @property
    def left(self) -> float:
        """Where it begins."""
        return self.x - {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor] * self.length


@dataclass(frozen=True)
class Group:
    """Shapes that are one thing: what it is, what it is called, and what a reader sees who points at it."""

    kind: str
    attributes: tuple[tuple[str, str], ...]
    tip: str
    shapes: tuple[Shape, ...]


Shape: TypeAlias = Rect | Line | Polygon | Circle | Text | Group


def flatten(shapes: Sequence[Shape]) -> Iterator[Rect | Line | Polygon | Circle | Text]:
    """The shapes without their groups, in the order of drawing."""
    for shape in shapes:
        if isinstance(shape, Group):
            yield from flatten(shape.shapes)
        else:
            yield shape


class Corner(NamedTuple):
    """A corner of a line, cut: the curve leaves the line at `begin` and joins it again at `end`, bent towards `at`."""

    begin: Point
    at: Point
    end: Point


def corners(line: Line) -> list[Corner]:
    """The rounded corners of a line, in order; where there is no room for the whole radius, with less of it."""
    found: list[Corner] = []
    for before, at, after in zip(line.points, line.points[1:], line.points[2:], strict=False):
        cut = min(line.radius, _distance(before, at) / 2, _distance(at, after) / 2)
        found.append(Corner(_towards(at, before, cut), at, _towards(at, after, cut)))
    return found


def _distance(a: Point, b: Point) -> float:
    return ((a.x - b.x) ** 2 + (a.y - b.y) ** 2) ** 0.5


def _towards(start: Point, goal: Point, length: float) -> Point:
    share = length / (_distance(start, goal) or 1.0)
    return Point(start.x + (goal.x - start.x) * share, start.y + (goal.y - start.y) * share)
