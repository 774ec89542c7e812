"""What a user can say about a tensor, in the words that scripts written for LEAPP use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ashore.capture.contract import PortInfo
from ashore.errors import InputError
from ashore.spec import KINDS
from ashore.spec.kinds import CUSTOM_PREFIX


class InputKindEnum(Enum):
    """Kinds of inputs."""

    JOINT_POSITION = "state/joint/position"
    JOINT_VELOCITY = "state/joint/velocity"
    JOINT_EFFORT = "state/joint/effort"
    BODY_POSE = "state/body/pose"
    BODY_VEL = "state/body/velocity"
    BODY_ACC = "state/body/acceleration"
    BODY_LINEAR_ACCELERATION = "state/body/linear_acceleration"
    BODY_LINEAR_VELOCITY = "state/body/linear_velocity"
    BODY_ANGULAR_ACCELERATION = "state/body/angular_acceleration"
    BODY_ANGULAR_VELOCITY = "state/body/angular_velocity"
    BODY_ROTATION = "state/body/rotation"
    BODY_POSITION = "state/body/position"
    WRENCH = "state/wrench"
    VECTOR3D = "state/vector3d"
    COMMAND_JOINT_POSITION = "command/joint/position"
    COMMAND_JOINT_VELOCITY = "command/joint/velocity"
    COMMAND_JOINT_TORQUES = "command/joint/torques"
    COMMAND_BODY_ROTATION = "command/body/rotation"
    COMMAND_BODY_VELOCITY = "command/body/velocity"
    COMMAND_POSE = "command/body/pose"


class OutputKindEnum(Enum):
    """Kinds of outputs."""

    KP = "kp"
    KD = "kd"
    JOINT_POSITION = "target/joint/position"
    JOINT_VELOCITY = "target/joint/velocity"
    JOINT_TORQUES = "target/joint/torques"
    JOINT_EFFORT = "target/joint/effort"
    BODY_POSITION = "target/body/position"
    BODY_LINEAR_ACCELERATION = "target/body/linear_acceleration"
    BODY_ORIENTATION = "target/body/orientation"
    BODY_LINEAR_VELOCITY = "target/body/linear_velocity"
    BODY_ANGULAR_ACCELERATION = "target/body/angular_acceleration"


@dataclass(frozen=True)
class TemporalAxis:
    """Marks an axis of `element_names` as time, with so many milliseconds between its elements."""

    period_ms: float

    def __post_init__(self) -> None:
        if not self.period_ms > 0:
            raise InputError(f"TemporalAxis: period_ms must be positive, got {self.period_ms}")


@dataclass
class GraphConfigs:
    """What is said about a pipeline as a whole."""

    frequency: float | None = None
    """Decisions per second."""

    extra: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.frequency is not None and not self.frequency > 0:
            raise InputError(f"GraphConfigs: frequency must be positive, got {self.frequency}")


@dataclass
class TensorSemantics:
    """A tensor, its name, and what it means."""

    name: str
    ref: Any
    kind: InputKindEnum | OutputKindEnum | str | None = None
    element_names: Sequence[Any] | str | None = None
    """Names of the elements along the last axis, or for each axis a list of names, None, or a `TemporalAxis`."""

    extra: Mapping[str, Any] | None = None
    """Anything else; fields that a port has, such as ``unit`` or ``frame``, go there."""

    def info(self) -> PortInfo:
        """The same, as what a port is made of."""
        extra = dict(self.extra or {})
        known = {key: extra.pop(key) for key in _FIELDS & extra.keys()}
        if "isaaclab_connection" in extra:
            known.setdefault("connection", extra["isaaclab_connection"])
        names = [self.element_names] if isinstance(self.element_names, str) else self.element_names
        if names is not None and any(isinstance(axis, TemporalAxis) for axis in names):
            periods = [axis.period_ms for axis in names if isinstance(axis, TemporalAxis)]
            if len(periods) > 1:
                raise InputError(f"{self.name!r}: element_names has {len(periods)} temporal axes; there can be one")
            extra["temporal_period_ms"] = periods[0]
            names = [None if isinstance(axis, TemporalAxis) else axis for axis in names]
        kind = self.kind
        if isinstance(kind, str) and kind not in KINDS and not kind.startswith(CUSTOM_PREFIX):
            kind = CUSTOM_PREFIX + kind
        return PortInfo(kind=kind, element_names=names, metadata=extra, **known)


_FIELDS = frozenset({"unit", "frame", "source", "limits", "finite", "connection", "description"})
