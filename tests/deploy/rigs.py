"""Small robots in MJCF, and packages that fit them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from onnx.numpy_helper import from_array

import support
from ashore.package import Package, write
from ashore.spec import Artifact, Joint, Port, Timing, single_stage

ARM = """
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <light pos="0 0 3"/>
    <body name="upper" pos="0 0 1">
      <joint name="shoulder" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.03"/>
      <body name="lower" pos="0 0 -0.3">
        <joint name="elbow" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.03"/>
        {more}
      </body>
    </body>
  </worldbody>
  <actuator>{actuators}</actuator>
</mujoco>
"""
SERVOS = (
    '<position name="e" joint="elbow" kp="1" kv="0.1" ctrlrange="-0.1 0.1" ctrllimited="true"/>'
    '<position name="s" joint="shoulder" kp="1"/>'
)
"""In another order than the joints, with gains that are not the package's, and a range that would clip the targets."""

MOTORS = '<motor name="e" joint="elbow" gear="2" ctrlrange="-0.01 0.01"/><motor name="s" joint="shoulder"/>'
CARTPOLE = """
<mujoco>
  <option timestep="0.005" integrator="implicitfast"/>
  <worldbody>
    <body name="cart">
      <joint name="slide" type="slide" axis="1 0 0"/><geom type="box" size="0.1 0.05 0.05" mass="1"/>
      <body name="pole">
        <joint name="hinge" type="hinge" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 0.6" size="0.02" mass="0.1" contype="0" conaffinity="0"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="push" joint="slide"/></actuator>
  <keyframe><key name="tilted" qpos="0.1 0.15"/></keyframe>
</mujoco>
"""
BALANCE = np.array([[35.0], [2.0], [8.0], [3.0]], np.float32)
"""hinge, slide, hinge rate, slide rate -> force on the cart."""

WALKER = """
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1" condim="1"/>
    <light pos="0 0 3"/>
    <body name="trunk" pos="0 0 0.11">
      <freejoint name="root"/>
      <geom type="box" size="0.2 0.2 0.1" mass="3" condim="1"/>
      <site name="imu" pos="0.1 0 0"/><site name="turned" euler="0 0 90"/>
      <body name="tail" pos="0 0 0.1">
        <joint name="tail" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 0.1" size="0.02" mass="0.3" contype="0" conaffinity="0"/>
      </body>
    </body>
    <body name="ball" pos="1 1 0.1"><freejoint/><geom size="0.1"/></body>
  </worldbody>
  <actuator><position name="tail" joint="tail" kp="5" kv="0.1"/></actuator>
  <sensor>
    <gyro name="imu_gyro" site="imu"/><velocimeter name="imu_vel" site="imu"/>
    <accelerometer name="imu_acc" site="imu"/><framequat name="imu_quat" objtype="site" objname="imu"/>
    <gyro name="turned_gyro" site="turned"/>
  </sensor>
</mujoco>
"""
SCENE = """
<mujoco>
  <compiler autolimits="true"/>
  <option timestep="0.005"/>
  <worldbody>
    <light pos="0 0 3"/>
    <geom name="floor" type="plane" size="5 5 1"/>
    <body name="robot/trunk" pos="0 0 0.5" euler="10 20 30">
      <freejoint name="robot/root"/>
      <geom name="robot/trunk" type="box" size="0.2 0.1 0.05" pos="0.05 0.02 0"/>
      <site name="robot/imu" pos="0.1 0 0.02" euler="0 0 90"/>
      <body name="robot/leg" pos="0 0 -0.1">
        <joint name="robot/hip" axis="0 1 0"/>
        <geom name="robot/foot" size="0.05" pos="0.03 0 -0.2"/>
        <site name="robot/toe" pos="0 0 -0.25" euler="0 180 20"/>
      </body>
    </body>
    <body name="cube/cube" pos="1 0 0.3">
      <freejoint name="cube/root"/>
      <geom name="cube/side" type="box" size="0.1 0.1 0.1" pos="0.01 0 0"/>
      <site name="cube/toe" pos="0 0 0.1"/>
    </body>
  </worldbody>
  <actuator><position name="robot/hip" joint="robot/hip" kp="5" kv="0.1"/></actuator>
  <sensor>
    <gyro name="robot/imu_ang_vel" site="robot/imu"/><gyro name="cube/gyro" site="cube/toe"/>
  </sensor>
</mujoco>
"""
"""A robot and a cube, with names as mjlab gives them. Both have a site called toe."""


def arm_xml(actuators: str = SERVOS, more: str = "") -> str:
    return ARM.format(actuators=actuators, more=more)


def save(folder: Path, text: str, name: str = "robot.xml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def port(kind: str | None, unit: Any, names: tuple[str, ...], **more: Any) -> Port:
    return Port(dtype="float32", shape=(1, len(names)), kind=kind, unit=unit, element_names=(None, names), **more)


def linear(
    out: Path,
    inputs: dict[str, Port],
    outputs: dict[str, Port],
    weights: np.ndarray,
    *,
    timing: Timing | None = Timing(policy_dt_s=0.02, physics_dt_s=0.005, decimation=4),  # noqa: B008 - frozen
    joints: tuple[Joint, ...] = (),
) -> Package:
    """One stage: the outputs, side by side, are the inputs, side by side, times `weights`."""
    import onnx.parser

    wide = ", ".join(f"float[1,{one.shape[-1]}] {name}" for name, one in inputs.items())
    given = ", ".join(f"float[1,{one.shape[-1]}] {name}" for name, one in outputs.items())
    sizes = [one.shape[-1] for one in outputs.values()]
    text = f"""policy ({wide}) => ({given}) {{
        obs = Concat<axis = 1>({", ".join(inputs)})
        both = MatMul(obs, weights)
        {", ".join(outputs)} = Split<axis = 1>(both, sizes)
    }}"""
    model = onnx.parser.parse_model(support.HEADER + text)
    model.graph.initializer.extend([from_array(weights, "weights"), from_array(np.array(sizes, np.int64), "sizes")])
    manifest = single_stage(
        out.name, inputs=inputs, outputs=outputs, artifacts={"onnx": Artifact(path="policy.onnx", opset=18)}
    )
    manifest = msgspec.structs.replace(manifest, timing=timing, joints=joints)
    return write(out, manifest, files={"policy.onnx": model.SerializeToString()})


def watcher(out: Path, inputs: dict[str, Port], **changes: Any) -> Package:
    """Gives every input back as an action, which drives nothing: ``joint_pos`` as ``joint_pos_seen``."""
    from onnx import helper

    outputs = {f"{name}_seen": Port(dtype=one.dtype, shape=one.shape, kind="action") for name, one in inputs.items()}
    ends = [
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(one.dtype)), one.shape)
            for name, one in group.items()
        ]
        for group in (inputs, outputs)
    ]
    nodes = [helper.make_node("Identity", [name], [f"{name}_seen"]) for name in inputs]
    opset = [helper.make_opsetid("", 18)]
    model = helper.make_model(helper.make_graph(nodes, "policy", *ends), opset_imports=opset, ir_version=10)
    manifest = single_stage(
        out.name, inputs=inputs, outputs=outputs, artifacts={"onnx": Artifact(path="policy.onnx", opset=18)}
    )
    timing = Timing(policy_dt_s=0.02, physics_dt_s=0.005, decimation=4)
    manifest = msgspec.structs.replace(manifest, **{"timing": timing, **changes})
    return write(out, manifest, files={"policy.onnx": model.SerializeToString()})


ARM_JOINTS = (
    Joint(name="elbow", kp=30.0, kd=0.8, effort_limit=4.0, default_position=0.4),
    Joint(name="shoulder", kp=50.0, kd=1.5, effort_limit=9.0, default_position=-0.2),
)


def reacher(out: Path, names: tuple[str, ...] = ("elbow", "shoulder"), **changes: Any) -> Package:
    """Joint targets are the command plus a little of the position; joints in another order than in the model."""
    n = len(names)
    weights = np.concatenate([0.1 * np.eye(n), np.eye(n)]).astype(np.float32)
    inputs = {
        "joint_pos": port("state/joint/position", "rad", names, source="sensor"),
        "wish": port("command/joint/position", "rad", names, source="command"),
    }
    outputs = {"joint_target": port("target/joint/position", "rad", names)}
    arguments: dict[str, Any] = {"inputs": inputs, "outputs": outputs, "weights": weights}
    joints = tuple(joint for joint in ARM_JOINTS if joint.name in names)
    return linear(out, **{**arguments, "joints": joints, **changes})


def balancer(out: Path, **changes: Any) -> Package:
    """Pushes the cart so that the pole stays up; the hinge comes first, unlike in the model."""
    names = ("hinge", "slide")
    inputs = {
        "q": port("state/joint/position", ("rad", "m"), names),
        "v": port("state/joint/velocity", ("rad/s", "m/s"), names),
    }
    outputs = {"push": port("target/joint/effort", "N", ("slide",))}
    joints = (Joint(name="hinge"), Joint(name="slide", type="prismatic", effort_limit=20.0))
    return linear(out, inputs, outputs, BALANCE, **{"joints": joints, **changes})


def wagger(out: Path, **changes: Any) -> Package:
    """Reads what a floating base measures and moves a tail; takes a velocity command."""
    xyz = ("x", "y", "z")
    inputs = {
        "base_ang_vel": port("state/body/angular_velocity", "rad/s", xyz, frame="base"),
        "projected_gravity": port("state/body/gravity", "1", xyz, frame="base"),
        "velocity": port("command/body/velocity", ("m/s", "m/s", "rad/s"), ("vx", "vy", "wz"), source="command"),
    }
    outputs = {"target": port("target/joint/position", "rad", ("tail",))}
    weights = np.zeros((9, 1), np.float32)
    weights[6] = 0.5
    return linear(out, **{"inputs": inputs, "outputs": outputs, "weights": weights, **changes})
