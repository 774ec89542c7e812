"""Small packages to test with, and what they must compute, said again in numpy.

Graphs are written in ONNX's text form, so that a reader can check them by eye.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx.parser

from ashore.package import Package, Recording, write
from ashore.package.seal import seal
from ashore.spec import (
    Artifact,
    Feedback,
    Joint,
    Manifest,
    Port,
    Stage,
    State,
    Timing,
    Wire,
    decode,
    single_stage,
)

Arrays = dict[str, np.ndarray]
HEADER = '<ir_version: 10, opset_import: ["" : 18]>\n'
JOINTS = ("shoulder", "elbow")


def model(text: str) -> bytes:
    """An ONNX file from ONNX's text form."""
    return onnx.parser.parse_model(HEADER + text).SerializeToString()


def f32(*values: float) -> np.ndarray:
    """A batch of one row."""
    return np.array([values], np.float32)


# --- one stage, one state --------------------------------------------------------------------------------------------

SUM_MODEL = """
policy (float[1,3] x, float[1,3] h_in) => (float[1,3] y, float[1,3] h_out) {
    h_out = Add(h_in, x)
    y = Mul(h_out, x)
}
"""


class Sum:
    """y = (sum of all x so far) * x."""

    initial = f32(1.0, 2.0, 3.0)

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.h = self.initial.copy()

    def step(self, x: np.ndarray) -> np.ndarray:
        self.h = self.h + x
        return self.h * x


def sum_manifest() -> Manifest:
    port = Port(dtype="float32", shape=(1, 3), element_names=(None, ("a", "b", "c")))
    return single_stage(
        "sum",
        inputs={"x": port},
        outputs={"y": port},
        states={"h": Feedback(State(dtype="float32", shape=(1, 3), role="memory"), "h_out", "h_in")},
        artifacts={"onnx": Artifact(path="artifacts/policy.onnx", opset=18)},
    )


def sum_contents() -> dict[str, Any]:
    recording, reference = Recording(), Sum()
    for tick, x in enumerate(inputs_like((1, 3), 8, seed=1)):
        if tick == 5:
            reference.reset()
            recording.reset()
        recording.step({"x": x}, {"y": reference.step(x)}, {"h": reference.h})
    return {
        "files": {"artifacts/policy.onnx": model(SUM_MODEL)},
        "initial": {"h": Sum.initial},
        "golden": recording.golden(),
    }


def write_sum(out: Path, **changes: Any) -> Package:
    return write(out, msgspec.structs.replace(sum_manifest(), **changes), **sum_contents())


# --- two rates -------------------------------------------------------------------------------------------------------

DECIDE_MODEL = """
decide (float[1,2] q, float[1,2] last, int64[1] n_in) => (float[1,2] action, int64[1] n_out) {
    two = Constant<value_float = 2.0>()
    half = Constant<value_float = 0.5>()
    twice = Mul(q, two)
    kept = Mul(last, half)
    action = Add(twice, kept)
    n_out = Sub(n_in, n_in)
}
"""
ACT_MODEL = """
act (float[1,2] v, float[1,2] held, float[1,2] f_in, int64[1] n_in)
    => (float[1,2] torque, float[1,2] f_out, int64[1] n_out) {
    half = Constant<value_float = 0.5>()
    tenth = Constant<value_float = 0.1>()
    gap = Sub(held, f_in)
    part = Mul(gap, half)
    f_out = Add(f_in, part)
    drag = Mul(v, tenth)
    torque = Sub(f_out, drag)
    one = Constant<value_ints = [1]>()
    n_out = Add(n_in, one)
}
"""


class Arm:
    """An action held between decisions, a filter that moves towards it, a count of substeps since the decision."""

    def __init__(self) -> None:
        self.filter, self.ticks = f32(0.5, -0.5), np.array([0], np.int64)
        self.reset()

    def reset(self) -> None:
        self.action, self.filter = f32(0.25, -0.25), f32(0.5, -0.5)  # the count is kept

    def states(self) -> Arrays:
        return {"action": self.action, "filter": self.filter, "ticks": self.ticks}

    def step(self, inputs: Arrays) -> Arrays:
        self.action = inputs["q"] * np.float32(2) + self.action * np.float32(0.5)
        self.ticks = self.ticks * 0
        return {"action": self.action}

    def substep(self, inputs: Arrays) -> Arrays:
        self.filter = self.filter + (self.action - self.filter) * np.float32(0.5)
        self.ticks = self.ticks + 1
        return {"torque": self.filter - inputs["v"] * np.float32(0.1)}


def arm_manifest() -> Manifest:
    joints = (None, JOINTS)
    bare, count = Port(dtype="float32", shape=(1, 2)), Port(dtype="int64", shape=(1,))
    return Manifest(
        name="arm",
        timing=Timing(policy_dt_s=0.02, physics_dt_s=0.005, decimation=4),
        inputs={
            "q": Port(
                dtype="float32",
                shape=(1, 2),
                kind="state/joint/position",
                unit="rad",
                element_names=joints,
                source="sensor",
            ),
            "v": Port(dtype="float32", shape=(1, 2), kind="state/joint/velocity", unit="rad/s", element_names=joints),
        },
        outputs={
            "action": Port(dtype="float32", shape=(1, 2), kind="action"),
            "torque": Port(dtype="float32", shape=(1, 2), kind="target/joint/effort", unit="N*m", element_names=joints),
        },
        # Listed in the wrong order on purpose: the file's order decides nothing.
        stages={
            "act": Stage(
                rate="substep",
                inputs={"v": bare, "held": bare, "f_in": bare, "n_in": count},
                outputs={"torque": bare, "f_out": bare, "n_out": count},
                artifacts={"onnx": Artifact(path="artifacts/act.onnx", opset=18)},
            ),
            "decide": Stage(
                rate="policy",
                inputs={"q": bare, "last": bare, "n_in": count},
                outputs={"action": bare, "n_out": count},
                artifacts={"onnx": Artifact(path="artifacts/decide.onnx", opset=18)},
            ),
        },
        wires=(
            Wire("inputs/q", "decide/q"),
            Wire("inputs/v", "act/v"),
            Wire("states/action", "decide/last"),
            Wire("states/action", "act/held"),
            Wire("states/filter", "act/f_in"),
            Wire("states/ticks", "act/n_in"),
            Wire("states/ticks", "decide/n_in"),
            Wire("decide/action", "states/action"),
            Wire("decide/action", "outputs/action"),
            Wire("decide/n_out", "states/ticks"),
            Wire("act/n_out", "states/ticks"),
            Wire("act/f_out", "states/filter"),
            Wire("act/torque", "outputs/torque"),
        ),
        states={
            "action": State(dtype="float32", shape=(1, 2), role="last_action"),
            "filter": State(dtype="float32", shape=(1, 2), role="filter"),
            "ticks": State(dtype="int64", shape=(1,), role="counter", reset="keep"),
        },
        joints=tuple(Joint(name=name, kp=20.0, kd=0.5, default_position=0.1) for name in JOINTS),
    )


def arm_contents() -> dict[str, Any]:
    reference, recording = Arm(), Recording()
    initial = {name: value.copy() for name, value in reference.states().items()}
    positions, speeds = inputs_like((1, 2), 6, seed=2), inputs_like((1, 2), 24, seed=3)
    for decision, q in enumerate(positions):
        if decision == 4:
            reference.reset()
            recording.reset()
        recording.step({"q": q}, reference.step({"q": q}), reference.states())
        for v in speeds[decision * 4 : decision * 4 + (4 if decision != 3 else 2)]:
            recording.substep({"v": v}, reference.substep({"v": v}), reference.states())
    return {
        "files": {"artifacts/decide.onnx": model(DECIDE_MODEL), "artifacts/act.onnx": model(ACT_MODEL)},
        "initial": initial,
        "golden": recording.golden(),
    }


def write_arm(out: Path, **changes: Any) -> Package:
    return write(out, msgspec.structs.replace(arm_manifest(), **changes), **arm_contents())


# --- a symbolic batch ------------------------------------------------------------------------------------------------

BATCHED_MODEL = """
policy (float[batch,2] x, float[1,batch,2] h_in) => (float[batch,2] y, float[1,batch,2] h_out) {
    zero = Constant<value_ints = [0]>()
    x3 = Unsqueeze(x, zero)
    h_out = Add(h_in, x3)
    y = Squeeze(h_out, zero)
}
"""


def write_batched(out: Path, rows: int = 0) -> Package:
    """y = initial + sum of x, for any number of rows; with a rollout of `rows` rows if that is not 0."""
    state = State(dtype="float32", shape=(1, "batch", 2), role="recurrent")
    manifest = single_stage(
        "batched",
        inputs={"x": Port(dtype="float32", shape=("batch", 2))},
        outputs={"y": Port(dtype="float32", shape=("batch", 2))},
        states={"h": Feedback(state, "h_out", "h_in")},
        artifacts={"onnx": Artifact(path="a.onnx")},
    )
    initial, recording = np.array([[[10, 20]]], np.float32), Recording()
    h = initial.repeat(max(rows, 1), axis=1)
    for x in inputs_like((max(rows, 1), 2), 5, seed=20):
        h = h + x
        recording.step({"x": x}, {"y": h[0]}, {"h": h})
    golden = recording.golden() if rows else None
    return write(out, manifest, files={"a.onnx": model(BATCHED_MODEL)}, initial={"h": initial}, golden=golden)


# --- helpers ---------------------------------------------------------------------------------------------------------


def inputs_like(shape: tuple[int, ...], count: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32) for _ in range(count)]


def edit_manifest(package: Path, change: Callable[[dict[str, Any]], Any], *, reseal: bool = True) -> None:
    """Change the JSON of a package directory's manifest, and seal it again where it can still be sealed."""
    path = package / "manifest.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    if reseal:
        path.write_bytes(seal(decode(path.read_bytes())))


def change_file(package: Path, name: str, data: bytes) -> None:
    """Replace a file of a package directory and make the manifest agree, as a careful attacker would."""
    import hashlib

    (package / name).write_bytes(data)
    entry = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    edit_manifest(package, lambda document: document["files"].__setitem__(name, entry))


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh process of this interpreter."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""}
    )
