"""Whether every input does something: each is changed, element by element, and some output has to change.

An input that changes nothing was frozen by the export, is multiplied by zero, or was never needed. Either way a person
should know before a robot is asked to walk faster by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from types import EllipsisType
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from ashore.errors import AshoreError
from ashore.package import Array, Arrays, Golden, Tick
from ashore.runtime import Policy
from ashore.runtime.ranges import Ranges
from ashore.spec import BATCH, TEXT
from ashore.verify.references import run_tick

BUDGET_S = 4.0
Place: TypeAlias = tuple[int | slice | EllipsisType, ...]
"""Which elements of an input are changed."""

_PATIENCE = 2
"""What changes nothing takes longest to see; so many times the budget, and no more is looked at."""

_FEW_TICKS, _MANY_TICKS = 4, 64
_MOST_ELEMENTS = 512
_STEPS = (1.0, -1.0, 0.1, 4.0)
"""By how much of its range an element is changed, one after the other until something reacts."""


@dataclass
class Sensitivity:
    """Which inputs do something."""

    by: dict[str, Literal["element", "port"]] = field(default_factory=dict[str, Literal["element", "port"]])
    """Input -> whether its elements were changed one by one, or all together, where they are many or steps are slow."""

    silent: list[str] = field(default_factory=list[str])
    """Inputs that change nothing."""

    silent_elements: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Input -> its elements that change nothing, where others of it do."""

    skipped: list[str] = field(default_factory=list[str])
    """Inputs that were not looked at, since steps take too long."""


class _Window(NamedTuple):
    """Ticks from a reset on, and what comes out of them."""

    ticks: Sequence[Tick]
    outputs: list[Arrays]


def sensitivity(policy: Policy, golden: Golden, *, budget_s: float = BUDGET_S) -> Sensitivity:
    """Change every input, and see whether an output reacts within a few ticks, or within a longer episode.

    Args:
        policy: what is looked at.
        golden: what the inputs are changed from.
        budget_s: about how long this may take; elements are changed together where there are too many for it, and
            inputs are passed over where even that takes too long.
    """
    few, tick_s = _windows(policy, golden, _FEW_TICKS)
    many: list[_Window] = []
    ranges, found = Ranges(golden, policy.manifest), Sensitivity()
    inputs = [name for name in policy.inputs if any(name in tick.inputs for tick in golden.ticks)]
    each_s = tick_s * _FEW_TICKS
    elements = {name: list(_elements(policy, name, few)) for name in inputs}
    fits = each_s * sum(map(len, elements.values())) <= budget_s
    if not fits and each_s * len(inputs) > budget_s:
        found.skipped = inputs
        return found
    deadline = perf_counter() + _PATIENCE * budget_s
    for name in inputs:
        one_by_one = fits and not all(isinstance(part, slice) for part in elements[name][0])
        silent: list[str] = []
        places: list[Place] = elements[name] if one_by_one else [(...,)]
        for place in places:
            if perf_counter() > deadline:
                break
            if _reacts(policy, few, name, place, ranges):
                continue
            if not many:
                many, _ = _windows(policy, golden, _MANY_TICKS)
            if not _reacts(policy, many, name, place, ranges):
                silent.append(_label(policy, name, place))
        if perf_counter() > deadline:
            found.skipped.append(name)
            continue
        found.by[name] = "element" if one_by_one else "port"
        if len(silent) == len(places):
            found.silent.append(name)
        elif silent:
            found.silent_elements[name] = silent
    return found


def _windows(policy: Policy, golden: Golden, length: int) -> tuple[list[_Window], float]:
    """The ticks after each reset, with what comes out of them; and how long a tick takes."""
    timing = policy.manifest.timing
    room = length + (timing.decimation if timing else 0)
    starts = [index for index, tick in enumerate(golden.ticks) if tick.reset]
    found: list[_Window] = []
    began, count = perf_counter(), 0
    for start, stop in zip(starts, [*starts[1:], len(golden.ticks)], strict=True):
        ticks = golden.ticks[start : min(stop, start + room)]
        found.append(_Window(ticks, list(_run(policy, ticks))))
        count += len(ticks)
    return found, (perf_counter() - began) / max(count, 1)


def _run(policy: Policy, ticks: Sequence[Tick]) -> Iterator[Arrays]:
    policy.reset()
    for tick in ticks:
        yield run_tick(policy, tick.rate, tick.inputs)


def _elements(policy: Policy, name: str, windows: Sequence[_Window]) -> Iterator[Place]:
    """The places of an input, each in all rows of a batch."""
    shape = next(tick.inputs[name].shape for one in windows for tick in one.ticks if name in tick.inputs)
    declared = policy.inputs[name].shape
    axes = [1 if dim == BATCH else length for dim, length in zip(declared, shape, strict=True)]
    if np.prod(axes) > _MOST_ELEMENTS or policy.inputs[name].kind == TEXT:
        yield from [(slice(None),) * len(shape)]
        return
    for place in np.ndindex(*axes):
        yield tuple(slice(None) if dim == BATCH else index for dim, index in zip(declared, place, strict=True))


def _reacts(policy: Policy, windows: Sequence[_Window], name: str, place: Place, ranges: Ranges) -> bool:
    for window in windows:
        for step in _STEPS:
            if _differs(policy, window, name, place, step, ranges):
                return True
    return False


def _differs(policy: Policy, window: _Window, name: str, place: Place, step: float, ranges: Ranges) -> bool:
    policy.reset()
    for tick, outputs in zip(window.ticks, window.outputs, strict=True):
        inputs = dict(tick.inputs)
        if name in inputs:
            inputs[name] = _changed(policy, name, inputs[name], place, step, ranges)
        try:
            got = run_tick(policy, tick.rate, inputs)
        except AshoreError:  # such as an index that is out of range: the input was looked at
            return True
        if any(not np.array_equal(value, got[port]) for port, value in outputs.items()):
            return True
    return False


def _changed(policy: Policy, name: str, value: Array, place: Place, step: float, ranges: Ranges) -> Array:
    value = value.copy()
    if value.dtype == np.bool_:
        value[place] = ~value[place]
    elif policy.inputs[name].kind == TEXT:
        letters = (value >= ord("a")) & (value <= ord("z"))
        value[letters] = ord("a") + (value[letters] - ord("a") + 1 + int(abs(step) * 3)) % 26
    elif value.dtype.kind in "iu":
        bounds = np.iinfo(value.dtype)
        by = int(np.copysign(max(1, round(abs(step))), step))
        value[place] = np.clip(value[place].astype(np.int64) + by, bounds.min, bounds.max).astype(value.dtype)
    else:
        value[place] = value[place] + np.asarray(step * _scale(name, ranges)).astype(value.dtype)
    return value


def _scale(name: str, ranges: Ranges) -> float:
    """The width of an input's range, or a part of its magnitude, or 1."""
    seen = ranges.get(name)
    if seen is None:
        return 1.0
    low, high = seen.lowest[np.isfinite(seen.lowest)], seen.highest[np.isfinite(seen.highest)]
    if not low.size or not high.size:
        return 1.0
    width = float(high.max() - low.min())
    return width or 0.1 * float(max(np.abs(low).max(), np.abs(high).max())) or 1.0


def _label(policy: Policy, name: str, place: Place) -> str:
    names = policy.inputs[name].element_names
    last = place[-1] if place else None
    if names and names[-1] and isinstance(last, int):
        return names[-1][last]
    return str([one for one in place if isinstance(one, int)])
