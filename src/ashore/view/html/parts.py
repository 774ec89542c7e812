"""Parts of a page: tables, pairs, figures, badges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from ashore.view.html.markup import Child, Markup, tag

Tone: TypeAlias = Literal["good", "warning", "bad", "plain"]
NOTHING = "–"


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Child]], *, captioned: bool = True) -> Markup:
    """A table, in a box that scrolls sideways where there is too little room.

    Args:
        title: what it is a table of.
        columns: headings. One that starts with ``>`` is a column of numbers, one with ``.`` of code such as paths and
            names, and one with ``!`` is never folded.
        rows: a cell is text, markup, or None for nothing. The first cell of a row is its heading.
        captioned: whether the title is shown above the table, or only told to those who cannot see it.
    """
    classes = [{">": "number", ".": "code", "!": "whole"}.get(column[:1]) for column in columns]
    heads = [
        tag("th", column.lstrip(">.!"), scope="col", class_=class_)
        for column, class_ in zip(columns, classes, strict=True)
    ]
    body = [
        tag(
            "tr",
            [
                tag(
                    "td" if place else "th",
                    NOTHING if cell is None else cell,
                    class_=class_,
                    scope=None if place else "row",
                )
                for place, (cell, class_) in enumerate(zip(row, classes, strict=True))
            ],
        )
        for row in rows
    ]
    caption = tag("caption", title, class_=None if captioned else "unseen")
    return scrolling(title, tag("table", caption, tag("thead", tag("tr", heads)), tag("tbody", body)))


def scrolling(label: str, *children: Child) -> Markup:
    """A box that scrolls sideways by itself, and can be scrolled with the keyboard."""
    return tag("div", children, class_="scroll", role="region", tabindex="0", aria_label=label)


def facts(pairs: Iterable[tuple[str, Child]]) -> Markup:
    """Names and values, one pair a line."""
    return tag("dl", [(tag("dt", name), tag("dd", NOTHING if value is None else value)) for name, value in pairs])


def tiles(pairs: Iterable[tuple[str, Child]]) -> Markup:
    """A few figures that everything else explains, large: (what it is, the figure)."""
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs], class_="tiles")


def badge(text: str, tone: Tone = "plain") -> Markup:
    """A word or two that judge."""
    return tag("span", text, class_=f"badge {tone}")


def note(*children: Child, tone: Tone = "plain") -> Markup:
    """A paragraph that stands out, such as what could not be measured, and why."""
    return tag("p", children, class_=f"notice {tone}", role="note")


def code(text: str) -> Markup:
    """A path, a name or a digest."""
    return tag("code", text)
