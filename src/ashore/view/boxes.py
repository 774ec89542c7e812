"""The things of the drawing and how large they are: cards for package ports, boxes for stages, pills for states.

Wires meet them at pins. A pin is known by the endpoint it stands for; on a lane, by the one whose value runs there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ashore.spec import Endpoint, Manifest, Port, Stage, State
from ashore.view import theme, words
from ashore.view.cleaning import clean
from ashore.view.texts import fit, width

HEAD = 48.0
"""Height of the part of a stage that names it."""

STRIPE = 4.0
"""Room for the coloured edge of an input."""

_ROW_PAD = 12.0
_ZONE_GAP = 10.0
_BETWEEN = 36.0
_LANE_HEIGHT = 2.0


class Label(NamedTuple):
    """A line of text that fits where it stands."""

    text: str
    size: float
    fill: str

    @property
    def width(self) -> float:
        """In pixels."""
        return width(self.text, self.size)

    @property
    def height(self) -> float:
        """In pixels."""
        return self.size * theme.LEADING


@dataclass
class Box:
    """A thing in a column. Its pins are ordered first, then given their offsets, then it is placed."""

    kind: Literal["input", "output", "stage", "lane"]
    name: str
    column: int
    width: float = 0.0
    height: float = _LANE_HEIGHT
    lines: tuple[Label, ...] = ()
    """What it says: of a card all, of a stage its name and what computes it."""

    note: Label | None = None
    """Where an input comes from, or how often a stage runs."""

    left: list[Endpoint] = field(default_factory=list[Endpoint])
    right: list[Endpoint] = field(default_factory=list[Endpoint])
    labels: dict[Endpoint, tuple[Label, ...]] = field(default_factory=dict[Endpoint, tuple[Label, ...]])
    """What a stage says about each port."""

    memory: set[Endpoint] = field(default_factory=set[Endpoint])
    """The ports of a stage that only states are wired to; they stand below the others."""

    rows: dict[Endpoint, float] = field(default_factory=dict[Endpoint, float])
    """How high the row of each port of a stage is."""

    offsets: dict[Endpoint, float] = field(default_factory=dict[Endpoint, float])
    """How far below the top of the box each pin is."""

    x: float = 0.0
    y: float = 0.0
    divider: float | None = None
    """How far below the top the ports of states begin, if there are others."""

    def pin(self, endpoint: Endpoint) -> float:
        """The y of a pin."""
        return self.y + self.offsets[endpoint]


@dataclass
class Pill:
    """A state, below the stages."""

    name: str
    lines: tuple[Label, ...]
    width: float
    height: float
    column: int = 0
    row: int = 0
    x: float = 0.0
    y: float = 0.0


def card(kind: Literal["input", "output"], name: str, port: Port, column: int) -> Box:
    """What a package input or output is."""
    room = theme.CARD_WIDTH - 2 * theme.PAD
    note = Label(port.source, theme.SMALL, theme.SOURCE_COLOURS[port.source]) if port.source else None
    beside = note.width + theme.PAD if note else 0.0
    lines = [
        _label(name, theme.BODY, theme.INK, room - beside),
        _label(words.measure(port), theme.SMALL, theme.MUTED, room),
        *_meaning(port.kind, words.elements(port), room),
    ]
    height = _text_height(lines) + 2 * 8.0
    across = (
        max(lines[0].width + beside, *(line.width for line in lines[1:]))
        + 2 * theme.PAD
        + (STRIPE if kind == "input" else 0.0)
    )
    pin = Endpoint("inputs" if kind == "input" else "outputs", name)
    box = Box(kind, name, column, across, height, tuple(lines), note, offsets={pin: height / 2})
    (box.right if kind == "input" else box.left).append(pin)
    return box


def lane(source: Endpoint, column: int) -> Box:
    """Room for a value that passes a column."""
    return Box("lane", str(source), column, left=[source], right=[source], offsets={source: _LANE_HEIGHT / 2})


def stage_box(name: str, stage: Stage, manifest: Manifest, column: int, said: dict[Endpoint, Port]) -> Box:
    """A stage with its ports.

    Args:
        name: of the stage.
        stage: what the manifest says about it.
        manifest: the package it is part of.
        column: where it stands.
        said: port -> the port at the other end of its wire, whose meaning need not be said again.
    """
    fill = theme.RATE_COLOURS["loop" if stage.runner else stage.rate][1]
    note = Label(words.rate(stage, manifest), theme.SMALL, fill)
    lines = (
        _label(name, theme.TITLE, theme.INK, theme.CARD_WIDTH),
        _label(words.engine(stage), theme.SMALL, theme.MUTED, theme.CARD_WIDTH),
    )
    box = Box("stage", name, column, lines=lines, note=note)
    for side, ports in ((box.left, stage.inputs), (box.right, stage.outputs)):
        for port_name, port in ports.items():
            endpoint = Endpoint(name, port_name)
            side.append(endpoint)
            box.labels[endpoint] = _port_labels(port_name, port, said.get(endpoint))
            box.rows[endpoint] = _text_height(box.labels[endpoint]) + _ROW_PAD
    left, right = (
        max((label.width for pin in side for label in box.labels[pin]), default=0.0) for side in (box.left, box.right)
    )
    head = max(lines[0].width + note.width + _BETWEEN, lines[1].width)
    box.width = 2 * theme.PAD + max(head, left + right + _BETWEEN)
    return box


def pill(name: str, state: State) -> Pill:
    """What a state is."""
    room = theme.CARD_WIDTH - 2 * theme.PAD
    lines = (
        _label(name, theme.BODY, theme.INK, room),
        _label(f"{words.array(state)} · {words.memory(state)}", theme.SMALL, theme.MUTED, room),
    )
    return Pill(name, lines, max(line.width for line in lines) + 2 * theme.PAD + 8.0, _text_height(lines) + 12.0)


def arrange(box: Box) -> None:
    """Give the pins of a stage their offsets, and the stage its height: values first, states below them."""
    sides = [
        ([pin for pin in side if pin not in box.memory], [pin for pin in side if pin in box.memory])
        for side in (box.left, box.right)
    ]
    values, memory = (max(sum(box.rows[pin] for pin in side[zone]) for side in sides) for zone in (0, 1))
    below = HEAD + 4.0 + values + (_ZONE_GAP if values and memory else 0.0)
    box.divider = below - _ZONE_GAP / 2 if values and memory else None
    box.height = below + memory + 4.0
    for side in sides:
        upper, lower = (sum(box.rows[pin] for pin in pins) for pins in side)
        for pins, y in ((side[0], HEAD + 4.0 + (values - upper) / 2), (side[1], below + memory - lower)):
            for pin in pins:
                box.offsets[pin] = y + box.rows[pin] / 2
                y += box.rows[pin]


def _port_labels(name: str, port: Port, other: Port | None) -> tuple[Label, ...]:
    def own(part: str) -> bool:
        return other is None or getattr(other, part) != getattr(port, part)

    shown = Port(
        dtype=port.dtype,
        shape=port.shape,
        unit=port.unit if own("unit") else None,
        frame=port.frame if own("frame") else None,
    )
    return (
        _label(name, theme.BODY, theme.INK, theme.LABEL_WIDTH),
        _label(words.measure(shown), theme.SMALL, theme.MUTED, theme.LABEL_WIDTH),
        *_meaning(
            port.kind if own("kind") else None,
            words.elements(port) if own("element_names") else None,
            theme.LABEL_WIDTH,
        ),
    )


def _meaning(kind: str | None, elements: str | None, room: float) -> list[Label]:
    """Kind and element names, on one line if that is wide enough."""
    parts = [clean(part) for part in (kind, elements) if part]
    together = " · ".join(parts)
    if len(parts) == 2 and width(together, theme.SMALL) <= room:
        parts = [together]
    return [_label(part, theme.SMALL, theme.FAINT, room) for part in parts]


def _label(text: str, size: float, fill: str, room: float) -> Label:
    return Label(fit(clean(text), size, room), size, fill)


def _text_height(lines: tuple[Label, ...] | list[Label]) -> float:
    return sum(line.height for line in lines)
