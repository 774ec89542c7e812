"""The recording as plots: each port over time, the package over the environment, the error on an axis of its own.

A page has to stay small however long the recording is. What is left out is said: elements first, then points; of a
stretch that becomes one point, the least and the largest value are kept, so that no spike is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np

from ashore.package import Array, Golden, Tick
from ashore.spec import RATES, Endpoint, Manifest, Port, State, Wiring
from ashore.view import words
from ashore.view.html import Markup, Series, lines
from ashore.view.page import elements
from ashore.view.page.evidence import Evidence

MAX_NUMBERS = 110_000
"""Of all plots of a page together: about a megabyte."""

MAX_POINTS = 400
_LEAST_POINTS = 60
_SHOWN = 4
_ELEMENTS = (24, 12, 6, 3, 1)
"""So many elements of a port are plotted; the fewer, the more ports there are."""


@dataclass(frozen=True)
class Trajectory:
    """One port or state over a recording."""

    end: Endpoint
    array: Port | State
    times: Array
    """float64 [ticks], in seconds, or in decisions where the package does not say how long one takes."""

    resets: Array
    """float64 [resets], likewise."""

    recorded: Array
    """float64 [ticks, elements]."""

    computed: Array | None
    """float64 [ticks, elements], NaN after an error; None for inputs."""

    @property
    def error(self) -> Array | None:
        """|computed - recorded|, float64 [ticks, elements]; infinite where one of the two is not finite."""
        if self.computed is None:
            return None
        with np.errstate(invalid="ignore"):
            error = np.abs(self.computed - self.recorded)
        same = (self.computed == self.recorded) | (np.isnan(self.computed) & np.isnan(self.recorded))
        return np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))


def trajectories(manifest: Manifest, evidence: Evidence, group: str) -> list[Trajectory]:
    """What the recording holds of the inputs, the outputs or the states."""
    golden = evidence.golden
    if golden is None:
        return []
    graph, times = Wiring(manifest), _times(manifest, golden)
    arrays: dict[str, Port | State] = getattr(manifest, group)
    found: list[Trajectory] = []
    for name, array in arrays.items():
        ends = graph.inputs_of if group == "inputs" else graph.outputs_of
        rates = RATES if group == "states" else [rate for rate in RATES if name in ends(rate)]
        ticks = [tick for tick in golden.ticks if tick.rate in rates]
        if not ticks:
            continue
        end = Endpoint(group, name)
        recorded = np.stack([_values(tick, end) for tick in ticks])
        computed = None
        if evidence.computed and group != "inputs":
            computed = np.full(recorded.shape, np.nan)
            for row, tick in enumerate(ticks):
                if tick.index < len(evidence.computed):
                    computed[row] = evidence.computed[tick.index][str(end)].ravel()
        resets = np.array([times[tick.index] for tick in golden.ticks if tick.reset and tick.index])
        found.append(
            Trajectory(end, array, np.array([times[tick.index] for tick in ticks]), resets, recorded, computed)
        )
    return found


def plots(manifest: Manifest, groups: Iterable[Sequence[Trajectory]]) -> list[list[Markup]]:
    """Each trajectory as a figure, in the groups they came in, all of them together within `MAX_NUMBERS`."""
    groups = list(groups)
    everything = [one for group in groups for one in group]
    elements_each, points = _share(everything)
    room = MAX_NUMBERS
    drawn: list[list[Markup]] = []
    for group in groups:
        figures: list[Markup] = []
        for one in group:
            cost = _numbers(one, elements_each) * min(points, len(one.times))
            if cost > room:
                break
            room -= cost
            figures.append(_figure(manifest, one, elements_each, points))
        drawn.append(figures)
    return drawn


def _share(all_: Sequence[Trajectory]) -> tuple[int, int]:
    """How many elements of each port to plot, and how many points of each."""
    for limit in _ELEMENTS:
        numbers = sum(_numbers(one, limit) for one in all_)
        points = min(MAX_POINTS, MAX_NUMBERS // max(1, numbers))
        if points >= min(_LEAST_POINTS, max((len(one.times) for one in all_), default=0)):
            return limit, points
    return _ELEMENTS[-1], _LEAST_POINTS


def _numbers(one: Trajectory, limit: int) -> int:
    return min(one.recorded.shape[1], limit) * (1 if one.computed is None else 3)


def _times(manifest: Manifest, golden: Golden) -> list[float]:
    """When each tick was: its decision, and the part of it that substeps have come to."""
    timing = manifest.timing
    period = timing.policy_dt_s if timing and timing.policy_dt_s else 1.0
    parts = max(1, timing.decimation) if timing else 1
    times: list[float] = []
    decision, substep = -1, 0
    for tick in golden.ticks:
        decision, substep = (decision + 1, 0) if tick.rate == "policy" else (decision, substep + 1)
        times.append((decision + max(0, substep - 1) / parts) * period)
    return times


def _values(tick: Tick, end: Endpoint) -> Array:
    group = {"inputs": tick.inputs, "outputs": tick.outputs, "states": tick.states}[end.group]
    return group[end.name].astype(np.float64).ravel()


def _figure(manifest: Manifest, one: Trajectory, limit: int, points: int) -> Markup:
    total = one.recorded.shape[1]
    batch = _rows(one)
    chosen, why = _chosen(one, limit)
    first = _first(one, chosen)
    x, error = _thin_times(one.times, points), one.error
    series = [
        Series(
            elements.name_of(one.array, place, batch),
            _short(_thin(one.recorded[:, place], points), 6),
            None if one.computed is None else _short(_thin(one.computed[:, place], points), 6),
            None if error is None else _short(_thin(error[:, place], points), 3),
            shown=place in first,
        )
        for place in chosen
    ]
    said = [_verdict(one, batch)]
    if total > len(chosen):
        said.append(f"Shown: {len(chosen)} of {total} elements, {why}.")
    if len(x) < len(one.times):
        said.append(f"{len(one.times):,} ticks drawn as {len(x)} points, least and largest values kept.")
    known = manifest.timing and manifest.timing.policy_dt_s
    return lines(
        str(one.end),
        [float(f"{at:.6g}") for at in x],
        series,
        summary=" ".join(said),
        x_label="time in s" if known else "decision",
        y_label=(words.unit(one.array) or "") if isinstance(one.array, Port) else "",
        names=("environment", "package"),
        error_label="|package - environment|",
        marks=[float(f"{at:.6g}") for at in one.resets],
        mark_label="resets",
    )


def _rows(one: Trajectory) -> int:
    """The length of the batch axis."""
    fixed = elements.count(one.array)
    return one.recorded.shape[1] // fixed


def _verdict(one: Trajectory, batch: int) -> str:
    error = one.error
    if error is None:
        return f"Between {words.number(_least(one.recorded))} and {words.number(_largest(one.recorded))}."
    worst = float(error.max(initial=0.0))
    if worst == 0.0:
        return "The package gives what was recorded, to the last bit."
    tick, place = (int(part) for part in np.unravel_index(int(error.argmax()), error.shape))
    where = f"{elements.name_of(one.array, place, batch)}, tick {tick} of {len(one.times)}"
    return f"Largest error {worst:.2g}, at {where}."


def _chosen(one: Trajectory, limit: int) -> tuple[list[int], str]:
    """Which elements to plot: all, or those where most can be seen, in their order."""
    total = one.recorded.shape[1]
    if total <= limit:
        return list(range(total)), ""
    error = one.error
    if error is not None and error.max(initial=0.0) > 0.0:
        weight, why = error.max(axis=0), "those with the largest errors"
    else:
        with np.errstate(invalid="ignore"):
            weight, why = np.ptp(one.recorded, axis=0), "those that change most"
    weight = np.where(np.isnan(weight), np.inf, weight)
    return sorted(cast("list[int]", np.argsort(-weight, kind="stable")[:limit].tolist())), why


def _first(one: Trajectory, chosen: Sequence[int]) -> set[int]:
    """Which elements are shown at first: the one that is furthest off, and the first few."""
    error = one.error
    worst = [] if error is None or not error.max(initial=0.0) else [int(error.max(axis=0).argmax())]
    return set([*worst, *(place for place in chosen if place not in worst)][:_SHOWN])


def _short(values: Array, digits: int) -> list[float | None]:
    """Numbers as they go into a page; None where there is nothing to draw."""
    return [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in values.tolist()]


def _edges(ticks: int, points: int) -> Array:
    """Where the stretches begin that become two points each; int64 [stretches + 1]."""
    return np.linspace(0, ticks, max(1, points // 2) + 1).astype(np.int64)


def _thin_times(times: Array, points: int) -> Array:
    """The x of each point."""
    if len(times) <= points:
        return times
    edges = _edges(len(times), points)
    return np.stack([times[edges[:-1]], times[(edges[:-1] + edges[1:]) // 2]], axis=1).ravel()


def _thin(values: Array, points: int) -> Array:
    """The least and the largest value of each stretch, in the order they came in."""
    if len(values) <= points:
        return values
    edges = _edges(len(values), points)
    kept: list[float] = []
    for start, stop in pairwise(edges.tolist()):
        part = values[start:stop]
        low = int(np.where(np.isnan(part), np.inf, part).argmin())
        high = int(np.where(np.isnan(part), -np.inf, part).argmax())
        kept += [float(part[at]) for at in sorted((low, high))]
    return np.array(kept)


def _least(values: Array) -> float:
    return float(np.fmin.reduce(values, axis=None))


def _largest(values: Array) -> float:
    return float(np.fmax.reduce(values, axis=None))
