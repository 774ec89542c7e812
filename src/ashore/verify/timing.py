"""How long a step takes, against a bare call of the same file in the same run.

Machines are noisy, so candidates take turns in short rounds and what is reported first is their ratio. The bare
candidate is what one would write by hand: ``session.run`` with a dict, stage after stage, states fed back, no checks.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns
from typing import TypeAlias

import numpy as np

from ashore.errors import BackendError
from ashore.package import Array, Arrays, Package, batch_of, concrete
from ashore.runtime import Options, load
from ashore.runtime.onnx import open_session
from ashore.spec import Endpoint, Rate, Wiring

ROUND = 20
WARMUP = 200

_SessionRun: TypeAlias = "Callable[[None, dict[str, Array]], list[Array]]"
_Move: TypeAlias = "tuple[int, dict[str, Array], str]"
"""(which result, the feed it goes into, under which name)."""


@dataclass(frozen=True)
class Latency:
    """Percentiles of one candidate, in microseconds."""

    samples: int
    p50_us: float
    p99_us: float
    p999_us: float


@dataclass(frozen=True)
class Timing:
    """One rate of a package, measured."""

    rate: Rate
    policy: Latency
    bare: Latency

    @property
    def ratio(self) -> float:
        """The policy's median over that of the bare call."""
        return self.policy.p50_us / self.bare.p50_us


def take_turns(
    candidates: Mapping[str, Callable[[], object]], samples: int, advance: Callable[[int], None] = lambda _: None
) -> dict[str, Latency]:
    """Measure functions that take turns, with garbage collection off.

    Args:
        candidates: name -> what to call.
        samples: calls of each.
        advance: called with the number of calls made since the last time, for a progress bar.
    """
    taken = {name: np.zeros(samples, np.int64) for name in candidates}
    for call in candidates.values():
        for _ in range(WARMUP):
            call()
    enabled = gc.isenabled()
    gc.disable()
    try:
        for start in range(0, samples, ROUND):
            stop = min(start + ROUND, samples)
            for name, call in candidates.items():
                times = taken[name]
                for index in range(start, stop):
                    began = perf_counter_ns()
                    call()
                    times[index] = perf_counter_ns() - began
            advance((stop - start) * len(candidates))
    finally:
        if enabled:
            gc.enable()
    return {name: _latency(times) for name, times in taken.items()}


def bench(
    package: Package, *, threads: int = 1, samples: int = 10_000, advance: Callable[[int], None] = lambda _: None
) -> list[Timing]:
    """Measure every rate of a package on ONNX Runtime.

    Args:
        package: what to measure. Its inputs come from its golden rollout, or are random if it has none.
        threads: threads within one operation, for both candidates.
        samples: calls of each candidate.
        advance: as in `take_turns`.
    """
    policy = load(package, threads=threads)
    timings: list[Timing] = []
    calls: dict[Rate, Callable[[Arrays], object]] = {"policy": policy.step, "substep": policy.substep}
    for rate, call in calls.items():
        if any(stage.rate == rate for stage in package.manifest.stages.values()):
            inputs = _example(package, rate)
            bare = bare_call(package, rate, inputs, threads=threads)
            taken = take_turns({"policy": partial(call, inputs), "bare": bare}, samples, advance)
            timings.append(Timing(rate, taken["policy"], taken["bare"]))
    return timings


def bare_call(package: Package, rate: Rate, inputs: Arrays, *, threads: int = 1) -> Callable[[], object]:
    """A rate of a package, run as one would by hand.

    Args:
        package: its ONNX artifacts are opened anew, with the session options of a policy.
        rate: whose stages to run.
        inputs: the package inputs of that rate, the same in every call.
        threads: threads within one operation.
    """
    manifest, graph = package.manifest, Wiring(package.manifest)
    values = {Endpoint("inputs", name): value for name, value in inputs.items()}
    values |= {Endpoint("states", name): value for name, value in package.initial_state().items()}
    feeds: dict[str, dict[str, Array]] = {}
    for name in (stage for stage in graph.order() if manifest.stages[stage].rate == rate):
        sources = {port: graph.into(Endpoint(name, port))[0] for port in manifest.stages[name].inputs}
        feeds[name] = {port: values[source] for port, source in sources.items() if source in values}
    stages: list[tuple[_SessionRun, dict[str, Array], list[_Move]]] = []
    for name, feed in feeds.items():
        artifact = manifest.stages[name].artifacts.get("onnx")
        if artifact is None:
            raise BackendError(f"stage {name!r} has no ONNX artifact to measure")
        session = open_session(package.read(artifact.path), Options(threads=threads), artifact.path)
        moves: list[_Move] = []
        for index, port in enumerate(output.name for output in session.get_outputs()):
            targets = graph.out_of(Endpoint(name, port))
            readers = [reader for target in targets if target.group == "states" for reader in graph.out_of(target)]
            moves += [(index, feeds[end.group], end.name) for end in (*targets, *readers) if end.group in feeds]
        stages.append((session.run, feed, moves))
    if len(stages) == 1 and not stages[0][2]:
        return partial(stages[0][0], None, stages[0][1])

    def call() -> None:
        for run, feed, moves in stages:
            results = run(None, feed)
            for index, other, port in moves:
                other[port] = results[index]

    return call


def _example(package: Package, rate: Rate) -> dict[str, Array]:
    """Inputs to measure with: the first recorded ones, else random numbers."""
    golden = package.golden()
    if golden is not None and batch_of(golden, package.manifest) == 1:
        for tick in golden.ticks:
            if tick.rate == rate:
                return {name: np.array(value) for name, value in tick.inputs.items()}
    rng = np.random.default_rng(0)
    ports = {name: package.manifest.inputs[name] for name in Wiring(package.manifest).inputs_of(rate)}
    return {
        name: (rng.standard_normal(concrete(port.shape, 1)) * port.dtype.startswith("float")).astype(port.dtype)
        for name, port in ports.items()
    }


def _latency(times: Array) -> Latency:
    p50, p99, p999 = (float(np.percentile(times, q)) / 1e3 for q in (50, 99, 99.9))
    return Latency(len(times), p50, p99, p999)
