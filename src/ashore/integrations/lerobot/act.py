"""ACT: one network gives a chunk of actions; with temporal ensembling, overlapping chunks are averaged."""

from __future__ import annotations

from typing import Any

import torch

from ashore.integrations.lerobot.plan import ACTION, ENVIRONMENT, STATE, Plan, Seen, examples, refuse
from ashore.staged import ExportInputs


class Network(torch.nn.Module):
    """Observations to a chunk."""

    def __init__(self, policy: Any, vectors: list[str]) -> None:
        super().__init__()
        self.model = policy.model
        self.vectors = vectors

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        """Vectors, then images, to actions (1, chunk, width)."""
        count = len(self.vectors)
        batch: dict[str, Any] = dict(zip(self.vectors, tensors[:count], strict=True))
        if len(tensors) > count:
            batch["observation.images"] = list(tensors[count:])
        return self.model(batch)[0]


def plan(policy: Any, seen: Seen) -> Plan:
    """How an ACT policy is exported."""
    config = policy.config
    if STATE not in seen.vectors:
        raise refuse(policy, STATE, "LeRobot 0.4 itself cannot run an ACT without it", "train with a state")
    if seen.missing_images:
        raise refuse(policy, "images", "it needs all of its cameras", "give an observation with each of them")
    vectors = [name for name in (STATE, ENVIRONMENT) if name in seen.vectors]
    tensors = examples({name: (1, seen.vectors[name]) for name in vectors} | images(seen))
    ensembling = config.temporal_ensemble_coeff is not None
    return Plan(
        inference="single_pass",
        modules={"model": Network(policy, vectors)},
        inputs={"model": ExportInputs(tuple(tensors.values()), list(tensors), [ACTION])},
        features=list(tensors),
        after=[{"type": "temporal_ensemble", "features": [ACTION], "coefficient": config.temporal_ensemble_coeff}]
        if ensembling
        else [],
        params={} if ensembling else {"chunk_size": config.chunk_size, "n_action_steps": config.n_action_steps},
    )


def images(seen: Seen) -> dict[str, tuple[int, ...]]:
    """Camera -> the shape of a batch of its images."""
    return {name: (1, *shape) for name, shape in seen.images.items()}
