"""What the data classes of mjlab and Isaac Lab hold. Both call most things alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ashore.integrations.semantics import Meaning, describe

XYZ = ("x", "y", "z")
_RAD_OR_M = {"revolute": "rad", "prismatic": "m"}
_RATE = {"revolute": "rad/s", "prismatic": "m/s"}
_EFFORT = {"revolute": "N*m", "prismatic": "N"}


def _joint(kind: str, unit: Mapping[str, str], **about: Any) -> Meaning:
    return Meaning(kind=kind, unit=unit, names=("joint_names",), **{"source": "sensor", **about})


def _joint_state() -> dict[str, Meaning]:
    position = "state/joint/position"
    return {
        "joint_pos": _joint(position, _RAD_OR_M),
        "joint_pos_biased": _joint(position, _RAD_OR_M, description="what the encoders read"),
        "joint_vel": _joint("state/joint/velocity", _RATE),
        "joint_acc": Meaning(names=("joint_names",), source="estimator", description="joint accelerations"),
        "applied_torque": _joint("state/joint/effort", _EFFORT),
        "computed_torque": _joint("state/joint/effort", _EFFORT),
        "qfrc_actuator": _joint("state/joint/effort", _EFFORT),
    }


def _body_state(quaternion: tuple[str, ...]) -> dict[str, Meaning]:
    """Poses and velocities of the root, of all bodies and of all sites, in the world and in the root."""
    found: dict[str, Meaning] = {}
    places: tuple[tuple[str, tuple[str, ...]], ...] = (
        *((f"root{point}", ()) for point in ("_link", "_com", "")),
        *((f"body{point}", ("body_names",)) for point in ("_link", "_com", "")),
        *((f"object{point}", ("object_names",)) for point in ("_link", "_com", "")),
        ("site", ("site_names",)),
        ("geom", ("geom_names",)),
    )
    for place, rows in places:
        for frame, suffix in (("world", "_w"), ("base", "_b")):
            about: dict[str, Any] = {"frame": frame, "source": "estimator"}
            parts: dict[str, tuple[str | None, Any, tuple[str, ...]]] = {
                "pos": ("state/body/position", "m", XYZ),
                "quat": ("state/body/rotation", "1", quaternion),
                "pose": ("state/body/pose", ("m",) * 3 + ("1",) * 4, (*XYZ, *(f"q{one}" for one in quaternion))),
                "lin_vel": ("state/body/linear_velocity", "m/s", XYZ),
                "ang_vel": ("state/body/angular_velocity", "rad/s", XYZ),
                "vel": ("state/body/velocity", ("m/s",) * 3 + ("rad/s",) * 3, ("vx", "vy", "vz", "wx", "wy", "wz")),
                "lin_acc": ("state/body/linear_acceleration", "m/s^2", XYZ),
                "ang_acc": ("state/body/angular_acceleration", "rad/s^2", XYZ),
            }
            for part, (kind, unit, names) in parts.items():
                meaning = Meaning(kind=kind, unit=unit, names=(*rows, names), **about)
                found[f"{place}_{part}{suffix}"] = meaning
    found["root_link_ang_vel_b"] = found["root_ang_vel_b"] = Meaning(
        kind="state/body/angular_velocity", unit="rad/s", names=(XYZ,), frame="base", source="sensor"
    )
    return found


def _privileged() -> dict[str, Meaning]:
    """What only a simulator knows."""
    force = Meaning(kind="state/wrench", unit="N", names=("body_names", XYZ), frame="world", source="privileged")
    return {
        "body_external_force": force,
        "body_external_torque": dataclasses.replace(force, unit="N*m"),
        "body_external_wrench": Meaning(
            kind="state/wrench",
            unit=("N",) * 3 + ("N*m",) * 3,
            names=("body_names", ("fx", "fy", "fz", "tx", "ty", "tz")),
            frame="world",
            source="privileged",
        ),
        "qfrc_external": _joint("state/joint/effort", _EFFORT, source="privileged"),
    }


def entity_properties(quaternion: tuple[str, ...]) -> dict[str, Meaning]:
    """Property of an entity's data -> what it means.

    Args:
        quaternion: the order of the elements of quaternions.
    """
    constants = (
        *("default_joint_pos", "default_joint_vel", "default_root_state", "default_root_pose", "default_root_vel"),
        *("default_joint_pos_limits", "joint_pos_limits", "soft_joint_pos_limits", "joint_vel_limits"),
        *("soft_joint_vel_limits", "joint_effort_limits", "joint_stiffness", "joint_damping", "joint_armature"),
        *("joint_friction_coeff", "default_mass", "default_inertia", "encoder_bias", "GRAVITY_VEC_W", "FORWARD_VEC_B"),
        *("gravity_vec_w", "forward_vec_b", "joint_names", "body_names"),
    )
    targets = ("joint_pos_target", "joint_vel_target", "joint_effort_target")
    targets += ("tendon_len_target", "tendon_vel_target", "tendon_effort_target", "site_effort_target")
    gravity = Meaning(kind="state/body/gravity", unit="1", frame="base", names=(XYZ,), source="estimator")
    return {
        **_joint_state(),
        **_body_state(quaternion),
        **_privileged(),
        "projected_gravity_b": gravity,
        "heading_w": Meaning(kind="state/phase", unit="rad", frame="world", source="estimator"),
        **{name: Meaning(role="constant") for name in constants},
        **{name: Meaning(role="target") for name in targets},
    }


def describe_all(owner: str, meanings: Mapping[str, Meaning]) -> None:
    """Describe every property of a class."""
    for name, meaning in meanings.items():
        describe(owner, name, meaning)
