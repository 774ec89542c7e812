"""Flow matching: a sample is carried from noise to actions along a velocity that a network predicts.

The times are multiples of the step, computed in double precision and rounded once, so that an error does not grow with
the number of steps; samples are float32, whatever the precision of the network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np

from ashore.errors import ManifestError
from ashore.package import Array
from ashore.runtime.loops.body import Body, Denoiser, Names, Ties, only, parse
from ashore.runtime.loops.guidance import Guidance, GuidanceParams, Guide, gains
from ashore.runtime.loops.stepping import MAX_STEPS, LoopSession
from ashore.runtime.memory import aligned_zeros
from ashore.spec import Stage

_TIME_DTYPES = ("float32", "float64", "float16")


class FlowParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``x += dt * v(x, t)``, from the noise at `t_start` to the actions at `t_end`."""

    num_steps: Annotated[int, msgspec.Meta(ge=1, le=MAX_STEPS)]
    t_start: float
    t_end: float
    method: Literal["euler", "rk4"] = "euler"
    sample: str = "x_t"
    time: str = "timestep"
    velocity: str = "v_t"
    noise: str = "noise"
    guidance: GuidanceParams | None = None


class Moment(NamedTuple):
    """One time at which the velocity is evaluated."""

    time: float
    ahead: Any
    """What is left of the flow, `t_end` - `time`, with its sign; a float32 array without axes, as the next."""

    gain: Any
    """What the guidance multiplies its correction by before it adds it to the velocity."""


Table: TypeAlias = tuple[tuple[Moment, ...], Any]
"""The moments, and the step in time: one moment a step for Euler, and the half steps too for Runge-Kutta."""


def flow(where: str, stage: Stage, bodies: Sequence[Body]) -> LoopSession:
    """Open a stage whose runner is ``flow``."""
    params = parse(where, stage, FlowParams)
    if params.t_start == params.t_end:
        raise ManifestError(f"{where}: runner.params: expected t_end other than t_start, got {params.t_end} for both")
    body = only(where, bodies)
    names = Names(params.sample, params.time, params.velocity, params.noise)
    ties = Ties(where, stage, body, names, _TIME_DTYPES)
    guidance = None
    if params.guidance is not None:
        if (params.t_start, params.t_end) not in ((1.0, 0.0), (0.0, 1.0)):
            raise ManifestError(
                f"{where}: runner.params: guidance is for flows from 1 to 0 or from 0 to 1, "
                f"got {params.t_start} to {params.t_end}"
            )
        guidance = Guidance(where, params.guidance, ties.shape)
    ties.check(guidance.ports if guidance else {})
    return LoopSession(where, body, ties, FlowSampler(params, guidance), params.num_steps)


class FlowSampler:
    """Integrates the velocity; see `ashore.runtime.loops.stepping.Sampler`."""

    def __init__(self, params: FlowParams, guidance: Guidance | None) -> None:
        self._params = params
        self._guidance = guidance
        self._table: Table = (), 0.0

    def problem(self, num_steps: int) -> str | None:  # noqa: ARG002 - a flow has no grid to fit
        """Why so many steps cannot be taken, or None."""
        return None

    def prepare(self, num_steps: int) -> None:
        """Compute the times of the steps."""
        start, end = self._params.t_start, self._params.t_end
        step = (end - start) / num_steps
        if self._params.method == "euler":
            times = [start + index * step for index in range(num_steps)]
        else:
            times = [*(start + index / 2 * step for index in range(2 * num_steps)), end]
        # The share of the way that is done, in the form that gives the digits of the training side for each direction.
        done = [1 - time if end < start else time for time in times]
        weights = gains(done, self._guidance.max_weight) if self._guidance else np.zeros(len(times), np.float32)
        sign = np.float32(1 if end > start else -1)
        moments = [
            Moment(time, np.asarray(end - time, np.float32), np.asarray(sign * weight))
            for time, weight in zip(times, weights, strict=True)
        ]
        self._table = tuple(moments), np.asarray(step, np.float32)

    def bind(
        self, sample: Array, denoiser: Callable[[Array], Denoiser], inputs: Mapping[str, Array]
    ) -> Callable[[], object]:
        """Fix the buffers of one call."""
        point = sample if self._params.method == "euler" else aligned_zeros("float32", sample.shape)
        bound = denoiser(point)
        guide = self._guidance.bind(point, bound.prediction, inputs) if self._guidance else None
        if self._params.method == "euler":
            return self._euler(sample, bound, guide)
        return self._rk4(sample, point, bound, guide)

    def _euler(self, sample: Array, denoiser: Denoiser, guide: Guide | None) -> Callable[[], object]:
        velocity, run = denoiser
        multiply, add = np.multiply, np.add

        def integrate() -> None:
            moments, step = self._table
            correct = guide.begin() if guide else None
            for time, ahead, gain in moments:
                run(time)
                if correct is not None:
                    correct(ahead, gain)
                multiply(velocity, step, out=velocity)
                add(sample, velocity, out=sample)

        return integrate

    def _rk4(self, sample: Array, point: Array, denoiser: Denoiser, guide: Guide | None) -> Callable[[], object]:
        """The classical method: slopes at the start, twice in the middle, at the end, weighted 1, 2, 2, 1."""
        velocity, run = denoiser
        slope, scaled = (aligned_zeros("float32", sample.shape) for _ in range(2))
        multiply, add = np.multiply, np.add
        once, twice, sixth = (np.asarray(weight, np.float32) for weight in (1, 2, 1 / 6))

        def integrate() -> None:
            moments, step = self._table
            half = np.asarray(step / twice)
            correct = guide.begin() if guide else None
            for index in range(0, len(moments) - 1, 2):
                start, middle, end = moments[index : index + 3]
                np.copyto(point, sample)
                slope.fill(0)
                stages = (start, once, half), (middle, twice, half), (middle, twice, step), (end, once, None)
                for (time, ahead, gain), weight, onward in stages:
                    run(time)
                    if correct is not None:
                        correct(ahead, gain)
                    multiply(velocity, weight, out=scaled)
                    add(slope, scaled, out=slope)
                    if onward is not None:
                        multiply(velocity, onward, out=scaled)
                        add(sample, scaled, out=point)
                multiply(slope, sixth, out=slope)
                multiply(slope, step, out=slope)
                add(sample, slope, out=sample)

        return integrate
