"""What a MuJoCo model can be read by: its joints, its floating base, its sensors, each as a signal with its reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ashore.deploy.mujoco.engine import WXYZ, XYZ, Data, Model, Reader, engine
from ashore.deploy.mujoco.names import Names
from ashore.errors import BindError, suggestion
from ashore.package import Array
from ashore.runtime.robot import Signal

BASE = "base"
"""The frame of the body with the free joint."""


class Joints(NamedTuple):
    """The hinges and slides that have names, in the order of the model."""

    names: tuple[str, ...]
    hinge: Array
    """Whether each is a hinge; otherwise it is a slide."""

    qpos: Array
    """Addresses of the positions."""

    qvel: Array
    """Addresses of the velocities."""

    def units(self, hinge: str, slide: str) -> tuple[str, ...]:
        """A unit for each joint."""
        return tuple(hinge if one else slide for one in self.hinge)


def find_joints(model: Model, names: Names) -> Joints:
    """The joints that a policy can be bound to."""
    kinds = engine().mjtJoint
    ids = [
        index
        for index in range(model.njnt)
        if names.short("joint", index) and model.jnt_type[index] in (kinds.mjJNT_HINGE, kinds.mjJNT_SLIDE)
    ]
    hinge = np.array([model.jnt_type[index] == kinds.mjJNT_HINGE for index in ids], np.bool_)
    known = tuple(names.short("joint", index) for index in ids)
    return Joints(known, hinge, model.jnt_qposadr[ids].copy(), model.jnt_dofadr[ids].copy())


class Base(NamedTuple):
    """The body that floats."""

    body: int
    qpos: int
    """Address of its position, followed by its quaternion, w x y z."""

    qvel: int
    """Address of its linear velocity in the world, followed by its angular velocity in the body."""


def find_base(model: Model, known: Names, name: str | None) -> Base | None:
    """The floating base: the body `name`, or the only free body that carries an actuated joint."""
    free = [index for index in range(model.njnt) if model.jnt_type[index] == engine().mjtJoint.mjJNT_FREE]
    bodies = {int(model.jnt_bodyid[index]): index for index in free}
    names = {known.short("body", body): body for body in bodies}
    if name is not None:
        if name not in names:
            raise BindError(
                f"base: no free body is called {name!r}{suggestion(name, names, f'; there are {[*names]}')}"
            )
        chosen = [names[name]]
    else:
        chosen = [body for body in bodies if body in known.roots]
    if len(chosen) > 1:
        raise BindError(f"{[*names]} all float and carry actuators; say which is the base with base=")
    if not chosen:
        return None
    joint = bodies[chosen[0]]
    return Base(chosen[0], int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint]))


def joint_readers(joints: Joints) -> dict[str, Reader]:
    """Positions, velocities and efforts of all joints."""
    names, qpos, qvel = joints.names, joints.qpos, joints.qvel
    if not names:
        return {}
    position = Signal("state/joint/position", names, joints.units("rad", "m"))
    velocity = Signal("state/joint/velocity", names, joints.units("rad/s", "m/s"))
    effort = Signal("state/joint/effort", names, joints.units("N*m", "N"))
    return {
        "joint_pos": Reader(position, lambda data: data.qpos[qpos]),
        "joint_vel": Reader(velocity, lambda data: data.qvel[qvel]),
        "joint_effort": Reader(effort, lambda data: data.qfrc_actuator[qvel], derived=True),
    }


def base_readers(model: Model, base: Base) -> dict[str, Reader]:
    """Pose, velocities and gravity of the floating base, taken from its free joint."""
    at, rate, down = base.qpos, base.qvel, gravity_direction(model)
    readers = {
        "base_pos": Reader(
            Signal("state/body/position", XYZ, "m", "world"), lambda data: data.qpos[at : at + 3].copy()
        ),
        "base_quat": Reader(
            Signal("state/body/rotation", WXYZ, "1", "world"), lambda data: data.qpos[at + 3 : at + 7].copy()
        ),
        "base_lin_vel": Reader(
            Signal("state/body/linear_velocity", XYZ, "m/s", BASE),
            lambda data: turn_back(data.qpos[at + 3 : at + 7], data.qvel[rate : rate + 3]),
        ),
        "base_ang_vel": Reader(
            Signal("state/body/angular_velocity", XYZ, "rad/s", BASE),
            lambda data: data.qvel[rate + 3 : rate + 6].copy(),
        ),
    }
    if down is not None:
        readers["projected_gravity"] = Reader(
            Signal("state/body/gravity", XYZ, "1", BASE), lambda data: turn_back(data.qpos[at + 3 : at + 7], down)
        )
    return readers


def sensor_readers(model: Model, known: Names, base: Base | None) -> dict[str, Reader]:
    """Every named sensor whose meaning is a kind, by its own name. One that is relative to a frame is left out."""
    sensors, found = engine().mjtSensor, dict[str, Reader]()
    meanings = {
        sensors.mjSENS_GYRO: ("state/body/angular_velocity", XYZ, "rad/s", None),
        sensors.mjSENS_ACCELEROMETER: ("state/body/linear_acceleration", XYZ, "m/s^2", None),
        sensors.mjSENS_VELOCIMETER: ("state/body/linear_velocity", XYZ, "m/s", None),
        sensors.mjSENS_FRAMEPOS: ("state/body/position", XYZ, "m", "world"),
        sensors.mjSENS_FRAMEQUAT: ("state/body/rotation", WXYZ, "1", "world"),
        sensors.mjSENS_FRAMELINVEL: ("state/body/linear_velocity", XYZ, "m/s", "world"),
        sensors.mjSENS_FRAMEANGVEL: ("state/body/angular_velocity", XYZ, "rad/s", "world"),
    }
    down = gravity_direction(model)
    for index in range(model.nsensor):
        name, kind = known.short("sensor", index), int(model.sensor_type[index])
        if not name or kind not in meanings or model.sensor_refid[index] >= 0:
            continue
        meaning, names, unit, frame = meanings[kind]
        here = _frame_of(model, known, index, base)
        where = slice(int(model.sensor_adr[index]), int(model.sensor_adr[index] + model.sensor_dim[index]))
        found[name] = Reader(Signal(meaning, names, unit, frame or here), _slice(where), derived=True)
        if kind == sensors.mjSENS_FRAMEQUAT and down is not None:
            signal = Signal("state/body/gravity", XYZ, "1", here)
            found[f"{name}/gravity"] = Reader(signal, _gravity(where, down), derived=True)
    return found


def _slice(where: slice) -> Callable[[Data], Array]:
    return lambda data: data.sensordata[where].copy()


def _gravity(where: slice, down: Array) -> Callable[[Data], Array]:
    return lambda data: turn_back(data.sensordata[where], down)


def _frame_of(model: Model, known: Names, sensor: int, base: Base | None) -> str:
    """The frame of what a sensor is fixed to: ``base`` if its axes are those of the base, else its own name."""
    types, index = engine().mjtObj, int(model.sensor_objid[sensor])
    kind = model.sensor_objtype[sensor]
    if kind == types.mjOBJ_SITE:
        straight = np.allclose(model.site_quat[index], (1, 0, 0, 0))
        body, name = int(model.site_bodyid[index]), known.short("site", index)
    elif kind in (types.mjOBJ_BODY, types.mjOBJ_XBODY):
        straight = kind == types.mjOBJ_XBODY or np.allclose(model.body_iquat[index], (1, 0, 0, 0))
        body, name = index, known.short("body", index)
    else:
        straight, body, name = False, -1, known.short("sensor", sensor)
    return BASE if base is not None and straight and body == base.body else name


def gravity_direction(model: Model) -> Array | None:
    """The unit vector along gravity in the world, or None where there is no gravity."""
    strength = float(np.linalg.norm(model.opt.gravity))
    return np.asarray(model.opt.gravity / strength) if strength > 0 else None


def turn_back(quat_wxyz: Array, vector_w: Array) -> Array:
    """A vector of the world in the axes of a body.

    Args:
        quat_wxyz: the body's orientation in the world, shape [4].
        vector_w: the vector in the world, shape [3].
    """
    w, axis = quat_wxyz[0], quat_wxyz[1:]
    cross = 2.0 * np.cross(axis, vector_w)
    return np.asarray(vector_w - w * cross + np.cross(axis, cross))
