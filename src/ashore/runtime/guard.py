"""What must not happen on a robot, and what the robot does when it happens.

A policy that fails does not stop its robot: the drives keep what they were last told. So every tick of a bound policy
is looked at before anything is written, and whatever ends a tick early (a NaN, a limit, an old measurement, a late
decision, an error of the robot's own, Ctrl-C) trips the guard: nothing more is written until the next reset, and the
robot is told to hold, to damp or to stop, with the cause.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from ashore.errors import BindError, RobotError, suggestion
from ashore.package import Array, Arrays
from ashore.runtime.robot import Robot
from ashore.spec import Manifest

if TYPE_CHECKING:
    from ashore.runtime.ranges import Alarm, Ranges

AGE = "age_s"
"""What a robot adds to what it has read, if it knows how old its oldest measurement is."""


@dataclass(frozen=True)
class Guard:
    """What trips, and what happens then. Values that are not finite always trip, unless their port allows them."""

    on_trip: Literal["hold", "damp", "stop"] = "hold"
    """What the robot's ``halt(how, cause)`` is called with. A robot without one can only hold: it gets no further
    targets and keeps the last."""

    limits: bool = True
    """Whether the limits of inputs and outputs in the package are kept to."""

    ranges: Literal["warn", "trip", "off"] = "warn"
    """What an input does that is far outside of what the export saw, such as a gravity of 9.81 where unit vectors were
    recorded: a warning in the log and in the bound policy's `alarms`, once for each input, or a trip."""

    jumps: Mapping[str, float] = field(default_factory=dict[str, float])
    """Output -> the most by which any of its elements may change from one write to the next, in the output's unit."""

    max_age_s: float | None = None
    """The oldest that a measurement may be; the robot adds ``age_s`` to what it reads."""

    deadline_s: float | None = None
    """The longest that reading and running may take together. What comes later is not written."""

    def __post_init__(self) -> None:
        """Refuse what could never trip, or always would."""
        numbers = {"max_age_s": self.max_age_s, "deadline_s": self.deadline_s}
        numbers |= {f"jumps[{name!r}]": value for name, value in self.jumps.items()}
        for name, value in numbers.items():
            if value is not None and not value > 0:
                raise BindError(f"guard: {name}: expected a number above 0, got {value!r}")
        if self.on_trip not in ("hold", "damp", "stop"):
            raise BindError(f"guard: on_trip: expected 'hold', 'damp' or 'stop', got {self.on_trip!r}")
        if self.ranges not in ("warn", "trip", "off"):
            raise BindError(f"guard: ranges: expected 'warn', 'trip' or 'off', got {self.ranges!r}")


class _Bounds(NamedTuple):
    """The limits of a port, as arrays that fit its last axis."""

    lower: Array
    upper: Array
    names: tuple[str, ...] | None

    def problem(self, value: Array) -> str | None:
        outside = (value < self.lower) | (value > self.upper)  # NaN is not outside; the policy has refused it already
        if not outside.any():
            return None
        at = tuple(int(index) for index in np.argwhere(outside)[0])
        lower, upper = (np.broadcast_to(side, value.shape)[at] for side in (self.lower, self.upper))
        label = repr(self.names[at[-1]]) if self.names else f"element {list(at)}"
        return f"{label} is {float(value[at]):g}, outside of {lower:g} to {upper:g}"


class Watch:
    """A guard on duty: it knows the policy that it looks at, and what that has written so far.

    Args:
        guard: what to look for.
        manifest: of the policy.
        robot: whose ``halt`` is called.
        ranges: what the inputs were while the policy was recorded, if that is known.
    """

    def __init__(self, guard: Guard, manifest: Manifest, robot: Robot, ranges: Ranges | None = None) -> None:
        from ashore.runtime.ranges import RangeWatch  # a policy without a robot does not pay for it

        self._guard = guard
        self._ranges = RangeWatch(ranges if guard.ranges != "off" else None)
        ports = {"input": manifest.inputs, "output": manifest.outputs}
        self._bounds = {
            (group, name): _Bounds(
                _side(port.limits.lower, -np.inf),
                _side(port.limits.upper, np.inf),
                port.element_names[-1] if port.element_names else None,
            )
            for group, members in ports.items()
            for name, port in members.items()
            if guard.limits and port.limits is not None
        }
        self._halt: Callable[[str, str], object] | None = getattr(robot, "halt", None)
        self._last: dict[str, Array] = {}
        self.cause: str | None = None
        """Why it has tripped, or None."""

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """Inputs that were far outside of what the export saw, each once."""
        return tuple(self._ranges.alarms)

    def reset(self) -> None:
        """Start an episode."""
        self._last.clear()
        self.cause = None
        if self._guard.ranges == "trip":
            self._ranges.reset()

    def check_read(self, values: Mapping[str, Array]) -> None:
        """Look at what the robot has read: how old it is."""
        limit = self._guard.max_age_s
        if limit is None or not values:
            return
        if AGE not in values:
            raise RobotError(f"guard: max_age_s is {limit:g}, but the robot adds no {AGE!r} to what it reads")
        age = float(values[AGE])
        if not age <= limit:
            raise RobotError(f"guard: the oldest measurement is {age:g} s old, the most is {limit:g} s")

    def check_inputs(self, inputs: Arrays) -> None:
        """Look at what the policy is given."""
        self._check_limits("input", inputs)
        fresh = self._ranges.look(inputs)
        if fresh and self._guard.ranges == "trip":
            raise RobotError(f"guard: {fresh[0].message}")

    def check_outputs(self, outputs: Arrays, elapsed_s: float) -> None:
        """Look at what the policy has computed, before it is written."""
        limit = self._guard.deadline_s
        if limit is not None and elapsed_s > limit:
            raise RobotError(f"guard: reading and running took {elapsed_s:.4g} s, the deadline is {limit:g} s")
        self._check_limits("output", outputs)
        for name, most in self._guard.jumps.items():
            if name not in outputs:
                continue
            last, value = self._last.get(name), outputs[name]
            jump = 0.0 if last is None else float(np.abs(value - last).max())
            if jump > most:
                raise RobotError(f"guard: output {name!r} jumped by {jump:.4g}, the most is {most:g}")
            self._last[name] = value.copy()

    def trip(self, error: BaseException) -> None:
        """Tell the robot that nothing more will come, and why."""
        self.cause = str(error) if isinstance(error, RobotError) else f"{type(error).__name__}: {error}"
        if self._halt is not None:
            self._halt(self._guard.on_trip, self.cause)

    def _check_limits(self, group: str, values: Arrays) -> None:
        for (one, name), bounds in self._bounds.items():
            if one == group and name in values and (problem := bounds.problem(values[name])):
                raise RobotError(f"guard: {group} {name!r}: {problem}")


def guard_problems(guard: Guard, manifest: Manifest, robot: Robot) -> list[str]:
    """What keeps a guard from doing its duty with this policy and this robot."""
    problems = [
        f"guard: jumps: the policy has no output {name!r}{suggestion(name, manifest.outputs)}"
        for name in guard.jumps
        if name not in manifest.outputs
    ]
    if guard.on_trip != "hold" and not callable(getattr(robot, "halt", None)):
        problems.append(f"guard: on_trip={guard.on_trip!r} needs a robot with a method halt(how, cause)")
    return problems


def _side(given: float | tuple[float | None, ...] | None, free: float) -> Array:
    """A side of a limit as an array; what has no limit there is `free`."""
    if isinstance(given, tuple):
        return np.array([free if one is None else one for one in given])
    return np.array(free if given is None else given)
