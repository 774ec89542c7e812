"""A package with all that a binding has to get right: joints, a quaternion, rows, whole numbers, limits, two rates."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import support
from ashore.package import Package, Recording, write
from ashore.spec import Artifact, Joint, Limits, Manifest, Port, Stage, State, Timing, Wire

WEIGHTS = np.random.default_rng(5).uniform(-0.3, 0.3, (20, 2)).astype(np.float32)
DECIDE = """
decide (float[1,2] q, float[1,4] quat, float[1,2,3] feet, float[1,3] wish, int64[1,1] phase, bool[1,2] touch,
    float[1,2] last) => (float[1,2] action)
    <float[20,2] weights = {%s}> {
    six = Flatten<axis = 1>(feet)
    beat = Cast<to = 1>(phase)
    down = Cast<to = 1>(touch)
    obs = Concat<axis = 1>(q, quat, six, wish, beat, down, last)
    action = MatMul(obs, weights)
}
"""
ACT = """
act (float[1,2] v, float[1,2] held) => (float[1,2] torque) {
    tenth = Constant<value_float = 0.1>()
    drag = Mul(v, tenth)
    torque = Sub(held, drag)
}
"""
JOINTS = (None, ("shoulder", "elbow"))


def port(kind: str | None, width: int, names: tuple[str, ...] | None = None, **more: object) -> Port:
    return Port(dtype="float32", shape=(1, width), kind=kind, element_names=(None, names) if names else None, **more)  # type: ignore[arg-type]


def manifest() -> Manifest:
    bare = {width: Port(dtype="float32", shape=(1, width)) for width in (2, 3, 4)}
    names, touching = JOINTS[1], ("left", "right")
    return Manifest(
        name="limb",
        version="1.2.3",
        timing=Timing(policy_dt_s=0.02, physics_dt_s=0.005, decimation=4),
        inputs={
            "q": port("state/joint/position", 2, names, unit="rad", limits=Limits(lower=(None, -3.0), upper=2.0)),
            "quat": port("state/body/rotation", 4, ("w", "x", "y", "z"), frame="world"),
            "feet": Port(
                dtype="float32",
                shape=(1, 2, 3),
                kind="state/body/position",
                unit="m",
                element_names=(None, touching, ("x", "y", "z")),
            ),
            "wish": port("command/body/velocity", 3),
            "phase": Port(dtype="int64", shape=(1, 1), kind="state/phase"),
            "touch": Port(dtype="bool", shape=(1, 2), kind="state/contact", element_names=(None, touching)),
            "v": port("state/joint/velocity", 2, names, unit="rad/s"),
        },
        outputs={
            "action": port("action", 2),
            "torque": port("target/joint/effort", 2, names, unit="N*m", limits=Limits(lower=-50.0, upper=50.0)),
        },
        stages={
            "decide": Stage(
                rate="policy",
                inputs={
                    "q": bare[2],
                    "quat": bare[4],
                    "feet": Port(dtype="float32", shape=(1, 2, 3)),
                    "wish": bare[3],
                    "phase": Port(dtype="int64", shape=(1, 1)),
                    "touch": Port(dtype="bool", shape=(1, 2)),
                    "last": bare[2],
                },
                outputs={"action": bare[2]},
                artifacts={"onnx": Artifact(path="decide.onnx", opset=18)},
            ),
            "act": Stage(
                rate="substep",
                inputs={"v": bare[2], "held": bare[2]},
                outputs={"torque": bare[2]},
                artifacts={"onnx": Artifact(path="act.onnx", opset=18)},
            ),
        },
        wires=(
            *(Wire(f"inputs/{name}", f"decide/{name}") for name in ("q", "quat", "feet", "wish", "phase", "touch")),
            Wire("states/action", "decide/last"),
            Wire("decide/action", "states/action"),
            Wire("decide/action", "outputs/action"),
            Wire("inputs/v", "act/v"),
            Wire("states/action", "act/held"),
            Wire("act/torque", "outputs/torque"),
        ),
        states={"action": State(dtype="float32", shape=(1, 2), role="last_action")},
        joints=tuple(Joint(name=name, kp=20.0, kd=0.5, effort_limit=50.0, default_position=0.1) for name in names),
    )


def write_limb(out: Path, recorded: int = 6, off: float = 0.0) -> Package:
    """The package, with a golden rollout of so many decisions, computed in numpy; its torques are off by so much."""
    spec, recording, rng = manifest(), Recording(), np.random.default_rng(6)
    action = np.zeros((1, 2), np.float32)
    for decision in range(recorded):
        if decision == 4:
            recording.reset()
            action = np.zeros((1, 2), np.float32)
        taken = {name: one for name, one in spec.inputs.items() if name != "v"}
        given = {name: rng.uniform(-2, 2, one.shape).astype(one.dtype) for name, one in taken.items()}
        parts = [value.reshape(1, -1).astype(np.float32) for value in given.values()]
        action = np.concatenate([*parts, action], axis=1) @ WEIGHTS
        recording.step(given, {"action": action}, {"action": action})
        for _ in range(4):
            v = rng.uniform(-1, 1, (1, 2)).astype(np.float32)
            recording.substep({"v": v}, {"torque": action - v * np.float32(0.1) + np.float32(off)}, {"action": action})
    weights = ", ".join(f"{one:.9g}" for one in WEIGHTS.ravel())
    graphs = {"decide.onnx": support.model(DECIDE % weights), "act.onnx": support.model(ACT)}
    initial = {"action": np.zeros((1, 2), np.float32)}
    return write(out, spec, files=graphs, initial=initial, golden=recording.golden() if recorded else None)
