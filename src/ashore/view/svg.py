"""The display list as SVG text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape, quoteattr

from ashore.view import theme
from ashore.view.shapes import Circle, Group, Line, Point, Polygon, Rect, Shape, Text, corners


def render(width: float, height: float, title: str, shapes: Sequence[Shape]) -> str:
    """Write shapes as one SVG document that needs nothing from outside; `title` is what it is a picture of."""
    size = f'width="{_number(width)}" height="{_number(height)}" viewBox="0 0 {_number(width)} {_number(height)}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{theme.FONTS}">',
            f"<title>{escape(title)}</title>",
            *(_element(shape) for shape in shapes),
            "</svg>\n",
        ]
    )


def _element(shape: Shape) -> str:
    match shape:
        case Group():
            named = "".join(f" data-{name}={quoteattr(value)}" for name, value in shape.attributes)
            inner = "\n".join(_element(child) for child in shape.shapes)
            return f'<g class="{shape.kind}"{named}>\n<title>{escape(shape.tip)}</title>\n{inner}\n</g>'
        case Rect():
            place = f'x="{_number(shape.x)}" y="{_number(shape.y)}"'
            extent = f'width="{_number(shape.width)}" height="{_number(shape.height)}" rx="{_number(shape.radius)}"'
            return f"<rect {place} {extent} {_paint(shape.fill, shape.stroke, shape.line)}/>"
        case Circle():
            place = f'cx="{_number(shape.centre.x)}" cy="{_number(shape.centre.y)}" r="{_number(shape.radius)}"'
            return f"<circle {place} {_paint(shape.fill, shape.stroke, 1.0)}/>"
        case Polygon():
            return f'<polygon points="{_points(shape.points)}" fill="{shape.fill}"/>'
        case Line():
            dash = f' stroke-dasharray="{_number(shape.dash[0])} {_number(shape.dash[1])}"' if shape.dash else ""
            return f'<path d="{_path(shape)}" {_paint(None, shape.stroke, shape.width)}{dash}/>'
        case Text():
            place = f'x="{_number(shape.x)}" y="{_number(shape.y)}" font-size="{_number(shape.size)}"'
            anchor = "" if shape.anchor == "start" else f' text-anchor="{shape.anchor}"'
            # Another font than the one measured with is fitted to the room that was left for it.
            length = f' textLength="{_number(shape.length)}" lengthAdjust="spacingAndGlyphs"' if shape.length else ""
            return f'<text {place} fill="{shape.fill}"{anchor}{length} xml:space="preserve">{escape(shape.text)}</text>'


def _path(line: Line) -> str:
    steps = [f"M {_points(line.points[:1])}"]
    for begin, at, end in corners(line):
        steps.append(f"L {_points((begin,))} Q {_points((at, end))}")
    return " ".join((*steps, f"L {_points(line.points[-1:])}"))


def _paint(fill: str | None, stroke: str | None, width: float) -> str:
    return f'fill="{fill or "none"}"' + (f' stroke="{stroke}" stroke-width="{_number(width)}"' if stroke else "")


def _points(points: Iterable[Point]) -> str:
    return " ".join(f"{_number(point.x)},{_number(point.y)}" for point in points)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if value else "0"
