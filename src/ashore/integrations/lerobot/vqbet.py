"""VQ-BeT: a transformer over a few observations; the codes of the actions are drawn at random.

torch draws one of several with probabilities p as ``argmax(p / q)``, where q is exponential. A package is given
standard normal numbers, as other policies are: half the sum of two squares of them is exponential.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ashore.errors import ExportError
from ashore.integrations.lerobot.plan import ACTION, STATE, Draw, Plan, Seen, examples, refuse
from ashore.package import Arrays
from ashore.staged import ExportInputs

_LAYERS = 2
"""Of codes, one after the other; LeRobot's VQ-BeT knows no other number."""


class Choices(TorchFunctionMode):
    """Draws codes with numbers that are given, one array after the other."""

    def __init__(self, exponential: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.left = list(exponential)

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Replace ``torch.multinomial(p, 1)``."""
        if func is torch.multinomial:
            return torch.argmax(args[0] / self.left.pop(0), dim=-1, keepdim=True)
        return func(*args, **(kwargs or {}))


class Network(torch.nn.Module):
    """Windows of observations, and noise, to a chunk."""

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.vqbet = policy.vqbet
        self.sequential = bool(policy.config.sequentially_select)

    def forward(self, state: torch.Tensor, image: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """State (1, n, width), image (1, n, C, H, W), noise (draws, codes, 2) to actions (1, chunk, width)."""
        exponential = exponential_of(noise)
        draws = list(exponential.chunk(_LAYERS)) if self.sequential else [exponential]
        with Choices(draws):
            batch = {STATE: state, "observation.images": image.unsqueeze(2)}
            return self.vqbet(batch, rollout=True)


def exponential_of(noise: torch.Tensor) -> torch.Tensor:
    """Standard normal numbers (…, 2) to exponential ones (…)."""
    return 0.5 * (noise[..., 0] * noise[..., 0] + noise[..., 1] * noise[..., 1])


def plan(policy: Any, seen: Seen) -> Plan:
    """How a VQ-BeT policy is exported."""
    config = policy.config
    if not bool(policy.vqbet.action_head.vqvae_model.discretized):
        raise ExportError(
            f"{type(policy).__name__}: it is still in the first phase of its training, where it has no codes of "
            f"actions; train it further"
        )
    if len(seen.images) != 1 or seen.missing_images or STATE not in seen.vectors:
        raise refuse(policy, "observations", "VQ-BeT takes one camera and a state", "give it these")
    (camera,) = seen.images
    steps = config.n_obs_steps
    queries = steps + config.n_action_pred_token - 1
    tensors = examples(
        {
            STATE: (1, steps, seen.vectors[STATE]),
            camera: (1, steps, *seen.images[camera]),
            "noise": (queries * _LAYERS, config.vqvae_n_embed, 2),
        }
    )
    sequential = bool(config.sequentially_select)

    def draws(noise: Arrays) -> list[Draw]:
        exponential = exponential_of(torch.from_numpy(noise["noise"].copy()))
        parts = exponential.chunk(_LAYERS) if sequential else [exponential]
        return [Draw("exponential", part) for part in parts]

    return Plan(
        inference="single_pass",
        modules={"model": Network(policy)},
        inputs={"model": ExportInputs(tuple(tensors.values()), list(tensors), [ACTION], noise=["noise"])},
        features=[STATE, camera],
        before=[{"type": "history", "features": [STATE, camera], "steps": steps}],
        params={"n_action_steps": config.action_chunk_size},
        draws=draws,
    )
