"""The vocabulary of kinds: what a port means to a robot, and in which units it may come.

A kind is a path such as ``state/joint/position``. It is what a robot is bound by, so a misspelt one must not pass:
kinds outside this table are refused unless they start with ``custom/``, which is how users add their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ashore.errors import suggestion

CUSTOM_PREFIX = "custom/"

_ANGLE_OR_LENGTH = ("rad", "deg", "m", "1")
_ANGULAR_OR_LINEAR_RATE = ("rad/s", "deg/s", "m/s", "1")
_TORQUE_OR_FORCE = ("N*m", "N", "1")
_POSE = ("m", "1", "rad")
_TWIST = ("m/s", "rad/s", "1")

KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        # What the robot measures or estimates.
        "state/joint/position": _ANGLE_OR_LENGTH,
        "state/joint/velocity": _ANGULAR_OR_LINEAR_RATE,
        "state/joint/effort": _TORQUE_OR_FORCE,
        "state/body/pose": _POSE,
        "state/body/position": ("m",),
        "state/body/rotation": ("1", "rad"),
        "state/body/velocity": _TWIST,
        "state/body/linear_velocity": ("m/s", "1"),
        "state/body/angular_velocity": ("rad/s", "deg/s", "1"),
        "state/body/acceleration": ("m/s^2", "rad/s^2"),
        "state/body/linear_acceleration": ("m/s^2",),
        "state/body/angular_acceleration": ("rad/s^2",),
        "state/body/gravity": ("1", "m/s^2"),
        "state/wrench": ("N", "N*m"),
        "state/vector3d": (),
        "state/contact": ("1", "N", "N*m", "s"),
        "state/gripper": ("1", "m", "rad"),
        "state/phase": ("1", "rad", "s"),
        "sensor/image/rgb": ("1",),
        "sensor/image/depth": ("m", "mm", "1"),
        "sensor/image/segmentation": ("1",),
        "sensor/height_scan": ("m", "1"),
        "observation": (),
        # What somebody asks of the robot.
        "command/joint/position": _ANGLE_OR_LENGTH,
        "command/joint/velocity": _ANGULAR_OR_LINEAR_RATE,
        "command/joint/torques": _TORQUE_OR_FORCE,
        "command/body/pose": _POSE,
        "command/body/position": ("m",),
        "command/body/rotation": ("1", "rad"),
        "command/body/velocity": _TWIST,
        "command/gripper": ("1", "m", "rad"),
        "command/language": (),
        "command/scalar": (),
        # A motion to follow.
        "reference/joint/position": _ANGLE_OR_LENGTH,
        "reference/joint/velocity": _ANGULAR_OR_LINEAR_RATE,
        "reference/body/pose": _POSE,
        "reference/body/position": ("m",),
        "reference/body/rotation": ("1", "rad"),
        "reference/body/velocity": _TWIST,
        "reference/motion": (),
        # What the policy sends out.
        "target/joint/position": _ANGLE_OR_LENGTH,
        "target/joint/velocity": _ANGULAR_OR_LINEAR_RATE,
        "target/joint/effort": _TORQUE_OR_FORCE,
        "target/joint/torques": _TORQUE_OR_FORCE,
        "target/body/position": ("m",),
        "target/body/orientation": ("1", "rad"),
        "target/body/pose": _POSE,
        "target/body/linear_velocity": ("m/s",),
        "target/body/velocity": _TWIST,
        "target/body/linear_acceleration": ("m/s^2",),
        "target/body/angular_acceleration": ("rad/s^2",),
        "target/gripper": ("1", "m", "rad"),
        "kp": ("N*m/rad", "N/m", "1"),
        "kd": ("N*m*s/rad", "N*s/m", "1"),
        "action": (),
        # What a generating policy starts from.
        "noise": (),
    }
)
"""Kind -> the units its elements may have; an empty tuple leaves the unit free."""

QUATERNION_KINDS = frozenset(
    {
        "state/body/rotation",
        "command/body/rotation",
        "reference/body/rotation",
        "target/body/orientation",
    }
)
"""Kinds whose four-element form is a quaternion, so that the order of its elements has to be named."""

POSE_KINDS = frozenset(kind for kind in KINDS if kind.endswith("/pose"))
"""Kinds that mix a position and a rotation, so that their elements have to be named."""

JOINT_KINDS = frozenset(kind for kind in KINDS if "/joint/" in kind) | {"kp", "kd"}
"""Kinds whose last axis runs over joints."""


def kind_problem(kind: str, units: tuple[str, ...]) -> str | None:
    """Say what is wrong with a kind and the units its elements claim, or None.

    Args:
        kind: the path to check.
        units: every unit named by the port, in any order.
    """
    if kind.startswith(CUSTOM_PREFIX) and len(kind) > len(CUSTOM_PREFIX):
        return None
    allowed = KINDS.get(kind)
    if allowed is None:
        return f"unknown kind {kind!r}" + suggestion(kind, KINDS, f"; kinds of your own start with {CUSTOM_PREFIX!r}")
    wrong = [unit for unit in units if allowed and unit not in allowed]
    if wrong:
        return f"a port of kind {kind!r} is in {' or '.join(allowed)}, not in {wrong[0]!r}"
    return None
