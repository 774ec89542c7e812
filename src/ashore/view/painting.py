"""A layout as shapes: wires below, boxes over them, words on top."""

from __future__ import annotations

from collections.abc import Iterator

from ashore.spec import Endpoint, Manifest, Port, State
from ashore.view import theme, words
from ashore.view.boxes import HEAD, STRIPE, Box, Label, Pill
from ashore.view.cleaning import clean
from ashore.view.plan import Plan, Route
from ashore.view.shapes import Circle, Group, Line, Point, Polygon, Rect, Shape, Text
from ashore.view.texts import fit, width

_TIP = 4000
_HALO = 4.5
_CAPTION = 10.0


def paint(manifest: Manifest, plan: Plan) -> tuple[Shape, ...]:
    """Turn the layout of a manifest into shapes."""
    return (
        Rect(0.0, 0.0, plan.width, plan.height, theme.PAPER),
        *_header(manifest, plan.width),
        *_wires(plan.routes),
        *(shape for box in plan.boxes for shape in _box(manifest, box)),
        *(_pill(pill, manifest.states[pill.name]) for pill in plan.pills),
        *_captions(plan),
        *_ends(plan.routes),
    )


def _header(manifest: Manifest, across: float) -> Iterator[Shape]:
    room = across - 2 * theme.MARGIN
    version = f"  {manifest.version}" if manifest.version else ""
    yield from _line(Label(manifest.name + version, theme.HEADING, theme.INK), theme.MARGIN, 46.0, room)
    yield from _line(Label(words.timing(manifest), theme.BODY, theme.MUTED), theme.MARGIN, 68.0, room)
    if manifest.description:
        yield from _line(Label(manifest.description, theme.SMALL, theme.FAINT), theme.MARGIN, 86.0, room)


def _wires(routes: tuple[Route, ...]) -> Iterator[Shape]:
    """Wires that meet together, over a pale edge that lifts them off those they cross."""
    for together in _nets(routes):
        for route in together:
            yield Line(route.points, theme.PAPER, _HALO, theme.CORNER)
        values = {route.source for route in together if not route.is_state}
        for route in sorted(together, key=lambda route: not route.is_state):
            yield _wire(route)
            if route.is_state and route.source in values:  # until they part, the value's own wire is seen
                start, turn = route.points[:2]
                yield Line((start, Point(turn.x - theme.CORNER, start.y)), theme.PAPER, _HALO)


def _nets(routes: tuple[Route, ...]) -> list[list[Route]]:
    """Routes that start or end at the same value or state."""
    nets: dict[Endpoint, list[Route]] = {}
    for route in routes:
        ends = [route.source, *([route.target] if route.target.group == "states" else [])]
        found = {id(nets[end]): nets[end] for end in ends if end in nets}
        joined = [*(member for net in found.values() for member in net), route]
        for member in joined:
            nets.update(dict.fromkeys((member.source, member.target), joined))
    return list({id(net): net for net in nets.values()}.values())


def _wire(route: Route) -> Group:
    colour, dash = (theme.STATE_WIRE, theme.DASH) if route.is_state else (theme.WIRE, None)
    # From the side of the state, so that the dashes of wires that meet there fall on each other.
    points = route.points[::-1] if route.target.group == "states" else route.points
    source, target = clean(str(route.source)), clean(str(route.target))
    line = Line(points, colour, 1.5, theme.CORNER, dash)
    return Group("wire", (("source", source), ("target", target)), f"{source} → {target}", (line,))


def _ends(routes: tuple[Route, ...]) -> Iterator[Shape]:
    """A dot where a wire starts, an arrow where it ends."""
    shared = {route.source for route in routes if not route.is_state}
    for route in routes:
        colour = theme.STATE_WIRE if route.is_state else theme.WIRE
        before, tip = route.points[-2:]
        start = route.points[1 if route.is_state and route.source in shared else 0]
        back = 8.0 if before.x < tip.x else -8.0
        yield Circle(start, 2.6, colour)
        yield Polygon((tip, Point(tip.x - back, tip.y - 3.6), Point(tip.x - back, tip.y + 3.6)), colour)


def _box(manifest: Manifest, box: Box) -> Iterator[Shape]:
    if box.kind == "stage":
        yield _stage(manifest, box)
        return
    ports = manifest.inputs if box.kind == "input" else manifest.outputs
    port = ports[box.name]
    shapes: list[Shape] = [Rect(box.x, box.y, box.width, box.height, theme.CARD, theme.EDGE, theme.RADIUS)]
    if port.source:
        shapes.append(
            Rect(box.x + 4.5, box.y + 7.0, 3.0, box.height - 14.0, theme.SOURCE_COLOURS[port.source], None, 1.5)
        )
    shapes += _lines(box.lines, box.x + theme.PAD + (STRIPE if box.kind == "input" else 0.0), box.y + 8.0)
    if box.note:
        shapes.append(_text(box.note, box.x + box.width - theme.PAD, _baseline(box.lines[0], box.y + 8.0), right=True))
    yield Group(box.kind, (("name", clean(box.name)),), _port_tip(box.name, port), tuple(shapes))


def _stage(manifest: Manifest, box: Box) -> Group:
    stage = manifest.stages[box.name]
    fill, _ = theme.RATE_COLOURS["loop" if stage.runner else stage.rate]
    shapes: list[Shape] = [
        Rect(box.x, box.y, box.width, box.height, theme.STAGE_FILL, None, theme.RADIUS),
        Rect(box.x, box.y, box.width, HEAD, fill, None, theme.RADIUS),
        Rect(box.x, box.y + HEAD / 2, box.width, HEAD / 2, fill),
        Rect(box.x, box.y, box.width, box.height, None, theme.FAINT, theme.RADIUS, 1.2),
        *_lines(box.lines, box.x + theme.PAD, box.y + 7.0),
    ]
    if box.note:
        shapes.append(_text(box.note, box.x + box.width - theme.PAD, _baseline(box.lines[0], box.y + 7.0), right=True))
    if box.divider is not None:
        y = box.y + box.divider
        shapes.append(Line((Point(box.x + theme.PAD, y), Point(box.x + box.width - theme.PAD, y)), theme.RULE, 1.0))
    for pins, ports, right in ((box.left, stage.inputs, False), (box.right, stage.outputs, True)):
        for pin in pins:
            labels = box.labels[pin]
            top = box.pin(pin) - sum(label.height for label in labels) / 2
            x = box.x + box.width - theme.PAD if right else box.x + theme.PAD
            port = tuple(_lines(labels, x, top, right=right))
            named = (("name", clean(pin.name)), ("side", "output" if right else "input"))
            shapes.append(Group("port", named, _port_tip(pin.name, ports[pin.name]), port))
    tip = clean(f"{box.name} · {words.rate(stage, manifest)} · {stage.description or words.engine(stage)}", _TIP)
    return Group("stage", (("name", clean(box.name)),), tip, tuple(shapes))


def _pill(pill: Pill, state: State) -> Group:
    outline = Rect(pill.x, pill.y, pill.width, pill.height, theme.STATE_FILL, theme.STATE_EDGE, pill.height / 2)
    text = [
        _text(line, pill.x + pill.width / 2 - line.width / 2, baseline)
        for line, baseline in _baselines(pill.lines, pill.y + 6.0)
    ]
    tip = f"{pill.name} · {words.array(state)} · {words.memory(state)} · {state.description or ''}".removesuffix(" · ")
    return Group("state", (("name", clean(pill.name)),), clean(tip, _TIP), (outline, *text))


def _captions(plan: Plan) -> Iterator[Shape]:
    """What the columns of cards and the band of states are."""
    for kind, word in (("input", "INPUTS"), ("output", "OUTPUTS")):
        boxes = [box for box in plan.boxes if box.kind == kind]
        if boxes:
            first = min(boxes, key=lambda box: box.y)
            yield from _line(Label(word, _CAPTION, theme.FAINT), first.x, first.y - 9.0, first.width)
    if plan.pills:
        top = min(pill.y for pill in plan.pills)
        yield from _line(Label("STATES", _CAPTION, theme.FAINT), theme.MARGIN, top + 14.0, 150.0)
        yield from _line(Label("from one run to the next", theme.SMALL, theme.FAINT), theme.MARGIN, top + 30.0, 150.0)


def _port_tip(name: str, port: Port) -> str:
    parts = (name, words.measure(port), port.kind, words.all_elements(port), port.source, port.description)
    return clean(" · ".join(part for part in parts if part), _TIP)


def _line(label: Label, x: float, baseline: float, room: float) -> Iterator[Text]:
    text = fit(clean(label.text), label.size, room)
    yield Text(x, baseline, text, label.size, label.fill, width(text, label.size))


def _lines(labels: tuple[Label, ...], x: float, top: float, *, right: bool = False) -> Iterator[Text]:
    for label, baseline in _baselines(labels, top):
        yield _text(label, x, baseline, right=right)


def _baselines(labels: tuple[Label, ...], top: float) -> Iterator[tuple[Label, float]]:
    for label in labels:
        yield label, _baseline(label, top)
        top += label.height


def _baseline(label: Label, top: float) -> float:
    return top + label.height / 2 + 0.36 * label.size


def _text(label: Label, x: float, baseline: float, *, right: bool = False) -> Text:
    return Text(x, baseline, label.text, label.size, label.fill, label.width, "end" if right else "start")
