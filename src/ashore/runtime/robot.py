"""What a policy is bound to: the protocol that a robot follows, real or simulated.

A robot says once, by `Signal`s, what it can read and what it accepts: a kind, the names of the elements in the robot's
own order, a unit. `ashore.runtime.binding` finds out which signal belongs to which port and does the reordering, so
that a robot never has to know the order of a policy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ashore.errors import BindError
from ashore.package import Array
from ashore.spec import JOINT_KINDS, QUATERNION_KINDS, Joint, Timing
from ashore.spec.kinds import kind_problem


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
    """The shape of the array, without a batch axis. Left out, it is one number for each name."""

    def __post_init__(self) -> None:
        """Refuse what cannot be bound to anything, where it is written down."""
        object.__setattr__(self, "names", tuple(self.names))
        object.__setattr__(self, "shape", tuple(self.shape) or (len(self.names),))
        units = (self.unit,) if isinstance(self.unit, str) else tuple(self.unit or ())
        where = f"signal of kind {self.kind!r}"
        if problem := kind_problem(self.kind, units):
            raise BindError(f"signal: {problem}")
        for name, count in Counter(self.names).items():
            if count > 1:
                raise BindError(f"{where}: the name {name!r} stands {count} times in {list(self.names)}")
        if not self.names and (self.kind in JOINT_KINDS or self.kind in QUATERNION_KINDS):
            raise BindError(f"{where}: names: expected the names of its elements, in order, got none")
        if min(self.shape) < 1 or (self.names and self.shape[-1] != len(self.names)):
            raise BindError(f"{where}: {len(self.names)} names do not fit the shape {list(self.shape)}")
        if not isinstance(self.unit, str | None) and len(self.unit) != self.shape[-1]:
            raise BindError(f"{where}: {len(self.unit)} units for a last axis of {self.shape[-1]}")


@dataclass(frozen=True)
class Setup:
    """What a package asks of a robot before it is driven."""

    joints: tuple[Joint, ...]
    """The joints of the package: gains, effort limits and default positions, where the export knew them."""

    timing: Timing | None
    """How often the policy decides and acts."""

    reads: tuple[str, ...]
    """The signals that will be read."""

    writes: Mapping[str, tuple[str, ...]]
    """Signal that will be written -> the names of the elements that will come, in the robot's order. That is all of
    them, unless several signals share the joints (positions for the legs, velocities for the wheels)."""


class Robot(Protocol):
    """A robot, real or simulated. Arrays have no batch axis and are in the order and unit of their `Signal`.

    Quaternions are ``w x y z``, unless their signal names another order. Vectors are in the frame that their signal
    says. Calls come from one thread: `configure` once, then `reset`, then `read` and `write` in turn.
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
            Signal -> array of the signal's shape, of numbers that fit the port's dtype (floats for a float port).
        """
        ...

    def write(self, values: Mapping[str, Array]) -> None:
        """Act.

        Args:
            values: signal -> float64 array, one number for each name in `Setup.writes`. They are the robot's to keep.
        """
        ...
