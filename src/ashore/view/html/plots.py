"""Plots: what is to be drawn, as data in a figure; ``page.js`` draws it when it comes into sight.

Whoever cannot see a plot gets its caption and its summary, so both have to say what matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ashore.view.html.markup import Markup, embed, tag

Numbers = Sequence[float | None]


@dataclass(frozen=True)
class Series:
    """One line of a plot."""

    name: str
    values: Numbers
    """One for each x; None leaves a gap, and so do NaN and infinities."""

    compared: Numbers | None = None
    """A second line, drawn over a broad pale one of `values`."""

    error: Numbers | None = None
    """Shown below, on an axis of its own."""

    shown: bool | None = None
    """Whether it is switched on at first; None leaves it to the plot."""


def lines(
    title: str,
    x: Sequence[float],
    series: Sequence[Series],
    *,
    summary: str,
    x_label: str,
    y_label: str = "",
    names: tuple[str, str] = ("recorded", "computed"),
    error_label: str = "|error|",
    marks: Sequence[float] = (),
    mark_label: str = "",
    shown: int = 4,
) -> Markup:
    """Lines over one axis, each of which can be switched off and on.

    Args:
        title: what is plotted.
        x: ascending, shared by all series.
        series: the lines.
        summary: one sentence under the title, and what a screen reader says about the plot.
        x_label: what `x` is, with its unit.
        y_label: the unit of the values.
        names: what `values` and `compared` are.
        error_label: of the lower axis.
        marks: where to draw a vertical line, such as resets; the lines of the series end there and begin anew.
        mark_label: what these lines mean.
        shown: so many lines are switched on at first.
    """
    data = {
        "x": list(x),
        "series": [
            {
                "name": one.name, "values": one.values, "compared": one.compared, "error": one.error,
                "shown": one.shown,
            }
            for one in series
        ],
        "xLabel": x_label, "yLabel": y_label, "names": names, "errorLabel": error_label,
        "marks": list(marks), "markLabel": mark_label, "shown": shown,
    }  # fmt: skip
    return _figure("lines", title, summary, data)


def histogram(
    title: str,
    edges: Sequence[float],
    counts: Sequence[int],
    *,
    summary: str,
    x_label: str,
    marks: Sequence[tuple[str, float]] = (),
    log: bool = False,
) -> Markup:
    """Bars, with named places on the axis.

    Args:
        title: what is plotted.
        edges: ascending, one more than there are counts; above zero where `log` is set.
        counts: how many values lie between two edges.
        summary: one sentence under the title, and what a screen reader says about the plot.
        x_label: what the values are, with their unit.
        marks: (name, x): a percentile or a limit. The axis reaches as far as they do.
        log: whether equal ratios are equally far apart.
    """
    data = {"edges": list(edges), "counts": list(counts), "xLabel": x_label, "marks": marks, "log": log}
    return _figure("histogram", title, summary, data)


def _figure(kind: str, title: str, summary: str, data: dict[str, Any]) -> Markup:
    caption = tag("figcaption", tag("strong", title), " ", tag("span", summary, class_="summary"))
    return tag("figure", caption, embed(data), class_="plot", data_plot=kind)
