"""Which signal of a robot belongs to which port of a policy, and in which order its elements go there.

Everything is decided by kind, by names and by units, once, before anything moves. Nothing is guessed from the position
of an element that has a name, nothing is converted, and nothing is broadcast.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from ashore.errors import suggestion
from ashore.package import Array
from ashore.runtime.robot import Robot, Signal
from ashore.spec import JOINT_KINDS, QUATERNION_KINDS, Manifest, Port, concrete

_BODY = "state/body/"


class _MisfitError(Exception):
    """Why a port and a robot do not fit, without saying which port."""


class Places(NamedTuple):
    """Which elements of a signal a port takes."""

    rows: Array | None
    """Row of the port -> its place in the signal; None where there are no rows."""

    elements: Array | None
    """Element of the port -> its place in the signal, on the last axis; None takes all, as they are."""


class Match(NamedTuple):
    """A port and the signal that it is bound to."""

    port: str
    signal: str
    places: Places


def match(
    name: str, port: Port, signals: Mapping[str, Signal], chosen: str | None, owners: Collection[str] = ()
) -> Match | str:
    """Bind one port.

    Args:
        name: of the port.
        port: what it is.
        signals: what the robot has in that direction.
        chosen: the signal that the caller named for it, if any.
        owners: the entities of the training environment that are this robot, from `owners_of`.

    Returns:
        What it is bound to, or why it cannot be bound.
    """
    try:
        if chosen is not None:
            signal = _chosen(port, signals, chosen)
        else:
            signal = _found(name, port, signals, owners)
        return Match(name, signal, _places(port, signals[signal]))
    except _MisfitError as misfit:
        return str(misfit)


def owners_of(manifest: Manifest) -> frozenset[str]:
    """The entities whose joints the policy reads or drives, by the ports' connections: what this robot was called."""
    ports = (*manifest.inputs.values(), *manifest.outputs.values())
    return frozenset(owner for port in ports if port.kind in JOINT_KINDS and (owner := _connected(port)[0]) is not None)


def _connected(port: Port) -> tuple[str | None, str]:
    """Entity and property of a connection: ``state:robot:joint_pos``, ``state:robot/imu``, ``state:imu``, ``imu``."""
    where, _, rest = (port.connection or "").partition(":")
    rest = rest or where
    owner, _, what = rest.partition(":" if ":" in rest else "/")
    return (owner, what) if what else (None, rest)


def _chosen(port: Port, signals: Mapping[str, Signal], chosen: str) -> str:
    if chosen not in signals:
        raise _MisfitError(f"there is no signal {chosen!r} on the robot{suggestion(chosen, signals)}")
    if signals[chosen].kind != port.kind:
        raise _MisfitError(f"the signal {chosen!r} is of kind {signals[chosen].kind!r}, not {port.kind!r}")
    return chosen


def _found(name: str, port: Port, signals: Mapping[str, Signal], owners: Collection[str]) -> str:
    of_kind = {one: signal for one, signal in signals.items() if signal.kind == port.kind}
    if not of_kind:
        raise _MisfitError(f"the robot has nothing of kind {port.kind!r}")
    asked = {one: signal for one, signal in of_kind.items() if signal.to_order and signal.to_order in port.metadata}
    if len(asked) == 1:
        return _fitting_frames(name, port, asked)[0]
    owner, what = _connected(port)
    foreign = owner is not None and bool(owners) and owner not in owners
    for wanted in (f"{owner}.{what}", f"{owner}/{what}", "" if foreign else what):
        if wanted in of_kind:
            _fitting_frames(name, port, {wanted: of_kind[wanted]})
            return wanted
    if foreign and str(port.kind).startswith(_BODY) and name not in of_kind:
        raise _MisfitError(
            f"it is of {owner!r}, not of the robot, and the robot knows no '{owner}.{what}'; "
            f"choose a signal with signals={{{name!r}: …}}"
        )
    fitting = _fitting_frames(name, port, of_kind)
    if name in fitting:
        return name
    fitting = [one for one in fitting if not of_kind[one].by_name]
    if not fitting:
        raise _MisfitError(
            f"the robot has its kind by name only; choose one of {list(of_kind)} with signals={{{name!r}: …}}"
        )
    return fitting[0] if len(fitting) == 1 else _only(name, port, {one: of_kind[one] for one in fitting})


def _fitting_frames(name: str, port: Port, signals: Mapping[str, Signal]) -> list[str]:
    fitting = [one for one, signal in signals.items() if port.frame is None or signal.frame in (None, port.frame)]
    if not fitting:
        frames = sorted({str(signal.frame) for signal in signals.values()})
        raise _MisfitError(
            f"its frame is {port.frame!r}, but on the robot {port.kind!r} is in {' or '.join(frames)}; "
            f"if they are the same, say so with signals={{{name!r}: {next(iter(signals))!r}}}"
        )
    return fitting


def _only(name: str, port: Port, signals: Mapping[str, Signal]) -> str:
    """The only one of several signals that has the elements that the port names."""
    misfits = {one: _misfit(port, signal) for one, signal in signals.items()}
    fitting = [one for one, misfit in misfits.items() if misfit is None]
    if len(fitting) > 1:
        raise _MisfitError(f"{', '.join(map(repr, fitting))} all fit; choose one with signals={{{name!r}: …}}")
    if not fitting:
        raise _MisfitError("no signal fits: " + "; ".join(f"{one!r}: {misfit}" for one, misfit in misfits.items()))
    return fitting[0]


def _misfit(port: Port, signal: Signal) -> str | None:
    try:
        _places(port, signal)
    except _MisfitError as misfit:
        return str(misfit)
    return None


def _places(port: Port, signal: Signal) -> Places:
    """Element of the port -> its place in the signal, after every check that there is."""
    if signal.to_order:
        _check_units(port, signal, [0])
        return Places(None, None)
    shape, axes = concrete(port.shape, 1), len(signal.shape)
    lead, inner = shape[:-axes], shape[-axes:]
    rows, names = _names(port)
    if rows and not signal.rows:
        raise _MisfitError(f"its rows are {list(rows)}, the robot's signal has no rows")
    if signal.rows and not rows:
        raise _MisfitError(f"the robot's signal has the rows {list(signal.rows)}, and the port names no rows")
    if (
        len(inner) != axes
        or any(length != 1 for length in lead)
        or (not rows and inner[:-1] != signal.shape[:-1])
        or (not (names and signal.names) and inner[-1] != signal.shape[-1])
    ):
        raise _MisfitError(f"its shape is {list(port.shape)}, the robot's {list(signal.shape)}; nothing is broadcast")
    row_places = _by_name(rows, signal.rows) if rows else None
    if not names or not signal.names:
        places = list(range(inner[-1]))
    elif signal.kind in QUATERNION_KINDS:  # w and qw are the same
        places = _by_name(*(tuple(one.removeprefix("q") for one in both) for both in (names, signal.names)))
    else:
        places = _by_name(names, signal.names)
    _check_units(port, signal, places)
    return Places(None if row_places is None else np.array(row_places, np.intp), np.array(places, np.intp))


def _names(one: Port | Signal) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """The names on the last two axes."""
    if isinstance(one, Signal):
        return one.rows, one.names
    rows, names = (None, None, *(one.element_names or ()))[-2:]
    return rows, names


def _by_name(wanted: tuple[str, ...], there: tuple[str, ...]) -> list[int]:
    missing = [name for name in wanted if name not in there]
    if missing:
        raise _MisfitError(
            f"{', '.join(map(repr, missing))} {'is' if len(missing) == 1 else 'are'} not on the robot; "
            f"expected {list(wanted)}, the robot has {list(there)}{suggestion(missing[0], there)}"
        )
    return [there.index(name) for name in wanted]


def _check_units(port: Port, signal: Signal, places: list[int]) -> None:
    if port.unit is None or signal.unit is None:
        return
    names = port.element_names[-1] if port.element_names else None
    for element, place in enumerate(places):
        ours, theirs = _unit(port.unit, element), _unit(signal.unit, place)
        if ours != theirs:
            label = repr(names[element]) if names else f"element {element}"
            raise _MisfitError(f"{label} is in {ours!r}, on the robot in {theirs!r}; nothing is converted")


def _unit(unit: str | tuple[str, ...], element: int) -> str:
    return unit if isinstance(unit, str) else unit[element]


def both_sides(manifest: Manifest, robot: Robot) -> str:
    """What a policy has and what a robot has, for a person to compare."""
    lines = ["the policy has:"]
    for group, ports in (("input", manifest.inputs), ("output", manifest.outputs)):
        lines += [f"  {group} {name}: {_described(port)}" for name, port in ports.items()]
    lines.append("the robot has:")
    for group, signals in (("reads", robot.reads), ("writes", robot.writes)):
        lines += [f"  {group} {name}: {_described(one)}" for name, one in signals.items() if not one.by_name]
    wanted = {port.kind for port in manifest.inputs.values()}
    by_name = {name: one.kind for name, one in robot.reads.items() if one.by_name and one.kind in wanted}
    for kind in dict.fromkeys(by_name.values()):
        names = " ".join(name for name, one in by_name.items() if one == kind)
        lines.append(f"  reads {kind} by name: {names}")
    return "\n".join(lines)


def _described(one: Port | Signal) -> str:
    rows, names = _names(one)
    units = (one.unit,) if isinstance(one.unit, str | None) else tuple(dict.fromkeys(one.unit))
    words = [one.kind or "no kind", f"in {' '.join(map(str, units))}" if units != (None,) else ""]
    words.append(f"frame {one.frame}" if one.frame else "")
    words.append(f"[{' '.join(rows)}] x" if rows else "")
    shape = "made to order" if isinstance(one, Signal) and one.to_order else f"shape {list(one.shape)}"
    words.append(f"[{' '.join(names)}]" if names else shape)
    return " ".join(filter(None, words))
