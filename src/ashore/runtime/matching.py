"""Which signal of a robot belongs to which port of a policy, and in which order its elements go there.

Everything is decided by kind, by names and by units, once, before anything moves. Nothing is guessed from the position
of an element that has a name, nothing is converted, and nothing is broadcast.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ashore.errors import suggestion
from ashore.package import Array
from ashore.runtime.robot import Robot, Signal
from ashore.spec import QUATERNION_KINDS, Manifest, Port, concrete


class _MisfitError(Exception):
    """Why a port and a robot do not fit, without saying which port."""


class Match(NamedTuple):
    """A port and the signal that it is bound to."""

    port: str
    signal: str
    places: Array
    """Element of the port -> its place in the signal."""


def match(name: str, port: Port, signals: Mapping[str, Signal], chosen: str | None) -> Match | str:
    """Bind one port.

    Args:
        name: of the port.
        port: what it is.
        signals: what the robot has in that direction.
        chosen: the signal that the caller named for it, if any.

    Returns:
        What it is bound to, or why it cannot be bound.
    """
    try:
        signal = _named(port, signals, chosen) if chosen is not None else _found(name, port, signals)
        return Match(name, signal, _places(port, signals[signal]))
    except _MisfitError as misfit:
        return str(misfit)


def _named(port: Port, signals: Mapping[str, Signal], chosen: str) -> str:
    if chosen not in signals:
        raise _MisfitError(f"there is no signal {chosen!r} on the robot{suggestion(chosen, signals)}")
    if signals[chosen].kind != port.kind:
        raise _MisfitError(f"the signal {chosen!r} is of kind {signals[chosen].kind!r}, not {port.kind!r}")
    return chosen


def _found(name: str, port: Port, signals: Mapping[str, Signal]) -> str:
    of_kind = [one for one, signal in signals.items() if signal.kind == port.kind]
    if not of_kind:
        raise _MisfitError(f"the robot has nothing of kind {port.kind!r}")
    fitting = [one for one in of_kind if port.frame is None or signals[one].frame in (None, port.frame)]
    if not fitting:
        frames = sorted({str(signals[one].frame) for one in of_kind})
        raise _MisfitError(
            f"its frame is {port.frame!r}, but on the robot {port.kind!r} is in {' or '.join(frames)}; "
            f"if they are the same, say so with signals={{{name!r}: {of_kind[0]!r}}}"
        )
    connected = (port.connection or "").rpartition(":")[2]
    for wanted in (name, connected):
        if wanted in fitting:
            return wanted
    if len(fitting) > 1:
        raise _MisfitError(f"{', '.join(map(repr, fitting))} all fit; choose one with signals={{{name!r}: …}}")
    return fitting[0]


def _places(port: Port, signal: Signal) -> Array:
    """Element of the port -> its place in the signal, after every check that there is."""
    shape, axes = concrete(port.shape, 1), len(signal.shape)
    lead, inner = shape[:-axes], shape[-axes:]
    if len(inner) != axes or any(length != 1 for length in lead) or inner[:-1] != signal.shape[:-1]:
        raise _MisfitError(f"its shape is {list(port.shape)}, the robot's {list(signal.shape)}; nothing is broadcast")
    wanted = port.element_names[-1] if port.element_names else None
    if wanted is None or not signal.names:
        if inner != signal.shape:
            raise _MisfitError(
                f"its shape is {list(port.shape)}, the robot's {list(signal.shape)}; nothing is broadcast"
            )
        places = list(range(inner[-1]))
    else:
        places = _by_name(signal.kind, wanted, signal.names)
    _check_units(port, signal, places)
    return np.array(places, np.intp)


def _by_name(kind: str, wanted: tuple[str, ...], there: tuple[str, ...]) -> list[int]:
    if kind in QUATERNION_KINDS:  # w and qw are the same
        wanted, there = (tuple(name.removeprefix("q") for name in names) for names in (wanted, there))
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
    ours = (port.unit,) * len(places) if isinstance(port.unit, str) else port.unit
    theirs = (signal.unit,) * signal.shape[-1] if isinstance(signal.unit, str) else signal.unit
    names = port.element_names[-1] if port.element_names else None
    for element, (place, unit) in enumerate(zip(places, ours, strict=True)):
        if unit != theirs[place]:
            label = repr(names[element]) if names else f"element {element}"
            raise _MisfitError(f"{label} is in {unit!r}, on the robot in {theirs[place]!r}; nothing is converted")


def both_sides(manifest: Manifest, robot: Robot) -> str:
    """What a policy has and what a robot has, for a person to compare."""
    lines = ["the policy has:"]
    for group, ports in (("input", manifest.inputs), ("output", manifest.outputs)):
        lines += [f"  {group} {name}: {_described(port)}" for name, port in ports.items()]
    lines.append("the robot has:")
    for group, signals in (("reads", robot.reads), ("writes", robot.writes)):
        lines += [f"  {group} {name}: {_described(signal)}" for name, signal in signals.items()]
    return "\n".join(lines)


def _described(one: Port | Signal) -> str:
    names: Any = one.names if isinstance(one, Signal) else (one.element_names or (None,))[-1]
    units = (one.unit,) if isinstance(one.unit, str | None) else tuple(dict.fromkeys(one.unit))
    words = [one.kind or "no kind", f"in {' '.join(map(str, units))}" if units != (None,) else ""]
    words.append(f"frame {one.frame}" if one.frame else "")
    words.append(f"[{' '.join(names)}]" if names else f"shape {list(one.shape)}")
    return " ".join(filter(None, words))
