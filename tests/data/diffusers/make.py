"""Records what the schedulers of diffusers compute, for `tests/runtime/loops/test_diffusion.py`.

pip install torch==2.13.0 "diffusers<0.36" "numpy<2.3" safetensors
python make.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
from diffusers import DDIMScheduler, DDPMScheduler
from safetensors.numpy import save_file

HERE = Path(__file__).parent
SHAPE = (1, 4, 3)
PREDICTIONS = ("epsilon", "sample", "v_prediction")
LEROBOT = {
    "num_train_timesteps": 100,
    "beta_start": 0.0001,
    "beta_end": 0.02,
    "beta_schedule": "squaredcos_cap_v2",
    "clip_sample": True,
    "clip_sample_range": 1.0,
    "prediction_type": "epsilon",
}


def settings() -> list[tuple[str, int, dict[str, Any]]]:
    """The runner, the number of steps, and what the scheduler is made with."""
    found: list[tuple[str, int, dict[str, Any]]] = []
    for runner in ("ddpm", "ddim"):
        found += [(runner, steps, LEROBOT) for steps in (1, 10, 100)]
        for prediction in PREDICTIONS:
            one = LEROBOT | {"prediction_type": prediction}
            found += [
                (runner, 7, one | {"beta_schedule": "linear", "timestep_spacing": "trailing", "clip_sample": False}),
                (runner, 7, one | {"beta_schedule": "scaled_linear", "timestep_spacing": "linspace"}),
                (runner, 8, one | {"num_train_timesteps": 50, "steps_offset": 1, "clip_sample_range": 0.5}),
            ]
        found.append((runner, 20, LEROBOT | {"num_train_timesteps": 1000, "beta_schedule": "linear"}))
    for variance in ("fixed_small", "fixed_small_log", "fixed_large"):
        for spacing in ("leading", "trailing", "linspace"):
            one = {"variance_type": variance, "timestep_spacing": spacing, "beta_schedule": "scaled_linear"}
            found.append(("ddpm", 6, LEROBOT | one))
    for spacing in ("leading", "trailing", "linspace"):
        found.append(("ddim", 6, LEROBOT | {"set_alpha_to_one": False, "timestep_spacing": spacing}))
    return found


def predict(sample: torch.Tensor, timestep: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
    return torch.tanh(sample * context + timestep.to(torch.float32) / 100)


def main() -> None:
    cases, arrays = [], {}
    for index, (runner, steps, config) in enumerate(settings()):
        generator = torch.Generator().manual_seed(index)
        noise = torch.randn(SHAPE, generator=generator)
        context = torch.randn((1, 1, SHAPE[2]), generator=generator)
        scheduler = (DDPMScheduler if runner == "ddpm" else DDIMScheduler)(**config)
        scheduler.set_timesteps(steps)
        drawn = torch.Generator().manual_seed(1000 + index)
        sample, along, outputs = noise, [], []
        for t in scheduler.timesteps:  # as in `conditional_sample` of LeRobot's diffusion policy
            output = predict(sample, torch.full(sample.shape[:1], int(t), dtype=torch.long), context)
            sample = scheduler.step(output, t, sample, generator=drawn).prev_sample
            along.append(sample)
            outputs.append(output)
        fresh = torch.Generator().manual_seed(1000 + index)
        count = int((scheduler.timesteps > 0).sum())
        draws = [torch.randn(SHAPE, generator=fresh) for _ in range(count)]
        recorded = {
            "noise": noise,
            "context": context,
            "along": torch.stack(along),
            "outputs": torch.stack(outputs),
            "timesteps": scheduler.timesteps,
            "retained": scheduler.alphas_cumprod,
        }
        if runner == "ddpm":
            rows = torch.full((steps, *SHAPE), 1e6)  # what is drawn for no step must be read by none
            rows[:count] = torch.stack(draws) if draws else rows[:0]
            recorded["step_noise"] = rows
        arrays |= {f"{index}/{name}": np.ascontiguousarray(value.numpy()) for name, value in recorded.items()}
        cases.append({"runner": runner, "params": {**config, "num_inference_steps": steps}})
    save_file(arrays, HERE / "reference.safetensors")
    document = {"diffusers": diffusers.__version__, "torch": torch.__version__, "cases": cases}
    (HERE / "cases.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
