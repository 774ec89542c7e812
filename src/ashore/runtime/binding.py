"""Binding a policy to a robot: which port is which signal is decided once, and every misfit is told at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from ashore.errors import BindError, InputError, PackageError, suggestion
from ashore.package import Array
from ashore.runtime.bound import Bound, Link, Sink, element_name, element_places
from ashore.runtime.commands import Command, as_command, is_command
from ashore.runtime.guard import Guard, Watch, guard_problems
from ashore.runtime.matching import Match, both_sides, match, owners_of
from ashore.runtime.robot import DIRECTED_KINDS, Robot, Setup, Signal
from ashore.spec import RATES, Joint, JointLimits, Manifest, Port, Rate, Wiring, concrete

if TYPE_CHECKING:
    from ashore.runtime.policy import Policy
    from ashore.runtime.ranges import Ranges

_LOG = logging.getLogger("ashore")
_JOINT_TARGET = "target/joint/"
_IDLE = ("action", "observation")
"""Kinds of outputs that drive nothing by themselves."""


def bind(
    policy: Policy,
    robot: Robot,
    *,
    commands: Mapping[str, Command] | None = None,
    signals: Mapping[str, str] | None = None,
    unused: Sequence[str] = (),
    guard: Guard | None = Guard(),  # noqa: B008 - frozen
) -> Bound:
    """Bind a policy to a robot, or say everything that does not fit.

    Args:
        policy: a policy of batch 1.
        robot: what it shall drive.
        commands: input -> its value, a number for each element, or a function that gives it. Every input whose source
            or kind is a command or a reference has to be here; any other input may be, and is then not read from the
            robot.
        signals: port -> signal of the robot, where the kind alone does not decide. The caller vouches for the frame.
        unused: outputs that are not written to the robot. They are still computed and returned.
        guard: what ends an episode, and what the robot does then; None goes on whatever happens.

    Returns:
        The two, bound. Call its `reset` first.

    Raises:
        BindError: something does not fit; the message has all of it, and both sides.
    """
    manifest, given, chosen = policy.manifest, dict(commands or {}), dict(signals or {})
    problems = _unknown(manifest, given, chosen, unused)
    if policy.batch != 1:
        problems.append(f"the policy was loaded with batch={policy.batch}; a robot is one, load it with batch=1")
    inputs, outputs = _split(manifest, given, unused, robot, problems)
    owners = owners_of(manifest)
    links = _matches(inputs, robot.reads, chosen, owners, problems)
    sinks = _matches(outputs, robot.writes, chosen, None, problems)
    graph = Wiring(manifest)
    writes = _check_driven(manifest, graph, robot, sinks, problems)
    orders = _orders(manifest, robot, links, problems)
    flipped = _flipped(robot, problems)
    problems += guard_problems(guard, manifest, robot) if guard is not None else []
    values = {name: _value(name, manifest, value, problems) for name, value in given.items()}
    if problems:
        listed = "\n".join(f"- {problem}" for problem in problems)
        sides = both_sides(manifest, robot)
        raise BindError(f"policy {manifest.name!r} does not fit {type(robot).__name__}:\n{listed}\n{sides}")
    for name in inputs:
        if manifest.inputs[name].source == "privileged":
            _LOG.warning("input %r is privileged: only a simulation has it", name)
    reads = tuple(dict.fromkeys(link.signal for link in links))
    joints = tuple(_turned(joint) if joint.name in flipped else joint for joint in manifest.joints)
    robot.configure(Setup(joints, manifest.timing, reads, writes, orders))
    watch = Watch(guard, manifest, robot, _known(policy, guard)) if guard is not None else None
    return Bound(policy, robot, *_by_rate(graph, manifest, robot, links, sinks, writes), values, watch)


def _known(policy: Policy, guard: Guard) -> Ranges | None:
    """What the inputs were in the golden rollout. A robot can do without: its package may be gone by now."""
    try:
        return policy.ranges() if guard.ranges != "off" else None
    except PackageError as error:
        _LOG.warning("no alarms for inputs outside of what the export saw: %s", error)
        return None


def _unknown(
    manifest: Manifest, given: Mapping[str, Any], chosen: Mapping[str, str], unused: Sequence[str]
) -> list[str]:
    ports = {**manifest.inputs, **manifest.outputs}
    asked = (("commands", given, manifest.inputs), ("signals", chosen, ports), ("unused", unused, manifest.outputs))
    return [
        f"{what}: the policy has no {name!r}{suggestion(name, known, f'; there are {sorted(known)}')}"
        for what, names, known in asked
        for name in names
        if name not in known
    ]


def _split(
    manifest: Manifest, given: Mapping[str, Any], unused: Sequence[str], robot: Robot, problems: list[str]
) -> tuple[dict[str, Port], dict[str, Port]]:
    """The inputs that are read from the robot, and the outputs that are written to it."""
    inputs = {name: port for name, port in manifest.inputs.items() if name not in given}
    for name, port in list(inputs.items()):
        if is_command(port):
            problems.append(f"input {name!r} is a command, and nobody gives it; use commands={{{name!r}: …}}")
            del inputs[name]
    accepted = {signal.kind for signal in robot.writes.values()}
    outputs = {
        name: port
        for name, port in manifest.outputs.items()
        if name not in unused and (port.kind not in _IDLE or port.kind in accepted)
    }
    return inputs, outputs


def _matches(
    ports: Mapping[str, Port],
    signals: Mapping[str, Signal],
    chosen: Mapping[str, str],
    owners: frozenset[str] | None,
    problems: list[str],
) -> list[Match]:
    """Match inputs, which have owners, or outputs, which have none: every one of them is the robot's."""
    found, group = list[Match](), "output" if owners is None else "input"
    for name, port in ports.items():
        one = match(name, port, signals, chosen.get(name), owners or ()) if port.kind else _kindless(group, name)
        if isinstance(one, Match) and group == "output" and len(signals[one.signal].shape) != 1:
            one = f"{one.signal!r} has {len(signals[one.signal].shape)} axes on the robot; what is written has one"
        if isinstance(one, Match):
            found.append(one)
        else:
            problems.append(f"{group} {name!r}: {one}")
    return found


def _orders(manifest: Manifest, robot: Robot, links: Sequence[Match], problems: list[str]) -> dict[str, Port]:
    """Signal that is made to order -> the port that it is made for."""
    orders: dict[str, str] = {}
    for link in links:
        if robot.reads[link.signal].to_order:
            first, port = (manifest.inputs[one] for one in (orders.setdefault(link.signal, link.port), link.port))
            if _order(first) != _order(port):
                problems.append(
                    f"input {link.port!r} asks for {link.signal!r} in another way than input "
                    f"{orders[link.signal]!r}; it is made in one way only"
                )
    return {signal: manifest.inputs[port] for signal, port in orders.items()}


def _order(port: Port) -> tuple[Any, ...]:
    return port.dtype, concrete(port.shape, 1), port.unit, port.limits, port.metadata


def _flipped(robot: Robot, problems: list[str]) -> set[str]:
    """The joints that turn the other way round on the robot. In that, all its signals have to agree."""
    first: dict[str, tuple[int, str]] = {}
    for name, signal in (*robot.reads.items(), *robot.writes.items()):
        if signal.kind in DIRECTED_KINDS:
            for joint, sign in zip(signal.names, signal.signs or (1,) * len(signal.names), strict=True):
                other, where = first.setdefault(joint, (sign, name))
                if sign != other:
                    problems.append(
                        f"joint {joint!r} has the sign {sign} in {name!r} and {other} in {where!r}; a joint has one "
                        f"direction, so give all its signals the same signs"
                    )
    return {joint for joint, (sign, _) in first.items() if sign == -1}


def _turned(joint: Joint) -> Joint:
    """A joint as it is seen from the other direction."""
    at, limits = joint.default_position, joint.position_limits
    return msgspec.structs.replace(
        joint,
        default_position=None if at is None else -at,
        position_limits=None if limits is None else JointLimits(lower=-limits.upper, upper=-limits.lower),
    )


def _kindless(group: str, name: str) -> str:
    escape = f"commands={{{name!r}: …}}" if group == "input" else f"unused=[{name!r}]"
    return f"it has no kind, so nothing says what it is; give it a kind when exporting, or use {escape}"


def _value(name: str, manifest: Manifest, value: Command, problems: list[str]) -> Array | Callable[[], Any]:
    if callable(value):
        return value
    try:
        return as_command(name, manifest.inputs[name], value) if name in manifest.inputs else np.zeros(0)
    except InputError as error:
        problems.append(str(error))
        return np.zeros(0)


def _check_driven(
    manifest: Manifest, graph: Wiring, robot: Robot, sinks: Sequence[Match], problems: list[str]
) -> dict[str, tuple[str, ...]]:
    """Check that each joint of the robot is driven, and by one output of a kind; give what is written, in its order."""
    writer: dict[tuple[str, int], str] = {}
    rates: dict[str, tuple[str, ...]] = {}
    for sink in sinks:
        rate = tuple(one for one in RATES if sink.port in graph.outputs_of(one))
        if rates.setdefault(sink.signal, rate) != rate:
            problems.append(
                f"output {sink.port!r}: {sink.signal!r} is also written at another rate; that has no meaning"
            )
        for place in element_places(sink):
            other = writer.setdefault((sink.signal, place), sink.port)
            if other != sink.port:
                names = robot.writes[sink.signal].names
                label = repr(names[place]) if names else f"element {place}"
                problems.append(f"output {sink.port!r}: {label} is driven by output {other!r} already")
    targets = {one: signal for one, signal in robot.writes.items() if signal.kind.startswith(_JOINT_TARGET)}
    driven = {targets[signal].names[place] for signal, place in writer if signal in targets}
    offered = dict.fromkeys(name for signal in targets.values() for name in signal.names)
    extra = [name for name in offered if name not in driven]
    if extra:
        wanted = [name for sink in sinks if sink.signal in targets for name in _element_names(manifest, sink.port)]
        problems.append(
            f"no output drives {', '.join(map(repr, extra))} of the robot; the policy drives {wanted}, the robot has "
            f"{list(offered)}; leave joints that shall not be driven out of the robot's writes"
        )
    return {signal: _written(robot, signal, writer) for signal in dict.fromkeys(sink.signal for sink in sinks)}


def _element_names(manifest: Manifest, output: str) -> tuple[str, ...]:
    names = manifest.outputs[output].element_names
    return (names[-1] or ()) if names else ()


def _written(robot: Robot, signal: str, writer: Mapping[tuple[str, int], str]) -> tuple[str, ...]:
    spec = robot.writes[signal]
    return tuple(element_name(spec, place) for place in range(spec.shape[-1]) if (signal, place) in writer)


def _by_rate(
    graph: Wiring,
    manifest: Manifest,
    robot: Robot,
    links: Sequence[Match],
    sinks: Sequence[Match],
    writes: Mapping[str, tuple[str, ...]],
) -> tuple[dict[Rate, list[Link]], dict[Rate, list[Sink]]]:
    """What is read and what is written, at each rate."""
    read: dict[Rate, list[Link]] = {}
    write: dict[Rate, list[Sink]] = {}
    for rate in RATES:
        inputs, outputs = graph.inputs_of(rate), graph.outputs_of(rate)
        read[rate] = [
            Link.make(one, manifest.inputs[one.port], robot.reads[one.signal]) for one in links if one.port in inputs
        ]
        write[rate] = [
            Sink.make(one, robot.writes[one.signal], writes[one.signal]) for one in sinks if one.port in outputs
        ]
    return read, write
