"""The display list as pixels, by Pillow: the same coordinates as in the SVG, at twice the scale."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import pairwise

from PIL import Image, ImageDraw

from ashore.view import theme
from ashore.view.shapes import Circle, Line, Point, Polygon, Rect, Shape, Text, corners, flatten
from ashore.view.texts import font, runs

SCALE = 2
_FINER = 2
"""Pillow draws shapes without smoothing their edges, so they are drawn so many times larger and scaled down."""

_MAX_PIXELS = 80_000_000
_CURVE_STEPS = 6


def render(width: float, height: float, shapes: Sequence[Shape]) -> bytes:
    """Draw shapes as a PNG of `SCALE` times their size, or less where no viewer would open so large a picture."""
    scale = min(SCALE, math.sqrt(_MAX_PIXELS / (width * height)))
    size = math.ceil(width * scale), math.ceil(height * scale)
    finer = _FINER if size[0] * size[1] * _FINER**2 <= _MAX_PIXELS else 1
    flat = list(flatten(shapes))
    image = Image.new("RGB", (size[0] * finer, size[1] * finer), theme.PAPER)
    pen = ImageDraw.Draw(image)
    for shape in flat:
        if not isinstance(shape, Text):
            _draw(pen, shape, scale * finer)
    image = image.reduce(finer) if finer > 1 else image
    pen = ImageDraw.Draw(image)
    for shape in flat:
        if isinstance(shape, Text):
            _write(pen, shape, scale)
    out = BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def _draw(pen: ImageDraw.ImageDraw, shape: Rect | Line | Polygon | Circle, scale: float) -> None:
    match shape:
        case Rect():
            box = _box(shape.x, shape.y, shape.width, shape.height, scale)
            line = max(1, round(shape.line * scale)) if shape.stroke else 0
            pen.rounded_rectangle(box, shape.radius * scale, shape.fill, shape.stroke, line)
        case Circle():
            reach = shape.radius
            box = _box(shape.centre.x - reach, shape.centre.y - reach, 2 * reach, 2 * reach, scale)
            pen.ellipse(box, shape.fill, shape.stroke, round(scale) if shape.stroke else 0)
        case Polygon():
            pen.polygon([(point.x * scale, point.y * scale) for point in shape.points], shape.fill)
        case Line():
            for piece in _dashes(_curve(shape), shape.dash):
                pixels = [(point.x * scale, point.y * scale) for point in piece]
                pen.line(pixels, shape.stroke, max(1, round(shape.width * scale)), joint="curve")


def _box(x: float, y: float, width: float, height: float, scale: float) -> tuple[float, float, float, float]:
    """Both corners, of which Pillow counts the second as inside."""
    left, top = round(x * scale), round(y * scale)
    return left, top, max(left, round((x + width) * scale) - 1), max(top, round((y + height) * scale) - 1)


def _curve(line: Line) -> list[Point]:
    """A line with its rounded corners as short straight pieces."""
    points = [line.points[0]]
    for begin, at, end in corners(line):
        for step in range(_CURVE_STEPS + 1):
            t = step / _CURVE_STEPS
            a, b, c = (1 - t) ** 2, 2 * t * (1 - t), t**2
            points.append(Point(a * begin.x + b * at.x + c * end.x, a * begin.y + b * at.y + c * end.y))
    return [*points, line.points[-1]]


def _dashes(points: list[Point], dash: tuple[float, float] | None) -> Iterator[list[Point]]:
    """The pieces of a line that are drawn."""
    if dash is None:
        yield points
        return
    piece, left, on = [points[0]], dash[0], True
    for start, end in pairwise(points):
        length, done = math.dist(start, end), 0.0
        while length - done > left:
            done += left
            share = done / length
            piece.append(Point(start.x + (end.x - start.x) * share, start.y + (end.y - start.y) * share))
            if on:
                yield piece
            piece, on = [piece[-1]], not on
            left = dash[0] if on else dash[1]
        left -= length - done
        piece.append(end)
    if on and len(piece) > 1:
        yield piece


def _write(pen: ImageDraw.ImageDraw, text: Text, scale: float) -> None:
    x, baseline = text.left * scale, text.y * scale
    face = font(max(1, round(text.size * scale)))
    for run in runs(text.text):
        wide = run.width(text.size) * scale
        if run.drawn:
            pen.text((round(x), round(baseline)), run.text, text.fill, face, anchor="ls")
        elif wide > 4:
            top = baseline - 0.72 * text.size * scale
            pen.rectangle((round(x) + 1, round(top), round(x + wide) - 2, round(baseline)), None, text.fill)
        x += wide
