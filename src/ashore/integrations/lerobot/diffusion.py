"""Diffusion policies: a few observations condition a network that frees a chunk of actions of noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ashore.integrations.lerobot.plan import ACTION, ENVIRONMENT, STATE, Draw, Draws, Plan, Seen, examples, refuse
from ashore.package import Arrays
from ashore.staged import ExportInputs

_CONDITION = "condition"


class Conditioning(torch.nn.Module):
    """Windows of observations to what the denoising looks at."""

    def __init__(self, policy: Any, vectors: list[str]) -> None:
        super().__init__()
        self.diffusion = policy.diffusion
        self.vectors = vectors

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        """Windows of vectors (1, n, width), then of images (1, n, C, H, W), to (1, condition)."""
        count = len(self.vectors)
        batch = dict(zip(self.vectors, tensors[:count], strict=True))
        if len(tensors) > count:
            batch["observation.images"] = torch.stack(tensors[count:], dim=2)
        return self.diffusion._prepare_global_conditioning(batch)


class Denoising(torch.nn.Module):
    """One evaluation of the network."""

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.unet = getattr(policy.diffusion.unet, "_orig_mod", policy.diffusion.unet)  # compiled

    def forward(self, sample: torch.Tensor, timestep: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        """Noisy actions (1, horizon, width) to the noise in them, or to the actions."""
        return self.unet(sample, timestep, global_cond=condition)


def plan(policy: Any, seen: Seen) -> Plan:
    """How a diffusion policy is exported."""
    config = policy.config
    if seen.missing_images:
        raise refuse(policy, "images", "it needs all of its cameras", "give an observation with each of them")
    kind = str(config.noise_scheduler_type).lower()
    if kind not in ("ddpm", "ddim"):
        raise refuse(policy, f"noise_scheduler_type {kind!r}", "there are DDPM and DDIM", "use one of these")
    steps, width, horizon = config.n_obs_steps, config.action_feature.shape[0], config.horizon
    vectors = [name for name in (STATE, ENVIRONMENT) if name in seen.vectors]
    shapes: dict[str, Sequence[int]] = {name: (1, steps, seen.vectors[name]) for name in vectors}
    tensors = examples(shapes | {name: (1, steps, *shape) for name, shape in seen.images.items()})
    conditioning = Conditioning(policy, vectors).eval()
    with torch.no_grad():
        condition = conditioning(*tensors.values())
    denoise = ExportInputs(
        (*examples({"sample": (1, horizon, width)}).values(), torch.tensor([1]), condition),
        ["sample", "timestep", _CONDITION],
        ["model_output"],
    )
    params = schedule(policy, kind)
    return Plan(
        inference=kind,
        modules={"condition": conditioning, "denoise": Denoising(policy)},
        inputs={
            "condition": ExportInputs(tuple(tensors.values()), list(tensors), [_CONDITION]),
            "denoise": denoise,
        },
        features=list(tensors),
        before=[{"type": "history", "features": list(tensors), "steps": steps}],
        after=[
            {
                "type": "slice",
                "features": [ACTION],
                "start": [steps - 1, 0],
                "shape": [config.n_action_steps, width],
            }
        ],
        params=params | {"n_action_steps": config.n_action_steps},
        draws=_draws(kind, params["num_inference_steps"]),
    )


def schedule(policy: Any, kind: str) -> dict[str, Any]:
    """The parameters of the loop, from the scheduler that LeRobot made: its defaults count too."""
    scheduler: Mapping[str, Any] = policy.diffusion.noise_scheduler.config
    names = [
        "num_train_timesteps", "beta_schedule", "beta_start", "beta_end", "prediction_type", "clip_sample",
        "clip_sample_range", "timestep_spacing", "steps_offset", "thresholding", "rescale_betas_zero_snr",
        "variance_type" if kind == "ddpm" else "set_alpha_to_one",
    ]  # fmt: skip
    if scheduler.get("trained_betas") is not None:
        raise refuse(policy, "trained_betas", "a list of betas is not carried", "use a beta_schedule")
    steps = policy.diffusion.num_inference_steps
    return {name: scheduler[name] for name in names if name in scheduler} | {"num_inference_steps": int(steps)}


def _draws(kind: str, steps: int) -> Draws:
    def draws(noise: Arrays) -> list[Draw]:
        rows = [noise["noise"], *(noise["step_noise"][: steps - 1] if kind == "ddpm" else ())]
        return [Draw("normal", torch.from_numpy(row.copy())) for row in rows]

    return draws
