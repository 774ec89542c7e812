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
from typing import Any, TypeAlias

import numpy as np

from ashore.errors import BackendError
from ashore.package import Array, Arrays, Package, batch_of
from ashore.processors import build
from ashore.runtime import BackendChoice, Options, load
from ashore.runtime.loops import Body, open_loop
from ashore.runtime.onnx import open_session
from ashore.runtime.queueing import find_queue
from ashore.spec import RATES, Endpoint, Rate, Stage, Wiring, concrete

ROUND = 20
WARMUP = 200

_Opened: TypeAlias = "Callable[[bytes, Options, str], Any]"
_Run: TypeAlias = "Callable[[None, dict[str, Array]], list[Array]]"
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
    candidates: Mapping[str, Callable[[], object]],
    samples: int,
    *,
    reset: Callable[[], None] = lambda: None,
    advance: Callable[[int], None] = lambda _: None,
) -> dict[str, Latency]:
    """Measure functions that take turns, with garbage collection off.

    Args:
        candidates: name -> what to call.
        samples: calls of each.
        reset: called before each round, so that nothing runs on for ever with the same inputs.
        advance: called with the number of calls made since the last time, for a progress bar.
    """
    taken = {name: np.zeros(samples, np.int64) for name in candidates}
    for _ in range(WARMUP // ROUND):
        reset()
        for call in candidates.values():
            for _ in range(ROUND):
                call()
    enabled = gc.isenabled()
    gc.disable()
    try:
        for start in range(0, samples, ROUND):
            stop = min(start + ROUND, samples)
            reset()
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
    package: Package,
    *,
    backend: BackendChoice = "onnx",
    device: str | None = None,
    threads: int = 1,
    samples: int = 10_000,
    advance: Callable[[int], None] = lambda _: None,
) -> list[Timing]:
    """Measure every rate of a package, against its ONNX files in ONNX Runtime on the CPU.

    Args:
        package: what to measure. Its inputs come from its golden rollout, or are random if it has none.
        backend: what runs the stages of the policy, as for `ashore.load`.
        device: where they run, likewise.
        threads: threads within one operation, for both candidates.
        samples: calls of each candidate.
        advance: called with the number of calls made since the last time, for a progress bar.
    """
    policy = load(package, backend=backend, device=device, threads=threads)
    queue = find_queue(package.manifest, str(package.path))
    decide = policy.step if queue is None else policy.predict_action_chunk  # else most calls would do nothing
    inputs = {rate: _example(package, rate) for rate in RATES}
    calls: dict[Rate, Callable[[Arrays], object]] = {"policy": decide, "substep": policy.substep}
    timings: list[Timing] = []
    for rate in RATES:
        if not any(stage.rate == rate for stage in package.manifest.stages.values()):
            continue
        bare = Bare(package, rate, inputs[rate], threads=threads)

        def reset(bare: Bare = bare) -> None:
            bare.reset()
            policy.reset()
            decide(inputs["policy"])

        candidates = {"policy": partial(calls[rate], inputs[rate]), "bare": bare.call}
        taken = take_turns(candidates, samples, reset=reset, advance=advance)
        timings.append(Timing(rate, taken["policy"], taken["bare"]))
    return timings


class Bare:
    """A rate of a package, run as one would by hand.

    Args:
        package: its ONNX artifacts are opened anew, with the session options of a policy; a queue is left out.
        rate: whose stages to run.
        inputs: the package inputs of that rate, the same in every call.
        threads: threads within one operation.
        opened: opens the bytes of an ONNX file, given options and what to call it in an error; the result has ``run``
            and ``get_outputs`` as an ``onnxruntime.InferenceSession`` has them.
    """

    def __init__(
        self,
        package: Package,
        rate: Rate,
        inputs: Arrays,
        *,
        threads: int = 1,
        opened: _Opened = open_session,
    ) -> None:
        queue = find_queue(package.manifest, str(package.path))
        manifest = package.manifest if queue is None else queue.rest
        graph = Wiring(manifest)
        values = {Endpoint("inputs", name): value for name, value in inputs.items()}
        values |= {Endpoint("states", name): value for name, value in package.initial_state().items()}
        feeds: dict[str, dict[str, Array]] = {}
        for name in (stage for stage in graph.order() if manifest.stages[stage].rate == rate):
            sources = {port: graph.into(Endpoint(name, port))[0] for port in manifest.stages[name].inputs}
            feeds[name] = {port: values[source] for port, source in sources.items() if source in values}
        self._stages: list[tuple[_Run, dict[str, Array], list[_Move]]] = []
        for name, feed in feeds.items():
            run, ports = _by_hand(package, name, threads, opened)
            moves: list[_Move] = []
            for index, port in enumerate(ports):
                targets = graph.out_of(Endpoint(name, port))
                readers = [reader for target in targets if target.group == "states" for reader in graph.out_of(target)]
                moves += [(index, feeds[end.group], end.name) for end in (*targets, *readers) if end.group in feeds]
            self._stages.append((run, feed, moves))
        self._begin = [(feed, dict(feed)) for feed in feeds.values()]
        only, first_feed, moves = self._stages[0]
        self.call: Callable[[], object] = self._run
        """Runs the rate once."""

        if len(self._stages) == 1 and not moves:
            self.call = partial(only, None, first_feed)

    def reset(self) -> None:
        """Start with the initial states again."""
        for feed, start in self._begin:
            feed.update(start)

    def _run(self) -> None:
        for run, feed, moves in self._stages:
            results = run(None, feed)
            for index, other, port in moves:
                other[port] = results[index]


def _by_hand(package: Package, name: str, threads: int, opened: _Opened) -> tuple[_Run, list[str]]:
    """How a stage is run without a policy, and the names of its results in order."""
    stage, where = package.manifest.stages[name], f"{package.path}: stage {name!r}"
    if stage.processor is not None:
        apply, ports = build(where, stage, package.read), list(stage.outputs)

        def process(_: None, feed: dict[str, Array]) -> list[Array]:
            results = apply(feed)
            return [results[port] for port in ports]

        return process, ports
    if stage.runner is not None:
        return _loop_by_hand(package, stage, where, threads, opened), list(stage.outputs)
    artifact = stage.artifacts.get("onnx")
    if artifact is None:
        raise BackendError(f"{where} has no ONNX artifact to measure against")
    session = opened(package.read(artifact.path), Options(threads=threads), where)
    return session.run, [output.name for output in session.get_outputs()]


class _Plain:
    """A stage of a loop that is run by ``session.run``, with what that gives copied to where the loop wants it."""

    errors: tuple[type[Exception], ...] = ()

    def __init__(self, run: _Run, ports: list[str]) -> None:
        self._run, self._ports = run, ports

    def bind(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Callable[[], object]:
        feed = dict(inputs)

        def call() -> None:
            for port, value in zip(self._ports, self._run(None, feed), strict=True):
                outputs[port][...] = value

        return call


def _loop_by_hand(package: Package, stage: Stage, where: str, threads: int, opened: _Opened) -> _Run:
    """A loop with plain calls of its bodies in it."""
    stages, runner = package.manifest.stages, stage.runner
    bodies = [
        Body(name, stages[name], _Plain(*_by_hand(package, name, threads, opened)))
        for name in (runner.stages if runner else ())
    ]
    given, made = (
        {port: np.zeros(concrete(spec.shape, 1), spec.dtype) for port, spec in ports.items()}
        for ports in (stage.inputs, stage.outputs)
    )
    call = open_loop(where, stage, bodies).bind(given, made)

    def run(_: None, feed: dict[str, Array]) -> list[Array]:
        for port, value in feed.items():
            given[port][...] = value
        call()
        return list(made.values())

    return run


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
        name: np.asarray(rng.standard_normal(concrete(port.shape, 1)) * port.dtype.startswith("float"), port.dtype)
        for name, port in ports.items()
    }


def _latency(times: Array) -> Latency:
    p50, p99, p999 = (float(np.percentile(times, q)) / 1e3 for q in (50, 99, 99.9))
    return Latency(len(times), p50, p99, p999)
