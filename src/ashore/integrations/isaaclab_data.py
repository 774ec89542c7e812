"""What the data classes, sensors and commands of Isaac Lab hold. They are named by text: nothing of it is imported.

Since 3.0 the classes described here are the bases that the backends (Newton, PhysX) inherit from; in 2.x they are the
classes themselves. Isaac Lab 2.x has quaternions as w, x, y, z, later versions as x, y, z, w.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch

from ashore.deploy.arrays import is_proxy, is_warp_array
from ashore.integrations.semantics import Described, Meaning, describe
from ashore.integrations.vocabulary import XYZ, entity_properties
from ashore.spec.manifest import Source

Order: TypeAlias = tuple[str, ...]
"""The order of the elements of a quaternion; empty where it is not known."""

WXYZ: Order = ("w", "x", "y", "z")
XYZW: Order = ("x", "y", "z", "w")
_ORDERS: tuple[Order, ...] = (WXYZ, XYZW, ())


def quaternion_order(value: Any) -> Order:
    """In which order this version of Isaac Lab has quaternions; empty where that cannot be told.

    What its documentation says was wrong before, so its own arithmetic is asked: which quaternion turns nothing?
    Without it, the type of the array tells: Warp's quaternions and transforms are x, y, z, w by definition.

    Args:
        value: the property that holds a quaternion.
    """
    math = sys.modules.get("isaaclab.utils.math")
    matrix = getattr(math, "matrix_from_quat", None)
    if matrix is not None:
        last, first = (matrix(torch.tensor([one])) for one in ([0.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0]))
        turns_nothing = [torch.allclose(one.reshape(3, 3), torch.eye(3)) for one in (first, last)]
        return {(True, False): WXYZ, (False, True): XYZW}.get((turns_nothing[0], turns_nothing[1]), ())
    array = value.warp if is_proxy(value) else value
    if is_warp_array(array):
        warp = sys.modules["warp"]
        return XYZW if array.dtype in (warp.quatf, warp.quatd, warp.transformf, warp.transformd) else ()
    return ()


def _ordered(name: str, make: Callable[[Order], Meaning]) -> Callable[[Any], Meaning]:
    made = {order: make(order) for order in _ORDERS}
    return lambda data: made[quaternion_order(getattr(data, name, None))]


def describe_ordered(owner: str, name: str, make: Callable[[Order], Meaning]) -> None:
    """Describe a property of a class whose meaning depends on the order of quaternions."""
    plain = make(WXYZ)
    described: Described = plain if plain == make(XYZW) else _ordered(name, make)
    describe(owner, name, described)


# --- articulations and objects ----------------------------------------------------------------------------------------

_CONSTANTS = (
    *(
        f"{prefix}joint_{what}"
        for prefix in ("", "default_")
        for what in ("limits", "stiffness", "damping", "armature")
    ),
    *("joint_friction", "joint_friction_coeff", "joint_velocity_limits", "gear_ratio", "body_mass", "body_inertia"),
    *(
        "joint_dynamic_friction_coeff",
        "joint_viscous_friction_coeff",
        "joint_pos_limits_lower",
        "joint_pos_limits_upper",
    ),
    *("default_joint_friction", "default_joint_friction_coeff", "default_joint_viscous_friction_coeff"),
    *("body_com_pose_b", "body_com_pos_b", "body_com_quat_b", "com_pos_b", "com_quat_b", "default_object_state"),
    *(
        f"{prefix}{tendon}_tendon_{what}"
        for prefix in ("", "default_")
        for tendon in ("fixed", "spatial")
        for what in ("stiffness", "damping", "limit_stiffness", "rest_length", "offset", "pos_limits", "limit")
    ),
)
_TWIST = ("vx", "vy", "vz", "wx", "wy", "wz")


def _pose_names(order: Order) -> tuple[str, ...]:
    return (*XYZ, *(f"q{one}" for one in order)) if order else ()


def _pose(order: Order, kind: str, source: Source, rows: tuple[str, ...] = (), **about: Any) -> Meaning:
    names = _pose_names(order)
    return Meaning(
        kind=kind, unit=("m",) * 3 + ("1",) * 4, names=(*rows, names) if names else (), source=source, **about
    )


def _entity(order: Order) -> dict[str, Meaning]:
    """Property of an articulation or object -> what it means."""
    known = entity_properties(order or WXYZ)
    if not order:  # names would be a guess, so there are none; without them the export sets the kind aside
        for name, meaning in known.items():
            if meaning.kind in ("state/body/rotation", "state/body/pose"):
                known[name] = Meaning(kind=meaning.kind, frame=meaning.frame, source=meaning.source)
    acceleration = ("m/s^2",) * 3 + ("rad/s^2",) * 3
    for place in ("root", "body", "object"):
        rows = {"body": ("body_names",), "object": ("object_names",)}.get(place, ())
        for point in ("", "_link", "_com"):
            names = (*XYZ, *(f"q{one}" for one in order), *_TWIST) if order else ()
            known[f"{place}{point}_state_w"] = Meaning(
                kind=f"custom/{place}/state",
                names=(*rows, names) if names else (),
                frame="world",
                source="estimator",
                description="position, quaternion, linear and angular velocity",
            )
            known[f"{place}{point}_acc_w"] = Meaning(
                kind="state/body/acceleration",
                unit=acceleration,
                names=(*rows, _TWIST),
                frame="world",
                source="estimator",
            )
    for name, what in (
        ("body_link_jacobian_w", "Jacobians of the links"),
        ("body_com_jacobian_w", "Jacobians of the centres of mass"),
        ("mass_matrix", "the mass matrix"),
        ("gravity_compensation_forces", "joint efforts that hold the robot against gravity"),
    ):
        description = f"{what}, from a model of the robot"
        known[name] = Meaning(kind=f"custom/model/{name}", source="estimator", description=description)
    return {**known, **{name: Meaning(role="constant") for name in _CONSTANTS}}


def _describe_entities() -> None:
    tables = {order: _entity(order) for order in _ORDERS}
    for folder, label in (
        ("articulation", "Articulation"),
        ("rigid_object", "RigidObject"),
        ("rigid_object_collection", "RigidObjectCollection"),
    ):
        module = f"isaaclab.assets.{folder}"
        for owner in (f"{module}.base_{folder}_data.Base{label}Data", f"{module}.{folder}_data.{label}Data"):
            for name in tables[WXYZ]:
                describe_ordered(owner, name, lambda order, name=name: tables[order][name])


# --- sensors ----------------------------------------------------------------------------------------------------------


def _vector(kind: str, unit: str, source: Source, rows: tuple[str, ...] = (), **about: Any) -> Meaning:
    return Meaning(kind=kind, unit=unit, names=(*rows, XYZ), source=source, **about)


def _quaternion(order: Order, rows: tuple[str, ...] = (), **about: Any) -> Meaning:
    return Meaning(
        kind="state/body/rotation", unit="1", names=(*rows, order) if order else (), source="estimator", **about
    )


def _frames(order: Order, prefix: str, suffix: str, rows: tuple[str, ...], frame: str) -> dict[str, Meaning]:
    """A pose of a sensor or of its frames, together and in its parts."""
    return {
        f"{prefix}pose{suffix}": _pose(order, "state/body/pose", "estimator", rows, frame=frame),
        f"{prefix}pos{suffix}": _vector("state/body/position", "m", "estimator", rows, frame=frame),
        f"{prefix}quat{suffix}": _quaternion(order, rows, frame=frame),
    }


def _inertial(order: Order) -> dict[str, Meaning]:
    return {
        **_frames(order, "", "_w", (), "world"),
        "ang_vel_b": _vector("state/body/angular_velocity", "rad/s", "sensor"),
        "lin_acc_b": _vector("state/body/linear_acceleration", "m/s^2", "sensor"),
        "lin_vel_b": _vector("state/body/linear_velocity", "m/s", "estimator"),
        "ang_acc_b": _vector("state/body/angular_acceleration", "rad/s^2", "estimator"),
        "projected_gravity_b": _vector("state/body/gravity", "1", "estimator"),
    }


def _contact(order: Order) -> dict[str, Meaning]:
    rows = ("sensor_names|body_names",)
    times = ("last_air_time", "current_air_time", "last_contact_time", "current_contact_time")
    forces = ("force_matrix_w", "force_matrix_w_history", "friction_forces_w")
    force: dict[str, Any] = {"kind": "state/contact", "unit": "N", "frame": "world", "source": "sensor"}
    return {
        **_frames(order, "", "_w", rows, "world"),
        "net_forces_w": Meaning(names=(*rows, XYZ), **force),
        "net_forces_w_history": Meaning(names=(*rows, XYZ), description="newest first", **force),
        **{name: Meaning(names=(XYZ,), **force) for name in forces},
        "contact_pos_w": _vector("state/body/position", "m", "privileged", frame="world"),
        **{name: Meaning(kind="state/contact", unit="s", names=rows, source="sensor") for name in times},
    }


def _wrench(order: Order) -> dict[str, Meaning]:
    del order
    return {
        "force": _vector("state/wrench", "N", "sensor", ("body_names",)),
        "torque": _vector("state/wrench", "N*m", "sensor", ("body_names",)),
    }


def _rays(order: Order) -> dict[str, Meaning]:
    points: dict[str, Any] = {
        "source": "sensor",
        "finite": False,
        "description": "where rays hit, infinite where they hit nothing",
    }
    return {
        **_frames(order, "", "_w", (), "world"),
        "ray_hits_w": Meaning(kind="custom/scan/points", unit="m", frame="world", names=(XYZ,), **points),
        "ray_mesh_ids": Meaning(kind="custom/scan/meshes", unit="1", source="sensor"),
    }


def _transforms(order: Order) -> dict[str, Meaning]:
    rows = ("body_names",)
    return {
        **_frames(order, "source_", "_w", (), "world"),
        **_frames(order, "target_", "_w", rows, "world"),
        **_frames(order, "target_", "_source", rows, "source"),
    }


def _camera(order: Order) -> dict[str, Meaning]:
    rotation = {f"quat_w_{one}": _quaternion(order, frame="world") for one in ("world", "ros", "opengl")}
    seen = "distance along the axis, height width 1"
    images = {
        **dict.fromkeys(("rgb", "rgba"), ("sensor/image/rgb", "1", "height width channel, 0 to 255")),
        **dict.fromkeys(("depth", "distance_to_image_plane"), ("sensor/image/depth", "m", seen)),
        "distance_to_camera": ("sensor/image/depth", "m", "distance along the ray, height width 1"),
        **{
            f"{what}_segmentation{suffix}": ("sensor/image/segmentation", "1", "height width channel")
            for what in ("semantic", "instance", "instance_id")
            for suffix in ("", "_fast")
        },
    }
    return {
        "pos_w": _vector("state/body/position", "m", "estimator", frame="world"),
        **rotation,
        "intrinsic_matrices": Meaning(role="constant"),
        **{
            f"output.{name}": Meaning(
                kind=kind, unit=unit, source="sensor", finite=not kind.endswith("depth"), description=text
            )
            for name, (kind, unit, text) in images.items()
        },
    }


_SENSORS: Mapping[str, Callable[[Order], dict[str, Meaning]]] = {
    "imu.base_imu_data.BaseImuData": _inertial,
    "imu.imu_data.ImuData": _inertial,
    "pva.base_pva_data.BasePvaData": _inertial,
    "contact_sensor.base_contact_sensor_data.BaseContactSensorData": _contact,
    "contact_sensor.contact_sensor_data.ContactSensorData": _contact,
    "joint_wrench.base_joint_wrench_sensor_data.BaseJointWrenchSensorData": _wrench,
    "ray_caster.ray_caster_data.RayCasterData": _rays,
    "frame_transformer.base_frame_transformer_data.BaseFrameTransformerData": _transforms,
    "frame_transformer.frame_transformer_data.FrameTransformerData": _transforms,
    "camera.camera_data.CameraData": _camera,
}


def _describe_sensors() -> None:
    for path, table in _SENSORS.items():
        tables = {order: table(order) for order in _ORDERS}
        for name in tables[WXYZ]:
            describe_ordered(f"isaaclab.sensors.{path}", name, lambda order, name=name, made=tables: made[order][name])


# --- commands ---------------------------------------------------------------------------------------------------------

_COMMANDS = "isaaclab.envs.mdp.commands"


def _describe_commands() -> None:
    describe(
        f"{_COMMANDS}.velocity_command.UniformVelocityCommand",
        "command",
        kind="command/body/velocity",
        unit=("m/s", "m/s", "rad/s"),
        frame="base",
        names=(("vx", "vy", "wz"),),
        source="command",
    )
    describe_ordered(
        f"{_COMMANDS}.pose_command.UniformPoseCommand",
        "command",
        lambda order: _pose(order, "command/body/pose", "command", frame="base"),
    )
    describe(
        f"{_COMMANDS}.pose_2d_command.UniformPose2dCommand",
        "command",
        kind="command/body/pose",
        unit=("m", "m", "m", "rad"),
        frame="base",
        names=((*XYZ, "heading"),),
        source="command",
    )


def describe_isaaclab() -> None:
    """Enter everything into the registry."""
    _describe_entities()
    _describe_sensors()
    _describe_commands()
