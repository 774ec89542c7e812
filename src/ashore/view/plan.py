"""Where everything is: boxes in columns, states in a band below them, and the way of every wire.

Wires run vertically only between columns, and horizontally only there, along lanes and in the band. So none can cross
a box.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import pairwise

from ashore.spec import Endpoint, Manifest, Port, Wiring
from ashore.view import theme
from ashore.view.boxes import Box, Pill, arrange, card, lane, pill, stage_box
from ashore.view.flow import Flow, trace
from ashore.view.ordering import Link, order
from ashore.view.placing import place
from ashore.view.shapes import Point
from ashore.view.tracks import Trunk, assign

HEADER, HEADER_LINE = 104.0, 18.0
"""Room for the name of the package and its timing, and for a description of it."""

BAND_LABEL = 150.0
"""Room that the words beside the band of states need."""

_BAND_GAP, _PILL_GAP, _APART = 34.0, 16.0, 8.0
_GUTTER_PAD = 24.0


@dataclass(frozen=True)
class Route:
    """The way of one wire, from its source to its target."""

    source: Endpoint
    target: Endpoint
    points: tuple[Point, ...]

    @property
    def is_state(self) -> bool:
        """Whether it belongs to a state."""
        return "states" in (self.source.group, self.target.group)


@dataclass(frozen=True)
class Plan:
    """A package, laid out."""

    boxes: tuple[Box, ...]
    pills: tuple[Pill, ...]
    routes: tuple[Route, ...]
    width: float
    height: float


def plan(manifest: Manifest) -> Plan:
    """Lay out a checked manifest."""
    return _Planner(manifest).plan()


class _Planner:
    """The steps of a layout, each of which needs those before it."""

    def __init__(self, manifest: Manifest) -> None:
        self._flow: Flow = trace(manifest)
        self._top = HEADER + (HEADER_LINE if manifest.description else 0.0)
        self._columns: list[list[Box]] = _columns(manifest, self._flow)
        self._home: dict[Endpoint, Box] = {
            pin: box
            for column in self._columns
            for box in column
            if box.kind != "lane"
            for pin in (*box.left, *box.right)
        }
        self._lanes: dict[tuple[Endpoint, int], Box] = {}
        self._links: list[list[Link]] = [[] for _ in range(self._flow.last)]
        self._connect()
        self._pills = {name: pill(name, state) for name, state in manifest.states.items()}
        self._gutters: list[dict[Hashable, Trunk]] = [{} for _ in range(self._flow.last)]
        self._track_x: list[list[float]] = []

    def plan(self) -> Plan:
        order(self._columns, self._links, self._state_order())
        self._size_stages()
        place(self._columns, self._links)
        for box in self._boxes():
            box.y += self._top
        bottom = self._hang_pills(max((box.y + box.height for box in self._boxes()), default=self._top))
        self._lay_trunks()
        right = self._set_columns()
        boxes = tuple(box for box in self._boxes() if box.kind != "lane")
        return Plan(boxes, tuple(self._pills.values()), tuple(self._routes()), right + theme.MARGIN, bottom)

    def _boxes(self) -> list[Box]:
        return [box for column in self._columns for box in column]

    def _connect(self) -> None:
        """Split every wire into links from column to column, with lanes where it passes one."""
        for source, targets in self._flow.values.items():
            start, end = self._flow.column(source), max(self._flow.column(target) for target in targets)
            for column in range(start + 1, end):
                self._lanes[source, column] = lane(source, column)
                self._columns[column].append(self._lanes[source, column])
            for gutter in range(start, end):
                left = self._holder(source, gutter)
                ends = [(self._home[target], target) for target in targets if self._flow.column(target) == gutter + 1]
                if gutter + 1 < end:
                    ends.append((self._lanes[source, gutter + 1], source))
                self._links[gutter] += [Link(source, left, source, box, pin) for box, pin in ends]

    def _holder(self, source: Endpoint, column: int) -> Box:
        """The box from which a value goes on to the right of a column."""
        return self._home[source] if self._flow.column(source) == column else self._lanes[source, column]

    def _state_order(self) -> dict[Endpoint, float]:
        """Pin -> the place of its state: first those whose value is used elsewhere too, for their loops lie outside."""
        names = list(self._flow.writers)
        names.sort(key=lambda name: not any(pin in self._flow.values for pin in self._flow.writers[name]))
        found: dict[Endpoint, float] = {}
        for place_, name in enumerate(names):
            for pin in (*self._flow.writers[name], *self._flow.readers[name]):
                found.setdefault(pin, float(place_))
        return found

    def _size_stages(self) -> None:
        """Rows beside a card are as high as the card, so that the wire between them is straight."""
        for source, targets in self._flow.values.items():
            if source.group == "inputs":
                rows = self._home[targets[0]].rows
                rows[targets[0]] = max(rows[targets[0]], self._home[source].height + theme.CARD_GAP)
                continue
            rows = self._home[source].rows
            cards = [self._home[target].height + theme.CARD_GAP for target in targets if target.group == "outputs"]
            rows[source] = max(rows[source], sum(cards))
        for box in self._boxes():
            if box.kind == "stage":
                arrange(box)

    def _hang_pills(self, bottom: float) -> float:
        """Give states their columns and rows in the band, small loops inside large ones; returns the new bottom."""
        spans: dict[str, tuple[int, int]] = {}
        for name, state in self._pills.items():
            stages = [self._flow.column(pin) for pin in (*self._flow.writers[name], *self._flow.readers[name])]
            state.column = Counter(stages).most_common(1)[0][0]
            # Columns are even here, the gaps to the right of them odd.
            gaps = [2 * gutter + 1 for gutter, _, _ in self._wired(name)]
            spans[name] = min(*gaps, 2 * state.column), max(*gaps, 2 * state.column)
        places = self._state_order()
        inner_first = sorted(
            self._pills,
            key=lambda name: (spans[name][1] - spans[name][0], -max(places[pin] for pin in self._flow.writers[name])),
        )
        hung: list[str] = []
        for name in inner_first:
            rows = [self._pills[other].row for other in hung if _overlap(spans[name], spans[other])]
            self._pills[name].row = max(rows, default=-1) + 1
            hung.append(name)
        if not hung:
            return bottom + theme.MARGIN
        height = max(state.height for state in self._pills.values())
        for state in self._pills.values():
            state.y = bottom + _BAND_GAP + state.row * (height + _PILL_GAP)
        return max(state.y for state in self._pills.values()) + height + theme.MARGIN

    def _wired(self, name: str) -> list[tuple[int, Endpoint, bool]]:
        """The pins of a state: in which gap the wire runs, to which pin, and whether it writes."""
        return [
            *((self._flow.column(pin), pin, True) for pin in self._flow.writers[name]),
            *((self._flow.column(pin) - 1, pin, False) for pin in self._flow.readers[name]),
        ]

    def _berth(self, name: str, gutter: int, *, writes: bool) -> Point:
        """Where a wire from or to a gap meets a state: at the side it comes from, reads and writes apart."""
        state = self._pills[name]
        on_right = gutter >= state.column
        used = {write for other, _, write in self._wired(name) if (other >= state.column) == on_right}
        shift = 0.0 if len(used) == 1 else -_APART if writes else _APART
        return Point(state.x + state.width * on_right, state.y + state.height / 2 + shift)

    def _lay_trunks(self) -> None:
        for gutter, links in enumerate(self._links):
            for link in links:
                trunk = self._gutters[gutter].setdefault(link.source, Trunk([link.left.pin(link.source)]))
                trunk.right.append(link.right.pin(link.right_pin))
        for name, state in self._pills.items():
            for gutter, pin, writes in self._wired(name):
                trunk = self._gutters[gutter].setdefault((name, writes), Trunk())
                (trunk.left if writes else trunk.right).append(self._home[pin].pin(pin))
                side = trunk.left if gutter >= state.column else trunk.right
                berth = self._berth(name, gutter, writes=writes).y
                if berth not in side:
                    side.append(berth)

    def _set_columns(self) -> float:
        """Give every column and every track its x; returns where the last column ends."""
        x = theme.MARGIN
        for index, column in enumerate(self._columns):
            states = [state for state in self._pills.values() if state.column == index]
            alike = max((state.width for state in states), default=0.0)
            wide = max((thing.width for thing in (*column, *states)), default=0.0)
            wide = max(wide, BAND_LABEL) if index == 0 and self._pills else wide
            for box in column:
                box.x, box.width = x, wide
            for state in states:
                state.x, state.width = x + (wide - alike) / 2, alike
            x += wide
            if index < self._flow.last:
                count = assign(list(self._gutters[index].values()))
                between = max(0, count - 1) * theme.TRACK
                room = max(theme.GUTTER, between + 2 * _GUTTER_PAD)
                self._track_x.append([x + (room - between) / 2 + track * theme.TRACK for track in range(count or 1)])
                x += room
        return x

    def _routes(self) -> list[Route]:
        routes: list[Route] = []
        for name in self._pills:
            for gutter, pin, writes in self._wired(name):
                berth = self._berth(name, gutter, writes=writes)
                box, state = self._home[pin], Endpoint("states", name)
                end = Point(box.x + box.width * writes, box.pin(pin))
                source, target = (end, berth) if writes else (berth, end)
                points = _tidy([source, *self._along(gutter, (name, writes), source.y, target.y), target])
                routes.append(Route(pin, state, points) if writes else Route(state, pin, points))
        for source, targets in self._flow.values.items():
            routes += [Route(source, target, self._way(source, target)) for target in targets]
        return routes

    def _way(self, source: Endpoint, target: Endpoint) -> tuple[Point, ...]:
        first, last = self._home[source], self._home[target]
        points = [Point(first.x + first.width, first.pin(source))]
        for gutter in range(first.column, last.column):
            after = last.pin(target) if gutter + 1 == last.column else self._lanes[source, gutter + 1].pin(source)
            points += self._along(gutter, source, points[-1].y, after)
        return _tidy([*points, Point(last.x, last.pin(target))])

    def _along(self, gutter: int, key: Hashable, start: float, end: float) -> list[Point]:
        """The corners of a wire in a gap, from one height to another. Only wires from left to right are ever split."""
        parts = self._gutters[gutter][key].parts
        heights = [start, *(part.right[0] for part in parts[:-1]), end]
        return [
            Point(self._track_x[gutter][part.track], y)
            for part, ends in zip(parts, pairwise(heights), strict=True)
            for y in ends
        ]


def _columns(manifest: Manifest, flow: Flow) -> list[list[Box]]:
    """The boxes of each column, in the order of the manifest."""
    columns: list[list[Box]] = [[] for _ in range(flow.last + 1)]
    columns[0] = [card("input", name, port, 0) for name, port in manifest.inputs.items()]
    columns[-1] = [card("output", name, port, flow.last) for name, port in manifest.outputs.items()]
    said = _said(manifest)
    read = {pin for pins in flow.readers.values() for pin in pins}
    written = {pin for pins in flow.writers.values() for pin in pins if pin not in flow.values}
    for name, stage in manifest.stages.items():
        box = stage_box(name, stage, manifest, flow.columns[name], said)
        box.memory = (read | written) & {*box.left, *box.right}
        columns[box.column].append(box)
    return columns


def _said(manifest: Manifest) -> dict[Endpoint, Port]:
    """Stage port -> the port that already tells its meaning: a package's, or else the output that feeds it."""
    wiring, said = Wiring(manifest), {}
    for source, target in wiring.wires.values():
        if target.group == "outputs":
            said[source] = manifest.outputs[target.name]
        elif target.group in manifest.stages and source.group != "states":
            said[target] = wiring.array(source)
    return said


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Whether two states cannot share a row of the band; they can if one ends in the gap in which the other begins."""
    begin, end = max(a[0], b[0]), min(a[1], b[1])
    return begin < end or (begin == end and begin % 2 == 0)


def _tidy(points: list[Point]) -> tuple[Point, ...]:
    """A line without the points that it needs not."""
    kept: list[Point] = []
    for point in points:
        if kept and abs(kept[-1].x - point.x) < 0.5 and abs(kept[-1].y - point.y) < 0.5:
            continue
        if len(kept) > 1 and (_aligned(kept[-2].x, kept[-1].x, point.x) or _aligned(kept[-2].y, kept[-1].y, point.y)):
            kept.pop()
        kept.append(point)
    return tuple(kept)


def _aligned(*values: float) -> bool:
    return max(values) - min(values) < 0.5
