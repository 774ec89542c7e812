"""What a page proves: the recording, replayed through the saved files, and how long each call took.

Where a package cannot be run here (a backend that is missing, no recording), a page is made all the same, and says so.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle
from time import perf_counter, perf_counter_ns

import numpy as np

from ashore.errors import AshoreError, VerificationError
from ashore.package import Array, Arrays, Golden, Package, batch_of
from ashore.runtime import BackendChoice, Policy, load
from ashore.spec import CALLS, RATES, Rate, Wiring, concrete
from ashore.verify import Report, replay

SAMPLES = 1000
MAX_MEASURING_S = 5.0
"""A policy that takes long is measured fewer times than asked for, so that a page never takes minutes."""

_WARM_UP = 20


@dataclass(frozen=True)
class Latency:
    """How long the calls of one rate took, on this machine and while this page was made."""

    times_us: Array
    """float64 [calls]."""

    def percentile(self, percent: float) -> float:
        """In microseconds."""
        return float(np.percentile(self.times_us, percent))


@dataclass(frozen=True)
class Evidence:
    """What running a package showed."""

    golden: Golden | None
    """The recording."""

    report: Report | None = None
    """What replaying it found, stepwise and free-running; None if it was not replayed."""

    computed: tuple[Arrays, ...] = ()
    """What the package computed in each tick, free-running: ``outputs/name`` and ``states/name`` -> array. Shorter than
    the recording if an error ended it."""

    stopped: str | None = None
    """The error that ended it."""

    latency: Mapping[Rate, Latency] = field(default_factory=dict[Rate, Latency])
    not_measured: str | None = None
    """Why a rate was not timed."""

    not_run: str | None = None
    """Why the package could not be run here at all."""


def gather(
    package: Package,
    *,
    samples: int = SAMPLES,
    backend: BackendChoice = None,
    advance: Callable[[str], None] = lambda _: None,
) -> Evidence:
    """Replay the recording of a package, and measure it.

    Args:
        package: what to run.
        samples: calls of each rate to time; 0 times nothing.
        backend: what runs the stages, as for `ashore.load`.
        advance: called with what is being done.

    Raises:
        AshoreError: `backend` is given and cannot run the package.
    """
    golden = package.golden()
    try:
        advance("loading")
        policy = load(package, backend=backend, batch=batch_of(golden, package.manifest) if golden else 1)
    except AshoreError as error:
        if backend is not None:  # whoever names one wants that and nothing else
            raise
        return Evidence(golden, not_run=str(error))
    report, computed, stopped = None, (), None
    if golden is not None:
        advance("replaying")
        report = replay(package, golden=golden, backend=backend)
        computed, stopped = _follow(policy, golden)
    latency: dict[Rate, Latency] = {}
    not_measured = None if samples else "It was asked not to."
    if samples:
        advance("measuring")
        for rate in RATES:
            if any(stage.rate == rate for stage in package.manifest.stages.values()):
                try:
                    latency[rate] = _measure(policy, golden, rate, samples)
                except AshoreError as error:
                    not_measured = f"{CALLS[rate]}: {error}"
    return Evidence(golden, report, computed, stopped, latency, not_measured)


def _follow(policy: Policy, golden: Golden) -> tuple[tuple[Arrays, ...], str | None]:
    """Run the recorded inputs and resets, and keep everything that comes out."""
    computed: list[Arrays] = []
    for tick in golden.ticks:
        if tick.reset:
            policy.reset()
        try:
            outputs = policy.step(tick.inputs) if tick.rate == "policy" else policy.substep(tick.inputs)
        except AshoreError as error:
            return tuple(computed), f"tick {tick.index}: {error}"
        states = policy.state()
        computed.append(
            {f"outputs/{name}": value for name, value in outputs.items()}
            | {f"states/{name}": value for name, value in states.items()}
        )
    return tuple(computed), None


def _measure(policy: Policy, golden: Golden | None, rate: Rate, samples: int) -> Latency:
    """Time the calls of a rate, in the order of the recording, over and over; its first calls warm up."""
    times: list[float] = []
    calls, deadline = 0, perf_counter() + MAX_MEASURING_S
    enabled = gc.isenabled()
    gc.disable()
    try:
        for kind, reset, inputs in _ticks(policy, golden):
            if reset:
                policy.reset()
            call = policy.step if kind == "policy" else policy.substep
            began = perf_counter_ns()
            call(inputs)
            taken = (perf_counter_ns() - began) / 1e3
            if kind == rate:
                calls += 1
                if calls > min(_WARM_UP, samples):
                    times.append(taken)
            if len(times) >= samples or perf_counter() > deadline:
                break
    finally:
        if enabled:
            gc.enable()
    if not times:
        raise VerificationError(f"no call was made within {MAX_MEASURING_S:g} s")
    return Latency(np.array(times))


def _ticks(policy: Policy, golden: Golden | None) -> Iterator[tuple[Rate, bool, Arrays]]:
    """The recorded calls for ever; without a recording, a decision and its substeps on zeros."""
    if golden is not None:
        for tick in cycle(golden.ticks):
            yield tick.rate, tick.reset, tick.inputs
        return
    graph, timing = Wiring(policy.manifest), policy.manifest.timing
    zeros: dict[Rate, Arrays] = {
        rate: {
            name: np.zeros(concrete(policy.inputs[name].shape, policy.batch), policy.inputs[name].dtype)
            for name in graph.inputs_of(rate)
        }
        for rate in RATES
    }
    has_substeps = any(stage.rate == "substep" for stage in policy.manifest.stages.values())
    substeps = (timing.decimation if timing else 1) if has_substeps else 0
    while True:
        yield "policy", False, zeros["policy"]
        for _ in range(substeps):
            yield "substep", False, zeros["substep"]
