"""``ashore play``."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from ashore.cli.output import console, print_json, progress, table
from ashore.deploy import Film, Latency, MujocoRobot, Play, Range, play
from ashore.deploy.mujoco.playing import ticks_in
from ashore.errors import InputError
from ashore.runtime import Policy, load
from ashore.runtime.commands import is_command


@dataclass(frozen=True)
class Choices:
    """What the command line says about robot and binding, still as text."""

    commands: Sequence[str]
    signals: Sequence[str]
    unused: Sequence[str]
    idle: Sequence[str]
    prefix: str | None
    base: str | None
    keyframe: str | None
    policy_dt_s: float | None
    camera: str | None
    size: str
    frames_per_s: int


def run(path: Path, mjcf: Path, choices: Choices, *, seconds: float, video: Path | None, as_json: bool) -> bool:
    """Play the package at `path`, print how it went, and say whether the robot stayed up."""
    policy = load(path)
    pictures = video is not None or any(str(port.kind).startswith("sensor/image/") for port in policy.inputs.values())
    if pictures and sys.platform == "linux" and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")  # MuJoCo looks at it when it is imported
    robot = MujocoRobot(
        mjcf, prefix=choices.prefix, base=choices.base, idle=choices.idle, keyframe=choices.keyframe,
        policy_dt_s=choices.policy_dt_s,
    )  # fmt: skip
    commands = _commands(policy, choices.commands)
    bound = policy.bind(robot, commands=commands, signals=_pairs("signal", choices.signals), unused=choices.unused)
    ticks = ticks_in(robot, seconds)
    with _film(robot, video, choices) as film, progress("playing", ticks) as bar:
        report = play(bound, seconds=seconds, film=film, advance=lambda: bar.advance(bar.task_ids[0]))
    if as_json:
        print_json({**asdict(report), "video": str(video) if video else None})
    else:
        _print(report)
        if video is not None:
            print(f"filmed into {video}")
    return report.survived


def _film(robot: MujocoRobot, video: Path | None, choices: Choices) -> Film | nullcontext[None]:
    if video is None:
        return nullcontext()
    width, _, height = choices.size.partition("x")
    if not width.isdecimal() or not height.isdecimal():
        raise InputError(f"--size {choices.size}: expected width and height, such as 640x480")
    size = (int(width), int(height))
    return Film(robot, video, camera=choices.camera, size=size, frames_per_s=choices.frames_per_s)


def _commands(policy: Policy, given: Sequence[str]) -> dict[str, list[float]]:
    """Command -> numbers, from texts such as ``velocity=0.5,0,0`` or, for the only command, ``0.5,0,0``."""
    wanted = [name for name, port in policy.inputs.items() if is_command(port)]
    found: dict[str, list[float]] = {}
    for text in given:
        name, _, numbers = text.rpartition("=")
        if not name and len(wanted) != 1:
            raise InputError(f"--command {text}: say which of {wanted} it is, with NAME={text}")
        name = name or wanted[0]
        if name in found:
            raise InputError(f"--command {text}: {name!r} is given twice")
        try:
            found[name] = [float(number) for number in numbers.split(",")]
        except ValueError as error:
            raise InputError(f"--command {text}: expected numbers with commas between them, got {numbers!r}") from error
    missing = [name for name in wanted if name not in found]
    if missing:
        said = " ".join(f"--command {name}=…" for name in missing)
        raise InputError(f"the policy takes commands that nobody gives: {missing}; use {said}")
    return found


def _pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    for text, (left, _, right) in zip(given, pairs, strict=True):
        if not left or not right:
            raise InputError(f"--{option} {text}: expected PORT=SIGNAL")
    return {left: right for left, _, right in pairs}


def _print(report: Play) -> None:
    out = console()
    how = "stayed up" if report.height_m else "ran through"
    verdict = how if report.survived else str(report.ended_by)
    out.print(
        f"{report.package}: {report.seconds:g} s, {report.decisions} decisions, {verdict}",
        style="green" if report.survived else "red",
    )
    for alarm in report.alarms:
        out.print(f"alarm: {alarm}", style="yellow")
    ranges: dict[str, Range | None] = {"base height, m": report.height_m, "base tilt, rad": report.tilt_rad}
    ranges |= {f"joint {name}": joint for name, joint in report.joints.items()}
    _print_ranges({name: one for name, one in ranges.items() if one is not None})
    if report.tracking:
        shown = table("Commands, over the second half", "command", "element", ">asked", ">measured", ">|error|", "unit")
        for one in report.tracking:
            numbers = (f"{value:.4g}" for value in (one.asked, one.measured, one.mean_abs_error))
            shown.add_row(one.command, one.element, *numbers, one.unit)
        out.print(shown)
    shown = table("Latency: read, run, write", "tick", ">samples", ">p50 µs", ">p99 µs")
    rows: dict[str, Latency | None] = {"decision": report.decision, "substep": report.substep}
    for name, latency in rows.items():
        if latency is not None:
            shown.add_row(name, f"{latency.samples:,}", f"{latency.p50_us:.1f}", f"{latency.p99_us:.1f}")
    out.print(shown)


def _print_ranges(ranges: Mapping[str, Range]) -> None:
    shown = table("", "what", ">lowest", ">highest", ">last")
    for name, one in ranges.items():
        shown.add_row(name, f"{one.lowest:.4g}", f"{one.highest:.4g}", f"{one.last:.4g}")
    if ranges:
        console().print(shown)
