"""The golden rollout of a package, replayed by the one file.

A tick of the file that decides is a step and the substep after it; any other tick is a substep. After a reset the file
is given memory of zeros, as a controller does. A recording may hold what the file cannot be asked for: a step without a
substep, or an input that changed between the two. Such ticks are passed over, and the next one starts from the recorded
state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ashore.errors import BackendError, ExportError
from ashore.interop.exploy.layout import Layout, memories
from ashore.package import Array, Arrays, Golden, Tick, batch_of
from ashore.runtime.one_file import STEP_COUNT, memory_in, memory_out
from ashore.runtime.onnx import runtime_errors
from ashore.spec import Manifest, Port, State, concrete
from ashore.verify.replay import DEFAULT_ATOL, DEFAULT_RTOL


@dataclass(frozen=True)
class Replayed:
    """What a replay found."""

    ticks: int
    """How many ticks were compared."""

    max_abs_error: float


@dataclass(frozen=True)
class _FileTick:
    """One run of the file: a step and its substep, a step alone, or a substep alone."""

    parts: tuple[Tick, ...]
    decides: bool
    follows: bool
    """Whether it starts from what the tick before it left."""

    before: Arrays
    """The recorded states that it starts from."""


def replay(session: Any, manifest: Manifest, layout: Layout, initial: Arrays, golden: Golden) -> Replayed:
    """Run the rollout through the file, memory fed back.

    Args:
        session: the file, opened by ONNX Runtime.
        manifest: of the package.
        layout: what the file calls things.
        initial: state -> initial value.
        golden: what was recorded.

    Raises:
        ExportError: something differs by more than the tolerance of the package's verification, else 1e-5.
    """
    return _Replay(session, manifest, layout, initial, golden).run()


class _Replay:
    def __init__(self, session: Any, manifest: Manifest, layout: Layout, initial: Arrays, golden: Golden) -> None:
        self._session, self._manifest, self._layout, self._golden = session, manifest, layout, golden
        self._batch = batch_of(golden, manifest)
        self._initial = {
            name: np.broadcast_to(value, concrete(manifest.states[name].shape, self._batch))
            for name, value in initial.items()
        }
        self._outputs: list[str] = [port.name for port in session.get_outputs()]
        proof = manifest.verification
        proven = proof is not None and proof.status == "passed"
        self._atol = proof.atol if proof and proven and proof.atol is not None else DEFAULT_ATOL
        self._rtol = proof.rtol if proof and proven and proof.rtol is not None else DEFAULT_RTOL
        self._worst = 0.0

    def run(self) -> Replayed:
        count, memory = 0, self._forgotten()
        for tick in self._ticks():
            memory = self._memory(tick, memory)
            results = self._tick(tick, memory)
            for part in tick.parts:
                for name, value in part.outputs.items():
                    self._compare(part, f"output {name!r}", value, results[name])
            for name, value in tick.parts[-1].states.items():
                self._compare(tick.parts[-1], f"state {name!r}", value, results[memory_out(name)])
            memory = {port: results[memory_out(name)] for name, port in self._ports()}
            count += 1
        return Replayed(count, self._worst)

    def _ticks(self) -> Iterator[_FileTick]:
        ticks, before, follows, index = self._golden.ticks, self._initial, True, 0
        acts = any(stage.rate == "substep" for stage in self._manifest.stages.values())
        while index < len(ticks):
            tick, decides = ticks[index], ticks[index].rate == "policy"
            following = ticks[index + 1] if index + 1 < len(ticks) else None
            parts = (tick,)
            if decides and acts and following is not None and _one_tick(tick, following):
                parts = (tick, following)
            fits = len(parts) == 1 + acts if decides else self._layout.decimation > 1
            if fits:
                yield _FileTick(parts, decides, follows, before)
            before, follows, index = parts[-1].states, fits, index + len(parts)

    def _memory(self, tick: _FileTick, last: dict[str, Array]) -> dict[str, Array]:
        """What the memory holds before a tick."""
        first = tick.parts[0]
        kept = {name for name, state in self._manifest.states.items() if state.reset == "keep" and first.index > 0}
        if first.reset and not kept:
            return self._forgotten()
        if tick.follows and not first.reset:
            return last
        states = {
            name: self._initial[name] if first.reset and name not in kept else value
            for name, value in tick.before.items()
        }
        given = {memory_in(name): value for name, value in states.items()}
        return {**self._forgotten(), **given, memory_in(self._layout.decided): np.array([True])}

    def _forgotten(self) -> dict[str, Array]:
        specs = memories(self._manifest, self._layout)
        zeros = {memory_in(name): self._zeros(spec) for name, spec in specs.items()}
        return {**zeros, memory_in(self._layout.decided): np.array([False])}

    def _ports(self) -> list[tuple[str, str]]:
        names = [*memories(self._manifest, self._layout), self._layout.decided]
        return [(name, memory_in(name)) for name in names]

    def _zeros(self, spec: Port | State) -> Array:
        return np.zeros(concrete(spec.shape, self._batch), spec.dtype)

    def _tick(self, tick: _FileTick, memory: Mapping[str, Array]) -> dict[str, Array]:
        given = {name: value for part in tick.parts for name, value in part.inputs.items()}
        inputs = {name: given[name] if name in given else self._zeros(p) for name, p in self._manifest.inputs.items()}
        count = np.array(0 if tick.decides else 1, np.int32)
        try:
            results = self._session.run(None, {STEP_COUNT: count, **inputs, **memory})
        except runtime_errors() as error:
            raise BackendError(f"tick {tick.parts[0].index} of the golden rollout: ONNX Runtime: {error}") from error
        return dict(zip(self._outputs, results, strict=True))

    def _compare(self, tick: Tick, what: str, wanted: Array, got: Array) -> None:
        if wanted.dtype.kind == "f":
            close = np.isclose(got, wanted, rtol=self._rtol, atol=self._atol, equal_nan=True)
            finite = np.isfinite(wanted) & np.isfinite(got)
            error = np.abs(np.where(finite, got, 0).astype(np.float64) - np.where(finite, wanted, 0))
            self._worst = max(self._worst, float(error.max(initial=0.0)))
        else:
            close = np.equal(got, wanted)
        if got.shape != wanted.shape or not close.all():
            index = tuple(int(part) for part in np.argwhere(~close)[0]) if got.shape == wanted.shape else ()
            raise ExportError(
                f"tick {tick.index} of the golden rollout: {what}{list(index)}: expected {wanted[index]!r}, the file "
                f"computes {got[index]!r}; nothing was written"
            )


def _one_tick(step: Tick, substep: Tick) -> bool:
    """Whether a step and what comes after it can be one run of the file, which takes each input once."""
    if substep.rate != "substep" or substep.reset:
        return False
    shared = step.inputs.keys() & substep.inputs.keys()
    return all(
        np.array_equal(step.inputs[name], substep.inputs[name], equal_nan=_may_be_nan(step.inputs[name]))
        for name in shared
    )


def _may_be_nan(array: Array) -> bool:
    return array.dtype.kind == "f"
