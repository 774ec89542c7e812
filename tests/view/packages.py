"""Manifests to draw: realistic ones, crowded ones, and ones with names that nobody should use."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from ashore.spec import (
    Artifact,
    Feedback,
    Manifest,
    Port,
    Processor,
    Runner,
    Stage,
    State,
    Timing,
    Wire,
    single_stage,
)

LEGS = ("FL", "FR", "RL", "RR")
JOINTS = tuple(f"{leg}_{joint}" for leg in LEGS for joint in ("hip", "thigh", "calf"))
ONNX = {"onnx": Artifact(path="artifacts/policy.onnx")}
XYZ = (None, ("x", "y", "z"))


def f32(*shape: Any, **fields: Any) -> Port:
    return Port(dtype="float32", shape=shape, **fields)


def memory(role: Any, *shape: Any, **fields: Any) -> State:
    return State(dtype="float32", shape=shape, role=role, **fields)


def sensors() -> dict[str, Port]:
    joints = (None, JOINTS)
    return {
        "base_ang_vel": f32(
            1,
            3,
            kind="state/body/angular_velocity",
            unit="rad/s",
            frame="base",
            element_names=XYZ,
            source="sensor",
        ),
        "projected_gravity": f32(1, 3, frame="base", element_names=XYZ, source="estimator"),
        "quat": f32(
            1,
            4,
            kind="state/body/rotation",
            frame="world",
            element_names=(None, tuple("wxyz")),
            source="estimator",
        ),
        "command": f32(
            1,
            3,
            kind="command/body/velocity",
            unit=("m/s", "m/s", "rad/s"),
            element_names=(None, ("vx", "vy", "yaw_rate")),
            source="command",
        ),
        "joint_pos": f32(1, 12, kind="state/joint/position", unit="rad", element_names=joints, source="sensor"),
        "joint_vel": f32(1, 12, kind="state/joint/velocity", unit="rad/s", element_names=joints, source="sensor"),
    }


def targets() -> dict[str, Port]:
    joints = (None, JOINTS)
    return {
        "joint_target": f32(1, 12, kind="target/joint/position", unit="rad", element_names=joints),
    }


def quadruped() -> Manifest:
    """A walking policy: six inputs, a history, an LSTM and the last action."""
    manifest = single_stage(
        "go2-velocity-flat",
        inputs=sensors(),
        outputs=targets(),
        states={
            "history": Feedback(memory("history", 1, 5, 45), "history_out", "history_in"),
            "last_action": Feedback(memory("last_action", 1, 12), "joint_target", "last_action_in"),
            "lstm_h": Feedback(memory("recurrent", 1, 1, 256), "h_out", "h_in"),
            "lstm_c": Feedback(memory("recurrent", 1, 1, 256), "c_out", "c_in"),
        },
        artifacts=ONNX,
    )
    return msgspec.structs.replace(
        manifest,
        version="1.2.0",
        description="Flat-ground velocity tracking, trained in simulation, LSTM actor.",
        timing=Timing(policy_dt_s=0.02, physics_dt_s=0.005, decimation=4),
    )


def seven_inputs() -> Manifest:
    """One stage with seven inputs and three states, and a counter that a reset does not touch."""
    return single_stage(
        "seven",
        inputs={**sensors(), "height_scan": f32(1, 187, unit="m", source="privileged")},
        outputs={**targets(), "value": f32(1, 1)},
        states={
            "h": Feedback(memory("recurrent", 1, 1, 64), "h_out", "h_in"),
            "history": Feedback(memory("history", 1, 5, 45), "history_out", "history_in"),
            "ticks": Feedback(State(dtype="int64", shape=(1,), role="counter", reset="keep"), "n_out", "n_in"),
        },
        artifacts={**ONNX, "torchscript": Artifact(path="artifacts/policy.pt")},
    )


def chain() -> Manifest:
    """Three stages in a row with states, a wire that passes a stage, and a processor."""
    inputs = sensors()
    return Manifest(
        name="estimate-encode-act",
        timing=Timing(policy_dt_s=0.02),
        inputs=inputs,
        outputs={**targets(), "base_velocity": f32(1, 3, unit="m/s", frame="base", element_names=XYZ)},
        stages={
            "normalise": Stage(
                rate="policy",
                inputs={name: f32(*inputs[name].shape) for name in ("base_ang_vel", "projected_gravity", "quat")},
                outputs={"obs": f32(1, 10)},
                processor=Processor(type="normalize"),
            ),
            "estimator": Stage(
                rate="policy",
                inputs={
                    "obs": f32(1, 10),
                    "joint_pos": f32(1, 12),
                    "joint_vel": f32(1, 12),
                    "h_in": f32(1, 1, 128),
                    "c_in": f32(1, 1, 128),
                },
                outputs={
                    "latent": f32(1, 16),
                    "velocity": f32(1, 3),
                    "h_out": f32(1, 1, 128),
                    "c_out": f32(1, 1, 128),
                },
                artifacts=ONNX,
            ),
            "actor": Stage(
                rate="policy",
                inputs={
                    "latent": f32(1, 16),
                    "velocity": f32(1, 3),
                    "obs": f32(1, 10),
                    "command": f32(1, 3),
                    "last_action": f32(1, 12),
                },
                outputs={"action": f32(1, 12)},
                artifacts=ONNX,
            ),
        },
        wires=(
            *(Wire(f"inputs/{name}", f"normalise/{name}") for name in ("base_ang_vel", "projected_gravity", "quat")),
            Wire("inputs/joint_pos", "estimator/joint_pos"),
            Wire("inputs/joint_vel", "estimator/joint_vel"),
            Wire("inputs/command", "actor/command"),
            Wire("normalise/obs", "estimator/obs"),
            Wire("normalise/obs", "actor/obs"),
            Wire("estimator/latent", "actor/latent"),
            Wire("estimator/velocity", "actor/velocity"),
            Wire("estimator/velocity", "outputs/base_velocity"),
            Wire("actor/action", "outputs/joint_target"),
            Wire("estimator/h_out", "states/h"),
            Wire("states/h", "estimator/h_in"),
            Wire("estimator/c_out", "states/c"),
            Wire("states/c", "estimator/c_in"),
            Wire("actor/action", "states/last_action"),
            Wire("states/last_action", "actor/last_action"),
        ),
        states={
            "h": memory("recurrent", 1, 1, 128),
            "c": memory("recurrent", 1, 1, 128),
            "last_action": memory("last_action", 1, 12),
        },
    )


def diffusion() -> Manifest:
    """A loop inside a decision, and a symbolic batch."""
    return Manifest(
        name="pick-and-place",
        timing=Timing(policy_dt_s=0.1),
        inputs={
            "image": Port(dtype="uint8", shape=("batch", 3, 224, 224), source="sensor"),
            "state": f32("batch", 7, unit="rad", source="sensor"),
            "noise": f32("batch", 16, 7),
        },
        outputs={"chunk": f32("batch", 16, 7, element_names=(None, None, tuple(f"joint_{i}" for i in range(1, 8))))},
        stages={
            "encode": Stage(
                rate="policy",
                inputs={"image": Port(dtype="uint8", shape=("batch", 3, 224, 224)), "state": f32("batch", 7)},
                outputs={"embedding": f32("batch", 512)},
                artifacts=ONNX,
            ),
            "generate": Stage(
                rate="policy",
                inputs={"embedding": f32("batch", 512), "noise": f32("batch", 16, 7)},
                outputs={"actions": f32("batch", 16, 7)},
                runner=Runner(type="flow", params={"num_steps": 10}, stages=("denoise",)),
            ),
            "denoise": Stage(
                rate="loop",
                inputs={
                    "x_t": f32("batch", 16, 7),
                    "timestep": f32("batch"),
                    "embedding": f32("batch", 512),
                },
                outputs={"v_t": f32("batch", 16, 7)},
                artifacts=ONNX,
            ),
        },
        wires=(
            Wire("inputs/image", "encode/image"),
            Wire("inputs/state", "encode/state"),
            Wire("inputs/noise", "generate/noise"),
            Wire("encode/embedding", "generate/embedding"),
            Wire("generate/actions", "outputs/chunk"),
        ),
    )


def thirty_inputs() -> Manifest:
    return single_stage(
        "thirty",
        inputs={f"observation_{index}": f32(1, index + 1) for index in range(30)},
        outputs={"action": f32(1, 12)},
        states={f"state_{index}": Feedback(memory("memory", 1, 4), f"s{index}", f"t{index}") for index in range(8)},
        artifacts=ONNX,
    )


HOSTILE = (
    "<script>alert('1')</script>",
    'quo"te & amp;',
    "]]><!--",
    "a/b/c",
    "</text></g></svg>",
    "&#0;",
    "{joint}%s",
)


def hostile() -> Manifest:
    ports = {name: f32(1, 1, unit=name, description=name, element_names=(None, (name,))) for name in HOSTILE}
    manifest = single_stage(
        "hostile",
        inputs=ports,
        outputs={f"out {name}": f32(1, 1) for name in HOSTILE},
        states={f"state {name}": Feedback(memory("memory", 1, 1), f"w {name}", f"r {name}") for name in HOSTILE},
        artifacts={"<b>": Artifact(path="a")},
    )
    return msgspec.structs.replace(manifest, description="<img src=x onerror=alert(1)> & more", version="<1>")


def long_names() -> Manifest:
    name = "_".join(["left_front_leg_upper_actuator_position"] * 5)
    return single_stage(
        "p" * 120,
        inputs={name: f32(1, 12), f"{name[:150]}_2": f32(1, 12, kind="custom/" + name[:60])},
        outputs={f"{name[:150]}_out": f32(1, 12)},
        states={f"{name[:150]}_s": Feedback(memory("memory", 1, 4), f"{name[:150]}_so", f"{name[:150]}_si")},
        artifacts=ONNX,
        stage="s" * 120,
    )


def unicode_names() -> Manifest:
    return single_stage(
        "unicode",
        inputs={"θ_joint": f32(1, 2, unit="µrad"), "関節位置": f32(1, 3), "übung·é": f32(1, 3), "🤖": f32(1, 3)},
        outputs={"действие": f32(1, 2)},
        states={"état": Feedback(memory("memory", 1, 2), "état₊", "état₋")},
        artifacts=ONNX,
    )


def random_manifest(seed: int) -> Manifest:
    """A package of up to six stages with wires from anywhere before to anywhere after, and states from anywhere."""
    rng = random.Random(seed)
    port = f32(1, 2)
    stages = [f"stage{index}" for index in range(rng.randint(1, 6))]
    inputs = {f"in{index}": port for index in range(rng.randint(1, 8))}
    reads: dict[str, dict[str, Port]] = {stage: {} for stage in stages}
    writes: dict[str, dict[str, Port]] = {stage: {} for stage in stages}
    wires: list[Wire] = []

    def read(source: str, stage: str) -> None:
        name = f"r{len(reads[stage])}"
        reads[stage][name] = port
        wires.append(Wire(source, f"{stage}/{name}"))

    def write(stage: str) -> str:
        name = f"w{len(writes[stage])}"
        writes[stage][name] = port
        return f"{stage}/{name}"

    for name in inputs:
        for stage in rng.sample(stages, rng.randint(1, min(3, len(stages)))):
            read(f"inputs/{name}", stage)
    outputs: dict[str, Port] = {}
    for index, stage in enumerate(stages):
        for _ in range(rng.randint(1, 3)):
            source, later = write(stage), stages[index + 1 :]
            for target in rng.sample(later, rng.randint(0, min(2, len(later)))):
                read(source, target)
            outputs[f"out{len(outputs)}"] = port
            wires.append(Wire(source, f"outputs/out{len(outputs) - 1}"))
    states: dict[str, State] = {}
    for index in range(rng.randint(0, 5)):
        stage = rng.choice(stages)
        source = rng.choice([f"{stage}/{name}" for name in writes[stage]]) if rng.random() < 0.4 else write(stage)
        states[f"state{index}"] = memory("memory", 1, 2)
        wires.append(Wire(source, f"states/state{index}"))
        for reader in rng.sample(stages, rng.randint(1, min(2, len(stages)))):
            read(f"states/state{index}", reader)
    rng.shuffle(wires)
    return Manifest(
        name=f"random{seed}",
        inputs=inputs,
        outputs=outputs,
        stages={
            stage: Stage(rate="policy", inputs=reads[stage], outputs=writes[stage], artifacts=ONNX) for stage in stages
        },
        wires=tuple(wires),
        states=states,
    )
