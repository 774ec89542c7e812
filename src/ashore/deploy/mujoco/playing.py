"""Letting a policy drive a simulated robot for a while, and saying how it went."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter_ns
from typing import NamedTuple

import numpy as np

from ashore.deploy.mujoco.film import Film
from ashore.deploy.mujoco.robot import MujocoRobot
from ashore.errors import BindError, InputError, RobotError
from ashore.package import Array
from ashore.runtime.bound import Bound
from ashore.spec import Port

FALLEN_TILT_RAD = 1.0
"""A floating base that leans more than this has fallen."""

FALLEN_HEIGHT = 0.5
"""So has one that is lower than this part of the height at which it started."""


@dataclass(frozen=True)
class Latency:
    """How long reading, running and writing took together, in microseconds."""

    samples: int
    p50_us: float
    p99_us: float


@dataclass(frozen=True)
class Range:
    """What a quantity was over a run, looked at after every tick."""

    lowest: float
    highest: float
    last: float


@dataclass(frozen=True)
class Tracking:
    """One element of a command against what was measured, over the second half of the run."""

    command: str
    element: str
    unit: str
    asked: float
    """Its mean."""

    measured: float
    """The mean of what the robot did."""

    mean_abs_error: float


@dataclass(frozen=True)
class Play:
    """How a run went."""

    package: str
    seconds: float
    """Simulated."""

    decisions: int
    survived: bool
    """Whether the base stayed up and the simulation stayed finite."""

    ended_by: str | None
    """Why not."""

    height_m: Range | None
    """Of the floating base, where there is one."""

    tilt_rad: Range | None
    """Of its z axis from the vertical."""

    joints: Mapping[str, Range]
    """Joint -> its position, in rad or m."""

    tracking: tuple[Tracking, ...]
    decision: Latency
    """Of the ticks that decide."""

    substep: Latency | None
    """Of the ticks between, where the package has substeps."""

    signals: Mapping[str, str]
    """Port -> the signal of the robot that it was bound to."""

    alarms: tuple[str, ...] = ()
    """Inputs that were far outside of what the export saw."""


def play(
    bound: Bound, *, seconds: float = 10.0, film: Film | None = None, advance: Callable[[], object] = lambda: None
) -> Play:
    """Drive a simulated robot from a reset on, until the time is over or the robot has fallen.

    Args:
        bound: a policy that is bound to a `MujocoRobot`.
        seconds: simulated time.
        film: takes a picture whenever one is due.
        advance: called after every tick, for a progress bar.
    """
    robot = bound.robot
    if not isinstance(robot, MujocoRobot):
        raise BindError(f"play needs a MujocoRobot, got {type(robot).__name__}; drive your own with bound.tick()")
    ticks = ticks_in(robot, seconds)
    bound.reset()
    monitor = _Monitor(bound, robot)
    decisions, substeps = list[int](), list[int]()
    ended_by, begun = None, 0
    for _ in range(ticks):
        taken = decisions if bound.due else substeps
        began = perf_counter_ns()
        begun += 1
        try:
            bound.tick()
            taken.append(perf_counter_ns() - began)
            robot.advance()
        except RobotError as error:
            ended_by = str(error)
            break
        ended_by = monitor.look()
        if film is not None:
            film.look()
        advance()
        if ended_by:
            break
    return Play(
        package=bound.policy.manifest.name,
        seconds=begun * robot.tick_s,
        decisions=len(decisions),
        survived=ended_by is None,
        ended_by=ended_by,
        height_m=monitor.range_of("height"),
        tilt_rad=monitor.range_of("tilt"),
        joints=monitor.joints(),
        tracking=monitor.tracking(),
        decision=_latency(decisions),
        substep=_latency(substeps) if bound.has_substeps and substeps else None,
        signals=dict(bound.signals),
        alarms=tuple(alarm.message for alarm in bound.alarms),
    )


def ticks_in(robot: MujocoRobot, seconds: float) -> int:
    """How many ticks of a bound robot a time takes."""
    if not math.isfinite(seconds) or seconds < robot.tick_s:
        raise InputError(f"seconds: expected at least a tick of {robot.tick_s:g} s, got {seconds:g}")
    return round(seconds / robot.tick_s)


class _Element(NamedTuple):
    """An element of a command, and which measured number it asks for."""

    command: str
    at: int
    label: str
    unit: str
    signal: str
    place: int


class _Monitor:
    """What happened so far."""

    def __init__(self, bound: Bound, robot: MujocoRobot) -> None:
        self._bound, self._robot = bound, robot
        self._base = robot.base is not None
        inputs = bound.policy.manifest.inputs
        self._elements = [one for name in bound.commands for one in _elements(name, inputs[name], robot)]
        self._asked: list[list[float]] = []
        self._measured: list[list[float]] = []
        self._rows: dict[str, list[float]] = {"height": [], "tilt": []} if self._base else {}
        self._joints: list[Array] = []
        self._start_m = self._height_and_tilt()[0] if self._base else 0.0

    def look(self) -> str | None:
        """Note where everything is after a tick; why the run is over, if it is."""
        if "joint_pos" in self._robot.reads:
            self._joints.append(self._robot.read(("joint_pos",))["joint_pos"])
        if self._elements:
            commands = self._bound.commands
            values = self._robot.read(tuple(dict.fromkeys(one.signal for one in self._elements)))
            self._asked.append([float(commands[one.command].reshape(-1)[one.at]) for one in self._elements])
            self._measured.append([float(values[one.signal][one.place]) for one in self._elements])
        if not self._base:
            return None
        height, tilt = self._height_and_tilt()
        self._rows["height"].append(height)
        self._rows["tilt"].append(tilt)
        at = f"after {self._robot.time_s:.2f} s"
        if tilt > FALLEN_TILT_RAD:
            return f"fell {at}: the base leans {tilt:.2f} rad"
        if self._start_m > 0 and height < FALLEN_HEIGHT * self._start_m:
            return f"fell {at}: the base is at {height:.3f} m, it started at {self._start_m:.3f} m"
        return None

    def _height_and_tilt(self) -> tuple[float, float]:
        values = self._robot.read(("base_pos", "base_quat"))
        _, x, y, _ = values["base_quat"]
        return float(values["base_pos"][2]), math.acos(max(-1.0, min(1.0, 1 - 2 * (x * x + y * y))))

    def range_of(self, row: str) -> Range | None:
        return _range(np.array(self._rows[row])) if self._rows.get(row) else None

    def joints(self) -> dict[str, Range]:
        if not self._joints:
            return {}
        names, rows = self._robot.reads["joint_pos"].names, np.array(self._joints)
        return {name: _range(rows[:, index]) for index, name in enumerate(names)}

    def tracking(self) -> tuple[Tracking, ...]:
        half = len(self._asked) // 2
        asked, measured = np.array(self._asked[half:]), np.array(self._measured[half:])
        if not asked.size:
            return ()
        return tuple(
            Tracking(
                command=one.command,
                element=one.label,
                unit=one.unit,
                asked=float(asked[:, index].mean()),
                measured=float(measured[:, index].mean()),
                mean_abs_error=float(np.abs(asked[:, index] - measured[:, index]).mean()),
            )
            for index, one in enumerate(self._elements)
        )


def _elements(command: str, port: Port, robot: MujocoRobot) -> list[_Element]:
    """What of a command can be compared with what the robot does: velocities of the base, and joints."""
    names = (port.element_names[-1] if port.element_names else None) or ()
    signal = {"command/joint/position": "joint_pos", "command/joint/velocity": "joint_vel"}.get(port.kind or "")
    if signal is not None:
        there = robot.reads[signal].names if signal in robot.reads else ()
        units = {"joint_pos": "rad or m", "joint_vel": "rad/s or m/s"}
        return [
            _Element(command, index, name, units[signal], signal, there.index(name))
            for index, name in enumerate(names)
            if name in there
        ]
    if port.kind != "command/body/velocity" or robot.base is None or port.shape[-1:] != (3,):
        return []
    if isinstance(port.unit, tuple) and port.unit != ("m/s", "m/s", "rad/s"):
        return []
    meaning = (("base_lin_vel", 0, "m/s"), ("base_lin_vel", 1, "m/s"), ("base_ang_vel", 2, "rad/s"))
    labels = names or ("forward", "left", "turn")
    return [
        _Element(command, index, labels[index], unit, signal, place)
        for index, (signal, place, unit) in enumerate(meaning)
    ]


def _range(values: Array) -> Range:
    return Range(float(values.min()), float(values.max()), float(values[-1]))


def _latency(times_ns: list[int]) -> Latency:
    p50, p99 = (float(np.percentile(times_ns, q)) / 1e3 for q in (50, 99))
    return Latency(len(times_ns), p50, p99)
