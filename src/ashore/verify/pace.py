"""Whether the package keeps up with its own rates on this machine: a decision must be there before the next is due."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter, perf_counter_ns

import numpy as np

from ashore.package import Golden
from ashore.runtime import Policy
from ashore.spec import CALLS, RATES, Rate
from ashore.verify.references import run_tick

_SAMPLES = 400
_BUDGET_S = 1.0
_BINS = 30


@dataclass(frozen=True)
class Pace:
    """How long the calls of a rate take, in microseconds, against the time that there is."""

    call: str
    """``"step"`` or ``"substep"``."""

    samples: int
    p50_us: float
    p99_us: float
    max_us: float
    period_us: float | None
    """Time between two of them, where the package says so."""

    edges_us: tuple[float, ...]
    """Of the bins of a histogram; equal ratios are equally far apart."""

    counts: tuple[int, ...]
    """Calls in each bin, one fewer than there are edges."""


def paces(policy: Policy, golden: Golden, *, budget_s: float = _BUDGET_S) -> list[Pace]:
    """Run the rollout again and again for a moment, and time each call.

    Args:
        policy: what is timed.
        golden: what it is given.
        budget_s: about how long this may take; the rollout is run at least once.
    """
    taken: dict[Rate, list[int]] = {rate: [] for rate in RATES}
    began = perf_counter()
    while True:
        for tick in golden.ticks:
            if tick.reset:
                policy.reset()
            start = perf_counter_ns()
            run_tick(policy, tick.rate, tick.inputs)
            taken[tick.rate].append(perf_counter_ns() - start)
        enough = all(len(times) >= _SAMPLES for times in taken.values() if times)
        if enough or perf_counter() - began > budget_s:
            break
    timing = policy.manifest.timing
    periods = {"policy": timing and timing.policy_dt_s, "substep": timing and timing.physics_dt_s}
    return [_pace(rate, times, periods[rate]) for rate, times in taken.items() if times]


def _pace(rate: Rate, times_ns: list[int], period_s: float | None) -> Pace:
    times = np.maximum(np.array(times_ns), 1) / 1e3
    p50, p99 = (float(np.percentile(times, q)) for q in (50, 99))
    fastest, slowest = float(times.min()), float(times.max())
    edges = [fastest * (1.001 * slowest / fastest) ** (place / _BINS) for place in range(_BINS + 1)]
    counts, _ = np.histogram(times, [0.0, *edges[1:-1], np.inf])
    period_us = period_s * 1e6 if period_s is not None else None
    return Pace(CALLS[rate], len(times), p50, p99, slowest, period_us, tuple(edges), tuple(counts.tolist()))
