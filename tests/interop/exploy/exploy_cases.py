"""Policies to put into one file, a runner that ticks a package, and a file as Exploy builds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper

import ashore
import support
from ashore.package import Package, write
from ashore.spec import Artifact, Manifest, Port, Stage, State, Timing, Wire

Arrays = dict[str, np.ndarray]


class PackageTicks:
    """A package, run as the one file is: every tick acts, every `decimation` ticks and on the first it decides."""

    def __init__(self, package: Package, batch: int = 1) -> None:
        self.policy = ashore.load(package, batch=batch)
        timing = package.manifest.timing
        self.decimation = 1 if timing is None else timing.decimation
        self.first = True

    def reset(self) -> None:
        self.policy.reset()
        self.first = True

    def tick(self, count: int, inputs: Arrays) -> Arrays:
        found: Arrays = {}
        if self.first or count % self.decimation == 0:
            found |= self.policy.step({name: inputs[name] for name in self.policy.step_inputs})
            self.first = False
        if any(stage.rate == "substep" for stage in self.policy.manifest.stages.values()):
            found |= self.policy.substep({name: inputs[name] for name in self.policy.substep_inputs})
        return found


def draw(manifest: Manifest, count: int, seed: int = 0, batch: int = 1) -> list[Arrays]:
    rng = np.random.default_rng(seed)
    shapes = {name: [batch if dim == "batch" else dim for dim in port.shape] for name, port in manifest.inputs.items()}
    return [
        {name: rng.standard_normal(shapes[name]).astype(port.dtype) for name, port in manifest.inputs.items()}
        for _ in range(count)
    ]


def write_arm(out: Path, **changes: Any) -> Package:
    """The arm of `support`, all of whose states start anew on a reset."""
    manifest, contents = support.arm_manifest(), support.arm_contents()
    states = {name: msgspec.structs.replace(state, reset="initial") for name, state in manifest.states.items()}
    contents["golden"] = changes.pop("golden", None)
    return write(out, msgspec.structs.replace(manifest, **{"states": states, **changes}), **contents)


# --- names that would meet in a graph that is put together carelessly ------------------------------------------------

CLASHING = """
policy (float[1,2] cond, float[1,2] zero, float[1,2] is_event, float[1,2] default)
    => (float[1,2] actions, float[1,2] decimation, float[1,2] If_0, float[1,2] h) {
    ones = Constant<value_float = 1.0>()
    x = Add(cond, zero)
    h = Add(x, is_event)
    actions = Mul(h, ones)
    decimation = Sub(h, zero)
    If_0 = Add(h, default)
}
"""
CLASHING_TOO = """
policy (float[1,2] cond, float[1,2] h, float[1,2] held) => (float[1,2] x, float[1,2] actions) {
    ones = Constant<value_float = 0.5>()
    x = Mul(cond, ones)
    g = Add(x, h)
    actions = Add(g, held)
}
"""


def write_clashing(out: Path) -> Package:
    """Ports, states and stages called as the file's own parts are, and values that both stages call the same."""
    port = Port(dtype="float32", shape=(1, 2))
    state = State(dtype="float32", shape=(1, 2), role="memory")
    stages = {
        "default": Stage(
            rate="policy",
            inputs=dict.fromkeys(("cond", "zero", "is_event", "default"), port),
            outputs=dict.fromkeys(("actions", "decimation", "If_0", "h"), port),
            artifacts={"onnx": Artifact(path="a.onnx")},
        ),
        "control": Stage(
            rate="substep",
            inputs=dict.fromkeys(("cond", "h", "held"), port),
            outputs=dict.fromkeys(("x", "actions"), port),
            artifacts={"onnx": Artifact(path="b.onnx")},
        ),
    }
    manifest = Manifest(
        name="clashing",
        timing=Timing(decimation=3),
        inputs=dict.fromkeys(("cond", "zero", "control/nodes", "ashore:default/default/x"), port),
        outputs=dict.fromkeys(("obs", "decimation", "is_event", "If_0", "actions"), port),
        stages=stages,
        wires=(
            Wire("inputs/cond", "default/cond"),
            Wire("inputs/zero", "default/zero"),
            Wire("inputs/control/nodes", "default/is_event"),
            Wire("states/decided", "default/default"),
            Wire("inputs/ashore:default/default/x", "control/cond"),
            Wire("states/in/x", "control/h"),
            Wire("states/decided", "control/held"),
            Wire("default/actions", "outputs/actions"),
            Wire("default/decimation", "outputs/decimation"),
            Wire("default/If_0", "outputs/If_0"),
            Wire("default/h", "states/in/x"),
            Wire("control/x", "outputs/obs"),
            Wire("control/actions", "outputs/is_event"),
            Wire("control/actions", "states/decided"),
        ),
        states={"decided": state, "in/x": state},
    )
    initial = {"decided": support.f32(0.5, -2.0), "in/x": support.f32(3.0, 4.0)}
    return write(
        out,
        manifest,
        files={"a.onnx": support.model(CLASHING), "b.onnx": support.model(CLASHING_TOO)},
        initial=initial,
    )


# --- a stage with everything in it that a graph can have -------------------------------------------------------------


def rich_model() -> bytes:
    """Nested graphs that read constants and values from outside, a function, nodes without names, a constant output."""
    text = """
    <ir_version: 8, opset_import: ["" : 18, "local" : 1]>
    policy (float[1,2] x, float[1,2] h_in) => (float[1,2] y, float[1,2] h_out, float[1,2] fixed)
        <float[1,2] fixed = {7.0, -8.0}, float[1,2] weight = {0.5, 0.25}, int64[1] axes = {1}> {
        total = ReduceSum<keepdims = 0>(x)
        nothing = Constant<value_float = 0.0>()
        up = Greater(total, nothing)
        scaled = If (up) <
            then_branch = a () => (float[1,2] t) { m = Mul(x, weight)  t = Add(m, h_in) },
            else_branch = b () => (float[1,2] e) { m = Sub(x, weight)  e = local.twice(m) }
        >
        h_out = local.twice(scaled)
        y = Add(h_out, fixed)
    }
    <domain: "local", opset_import: ["" : 18]>
    twice (v) => (w) { w = Add(v, v) }
    """
    return onnx.parser.parse_model(text).SerializeToString()


def write_rich(out: Path, **changes: Any) -> Package:
    port = Port(dtype="float32", shape=(1, 2))
    manifest = Manifest(
        name="rich",
        timing=Timing(policy_dt_s=0.02, physics_dt_s=0.01, decimation=2),
        inputs={"x": port},
        outputs={"y": port, "fixed": port, "obs": port},
        stages={
            "rich": Stage(
                rate="policy",
                inputs={"x": port, "h_in": port},
                outputs={"y": port, "h_out": port, "fixed": port},
                artifacts={"onnx": Artifact(path="rich.onnx")},
            ),
            "again": Stage(
                rate="substep",
                inputs={"x": port, "h_in": port},
                outputs={"y": port, "h_out": port, "fixed": port},
                artifacts={"onnx": Artifact(path="again.onnx")},
            ),
        },
        wires=(
            Wire("inputs/x", "rich/x"),
            Wire("states/h", "rich/h_in"),
            Wire("rich/h_out", "states/h"),
            Wire("rich/fixed", "states/f"),
            Wire("rich/y", "outputs/obs"),
            Wire("states/f", "again/x"),
            Wire("states/f", "again/h_in"),
            Wire("again/h_out", "states/f"),
            Wire("again/y", "outputs/y"),
            Wire("again/fixed", "outputs/fixed"),
        ),
        states={
            "h": State(dtype="float32", shape=(1, 2), role="memory"),
            "f": State(dtype="float32", shape=(1, 2), role="memory"),
        },
    )
    initial = {"h": support.f32(0.1, -0.2), "f": support.f32(1.0, 2.0)}
    files = {"rich.onnx": rich_model(), "again.onnx": rich_model()}
    return write(out, msgspec.structs.replace(manifest, **changes), files=files, initial=initial)


# --- a file as Exploy builds it --------------------------------------------------------------------------------------

DEFAULT = """
default ()
    => (float[1,2] actions, float[1,6] obs, float[1,2] out, float[1,2] memory.actions.out, float[1,2] memory.out.out)
    <float[1,2] gain = {0.5, -0.25}> {
    obs = Concat<axis = 1>(foo, g.bar, memory.actions.in)
    part = Sub(foo, g.bar)
    seen = Add(part, memory.actions.in)
    actions = Mul(seen, gain)
    three = Constant<value_float = 3.0>()
    processed = Mul(actions, three)
    mixed = Add(processed, memory.out.in)
    out = Add(mixed, offset)
    memory.actions.out = Identity(actions)
    memory.out.out = Identity(out)
}
"""
PROCESS_ACTIONS = """
process ()
    => (float[1,2] actions, float[1,6] obs, float[1,2] out, float[1,2] memory.actions.out, float[1,2] memory.out.out)
    <float[1,2] gain = {3.0, 3.0}> {
    shape = Constant<value_ints = [1, 2]>()
    actions = ConstantOfShape(shape)
    zeros = Constant<value = float[1,6] {0, 0, 0, 0, 0, 0}>()
    obs = Identity(zeros)
    processed = Mul(memory.actions.in, gain)
    mixed = Add(processed, memory.out.in)
    damped = Sub(mixed, foo)
    out = Add(damped, offset)
    memory.actions.out = Identity(memory.actions.in)
    memory.out.out = Identity(out)
}
"""


def _branch(text: str) -> onnx.GraphProto:
    quoted = text
    for name in ("memory.actions.in", "memory.actions.out", "memory.out.in", "memory.out.out", "g.bar"):
        quoted = quoted.replace(name, f'"{name}"')
    return onnx.parser.parse_graph(quoted)


def foreign_model(decimation: int = 4, metadata: dict[str, str] | None = None) -> onnx.ModelProto:
    """Two graphs behind an If. They share an initializer and a computed value outside, and their names meet."""
    ports = {"foo": 2, "g.bar": 2, "memory.actions.in": 2, "memory.out.in": 2}
    results = {"actions": 2, "obs": 6, "out": 2, "memory.actions.out": 2, "memory.out.out": 2}
    graph = helper.make_graph(
        [
            helper.make_node("Mod", ["ctx.step_count", "decimation"], ["is_event"]),
            helper.make_node("Equal", ["is_event", "zero"], ["cond"]),
            helper.make_node("Add", ["base", "base"], ["offset"]),
            helper.make_node(
                "If",
                ["cond"],
                list(results),
                then_branch=_branch(DEFAULT),
                else_branch=_branch(PROCESS_ACTIONS),
            ),
        ],
        "ticks",
        [
            helper.make_tensor_value_info("ctx.step_count", TensorProto.INT32, []),
            *(helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, width]) for name, width in ports.items()),
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, width]) for name, width in results.items()],
        [
            helper.make_tensor("decimation", TensorProto.INT32, (), [decimation]),
            helper.make_tensor("zero", TensorProto.INT32, (), [0]),
            helper.make_tensor("base", TensorProto.FLOAT, (1, 2), [0.125, 0.5]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    for key, value in (metadata or {}).items():
        model.metadata_props.add(key=key, value=value)
    return model
