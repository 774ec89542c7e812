"""A policy of torch modules, exported by the staged door, as a directory of that format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

import ashore
from ashore.interop.policy_package import to_policy_package
from ashore.package import save_arrays
from ashore.staged import ExportInputs, export_policy
from interop.policy_package.policy_package_cases import statistics
from interop.policy_package.published import Published

STATE, IMAGE = "observation.state", "observation.images.top"


class Chunks(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.see, self.act = torch.nn.Conv2d(3, 2, 3), torch.nn.Linear(4 + 2 * 16, 5 * 4)

    def forward(self, state: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        seen = torch.relu(self.see(image)).flatten(1)
        return self.act(torch.cat((state, seen), dim=1)).reshape(1, 5, 4)


class Policy:
    def __init__(self) -> None:
        self.module = Chunks().eval()

    def get_inference_type(self) -> str:
        return "single_pass"

    def get_export_modules(self) -> dict[str, torch.nn.Module]:
        return {"model": self.module}

    def get_runner_params(self) -> dict[str, Any]:
        return {"chunk_size": 5, "n_action_steps": 3}

    def prepare_inputs(self, batch: Any) -> dict[str, ExportInputs]:
        tensors = (batch[STATE], batch[IMAGE])
        return {"model": ExportInputs(tensors, (STATE, IMAGE), ("action",))}

    def export_assets(self) -> dict[str, bytes]:
        return {"stats.safetensors": save_arrays(statistics({STATE: (4,), IMAGE: (3, 1, 1), "action": (4,)}))}

    def export_processor_specs(self, *_: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        own = {"mode": "mean_std", "artifact": "stats.safetensors"}
        before = {"type": "normalize", "features": [STATE, IMAGE], **own}
        return [before], [{"type": "denormalize", "features": ["action"], "eps": 0.0, **own}]


def test_an_exported_policy_is_written_and_decides_alike(tmp_path: Path) -> None:
    example = {STATE: torch.rand(1, 4), IMAGE: torch.rand(1, 3, 6, 6)}
    package = export_policy(Policy(), tmp_path / "chunks", example_batch=example)
    written = to_policy_package(package, tmp_path / "out")
    golden = package.golden()
    assert golden is not None
    assert written.replayed_steps == len(golden.ticks)
    policy, published, rng = ashore.load(package), Published(written.path), np.random.default_rng(1)
    for call in range(10):
        if call == 4:
            policy.reset()
            published.reset()
        given = {STATE: rng.random((1, 4), np.float32), IMAGE: rng.random((1, 3, 6, 6), np.float32)}
        np.testing.assert_allclose(
            published.select_action(dict(given)), policy.select_action(given)[0], rtol=1e-5, atol=1e-5
        )
