"""What a policy is bound to: the protocol that a robot follows, real or simulated.

A robot says once, by `Signal`s, what it can read and what it accepts: a kind, the names of the elements in the robot's
own order, a unit. `ashore.runtime.binding` finds out which signal belongs to which port and does the reordering, so
that a robot never has to know the order of a policy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ashore.errors import BindError
from ashore.package import Array
from ashore.spec import JOINT_KINDS, QUATERNION_KINDS, Joint, Port, Timing
from ashore.spec.kinds import kind_problem

DIRECTED_KINDS = JOINT_KINDS - {"kp", "kd"}
"""Kinds whose elements change their sign where a joint turns the other way round. Gains do not."""


@dataclass(frozen=True)
class Signal:
    """One array that a robot reads or accepts, in the robot's own order."""

    kind: str
    """What it means, from the vocabulary of kinds, such as ``state/joint/position``."""

    names: tuple[str, ...] = ()
    """The elements of the last axis: joint names, ``x y z``, or ``w x y z`` for a quaternion. Empty: they have none."""

    unit: str | tuple[str, ...] | None = None
    """One unit for all elements, or one for each."""

    frame: str | None = None
    """The coordinate frame of the values, such as ``"base"`` or ``"world"``; None is not checked."""

    shape: tuple[int, ...] = ()
    """The shape of the array, without a batch axis. Left out, it is one number for each name, in each row."""

    rows: tuple[str, ...] = ()
    """The elements of the axis before the last, such as the bodies whose positions these are. Empty: there is none."""

    signs: tuple[int, ...] = ()
    """Joints only, 1 or -1 for each name: -1 is a joint whose positive direction on the robot is the policy's negative
    one. Left out, all are 1."""

    by_name: bool = False
    """Whether only a port that names this signal is bound to it, not one that is merely of its kind."""

    to_order: str = ""
    """Given, the robot makes the array as a port asks for it, such as an image of the port's size. Its shape is then
    the port's own, with the batch axis, and `Setup.orders` says what is asked for. This is the key of the port's
    metadata that says how; a port that has this key is bound to nothing else."""

    def __post_init__(self) -> None:
        """Refuse what cannot be bound to anything, where it is written down."""
        for given in ("names", "rows", "signs"):
            object.__setattr__(self, given, tuple(getattr(self, given)))
        rows = (len(self.rows),) if self.rows else ()
        object.__setattr__(self, "shape", tuple(self.shape) or (() if self.to_order else (*rows, len(self.names))))
        units = (self.unit,) if isinstance(self.unit, str) else tuple(self.unit or ())
        if problem := kind_problem(self.kind, units):
            raise BindError(f"signal: {problem}")
        if problem := self._problem():
            raise BindError(f"signal of kind {self.kind!r}: {problem}")

    def _problem(self) -> str | None:
        for names in (self.names, self.rows):
            for name, count in Counter(names).items():
                if count > 1:
                    return f"the name {name!r} stands {count} times in {list(names)}"
        if self.signs and self.kind not in DIRECTED_KINDS:
            return "signs are for joints, and not for their gains"
        if self.signs and (len(self.signs) != len(self.names) or not {*self.signs} <= {1, -1}):
            return f"signs: expected 1 or -1 for each of {list(self.names)}, got {list(self.signs)}"
        if self.to_order:
            return "what is made to order has neither names nor a shape" if self.names or self.shape else None
        if not self.names and (self.kind in JOINT_KINDS or self.kind in QUATERNION_KINDS):
            return "names: expected the names of its elements, in order, got none"
        if min(self.shape) < 1 or (self.names and self.shape[-1] != len(self.names)):
            return f"{len(self.names)} names do not fit the shape {list(self.shape)}"
        if self.rows and (not self.names or self.shape[:-1] != (len(self.rows),)):
            return f"{len(self.rows)} rows of {len(self.names)} names do not fit the shape {list(self.shape)}"
        if not isinstance(self.unit, str | None) and len(self.unit) != self.shape[-1]:
            return f"{len(self.unit)} units for a last axis of {self.shape[-1]}"
        return None


@dataclass(frozen=True)
class Setup:
    """What a package asks of a robot before it is driven."""

    joints: tuple[Joint, ...]
    """The joints of the package: gains, effort limits and default positions, where the export knew them. Positions are
    in the robot's own directions, as `Signal.signs` has them."""

    timing: Timing | None
    """How often the policy decides and acts."""

    reads: tuple[str, ...]
    """The signals that will be read."""

    writes: Mapping[str, tuple[str, ...]]
    """Signal that will be written -> the names of the elements that will come, in the robot's order. That is all of
    them, unless several signals share the joints (positions for the legs, velocities for the wheels)."""

    orders: Mapping[str, Port] = field(default_factory=dict[str, Port])
    """Signal that is made to order, and will be read -> the port that it is made for."""


class Robot(Protocol):
    """A robot, real or simulated. Arrays have no batch axis and are in the order and unit of their `Signal`.

    Quaternions are ``w x y z``, unless their signal names another order. Vectors are in the frame that their signal
    says. Calls come from one thread: `configure` once, then `reset`, then `read` and `write` in turn.

    A robot may also have ``halt(how, cause)``, which a `Guard` calls when it has tripped; `how` is ``"hold"``,
    ``"damp"`` or ``"stop"``.
    """

    @property
    def reads(self) -> Mapping[str, Signal]:
        """Name of a signal -> what can be read by it."""
        ...

    @property
    def writes(self) -> Mapping[str, Signal]:
        """Name of a signal -> what is accepted by it. Each of its joints has to be driven by the policy."""
        ...

    def configure(self, setup: Setup) -> None:
        """Take over gains and limits, or refuse what cannot be done by raising an `AshoreError`."""
        ...

    def reset(self) -> None:
        """Go to where an episode starts, by default the default positions of the package; returns when there."""
        ...

    def read(self, names: Sequence[str]) -> Mapping[str, Array]:
        """What the robot measures now.

        Args:
            names: the signals that are needed; there may be more in what is returned.

        Returns:
            Signal -> array of the signal's shape, of numbers that fit the port's dtype (floats for a float port). If
            it also holds ``age_s``, that is how old the oldest measurement is, for `Guard.max_age_s`.
        """
        ...

    def write(self, values: Mapping[str, Array]) -> None:
        """Act.

        Args:
            values: signal -> float64 array, one number for each name in `Setup.writes`. They are the robot's to keep.
        """
        ...
