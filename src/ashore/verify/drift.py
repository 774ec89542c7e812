"""Whether an error grows over an episode: small in every tick, and still too large after a minute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ashore.package import Golden
from ashore.verify.replay import Report, Trace

_SHORTEST = 8
"""An episode of fewer ticks shows no trend."""

_PART = 4
_GROWN = 4.0
_NOISE = 10.0
"""What is smaller than this part of the tolerance is rounding, and has no trend."""


@dataclass(frozen=True)
class Drift:
    """The error of a port over the longest episode, free-running."""

    port: str
    ticks: int
    """How many ticks of the episode wrote it."""

    first: float
    """Median error in the first quarter."""

    last: float
    """Median error in the last quarter."""

    worst: float
    grows: bool


def drifts(report: Report, golden: Golden) -> list[Drift]:
    """The drift of every port in a replay.

    Args:
        report: what the replay found.
        golden: the rollout that was replayed.
    """
    resets = [tick.index for tick in golden.ticks if tick.reset]
    return [
        drift_of(port, _longest(trace, resets), report.atol) for port, trace in report.traces["free_running"].items()
    ]


def drift_of(port: str, errors: Sequence[float], atol: float) -> Drift:
    """The drift in a row of errors of one episode."""
    rows = np.array(errors)
    part = max(1, len(rows) // _PART)
    first, last = float(np.median(rows[:part])), float(np.median(rows[-part:]))
    grows = len(rows) >= _SHORTEST and last > _GROWN * first and last > atol / _NOISE
    return Drift(port, len(rows), first, last, float(rows.max(initial=0.0)), grows)


def _longest(trace: Trace, resets: Sequence[int]) -> list[float]:
    episodes = list(_episodes(trace, resets))
    return max(episodes, key=len) if episodes else []


def _episodes(trace: Trace, resets: Sequence[int]) -> Iterator[list[float]]:
    for start, stop in zip(resets, [*resets[1:], None], strict=True):
        yield [
            error
            for tick, error in zip(trace.ticks, trace.errors, strict=True)
            if tick >= start and (stop is None or tick < stop)
        ]
