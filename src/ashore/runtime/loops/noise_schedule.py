"""How much noise is in a sample at each timestep of a diffusion, and which timesteps are taken.

Everything is rounded where diffusers rounds it, since a policy was trained with those numbers and no others.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, TypeAlias

import msgspec
import numpy as np

from ashore.errors import ManifestError
from ashore.package import Array
from ashore.runtime.loops.spacing import evenly
from ashore.runtime.loops.stepping import MAX_STEPS

BetaSchedule: TypeAlias = Literal["linear", "scaled_linear", "squaredcos_cap_v2"]
Spacing: TypeAlias = Literal["leading", "trailing", "linspace"]

_MAX_TIMESTEPS = 100_000
_MAX_BETA = 0.999
"""Of ``squaredcos_cap_v2``: the most noise that one timestep may add."""


class NoiseParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What every diffusion says; the names and the defaults are those of diffusers."""

    num_train_timesteps: Annotated[int, msgspec.Meta(ge=1, le=_MAX_TIMESTEPS)]
    num_inference_steps: Annotated[int, msgspec.Meta(ge=1, le=MAX_STEPS)]
    beta_schedule: BetaSchedule
    beta_start: float = 0.0001
    beta_end: float = 0.02
    prediction_type: Literal["epsilon", "sample", "v_prediction"]
    clip_sample: bool
    clip_sample_range: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    timestep_spacing: Spacing = "leading"
    steps_offset: Annotated[int, msgspec.Meta(ge=0)] = 0
    thresholding: bool = False
    rescale_betas_zero_snr: bool = False
    sample: str = "sample"
    timestep: str = "timestep"
    model_output: str = "model_output"
    noise: str = "noise"


def check_noise(where: str, params: NoiseParams) -> None:
    """Raise `ManifestError` for what this runtime does not compute, and for a schedule that leaves nothing to compute.

    Args:
        where: what to call the stage in an error.
        params: those of its runner.
    """
    for name in ("thresholding", "rescale_betas_zero_snr"):
        if getattr(params, name):
            raise ManifestError(f"{where}: runner.params: expected {name} to be false, got true")
    if not 0 < params.beta_start < 1 or not 0 < params.beta_end < 1:
        raise ManifestError(
            f"{where}: runner.params: expected beta_start and beta_end between 0 and 1, got {params.beta_start} and "
            f"{params.beta_end}"
        )
    kept = retained(params)
    if kept[-1] <= 0 or kept[0] >= 1:
        raise ManifestError(
            f"{where}: runner.params: expected some of the sample and some noise at every timestep; this schedule "
            f"keeps {kept[0]:g} of the sample at the first and {kept[-1]:g} at the last"
        )


def retained(params: NoiseParams) -> Array:
    """What is left of a clean sample at each timestep: the running product of ``1 - beta``, float32."""
    # In float32 as a whole, but the product carries on in double precision and is rounded at each step.
    alphas = np.float32(1) - _betas(params)
    return np.cumprod(alphas.astype(np.float64)).astype(np.float32)


def timesteps(params: NoiseParams, num_steps: int) -> Array:
    """The timesteps of so many steps, falling, int64."""
    most = params.num_train_timesteps
    if params.timestep_spacing == "linspace":
        return np.linspace(0, most - 1, num_steps).round()[::-1].astype(np.int64)
    if params.timestep_spacing == "leading":
        return (np.arange(num_steps) * (most // num_steps))[::-1].astype(np.int64) + params.steps_offset
    return np.round(np.arange(most, 0, -most / num_steps)).astype(np.int64) - 1


def steps_problem(params: NoiseParams, num_steps: int) -> str | None:
    """Why so many steps cannot be taken, or None."""
    most = params.num_train_timesteps
    if num_steps > most:
        return f"expected at most the {most} timesteps of the training, got {num_steps}"
    taken = timesteps(params, num_steps)
    if len(taken) != num_steps or taken[0] >= most or taken[-1] < 0:
        return (
            f"{num_steps} steps with the spacing {params.timestep_spacing!r} and steps_offset {params.steps_offset} "
            f"go from {taken[0]} to {taken[-1]}, in {len(taken)} steps; expected {num_steps} of the {most} timesteps "
            f"of the training, which begin at 0"
        )
    return None


def _betas(params: NoiseParams) -> Array:
    count, first, last = params.num_train_timesteps, params.beta_start, params.beta_end
    if params.beta_schedule == "linear":
        return evenly(first, last, count)
    if params.beta_schedule == "scaled_linear":
        return evenly(math.sqrt(first), math.sqrt(last), count) ** 2
    shares = [math.cos((step / count + 0.008) / 1.008 * math.pi / 2) ** 2 for step in range(count + 1)]
    return np.array([min(1 - shares[i + 1] / shares[i], _MAX_BETA) for i in range(count)], np.float32)
