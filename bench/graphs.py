"""The policies that are measured: random weights, batch 1, as whole packages.

Six graphs that stand for what robots run: two MLPs, an LSTM, a GRU, a small transformer, and a full pipeline of small
operations around the first MLP. Built with ``onnx`` alone, so that a benchmark needs no training framework.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from ashore.package import Package, Recording, write
from ashore.runtime import load
from ashore.spec import Artifact, Feedback, Port, Role, State, concrete, single_stage

OPSET, IR_VERSION = 18, 10
ARTIFACT = "artifacts/policy.onnx"


@dataclass
class Graph:
    """An ONNX graph in the making; every operation returns the name of its result."""

    seed: int = 0
    inputs: dict[str, list[int]] = field(default_factory=dict)
    outputs: dict[str, list[int]] = field(default_factory=dict)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    def input(self, name: str, *shape: int) -> str:
        self.inputs[name] = list(shape)
        return name

    def output(self, value: str, name: str, *shape: int) -> None:
        self.outputs[name] = list(shape)
        self.nodes.append(helper.make_node("Identity", [value], [name]))

    def constant(self, value: npt.ArrayLike) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def random(self, *shape: int) -> str:
        scale = 1.0 / np.sqrt(shape[max(len(shape) - 2, 0)])
        return self.constant((self._rng.standard_normal(shape) * scale).astype(np.float32))

    def op(self, kind: str, *operands: str, outputs: int = 1, **attributes: Any) -> str:
        return self.ops(kind, *operands, outputs=outputs, **attributes)[-1]

    def ops(self, kind: str, *operands: str, outputs: int = 1, **attributes: Any) -> list[str]:
        names = [f"v{len(self.nodes)}_{index}" for index in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(operands), names, **attributes))
        return names

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def float(self, value: float) -> str:
        return self.constant(np.float32(value))

    def mlp(self, value: str, sizes: Sequence[int]) -> str:
        for index, (width_in, width_out) in enumerate(pairwise(sizes)):
            value = self.op("Gemm", value, self.random(width_in, width_out), self.random(width_out))
            if index < len(sizes) - 2:
                value = self.op("Elu", value)
        return value

    def model(self) -> bytes:
        inputs, outputs = (
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in group.items()]
            for group in (self.inputs, self.outputs)
        )
        graph = helper.make_graph(self.nodes, "policy", inputs, outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        onnx.checker.check_model(model, full_check=True)
        return model.SerializeToString()


@dataclass(frozen=True)
class Subject:
    """A graph, and which of its outputs come back: state -> (output, input, role)."""

    graph: Graph
    feedback: dict[str, tuple[str, str, Role]]


def mlp(*sizes: int) -> Subject:
    graph = Graph()
    action = graph.mlp(graph.input("obs", 1, sizes[0]), sizes)
    graph.output(action, "action", 1, sizes[-1])
    return Subject(graph, {})


def lstm(width_in: int, hidden: int, head: int) -> Subject:
    graph = Graph()
    obs, h_in, c_in = (
        graph.input("obs", 1, width_in),
        graph.input("h_in", 1, 1, hidden),
        graph.input("c_in", 1, 1, hidden),
    )
    sequence = graph.op("Unsqueeze", obs, graph.ints(0))
    weights = graph.random(1, 4 * hidden, width_in), graph.random(1, 4 * hidden, hidden), graph.random(1, 8 * hidden)
    _, h_out, c_out = graph.ops("LSTM", sequence, *weights, "", h_in, c_in, outputs=3, hidden_size=hidden)
    flat = graph.op("Squeeze", h_out, graph.ints(0))
    graph.output(graph.mlp(flat, [hidden, head]), "action", 1, head)
    graph.output(h_out, "h_out", 1, 1, hidden)
    graph.output(c_out, "c_out", 1, 1, hidden)
    return Subject(graph, {"h": ("h_out", "h_in", "recurrent"), "c": ("c_out", "c_in", "recurrent")})


def gru(width_in: int, hidden: int, head: int) -> Subject:
    graph = Graph()
    obs, h_in = graph.input("obs", 1, width_in), graph.input("h_in", 1, 1, hidden)
    sequence = graph.op("Unsqueeze", obs, graph.ints(0))
    weights = graph.random(1, 3 * hidden, width_in), graph.random(1, 3 * hidden, hidden), graph.random(1, 6 * hidden)
    _, h_out = graph.ops("GRU", sequence, *weights, "", h_in, outputs=2, hidden_size=hidden, linear_before_reset=1)
    flat = graph.op("Squeeze", h_out, graph.ints(0))
    graph.output(graph.mlp(flat, [hidden, head]), "action", 1, head)
    graph.output(h_out, "h_out", 1, 1, hidden)
    return Subject(graph, {"h": ("h_out", "h_in", "recurrent")})


def transformer(tokens: int, width: int, layers: int, head: int, heads: int = 4) -> Subject:
    graph = Graph()
    value = graph.input("obs", 1, tokens, width)
    split = graph.ints(1, tokens, heads, width // heads)
    for _ in range(layers):
        normed = graph.op("LayerNormalization", value, graph.random(width), graph.random(width))
        query, key, keyed = (
            graph.op("Transpose", graph.op("Reshape", _linear(graph, normed, width, width), split), perm=[0, 2, 1, 3])
            for _ in range(3)
        )
        scores = graph.op("MatMul", query, graph.op("Transpose", key, perm=[0, 1, 3, 2]))
        weights = graph.op("Softmax", graph.op("Mul", scores, graph.float((width // heads) ** -0.5)), axis=-1)
        mixed = graph.op("Transpose", graph.op("MatMul", weights, keyed), perm=[0, 2, 1, 3])
        mixed = graph.op("Reshape", mixed, graph.ints(1, tokens, width))
        value = graph.op("Add", value, _linear(graph, mixed, width, width))
        normed = graph.op("LayerNormalization", value, graph.random(width), graph.random(width))
        inner = graph.op("Relu", _linear(graph, normed, width, 4 * width))
        value = graph.op("Add", value, _linear(graph, inner, 4 * width, width))
    first = graph.op("Gather", value, graph.constant(np.array(0, np.int64)), axis=1)
    graph.output(graph.mlp(first, [width, head]), "action", 1, head)
    return Subject(graph, {})


def _linear(graph: Graph, value: str, width_in: int, width_out: int) -> str:
    return graph.op("Add", graph.op("MatMul", value, graph.random(width_in, width_out)), graph.random(width_out))


def pipeline() -> Subject:
    """What surrounds a network on a quadruped: about forty small operations, seven inputs and a last action."""
    graph = Graph()
    lin_vel, ang_vel = graph.input("base_lin_vel", 1, 3), graph.input("base_ang_vel", 1, 3)
    quat, gravity = graph.input("base_quat", 1, 4), graph.input("gravity_w", 1, 3)
    joint_pos, joint_vel = graph.input("joint_pos", 1, 12), graph.input("joint_vel", 1, 12)
    command, last_action = graph.input("command", 1, 3), graph.input("last_action_in", 1, 12)
    # Rotate gravity into the base frame: v - 2 w (q x v) + 2 q x (q x v), for q = (w, x, y, z).
    scalar = graph.op("Slice", quat, graph.ints(0), graph.ints(1), graph.ints(1))
    vector = graph.op("Slice", quat, graph.ints(1), graph.ints(4), graph.ints(1))
    turned = _cross(graph, vector, gravity)
    twice = graph.op("Mul", _cross(graph, vector, turned), graph.float(2.0))
    along = graph.op("Mul", graph.op("Mul", scalar, turned), graph.float(2.0))
    projected = graph.op("Add", graph.op("Sub", gravity, along), twice)
    offset = graph.op("Sub", joint_pos, graph.random(1, 12))
    terms = [
        graph.op("Mul", lin_vel, graph.float(2.0)),
        graph.op("Mul", ang_vel, graph.float(0.25)),
        projected,
        graph.op("Mul", command, graph.constant(np.array([2.0, 2.0, 0.25], np.float32))),
        offset,
        graph.op("Mul", joint_vel, graph.float(0.05)),
        last_action,
    ]
    obs = graph.op("Concat", *terms, axis=1)
    obs = graph.op("Clip", obs, graph.float(-100.0), graph.float(100.0))
    obs = graph.op("Div", graph.op("Sub", obs, graph.random(48)), graph.constant(np.full(48, 1.5, np.float32)))
    raw = graph.mlp(obs, (48, 256, 128, 64, 12))
    action = graph.op("Clip", raw, graph.float(-10.0), graph.float(10.0))
    graph.output(
        graph.op("Add", graph.op("Mul", action, graph.float(0.25)), graph.random(1, 12)), "joint_target", 1, 12
    )
    graph.output(action, "last_action_out", 1, 12)
    return Subject(graph, {"last_action": ("last_action_out", "last_action_in", "last_action")})


def _cross(graph: Graph, left: str, right: str) -> str:
    after, before = graph.ints(1, 2, 0), graph.ints(2, 0, 1)
    take = [graph.op("Gather", side, turn, axis=1) for side in (left, right) for turn in (after, before)]
    return graph.op("Sub", graph.op("Mul", take[0], take[3]), graph.op("Mul", take[1], take[2]))


SUBJECTS: dict[str, Callable[[], Subject]] = {
    "MLP 48-256-128-64-12": lambda: mlp(48, 256, 128, 64, 12),
    "MLP 235-512-256-128-12": lambda: mlp(235, 512, 256, 128, 12),
    "LSTM 48-64, head 12": lambda: lstm(48, 64, 12),
    "GRU 96-256-12": lambda: gru(96, 256, 12),
    "Transformer 8x128, 2 layers": lambda: transformer(8, 128, 2, 12),
    "Pipeline, 7 inputs": pipeline,
}
RECURRENT = frozenset({"LSTM 48-64, head 12", "GRU 96-256-12"})


def write_subject(subject: Subject, out: Path, name: str = "bench", ticks: int = 20) -> Package:
    """Write a subject as a package, with a golden rollout of its own."""
    graph, loops = subject.graph, subject.feedback
    fed = {target for _, target, _ in loops.values()}
    back = {source for source, _, _ in loops.values()}
    inputs = {key: Port(dtype="float32", shape=tuple(shape)) for key, shape in graph.inputs.items() if key not in fed}
    outputs = {
        key: Port(dtype="float32", shape=tuple(shape)) for key, shape in graph.outputs.items() if key not in back
    }
    states = {
        key: Feedback(State(dtype="float32", shape=tuple(graph.inputs[target]), role=role), source, target)
        for key, (source, target, role) in loops.items()
    }
    artifact = Artifact(path=ARTIFACT, opset=OPSET, ir_version=IR_VERSION)
    manifest = single_stage(name, inputs=inputs, outputs=outputs, states=states, artifacts={"onnx": artifact})
    contents = {
        "files": {ARTIFACT: graph.model()},
        "initial": {key: np.zeros(concrete(loop.state.shape, 1), np.float32) for key, loop in states.items()},
    }
    policy = load(write(out, manifest, **contents))
    recording, rng = Recording(), np.random.default_rng(1)
    for tick in range(ticks):
        if tick == ticks // 2:
            policy.reset()
            recording.reset()
        values = {key: rng.standard_normal(concrete(port.shape, 1)).astype(np.float32) for key, port in inputs.items()}
        recording.step(values, policy.step(values), policy.state())
    return write(out, manifest, **contents, golden=recording.golden())
