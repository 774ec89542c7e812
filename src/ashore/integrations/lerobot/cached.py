"""What policies with a cached prefix have in common: SmolVLA and pi0.5.

The prefix, which is images, text and state, is computed once for a chunk; its keys and values are what every step of
the flow looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from ashore.integrations.lerobot.periods import TimeEmbedding, in_float32
from ashore.integrations.lerobot.plan import (
    ACTION,
    TOKEN_MASK,
    TOKENS,
    Draw,
    Plan,
    Seen,
    action_width,
    example,
    examples,
    refuse,
)
from ashore.package import Arrays
from ashore.staged import ExportInputs
from ashore.staged.exportable import ProcessorSpec

PREFIX_MASK = "prefix_mask"
GUIDANCE = ("prev_chunk", "prev_length", "delay")
"""What a guided flow is given besides: the chunk before, how many rows of it count, how late this one comes."""


class Denoising(torch.nn.Module):
    """One evaluation of the velocity.

    Args:
        model: LeRobot's, with `denoise_step`.
        library: the module that it is from.
        cache: makes what `denoise_step` takes of the keys and values.
    """

    def __init__(self, model: Any, library: Any, cache: Callable[[Sequence[torch.Tensor]], Any]) -> None:
        super().__init__()
        self.model = model
        self.time = TimeEmbedding(model.action_in_proj.out_features, model.config.min_period, model.config.max_period)
        self._library = library
        self._cache = cache

    def forward(
        self, x_t: torch.Tensor, timestep: torch.Tensor, mask: torch.Tensor, *kept: torch.Tensor
    ) -> torch.Tensor:
        """Noisy actions (1, chunk, width) at a time (1,) to their velocity."""
        with in_float32(self._library, self.time):
            return self.model.denoise_step(
                prefix_pad_masks=mask, past_key_values=self._cache(kept), x_t=x_t, timestep=timestep
            )


class Prefix(NamedTuple):
    """The module of a prefix."""

    module: torch.nn.Module
    vectors: Mapping[str, int]
    """What it takes before the tokens -> its length."""

    tokens: int
    """The length of a row of tokens."""

    cameras: Mapping[str, tuple[int, int, int]]
    before: Sequence[ProcessorSpec]
    steps: int
    """Of the flow."""


def plan_cached(policy: Any, seen: Seen, prefix: Prefix, denoising: Denoising) -> Plan:
    """How a policy with a cached prefix is exported."""
    config = policy.config
    check_precision(policy)
    tokens = torch.zeros(1, prefix.tokens, dtype=torch.int64)
    tokens[:, : prefix.tokens // 2] = torch.arange(prefix.tokens // 2) % 64 + 1
    given = {
        **examples({name: (1, width) for name, width in prefix.vectors.items()}),
        TOKENS: tokens,
        TOKEN_MASK: (torch.arange(prefix.tokens) < max(1, prefix.tokens // 2))[None],
        **{name: example((1, *shape), 40 + at).clamp(-1, 1) for at, (name, shape) in enumerate(prefix.cameras.items())},
    }
    prefix.module.eval()
    with torch.no_grad():
        kept = prefix.module(*given.values())
    names = [PREFIX_MASK, *(f"{part}_{layer}" for layer in range(len(kept) // 2) for part in ("key", "value"))]
    chunk, wide = config.chunk_size, config.max_action_dim
    params: dict[str, Any] = {"num_steps": prefix.steps}
    before = list(prefix.before)
    after: list[ProcessorSpec] = []
    width = action_width(policy)
    if width < wide:
        after.append({"type": "slice", "features": [ACTION], "start": [0, 0], "shape": [chunk, width]})
    if seen.guided:
        params["guidance"] = guidance(policy)
        before += [{"type": "pad", "features": ["prev_chunk"], "size": wide}] if width < wide else []
        after.append({"type": "output", "features": [ACTION], "name": "chunk"})
    else:
        params |= {"chunk_size": chunk, "n_action_steps": config.n_action_steps}
    return Plan(
        inference="kv_cache_flow",
        modules={"prefix": prefix.module, "denoise": denoising},
        inputs={
            "prefix": ExportInputs(tuple(given.values()), list(given), names),
            "denoise": ExportInputs(
                (example((1, chunk, wide), 90), torch.tensor([0.6]), *kept), ["x_t", "timestep", *names], ["v_t"]
            ),
        },
        features=[*prefix.vectors, *prefix.cameras],
        before=before,
        after=after,
        params=params,
        draws=draws,
    )


def draws(noise: Arrays) -> list[Draw]:
    """Where the flow starts."""
    return [Draw("normal", torch.from_numpy(noise["noise"].copy()))]


def guidance(policy: Any) -> dict[str, Any]:
    """The parameters of real-time chunking, as the policy was configured."""
    configured = getattr(policy.config, "rtc_config", None)
    if configured is None:
        raise refuse(policy, "guidance", "it has no rtc_config", "set policy.config.rtc_config")
    return {
        "horizon": int(configured.execution_horizon),
        "schedule": configured.prefix_attention_schedule.name.lower(),
        "max_weight": float(configured.max_guidance_weight),
    }


def check_precision(policy: Any) -> None:
    """Refuse weights that are not float32: LeRobot would round where a package would not."""
    other = sorted({str(p.dtype) for p in policy.parameters() if p.dtype != torch.float32})
    if other:
        raise refuse(
            policy, f"weights in {', '.join(other)}", "the steps of its networks would round differently from runtime "
            "to runtime", "call policy.float() and export that: it is the policy without the rounding"
        )  # fmt: skip


def with_missing(images: Sequence[torch.Tensor], missing: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The images and their masks, and black ones that are masked for the cameras that a robot does not have."""
    masks = [torch.ones(1, dtype=torch.bool) for _ in images] + [torch.zeros(1, dtype=torch.bool)] * missing
    return [*images, *(torch.ones_like(images[-1]) * -1 for _ in range(missing))], masks
