"""What the inputs of a policy were while it was recorded, and an alarm for what is far from that.

Most mistakes on a robot are not small: an acceleration of 9.81 where a unit vector belongs, degrees for radians,
pixels up to 255 for pixels up to 1. The golden rollout has seen what belongs there. It is short, so a robot will leave
its ranges in good health; an alarm is raised only where a value is beyond them by more than the largest magnitude that
the port had, or where a vector that always had length 1 has another.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from ashore.package import Array, Arrays, Golden
from ashore.spec import BATCH, NOISE, TEXT, Manifest, Port

_LOG = logging.getLogger("ashore")
_MOST_ELEMENTS = 1024
"""Ports with more elements than this, such as images, have one range for all of them."""

_UNIT_WIDTHS = (2, 3, 4)
_UNIT_RECORDED = 1e-3
_UNIT_ALLOWED = 0.1
_FEWEST_ROWS = 3
"""So many different rows have to have length 1 before that counts as a rule."""


class Alarm(NamedTuple):
    """An input that is far outside of what the export saw."""

    port: str
    element: str
    value: float
    message: str


class Seen(NamedTuple):
    """What one input was."""

    lowest: Array
    """For each element; one number for ports of many elements. A batch axis has length 1."""

    highest: Array
    unit: bool
    """Whether it was a unit vector in every tick."""

    ticks: int
    lower: Array
    """Below this an alarm is raised."""

    upper: Array
    names: tuple[str, ...] | None

    def alarm(self, port: str, value: Array) -> Alarm | None:
        """Say what is far outside, or None."""
        if self.unit:
            length = np.sqrt(np.square(value, dtype=np.float64).sum(-1))
            wrong = np.abs(length - 1) > _UNIT_ALLOWED
            if wrong.any():
                found = float(length[wrong].reshape(-1)[0])
                message = (
                    f"input {port!r} has length {found:.4g}, and in all {self.ticks} recorded ticks it had length 1; "
                    f"give it as a unit vector"
                )
                return Alarm(port, "length", found, message)
        outside = (value < self.lower) | (value > self.upper)
        if not outside.any():
            return None
        at = tuple(int(index) for index in np.argwhere(outside)[0])
        low, high = (float(np.broadcast_to(side, value.shape)[at]) for side in (self.lowest, self.highest))
        element = repr(self.names[at[-1]]) if self.names and at else f"{list(at)}"
        found = float(value[at])
        were = f"{low:.4g} to {high:.4g}" if low != high else f"always {low:.4g}"
        message = (
            f"input {port!r}: element {element} is {found:.4g}, far outside of what the export saw: {were} in "
            f"{self.ticks} recorded ticks; look at its unit, frame and order"
        )
        return Alarm(port, element, found, message)


class Ranges(Mapping[str, Seen]):
    """Input -> what it was while the golden rollout was recorded. Texts, noise and truth values are left out.

    Args:
        golden: the rollout.
        manifest: of its package.
    """

    def __init__(self, golden: Golden, manifest: Manifest) -> None:
        self._seen: dict[str, Seen] = {}
        for name, port in manifest.inputs.items():
            rows = [np.asarray(tick.inputs[name]) for tick in golden.ticks if name in tick.inputs]
            if rows and port.dtype != "bool" and port.kind not in (TEXT, NOISE):
                self._seen[name] = _seen(port, rows)

    def __getitem__(self, name: str) -> Seen:
        return self._seen[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)

    def alarms(self, inputs: Arrays) -> list[Alarm]:
        """What is far outside of the ranges, at most one alarm for each input.

        Args:
            inputs: what a policy is given in one call. What the ranges do not know is passed over.
        """
        found = (self._seen[name].alarm(name, value) for name, value in inputs.items() if name in self._seen)
        return [alarm for alarm in found if alarm is not None]


class RangeWatch:
    """Raises an alarm once for each input: as a warning in the log ``ashore``, and in `alarms`.

    Args:
        ranges: what the inputs were, or None where nobody knows, and nothing is raised.
    """

    def __init__(self, ranges: Ranges | None) -> None:
        self._ranges: Mapping[str, Seen] = ranges or {}
        self.alarms: list[Alarm] = []
        """All so far; for each input at most one between two resets."""

        self.reset()

    def reset(self) -> None:
        """Raise alarms anew."""
        self._waiting = dict(self._ranges)

    def look(self, inputs: Arrays) -> list[Alarm]:
        """Look at the inputs of a call; the alarms that are new."""
        fresh: list[Alarm] = []
        for name, value in inputs.items():
            seen = self._waiting.get(name)
            alarm = None if seen is None else seen.alarm(name, value)
            if alarm is not None:
                del self._waiting[name]
                _LOG.warning("%s", alarm.message)
                fresh.append(alarm)
        self.alarms += fresh
        return fresh


def _seen(port: Port, rows: list[Array]) -> Seen:
    axis = port.shape.index(BATCH) if BATCH in port.shape else None
    whole = rows[0].size > _MOST_ELEMENTS
    lowest, highest = (_extreme(rows, axis, whole=whole, of=of) for of in (np.fmin, np.fmax))
    known = np.isfinite(lowest) & np.isfinite(highest)
    magnitude = float(np.max(np.maximum(np.abs(lowest), np.abs(highest))[known], initial=0.0))
    scale = np.maximum(magnitude, np.where(known, highest - lowest, 0.0)) if magnitude else 1.0
    names = port.element_names[-1] if port.element_names else None
    lower, upper = np.where(known, lowest - scale, -np.inf), np.where(known, highest + scale, np.inf)
    return Seen(lowest, highest, _is_unit(port, rows), len(rows), lower, upper, names)


def _extreme(rows: list[Array], axis: int | None, *, whole: bool, of: np.ufunc) -> Array:
    """The extremes over all rows, of the numbers that are finite; NaN where there are none."""
    found: Array | None = None
    for row in rows:
        value = row.astype(np.float64)
        value = np.where(np.isfinite(value), value, np.nan)
        if whole:
            value = np.asarray(of.reduce(value, axis=None))
        elif axis is not None:
            value = of.reduce(value, axis=axis, keepdims=True)
        found = value if found is None else of(found, value)
    return np.asarray(found)


def _is_unit(port: Port, rows: list[Array]) -> bool:
    if rows[0].ndim == 0 or rows[0].shape[-1] not in _UNIT_WIDTHS or rows[0].dtype.kind != "f":
        return False
    if (port.kind or "").startswith("command/"):
        return False
    together = np.concatenate([row.reshape(-1, row.shape[-1]) for row in rows]).astype(np.float64)
    if len(np.unique(together, axis=0)) < _FEWEST_ROWS:
        return False
    return bool((np.abs(np.sqrt(np.square(together).sum(-1)) - 1) < _UNIT_RECORDED).all())
