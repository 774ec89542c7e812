"""Diffusion: a sample is freed of noise step by step, by ``ddpm`` with fresh noise in between or by ``ddim`` without.

The formulas are those of the schedulers of diffusers, in their order and in float32. What depends only on the step is
computed beforehand; there is no random generator here, so the noise of every step is an input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from ashore.errors import ManifestError
from ashore.package import Array
from ashore.runtime.loops.body import Body, Denoiser, Names, Ties, only, parse
from ashore.runtime.loops.noise_schedule import NoiseParams, check_noise, retained, steps_problem, timesteps
from ashore.runtime.loops.stepping import LoopSession
from ashore.runtime.memory import aligned_zeros
from ashore.spec import Port, Stage

_LEAST_VARIANCE = np.float32(1e-20)


class DdpmParams(NoiseParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What ``ddpm`` says beyond what every diffusion does."""

    variance_type: Literal["fixed_small", "fixed_small_log", "fixed_large"] = "fixed_small"
    step_noise: str = "step_noise"


class DdimParams(NoiseParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What ``ddim`` says beyond what every diffusion does."""

    set_alpha_to_one: bool = True
    eta: float = 0.0


class Step(NamedTuple):
    """One step. All but the timestep are float32 arrays without axes."""

    timestep: int
    signal: Any
    """What the clean sample is multiplied by in the noisy one."""

    noise: Any
    """What the noise is multiplied by in it."""

    clean: Any
    """What the estimate of the clean sample is multiplied by in the next sample."""

    other: Any
    """What the sample (``ddpm``) or the estimate of its noise (``ddim``) is multiplied by in the next sample."""

    fresh: Any | None
    """What the fresh noise is multiplied by, where some is added."""


def ddpm(where: str, stage: Stage, bodies: Sequence[Body]) -> LoopSession:
    """Open a stage whose runner is ``ddpm``."""
    return _open(where, stage, bodies, parse(where, stage, DdpmParams))


def ddim(where: str, stage: Stage, bodies: Sequence[Body]) -> LoopSession:
    """Open a stage whose runner is ``ddim``."""
    params = parse(where, stage, DdimParams)
    if params.eta != 0:
        raise ManifestError(f"{where}: runner.params: expected an eta of 0, got {params.eta}; use ddpm for fresh noise")
    return _open(where, stage, bodies, params)


def _open(where: str, stage: Stage, bodies: Sequence[Body], params: DdpmParams | DdimParams) -> LoopSession:
    check_noise(where, params)
    body = only(where, bodies)
    names = Names(params.sample, params.timestep, params.model_output, params.noise)
    ties = Ties(where, stage, body, names, ("int64",))
    own: dict[str, Port] = {}
    if isinstance(params, DdpmParams):
        own[params.step_noise] = Port(dtype="float32", shape=(params.num_inference_steps, *ties.shape))
        if params.step_noise == params.noise:
            raise ManifestError(f"{where}: runner.params: noise and step_noise are both {params.noise!r}")
    ties.check(own)
    sampler = DiffusionSampler(params)
    if problem := sampler.problem(params.num_inference_steps):
        raise ManifestError(f"{where}: runner.params.num_inference_steps: {problem}")
    return LoopSession(where, body, ties, sampler, params.num_inference_steps)


class DiffusionSampler:
    """Takes noise away step by step; see `ashore.runtime.loops.stepping.Sampler`."""

    def __init__(self, params: DdpmParams | DdimParams) -> None:
        self._params = params
        self._retained = retained(params)
        self._steps: tuple[Step, ...] = ()

    def problem(self, num_steps: int) -> str | None:
        """Why so many steps cannot be taken, or None."""
        params = self._params
        if isinstance(params, DdpmParams) and num_steps > params.num_inference_steps:
            return f"expected at most the {params.num_inference_steps} rows of {params.step_noise!r}, got {num_steps}"
        return steps_problem(params, num_steps)

    def prepare(self, num_steps: int) -> None:
        """Compute the timesteps and the coefficients of the steps."""
        taken = timesteps(self._params, num_steps)
        kept = self._retained[taken]
        if isinstance(self._params, DdpmParams):
            clean, other, fresh = _ddpm(self._params, self._retained, taken)
        else:
            clean, other = _ddim(self._params, self._retained, taken)
            fresh = None
        columns = [list(map(np.asarray, column)) for column in (np.sqrt(kept), np.sqrt(1 - kept), clean, other)]
        added = [None if fresh is None or step == 0 else np.asarray(fresh[at]) for at, step in enumerate(taken)]
        self._steps = tuple(map(Step, taken.tolist(), *columns, added))

    def bind(
        self, sample: Array, denoiser: Callable[[Array], Denoiser], inputs: Mapping[str, Array]
    ) -> Callable[[], object]:
        """Fix the buffers of one call."""
        params = self._params
        output, run = denoiser(sample)
        clean, scratch = (aligned_zeros("float32", sample.shape) for _ in range(2))
        if isinstance(params, DdpmParams):
            other, rows = sample, tuple(inputs[params.step_noise])
            estimate = _estimate(params.prediction_type, sample, output, clean, None, scratch)
        else:
            other = output if params.prediction_type == "epsilon" else aligned_zeros("float32", sample.shape)
            rows = ()
            estimate = _estimate(params.prediction_type, sample, output, clean, other, scratch)
        clip, most = params.clip_sample, np.asarray(params.clip_sample_range, np.float32)
        least = np.asarray(-most)
        multiply, add = np.multiply, np.add

        def denoise() -> None:
            for index, step in enumerate(self._steps):
                run(step.timestep)
                estimate(step)
                if clip:
                    np.maximum(clean, least, out=clean)
                    np.minimum(clean, most, out=clean)
                multiply(clean, step.clean, out=clean)
                multiply(other, step.other, out=other)
                add(clean, other, out=sample)
                if step.fresh is not None:
                    multiply(rows[index], step.fresh, out=scratch)
                    add(sample, scratch, out=sample)

        return denoise


def _estimate(
    prediction: str, sample: Array, output: Array, clean: Array, noise: Array | None, scratch: Array
) -> Callable[[Step], object]:
    """What computes the clean sample, and the noise in it where there is room for that, from a prediction.

    Args:
        prediction: what the network predicts: ``epsilon`` the noise, ``sample`` the clean sample, or ``v_prediction``.
        sample: the noisy sample.
        output: the prediction.
        clean: written.
        noise: written; `output` itself if that is the noise.
        scratch: written.
    """
    multiply, add, subtract, divide = np.multiply, np.add, np.subtract, np.divide

    def from_noise(step: Step) -> None:
        multiply(output, step.noise, out=scratch)
        subtract(sample, scratch, out=clean)
        divide(clean, step.signal, out=clean)

    def from_clean(step: Step) -> None:
        np.copyto(clean, output)
        if noise is not None:
            multiply(clean, step.signal, out=scratch)
            subtract(sample, scratch, out=noise)
            divide(noise, step.noise, out=noise)

    def from_velocity(step: Step) -> None:
        multiply(output, step.noise, out=scratch)
        multiply(sample, step.signal, out=clean)
        subtract(clean, scratch, out=clean)
        if noise is not None:
            multiply(sample, step.noise, out=scratch)
            multiply(output, step.signal, out=noise)
            add(noise, scratch, out=noise)

    return {"epsilon": from_noise, "sample": from_clean, "v_prediction": from_velocity}[prediction]


def _ddpm(params: DdpmParams, kept: Array, taken: Array) -> tuple[Array, Array, Array]:
    """The coefficients of the clean sample, of the sample and of the fresh noise, step by step, float32."""
    now, later = kept[taken], np.append(kept[taken[1:]], np.float32(1))
    noise, noise_later = 1 - now, 1 - later
    alpha = now / later
    beta = 1 - alpha
    variance = np.maximum(noise_later / noise * beta, _LEAST_VARIANCE)
    if params.variance_type == "fixed_small":
        fresh = np.sqrt(variance)
    elif params.variance_type == "fixed_small_log":
        fresh = np.exp(np.log(variance) * np.float32(0.5))
    else:
        fresh = np.sqrt(beta)
    return np.sqrt(later) * beta / noise, np.sqrt(alpha) * noise_later / noise, fresh


def _ddim(params: DdimParams, kept: Array, taken: Array) -> tuple[Array, Array]:
    """The coefficients of the clean sample and of the noise in the sample, step by step, float32."""
    targets = taken - params.num_train_timesteps // len(taken)  # which need not be the timestep that comes next
    last = np.float32(1) if params.set_alpha_to_one else kept[0]
    later = np.where(targets >= 0, kept[np.maximum(targets, 0)], last).astype(np.float32)
    return np.sqrt(later), np.sqrt(1 - later)
