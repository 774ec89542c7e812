"""How long a call takes, as histograms beside the control period."""

from __future__ import annotations

import os
import platform

import numpy as np

from ashore.spec import CALLS, Manifest, Rate
from ashore.view import words
from ashore.view.html import Markup, Section, histogram, note, table
from ashore.view.page.evidence import Evidence, Latency

_BINS_A_DECADE = 40
_BINS = (12, 160)
"""At least and at most."""


def latency(manifest: Manifest, evidence: Evidence) -> Section:
    """One histogram for each rate."""
    said = f"Measured on {machine()}, while this page was made. On the robot's own computer, ashore bench tells more."
    why = evidence.not_run or evidence.not_measured
    problem = note(f"Not measured. {why}", tone="warning") if why else None
    if not evidence.latency:
        return Section("latency", "Latency", problem)
    parts = [_histogram(manifest, rate, one) for rate, one in evidence.latency.items()]
    rows = [_row(manifest, rate, one) for rate, one in evidence.latency.items()]
    columns = ("call", ">calls", ">p50", ">p99", ">longest", ">period", ">p99 of the period")
    return Section("latency", "Latency", [problem, *parts, table("Calls", columns, rows)], note=said)


def period_us(manifest: Manifest, rate: Rate) -> float | None:
    """How much time there is for a call, where the package says it."""
    timing = manifest.timing
    if timing is None or timing.policy_dt_s is None:
        return None
    if rate == "policy":
        return timing.policy_dt_s * 1e6
    return (timing.physics_dt_s or timing.policy_dt_s / max(1, timing.decimation)) * 1e6


def machine() -> str:
    """What measured, in a few words."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"


def _histogram(manifest: Manifest, rate: Rate, one: Latency) -> Markup:
    times = np.maximum(one.times_us, 1e-3)
    low, high = float(times.min()), float(times.max())
    bins = int(np.clip(np.ceil(np.log10(high / low) * _BINS_A_DECADE), *_BINS))
    edges = np.geomspace(low * 0.98, high * 1.02, bins + 1)
    counts = np.histogram(times, edges)[0]
    period = period_us(manifest, rate)
    marks = [(f"{name} {words.duration(at)}", at) for name, at in _percentiles(one)]
    if period is not None:
        marks.append((f"period {words.duration(period)}", period))
    summary = (
        f"p50 {words.duration(one.percentile(50))}, p99 {words.duration(one.percentile(99))} of {len(times):,} calls"
    )
    summary += f"; the control period is {words.duration(period)}." if period else "; the period is not stated."
    return histogram(
        f"policy.{CALLS[rate]}()",
        [float(f"{edge:.5g}") for edge in edges],
        [int(count) for count in counts],
        summary=summary,
        x_label="µs, equal ratios equally far apart",
        marks=marks,
        log=True,
    )


def _percentiles(one: Latency) -> tuple[tuple[str, float], ...]:
    return ("p50", one.percentile(50)), ("p99", one.percentile(99))


def _row(manifest: Manifest, rate: Rate, one: Latency) -> tuple[str | None, ...]:
    period, p99 = period_us(manifest, rate), one.percentile(99)
    return (
        CALLS[rate],
        f"{len(one.times_us):,}",
        words.duration(one.percentile(50)),
        words.duration(p99),
        words.duration(float(one.times_us.max())),
        words.duration(period) if period else None,
        f"{p99 / period:.2%}" if period else None,
    )
