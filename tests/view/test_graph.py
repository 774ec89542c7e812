"""The drawing of a package, judged by what is in the files: the SVG is parsed again, the PNG is opened again."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from io import BytesIO
from itertools import combinations, pairwise
from typing import NamedTuple

import pytest
from packages import (
    HOSTILE,
    JOINTS,
    ONNX,
    chain,
    diffusion,
    f32,
    hostile,
    long_names,
    quadruped,
    random_manifest,
    seven_inputs,
    thirty_inputs,
    unicode_names,
)
from PIL import Image

from ashore.errors import AshoreError, ManifestError
from ashore.spec import Manifest, Stage, single_stage
from ashore.view import draw
from support import arm_manifest, run_python, sum_manifest

SVG = "{http://www.w3.org/2000/svg}"
PACKAGES = {
    make.__name__: make
    for make in (
        arm_manifest,
        chain,
        diffusion,
        hostile,
        long_names,
        quadruped,
        seven_inputs,
        sum_manifest,
        thirty_inputs,
        unicode_names,
    )
}
STUBBORN = (217, 278, 432, 456, 490, 609)
"""Random packages in which no order of the wires side by side keeps them from lying on each other: one takes a step."""

CASES = [
    *(pytest.param(make, id=name) for name, make in PACKAGES.items()),
    *(pytest.param(lambda seed=seed: random_manifest(seed), id=f"random{seed}") for seed in (*range(40), *STUBBORN)),
]
every = pytest.mark.parametrize("make", CASES)
Point = tuple[float, float]


class Area(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Area, slack: float = 0.5) -> bool:
        return (
            self.left < other.right - slack
            and other.left < self.right - slack
            and self.top < other.bottom - slack
            and other.top < self.bottom - slack
        )


class Wire(NamedTuple):
    source: str
    target: str
    points: list[Point]

    def segments(self) -> Iterator[Area]:
        for (x1, y1), (x2, y2) in pairwise(self.points):
            assert min(abs(x1 - x2), abs(y1 - y2)) < 0.6, "wires run straight up, down or sideways"
            yield Area(min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2))


class Picture:
    """What a drawing's SVG says."""

    def __init__(self, manifest: Manifest) -> None:
        self.text = draw(manifest).svg().decode()
        self.root = ET.fromstring(self.text)
        self.boxes: dict[tuple[str, str], Area] = {}
        self.ports: dict[tuple[str, str], Area] = {}
        for kind in ("input", "output", "stage", "state"):
            for group in self.groups(kind):
                name = group.attrib["data-name"]
                self.boxes[kind, name] = area(group.find(f"{SVG}rect"))
                for port in group.iterfind(f"{SVG}g[@class='port']"):
                    areas = [text_area(text) for text in port.iter(f"{SVG}text")]
                    self.ports[name, port.attrib["data-name"]] = union(areas)
        self.wires = [wire(group) for group in self.groups("wire")]

    def groups(self, kind: str) -> list[ET.Element]:
        return list(self.root.iterfind(f"{SVG}g[@class='{kind}']"))

    def words(self) -> list[str]:
        return [text.text or "" for text in self.root.iter(f"{SVG}text")]

    def box(self, endpoint: str) -> Area:
        group, _, name = endpoint.partition("/")
        kind = {"inputs": "input", "outputs": "output", "states": "state"}.get(group)
        return self.boxes[kind, name] if kind else self.boxes["stage", group]


@cache
def picture_of(make: Callable[[], Manifest]) -> Picture:
    """A picture, drawn once however many tests look at it."""
    return Picture(make())


def drawn(manifest: Manifest) -> dict[str, Stage]:
    """The stages that have a box; those of a loop are named in the box of the stage that runs them."""
    return {name: stage for name, stage in manifest.stages.items() if stage.rate != "loop"}


def area(rect: ET.Element | None) -> Area:
    assert rect is not None
    x, y, width, height = (float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
    return Area(x, y, x + width, y + height)


def text_area(text: ET.Element) -> Area:
    x, y, size = (float(text.attrib[key]) for key in ("x", "y", "font-size"))
    length = float(text.attrib["textLength"])
    left = x - length * {"start": 0.0, "end": 1.0}[text.attrib.get("text-anchor", "start")]
    return Area(left, y - 0.75 * size, left + length, y + 0.2 * size)


def union(areas: list[Area]) -> Area:
    return Area(
        min(a.left for a in areas), min(a.top for a in areas), max(a.right for a in areas), max(a.bottom for a in areas)
    )


def wire(group: ET.Element) -> Wire:
    """A wire with its corners as they were before they were rounded, from source to target."""
    path = group.find(f"{SVG}path")
    assert path is not None
    points: list[Point] = []
    for command, numbers in re.findall(r"([MLQ]) ([-\d., ]+)", path.attrib["d"]):
        values = [float(number) for number in re.split("[ ,]+", numbers.strip())]
        if command == "Q" or command == "M":
            points.append((values[0], values[1]))
    last = re.findall(r"L ([-\d.]+),([-\d.]+)$", path.attrib["d"])[0]
    points.append((float(last[0]), float(last[1])))
    source, target = group.attrib["data-source"], group.attrib["data-target"]
    return Wire(source, target, points[::-1] if target.startswith("states/") else points)


def same_value(a: Wire, b: Wire) -> bool:
    """Whether two wires may lie on each other: they come from the same place, or bring a value to the same state."""
    return a.source == b.source or (a.target == b.target and a.target.startswith("states/"))


# --- what is shown ---------------------------------------------------------------------------------------------------


@every
def test_every_port_and_state_has_its_name_in_the_svg(make: Callable[[], Manifest]) -> None:
    manifest, picture = make(), picture_of(make)
    for kind, names in (("input", manifest.inputs), ("output", manifest.outputs), ("state", manifest.states)):
        assert {name for found, name in picture.boxes if found == kind} == set(names)
    assert set(picture.ports) == {
        (stage, port) for stage, parts in drawn(manifest).items() for port in (*parts.inputs, *parts.outputs)
    }
    tips = [title.text or "" for title in picture.root.iter(f"{SVG}title")]
    for name in (*manifest.inputs, *manifest.outputs, *manifest.states):
        assert any(tip == name or tip.startswith(f"{name} · ") for tip in tips)


@pytest.mark.parametrize("make", [arm_manifest, chain, diffusion, hostile, quadruped, seven_inputs, unicode_names])
def test_names_that_have_room_are_shown_whole(make: Callable[[], Manifest]) -> None:
    manifest, words = make(), picture_of(make).words()
    names = [*manifest.inputs, *manifest.outputs, *manifest.states, *drawn(manifest)]
    names += [port for stage in drawn(manifest).values() for port in (*stage.inputs, *stage.outputs)]
    for name, count in Counter(names).items():
        assert words.count(name) >= count


def test_a_port_tells_what_it_is() -> None:
    words = picture_of(quadruped).words()
    assert "float32 [1, 3] · rad/s · base frame" in words
    assert "state/body/angular_velocity · x, y, z" in words
    assert "float32 [1, 3] · m/s, m/s, rad/s" in words
    assert words.count("sensor") == 3
    assert "target/joint/position · 12: FL_hip, FL_thigh, … RR_calf" in words


def test_all_element_names_are_in_the_tip_of_a_port() -> None:
    (group,) = (g for g in picture_of(quadruped).groups("input") if g.attrib["data-name"] == "joint_pos")
    assert ", ".join(JOINTS) in str(group.findtext(f"{SVG}title"))


def test_a_state_tells_its_shape_role_and_reset() -> None:
    assert "float32 [1, 5, 45] · history · reset to initial" in picture_of(quadruped).words()
    assert "int64 [1] · counter · kept on reset" in picture_of(arm_manifest).words()


def test_stages_tell_their_rates() -> None:
    words = picture_of(arm_manifest).words()
    assert {"policy · 50 Hz", "substep · 200 Hz"} <= set(words)
    assert "policy 50 Hz (0.02 s) · physics 200 Hz (0.005 s) · 4 substeps a decision" in words
    assert "loop · inside a decision" in picture_of(diffusion).words()
    assert "flow of denoise" in picture_of(diffusion).words()
    assert "denoise" not in picture_of(diffusion).words()
    assert "timing not stated" in picture_of(sum_manifest).words()


def test_the_symbolic_batch_is_shown() -> None:
    assert "uint8 [batch, 3, 224, 224]" in picture_of(diffusion).words()


def test_the_meaning_of_a_wire_is_said_once() -> None:
    port = f32(1, 2, kind="state/joint/position", unit="rad", element_names=(None, ("a", "b")))
    manifest = single_stage("once", inputs={"q": port}, outputs={"y": f32(1, 2)}, artifacts=ONNX)
    manifest.stages["policy"].inputs["q"] = port
    assert sum("state/joint/position" in word for word in Picture(manifest).words()) == 1


def test_states_are_dashed_and_values_are_not() -> None:
    for group in picture_of(quadruped).groups("wire"):
        path = group.find(f"{SVG}path")
        ends = group.attrib["data-source"], group.attrib["data-target"]
        assert path is not None
        assert ("stroke-dasharray" in path.attrib) == any(end.startswith("states/") for end in ends)


# --- where it is -----------------------------------------------------------------------------------------------------


@every
def test_nothing_lies_on_anything_else(make: Callable[[], Manifest]) -> None:
    picture = picture_of(make)
    for (one, a), (other, b) in combinations(picture.boxes.items(), 2):
        assert not a.meets(b), f"{one} lies on {other}"
    texts = [(text.text, text_area(text)) for text in picture.root.iter(f"{SVG}text")]
    for (one, a), (other, b) in combinations(texts, 2):
        assert not a.meets(b), f"{one!r} lies on {other!r}"


@every
def test_everything_is_inside_the_picture_and_text_inside_its_box(make: Callable[[], Manifest]) -> None:
    picture = picture_of(make)
    width, height = float(picture.root.attrib["width"]), float(picture.root.attrib["height"])
    shown = [text_area(text) for text in picture.root.iter(f"{SVG}text")]
    shown += [*picture.boxes.values(), *(segment for wire in picture.wires for segment in wire.segments())]
    for part in shown:
        assert 0 <= part.left <= part.right <= width
        assert 0 <= part.top <= part.bottom <= height
    for kind in ("input", "output", "stage", "state"):
        for group in picture.groups(kind):
            box = picture.boxes[kind, group.attrib["data-name"]]
            for text in map(text_area, group.iter(f"{SVG}text")):
                assert box.left <= text.left <= text.right <= box.right + 0.01
                assert box.top <= text.top <= text.bottom <= box.bottom


@every
def test_every_wire_runs_from_its_port_to_its_port(make: Callable[[], Manifest]) -> None:
    manifest, picture = make(), picture_of(make)
    drawn = Counter((wire.source, wire.target) for wire in picture.wires)
    assert drawn == Counter((wire.source, wire.target) for wire in manifest.wires)
    for wire in picture.wires:
        for end, (x, y), side in ((wire.source, wire.points[0], "right"), (wire.target, wire.points[-1], "left")):
            box = picture.box(end)
            if end.startswith("states/"):
                assert min(abs(x - box.left), abs(x - box.right)) < 0.1
            else:
                assert getattr(box, side) == pytest.approx(x, abs=0.1)
            group, _, name = end.partition("/")
            label = picture.ports.get((group, name), box)
            assert label.top <= y <= label.bottom, f"{end} is not where its wire is"


@every
def test_no_wire_crosses_a_box_or_a_text(make: Callable[[], Manifest]) -> None:
    picture = picture_of(make)
    texts = [text_area(text) for text in picture.root.iter(f"{SVG}text")]
    for wire in picture.wires:
        for segment in wire.segments():
            for part in (*picture.boxes.values(), *texts):
                grown = Area(segment.left, segment.top - 0.6, segment.right, segment.bottom + 0.6)
                if segment.left == segment.right:
                    grown = Area(segment.left - 0.6, segment.top, segment.right + 0.6, segment.bottom)
                assert not grown.meets(part), f"{wire.source} -> {wire.target}"


@every
def test_wires_of_different_values_never_lie_on_each_other(make: Callable[[], Manifest]) -> None:
    for a, b in combinations(picture_of(make).wires, 2):
        if same_value(a, b):
            continue
        for one in a.segments():
            for other in b.segments():
                wide = min(one.right, other.right) - max(one.left, other.left)
                high = min(one.bottom, other.bottom) - max(one.top, other.top)
                assert not (wide > -2 and high > 3 and one.left == one.right and other.left == other.right), (a, b)
                assert not (high > -2 and wide > 3 and one.top == one.bottom and other.top == other.bottom), (a, b)


def test_wires_of_a_single_stage_are_straight_and_its_loops_do_not_cross() -> None:
    wires = picture_of(quadruped).wires
    assert all(len(wire.points) == 2 for wire in wires if wire.source.startswith("inputs/"))
    loops = [wire for wire in wires if "states/" in wire.source + wire.target]
    for a, b in combinations(loops, 2):
        assert same_value(a, b) or not any(one.meets(two, -0.1) for one in a.segments() for two in b.segments())


def test_a_stage_stands_right_of_what_feeds_it() -> None:
    boxes = picture_of(chain).boxes
    names = ("normalise", "estimator", "actor")
    for before, after in pairwise(names):
        assert boxes["stage", before].right < boxes["stage", after].left
    picture = picture_of(arm_manifest)
    assert picture.boxes["stage", "decide"].right < picture.boxes["stage", "act"].left


# --- the files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", PACKAGES.values(), ids=PACKAGES.keys())
def test_the_png_is_the_same_picture_twice_as_large(make: Callable[[], Manifest]) -> None:
    drawing = draw(make())
    image = Image.open(BytesIO(drawing.png()))
    image.load()
    assert image.format == "PNG"
    assert abs(image.width - 2 * drawing.width) < 2
    assert abs(image.height - 2 * drawing.height) < 2
    root = ET.fromstring(drawing.svg())
    for group in root.iterfind(f"{SVG}g[@class='stage']"):
        rects = group.findall(f"{SVG}rect")
        box, head = area(rects[0]), rects[1].attrib["fill"]
        assert image.getpixel((round(2 * box.left) + 30, round(2 * box.top) + 6)) == tuple(bytes.fromhex(head[1:]))
    for text in root.iter(f"{SVG}text"):
        ink = image.convert("L").crop(tuple(round(2 * edge) for edge in text_area(text))).getextrema()
        assert ink[1] - ink[0] > 40, f"{text.text!r} was not drawn"


def test_a_huge_picture_has_fewer_pixels_instead_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ashore.view.png._MAX_PIXELS", 100_000)
    drawing = draw(quadruped())
    image = Image.open(BytesIO(drawing.png()))
    assert 90_000 < image.width * image.height < 102_000
    assert image.width / image.height == pytest.approx(drawing.width / drawing.height, rel=0.01)
    assert len(image.getcolors(1 << 20) or ()) > 50


def test_the_same_manifest_gives_the_same_bytes() -> None:
    one, two = draw(chain()), draw(chain())
    assert one.svg() == two.svg()
    assert one.png() == two.png()


def test_another_process_gives_the_same_bytes() -> None:
    code = """
import sys, hashlib
sys.path[:0] = sys.argv[1:]
from packages import chain
from ashore.view import draw
print(hashlib.sha256(draw(chain()).svg() + draw(chain()).png()).hexdigest())
"""
    from pathlib import Path

    here = Path(__file__).parent
    runs = [run_python(code, str(here), str(here.parent)) for _ in range(2)]
    assert runs[0].returncode == 0, runs[0].stderr
    assert runs[0].stdout == runs[1].stdout


def test_hostile_names_stay_text() -> None:
    picture = picture_of(hostile)
    allowed = {"svg", "g", "title", "rect", "path", "polygon", "circle", "text"}
    assert {element.tag.removeprefix(SVG) for element in picture.root.iter()} == allowed
    for element in picture.root.iter():
        assert not any(name.startswith("on") or "href" in name for name in element.attrib)
    words = picture.words()
    assert all(name in words for name in HOSTILE)
    assert "<script" not in picture.text
    assert "<!--" not in picture.text


def test_characters_that_xml_refuses_are_replaced() -> None:
    name = "a\ufffeb\u200bc"
    manifest = single_stage("odd", inputs={name: f32(1, 1)}, outputs={"y": f32(1, 1)}, artifacts=ONNX)
    text = draw(manifest).svg().decode()
    assert ET.fromstring(text) is not None
    assert "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c" in text


def test_long_names_are_shortened_in_the_middle() -> None:
    picture = picture_of(long_names)
    assert float(picture.root.attrib["width"]) < 1500
    assert any(
        word.startswith("left_front_leg") and "…" in word and word.endswith("_pos_2") for word in picture.words()
    )


# --- what it refuses -------------------------------------------------------------------------------------------------


def test_a_manifest_that_cannot_run_is_not_drawn() -> None:
    manifest = sum_manifest()
    manifest.stages["policy"].inputs.pop("x")
    with pytest.raises(ManifestError, match="policy/x"):
        draw(manifest)


def test_a_package_that_nobody_could_read_is_not_drawn() -> None:
    manifest = single_stage(
        "huge", inputs={f"x{i}": f32(1, 1) for i in range(500)}, outputs={"y": f32(1, 1)}, artifacts=ONNX
    )
    with pytest.raises(AshoreError, match="huge: 1002 ports and states; a drawing shows at most 1000"):
        draw(manifest)


@pytest.mark.parametrize("missing", ["networkx", "PIL"])
def test_without_its_libraries_the_error_says_what_to_install(missing: str) -> None:
    code = f"""
import sys
sys.modules[{missing!r}] = None
from ashore.errors import AshoreError
from ashore.spec import Artifact, Port, single_stage
from ashore.view import draw
port = Port(dtype="float32", shape=(1,))
manifest = single_stage("p", inputs={{"x": port}}, outputs={{"y": port}}, artifacts={{"onnx": Artifact(path="a")}})
try:
    draw(manifest)
except AshoreError as error:
    print(error)
"""
    run = run_python(code)
    assert "pip install 'ashore[export]'" in run.stdout, run.stderr


def test_importing_the_view_loads_no_library_of_its_own() -> None:
    code = "import sys, ashore.view; print({'networkx', 'PIL', 'torch', 'onnx'} & set(sys.modules))"
    assert run_python(code).stdout == "set()\n"
