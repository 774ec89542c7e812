"""The picture of a package, as an SVG for documents and a PNG for slides.

The libraries that lay it out and measure its text come with ``ashore[export]``; nothing that runs a package needs them,
so they are imported when something is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from ashore.errors import AshoreError
from ashore.spec import Manifest, check
from ashore.view.cleaning import clean
from ashore.view.shapes import Shape

MAX_PORTS = 1000
"""A package with more ports and states than this makes no picture that a person could read."""

_MISSING = "drawing a package needs networkx and Pillow, which `pip install 'ashore[export]'` brings"


@dataclass(frozen=True)
class Drawing:
    """A picture of a package. The same manifest gives the same bytes."""

    name: str
    """The package it shows."""

    width: float
    height: float
    """In pixels of the SVG; the PNG has twice as many, for sharpness."""

    shapes: tuple[Shape, ...]

    def svg(self) -> bytes:
        """The drawing as an SVG document, UTF-8, that loads nothing from outside."""
        from ashore.view import svg

        return svg.render(self.width, self.height, f"Policy package {self.name}", self.shapes).encode()

    def png(self) -> bytes:
        """The drawing as a PNG file."""
        try:
            from ashore.view import png
        except ImportError as error:
            raise AshoreError(f"{_MISSING}: {error}") from error
        return png.render(self.width, self.height, self.shapes)


def draw(manifest: Manifest) -> Drawing:
    """Draw the stages, ports, wires and states of a package.

    Args:
        manifest: what the package says about itself. It is checked first, and may come from anyone.

    Returns:
        The drawing, to be written as ``graph.svg`` and ``graph.png``.
    """
    check(manifest)
    ports = len(manifest.inputs) + len(manifest.outputs) + len(manifest.states)
    ports += sum(len(stage.inputs) + len(stage.outputs) for stage in manifest.stages.values())
    if ports > MAX_PORTS:
        raise AshoreError(f"{manifest.name}: {ports} ports and states; a drawing shows at most {MAX_PORTS}")
    try:
        from ashore.view.painting import paint
        from ashore.view.plan import plan
    except ImportError as error:
        raise AshoreError(f"{_MISSING}: {error}") from error
    # What a loop runs is said in the box of the stage that runs it: no wire leads there.
    drawn = {name: stage for name, stage in manifest.stages.items() if stage.rate != "loop"}
    manifest = msgspec.structs.replace(manifest, stages=drawn)
    layout = plan(manifest)
    return Drawing(clean(manifest.name), layout.width, layout.height, paint(manifest, layout))
