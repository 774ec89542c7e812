"""The graph of a package in its page: the drawing of `ashore.view`, in which everything can be chosen."""

from __future__ import annotations

import base64
from typing import Any

from ashore.errors import AshoreError
from ashore.package import Package
from ashore.view.drawing import draw
from ashore.view.html import Markup, Section, embed, note, tag

_SAVED = "graph.svg"


def picture(package: Package, details: dict[str, dict[str, Any]]) -> Section:
    """The drawing, and what is shown when a part of it is clicked.

    Where it cannot be drawn (its libraries are missing, or there are too many ports), the picture that the export left
    in the package is shown as an image, in which nothing can run, or else none; the tables lead to the details then.
    """
    try:
        drawn = Markup(draw(package.manifest).svg().decode())
        body = tag("div", _toolbar(), tag("div", drawn, class_="canvas"), class_="frame")
        said = (
            "Choose a port, a state or a stage, with a click or with Tab, arrow keys and Enter. Drag to pan; zoom with "
            "the buttons, two fingers, or the wheel (with Ctrl, until the graph was clicked)."
        )
    except AshoreError as error:
        body, said = _instead(package, error), "Names in the tables below show what is known of each port."
    aside = tag("aside", id="details", class_="details", hidden=True, aria_label="Details", tabindex="-1")
    return Section("graph", "Graph", tag("div", body, aside, embed(details), class_="graph", id="picture"), note=said)


def _instead(package: Package, error: AshoreError) -> list[Markup]:
    if _SAVED not in package.manifest.files:
        return [note(f"There is no picture: {error}", tone="warning")]
    data = base64.b64encode(package.read(_SAVED)).decode()
    image = tag(
        "img", src=f"data:image/svg+xml;base64,{data}", alt=f"Stages, ports and states of {package.manifest.name}"
    )
    return [note(f"As the export drew it, since it cannot be drawn here: {error}"), tag("div", image, class_="still")]


def _toolbar() -> Markup:
    buttons = (("in", "+", "Zoom in"), ("out", "−", "Zoom out"), ("fit", "Fit", "Show the whole graph"))
    return tag(
        "div",
        [
            tag("button", text, type="button", class_="button", data_zoom=name, aria_label=label)
            for name, text, label in buttons
        ],
        class_="toolbar",
        role="group",
        aria_label="Zoom",
    )
