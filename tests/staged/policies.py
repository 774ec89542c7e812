"""Small policies that say by themselves how they are exported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save

from ashore.staged import ExportInputs

STATE, ACTION, CHUNK, QUEUED, STEPS = 3, 4, 6, 2, 5
_STATISTICS = {
    "observation.state/mean": np.array([0.5, -1.0, 2.0], np.float32),
    "observation.state/std": np.array([2.0, 0.5, 1.0], np.float32),
    "action/min": np.array([-1.0, -2.0, 0.0, 1.0], np.float32),
    "action/max": np.array([1.0, 2.0, 3.0, 5.0], np.float32),
}


def example(seed: int = 0) -> dict[str, torch.Tensor]:
    chance = torch.Generator().manual_seed(seed)
    return {
        "observation.image": torch.rand(1, 3, 6, 8, generator=chance),
        "observation.state": torch.randn(1, STATE, generator=chance),
    }


def normalised(state: torch.Tensor) -> torch.Tensor:
    mean, std = (torch.from_numpy(_STATISTICS[f"observation.state/{name}"]) for name in ("mean", "std"))
    return (state - mean) / (std + 1e-8)


def denormalised(action: torch.Tensor) -> torch.Tensor:
    low, high = (torch.from_numpy(_STATISTICS[f"action/{name}"]) for name in ("min", "max"))
    return (action + 1) / 2 * (high - low) + low


class Eye(torch.nn.Module):
    """An image and a state to two vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = torch.nn.Conv2d(3, 4, 3), torch.nn.Linear(4 + STATE, 8)
        self.norm = torch.nn.BatchNorm2d(4)
        with torch.no_grad():
            self.norm.running_mean += 0.3

    def forward(self, image: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.linear(torch.cat((self.norm(self.conv(image)).mean((2, 3)), state), -1))
        return torch.tanh(features), features[:, :2]


class Velocity(torch.nn.Module):
    """Where a sample shall go."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(ACTION + 8 + 2 + 1, ACTION)

    def forward(self, x_t: torch.Tensor, timestep: torch.Tensor, *context: torch.Tensor) -> torch.Tensor:
        one = torch.cat((*context, timestep[:, None]), -1)[:, None].expand(-1, x_t.shape[1], -1)
        return torch.tanh(self.linear(torch.cat((x_t, one), -1)))


class Chunky(torch.nn.Module):
    """A state to a chunk."""

    def __init__(self) -> None:
        super().__init__()
        self.eye, self.head = Eye(), torch.nn.Linear(8, CHUNK * ACTION)

    def forward(self, image: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        return self.head(self.eye(image, state)[0]).unflatten(-1, (CHUNK, ACTION))


class Policy:
    """What all of them share: one feature is scaled before, and one after."""

    config: Any = SimpleNamespace(chunk_size=CHUNK, n_action_steps=QUEUED)
    kind = "single_pass"

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.modules: dict[str, torch.nn.Module] = {"model": Chunky()}

    def get_inference_type(self) -> str:
        return self.kind

    def get_export_modules(self) -> Mapping[str, torch.nn.Module]:
        return self.modules

    def prepare_inputs(self, example_batch: Mapping[str, Any]) -> Mapping[str, ExportInputs]:
        seen = tuple(example_batch[name] for name in ("observation.image", "observation.state"))
        return {"model": ExportInputs(seen, ("observation.image", "observation.state"), ("action",))}

    def export_assets(self) -> dict[str, bytes]:
        return {"stats.safetensors": save(_STATISTICS)}

    def export_processor_specs(
        self, include_normalization: bool, stats_artifact: str, assets: Mapping[str, str] | None = None
    ) -> tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
        assert assets == {"stats.safetensors": "stats.safetensors"}
        if not include_normalization:
            return [], []
        return (
            [{"type": "normalize", "features": ["observation.state"], "artifact": stats_artifact}],
            [{"type": "denormalize", "mode": "min_max", "features": ["action"], "artifact": stats_artifact}],
        )

    @torch.no_grad()
    def chunk(self, seen: Mapping[str, torch.Tensor], **_: Any) -> torch.Tensor:
        """What the policy decides, eagerly."""
        for module in self.modules.values():
            module.eval()
        state = normalised(seen["observation.state"])
        return denormalised(self.modules["model"](seen["observation.image"], state))


class Flow(Policy):
    """Noise becomes actions in a few steps, next to what was seen."""

    kind = "kv_cache_flow"

    def __init__(self) -> None:
        torch.manual_seed(1)
        self.modules = {"encoder": Eye(), "denoise": Velocity()}

    def get_runner_params(self) -> dict[str, Any]:
        return {"num_steps": STEPS, "n_action_steps": QUEUED, "chunk_size": CHUNK}

    def prepare_inputs(self, example_batch: Mapping[str, Any]) -> Mapping[str, ExportInputs]:
        seen = tuple(example_batch[name] for name in ("observation.image", "observation.state"))
        caches = tuple(one.detach() for one in self.modules["encoder"](*seen))
        rows = len(seen[0])
        sample = torch.zeros(rows, CHUNK, ACTION), torch.ones(rows)
        return {
            "encoder": ExportInputs(
                seen, ("pixels", "observation.state"), ("key_0", "value_0"), {"pixels": "observation.image"}
            ),
            "denoise": ExportInputs((*sample, *caches), ("x_t", "timestep", "key_0", "value_0"), ("v_t",)),
        }

    @torch.no_grad()
    def chunk(
        self, seen: Mapping[str, torch.Tensor], *, noise: torch.Tensor, steps: int = STEPS, **_: Any
    ) -> torch.Tensor:
        for module in self.modules.values():
            module.eval()
        caches = self.modules["encoder"](seen["observation.image"], normalised(seen["observation.state"]))
        sample = noise
        for index in range(steps):
            time = torch.full((len(noise),), 1.0 - index / steps)
            sample = sample - self.modules["denoise"](sample, time, *caches) / steps
        return denormalised(sample)
