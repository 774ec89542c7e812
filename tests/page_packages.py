"""Packages whose pages are hard, and a reader of pages.

The packages have names that nobody should use, or more of everything than a robot has. Each is a graph of plain
additions, so that it runs anywhere and gives back its recording to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import numpy as np
import onnx
from onnx import TensorProto, helper

from ashore.package import Package, Recording, write
from ashore.spec import (
    Artifact,
    Checkpoint,
    Feedback,
    Finding,
    Frozen,
    Joint,
    JointLimits,
    Limits,
    Port,
    Provenance,
    State,
    Timing,
    single_stage,
)

HOSTILE = (
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "quo\"te' & amp;",
    "]]><!-- --></script>",
    "a/b/c",
    "</text></g></svg>",
    "</style><style>*{display:none}",
    "javascript:alert(1)",
    "&#60;b&#62;",
    "{joint}%s${1}`",
    "end\\",
    "関節 θ 🤖",
)
LEGS = ("FL", "FR", "RL", "RR")
JOINTS = tuple(f"{leg}_{joint}_joint" for leg in LEGS for joint in ("hip", "thigh", "calf", "wheel", "toe", "heel"))


@dataclass
class Element:
    """An element of a page, with what is in it."""

    name: str
    attributes: dict[str, str | None]
    children: list[Element | str] = field(default_factory=list)

    def all(self, name: str, **attributes: str) -> list[Element]:
        """The elements in it that are called so, in order."""
        found: list[Element] = []
        for child in self.children:
            if isinstance(child, Element):
                wanted = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
                if child.name == name and wanted.items() <= child.attributes.items():
                    found.append(child)
                found += child.all(name, **attributes)
        return found

    def one(self, name: str, **attributes: str) -> Element:
        (found,) = self.all(name, **attributes)
        return found

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def rows(self) -> list[dict[str, str]]:
        """The rows of a table: heading -> text."""
        heads = [head.text for head in self.one("thead").all("th")]
        cells = [
            [cell.text for cell in row.children if isinstance(cell, Element)] for row in self.one("tbody").all("tr")
        ]
        return [dict(zip(heads, row, strict=True)) for row in cells]

    def table(self, caption: str) -> list[dict[str, str]]:
        (found,) = [table for table in self.all("table") if table.one("caption").text == caption]
        return found.rows()

    def section(self, id_: str) -> Element:
        return self.one("section", id=id_)


class Parsed(HTMLParser):
    """A page as a browser's parser sees it: its elements with their attributes, and its texts."""

    def __init__(self, page: bytes | str) -> None:
        super().__init__()
        self.root = Element("", {})
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open = [self.root]
        self.feed(page.decode() if isinstance(page, bytes) else page)
        assert self._open == [self.root], "an element is not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag, dict(attrs))
        self.elements.append((tag, made.attributes))
        self._open[-1].children.append(made)
        if tag not in {"meta", "br", "img", "input", "source"}:
            self._open.append(made)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().name == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        self._open[-1].children.append(data)

    def names(self) -> set[str]:
        return {name for name, _ in self.elements}


def write_hostile(out: Path, ticks: int = 6) -> Package:
    """Every text that a manifest has room for is an attack; the package is sound all the same."""
    ports = {
        name: Port(
            dtype="float32", shape=(1, 2), unit=name, frame=name, description=name, connection=name,
            kind="custom/" + name, element_names=(None, HOSTILE[:2]), source="sensor", metadata={name: name},
        )
        for name in HOSTILE
    }  # fmt: skip
    text = " ".join(HOSTILE)
    return _write(
        out, "hostile", ports, {f"out {name}": f"state {name}" for name in HOSTILE}, ticks,
        version=text, description=text, licence=text, metadata={text: [text]},
        joints=tuple(Joint(name=name, actuator=name, default_position=0.0) for name in HOSTILE),
        findings=(Finding(name=text, severity="warning", message=text, tensor=text, where=text, remedy=text),),
        constants=(Frozen(name=text, where=text, dtype=text, shape=(1,), values=(1.0,)),),
        provenance=Provenance(
            tools={text: text}, python=text, platform=text, created_at=text, task=text,
            checkpoint=Checkpoint(name=text, sha256="0" * 64),
        ),
    )  # fmt: skip


def write_large(out: Path, *, ports: int = 40, ticks: int = 1500) -> Package:
    """More ports, joints, states, constants, findings and ticks than any robot's package in the tests."""
    width = len(JOINTS)
    inputs = {
        f"observation_{index:03d}": Port(
            dtype="float32", shape=(1, width), kind="state/joint/position", unit=("rad",) * width, source="sensor",
            element_names=(None, JOINTS), description="what the encoders read, filtered twice",
            limits=Limits(lower=tuple([-3.0] * width), upper=3.0), connection=f"state:robot:observation_{index:03d}",
        )
        for index in range(ports)
    }  # fmt: skip
    wide = {"height_scan": Port(dtype="float32", shape=(1, 187), kind="sensor/height_scan", unit="m", source="sensor")}
    outputs = {f"target_{index:03d}": f"memory_{index:03d}" for index in range(ports // 2)}
    return _write(
        out, "large", {**inputs, **wide}, outputs, ticks,
        timing=Timing(policy_dt_s=0.02, physics_dt_s=0.005, decimation=4),
        description="More of everything than a robot has.",
        joints=tuple(
            Joint(name=name, kp=20.0, kd=0.5, default_position=0.1, effort_limit=23.7, velocity_limit=30.0,
                  position_limits=JointLimits(lower=-1.0, upper=1.0), actuator="implicit")
            for name in JOINTS
        ),
        findings=tuple(
            Finding(name="undeclared_state", severity="info", message=f"self.buffer_{index} is kept between steps",
                    tensor=f"self.buffer_{index}", where="observations.py:61", remedy="nothing has to be done")
            for index in range(40)
        ),
        constants=tuple(
            Frozen(name=f"self._constant_{index}", where="actions.py:157", dtype="float32", shape=(1, 12),
                   values=tuple([0.372753] * 12))
            for index in range(60)
        ),
    )  # fmt: skip


def _write(
    out: Path, name: str, inputs: Mapping[str, Port], outputs: Mapping[str, str], ticks: int, **fields: object
) -> Package:
    """A package whose states add up the sum of all inputs of their width, and whose outputs are its states, doubled."""
    first = next(iter(inputs.values()))
    shape = first.shape
    reads = {key: f"read {state}" for key, state in outputs.items()}
    port = Port(
        dtype="float32", shape=shape, kind="target/joint/position", unit="rad", element_names=first.element_names
    )
    states = {
        state: Feedback(
            State(dtype="float32", shape=shape, role="memory", description=state), f"next {state}", reads[key]
        )
        for key, state in outputs.items()
    }
    added = [key for key, one in inputs.items() if one.shape == shape]
    manifest = single_stage(
        name, inputs=dict(inputs), outputs=dict.fromkeys(outputs, port), states=states,
        artifacts={"onnx": Artifact(path="artifacts/policy.onnx", opset=18)},
    )  # fmt: skip
    recording, rng = Recording(), np.random.default_rng(0)
    held = {state: np.zeros(shape, np.float32) for state in outputs.values()}
    for tick in range(ticks):
        if tick and tick % (ticks // 3) == 0:
            recording.reset()
            held = {state: np.zeros(shape, np.float32) for state in outputs.values()}
        given = {key: rng.standard_normal(one.shape).astype(np.float32) for key, one in inputs.items()}
        total = given[added[0]]
        for key in added[1:]:
            total = total + given[key]
        held = {state: value + total for state, value in held.items()}
        recording.step(given, {key: held[state] * np.float32(2) for key, state in outputs.items()}, held)
    return write(
        out,
        msgspec.structs.replace(manifest, **fields),
        files={"artifacts/policy.onnx": _model(list(inputs.items()), added, outputs, reads, shape)},
        initial={state: np.zeros(shape, np.float32) for state in outputs.values()},
        golden=recording.golden(),
    )


def _model(
    inputs: Sequence[tuple[str, Port]],
    added: Sequence[str],
    outputs: Mapping[str, str],
    reads: Mapping[str, str],
    shape: tuple[int | str, ...],
) -> bytes:
    """The graph; what is not added is read by nothing but an operation whose result nobody wants."""
    nodes, total = [], added[0]
    for index, key in enumerate(added[1:]):
        nodes.append(helper.make_node("Add", [total, key], [f"sum {index}"]))
        total = f"sum {index}"
    for key, state in outputs.items():
        nodes.append(helper.make_node("Add", [reads[key], total], [f"next {state}"]))
        nodes.append(helper.make_node("Add", [f"next {state}", f"next {state}"], [key]))
    values = [helper.make_tensor_value_info(key, TensorProto.FLOAT, one.shape) for key, one in inputs]
    values += [helper.make_tensor_value_info(read, TensorProto.FLOAT, shape) for read in reads.values()]
    results = [*outputs, *(f"next {state}" for state in outputs.values())]
    graph = helper.make_graph(
        nodes, "policy", values, [helper.make_tensor_value_info(key, TensorProto.FLOAT, shape) for key in results]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.checker.check_model(made)
    return made.SerializeToString()
