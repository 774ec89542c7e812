"""A policy that decides on chunks, to test queues with: said once as a package, and once more in numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ashore.building import Pipeline, apply
from ashore.package import Package, write
from ashore.spec import ACTION_QUEUE, NOISE, TEXT, Artifact, Port, Runner, Stage
from support import model

HORIZON, QUEUED, DIM = 4, 3, 2
CHUNK = """
decide (float[1,2,2] seen, float[1,4,2] noise) => (float[1,4,2] action) {
    axes = Constant<value = int64[1] {1}>()
    last = ReduceSum<keepdims = 1>(seen, axes)
    ten = Constant<value_float = 10.0>()
    scaled = Mul(last, ten)
    action = Add(scaled, noise)
}
"""


class Chunks:
    """Adds the noise to ten times the sum of the last two observations; three of the four actions are executed."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.seen: list[np.ndarray] = []
        self.queue: list[np.ndarray] = []
        self.decided = 0

    def step(self, state: np.ndarray, noise: np.ndarray) -> np.ndarray:
        self.seen = [*(self.seen or [state]), state][-2:]
        if not self.queue:
            self.decided += 1
            self.queue = list((10.0 * np.sum(self.seen, axis=0)[:, None] + noise)[0, :QUEUED])
        return self.queue.pop(0)[None]


def pipeline(*, text: bool = False) -> Pipeline:
    made = Pipeline()
    made.add_input("state", Port(dtype="float32", shape=(1, DIM)))
    made.add_input("noise", Port(dtype="float32", shape=(1, HORIZON, DIM), kind=NOISE))
    apply(made, {"type": "history", "features": ["state"], "steps": 2})
    ports = {
        "inputs": {
            "seen": Port(dtype="float32", shape=(1, 2, DIM)),
            "noise": Port(dtype="float32", shape=(1, HORIZON, DIM)),
        },
        "outputs": {"action": Port(dtype="float32", shape=(1, HORIZON, DIM))},
    }
    made.files["decide.onnx"] = model(CHUNK)
    stage = Stage(rate="policy", artifacts={"onnx": Artifact(path="decide.onnx")}, **ports)
    made.add_stage("decide", stage, {"seen": "state", "noise": "noise"}, {"action": "action"}, {})
    return made


def write_chunks(out: Path, **changes: Any) -> Package:
    made = pipeline()
    apply(made, {"type": "action_queue", "features": ["action"], "n_action_steps": QUEUED})
    made.add_output("action", "action")
    manifest = made.manifest(out.name, Runner(type=ACTION_QUEUE), **changes)
    return write(out, manifest, files=made.files, initial=made.initial)


TEXT_LENGTH = """
measure (uint8[2,16] task, float[2,2] state) => (float[2,2] action) {
    wide = Cast<to = 1>(task)
    axes = Constant<value = int64[1] {1}>()
    total = ReduceSum<keepdims = 1>(wide, axes)
    action = Add(total, state)
}
"""


def write_text(out: Path) -> Package:
    """A policy of two robots, whose action is the sum of the bytes of a text."""
    made = Pipeline()
    made.add_input("task", Port(dtype="uint8", shape=(2, 16), kind=TEXT))
    made.add_input("state", Port(dtype="float32", shape=(2, 2)))
    made.files["measure.onnx"] = model(TEXT_LENGTH)
    stage = Stage(
        rate="policy",
        inputs={"task": Port(dtype="uint8", shape=(2, 16)), "state": Port(dtype="float32", shape=(2, 2))},
        outputs={"action": Port(dtype="float32", shape=(2, 2))},
        artifacts={"onnx": Artifact(path="measure.onnx")},
    )
    made.add_stage("measure", stage, {"task": "task", "state": "state"}, {"action": "action"}, {})
    made.add_output("action", "action")
    return write(out, made.manifest(out.name, Runner()), files=made.files)
