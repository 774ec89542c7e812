"""SmolVLA: images, text and state in a prefix; a flow with causal attention."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import torch

from ashore.integrations.lerobot.cached import Denoising, Prefix, plan_cached, with_missing
from ashore.integrations.lerobot.plan import STATE, Plan, Seen, refuse
from ashore.staged.exportable import ProcessorSpec

_LIBRARY = "lerobot.policies.smolvla.modeling_smolvla"


class Prefixing(torch.nn.Module):
    """Observations to the keys and values of the prefix."""

    def __init__(self, policy: Any, library: Any, missing: int) -> None:
        super().__init__()
        self.model = policy.model
        self._library = library
        self._missing = missing

    def forward(
        self, state: torch.Tensor, tokens: torch.Tensor, mask: torch.Tensor, *images: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """State (1, width), tokens (1, n), images (1, 3, H, W) in -1 to 1, to the mask, keys and values."""
        model = self.model
        seen, masks = with_missing(images, self._missing)
        embedded, padding, attention = model.embed_prefix(seen, masks, tokens, mask, state=state)
        _, cache = model.vlm_with_expert.forward(
            attention_mask=self._library.make_att_2d_masks(padding, attention),
            position_ids=torch.cumsum(padding, dim=1) - 1,
            past_key_values=None,
            inputs_embeds=[embedded, None],
            use_cache=True,
            fill_kv_cache=True,
        )
        return padding, *(cache[layer][part] for layer in sorted(cache) for part in ("key_states", "value_states"))


def plan(policy: Any, seen: Seen, tokens: int) -> Plan:
    """How a SmolVLA policy is exported."""
    config = policy.config
    if config.adapt_to_pi_aloha:
        raise refuse(
            policy, "adapt_to_pi_aloha", "its joint flips are not carried", "train with adapt_to_pi_aloha=False"
        )
    if not config.use_cache:
        raise refuse(policy, "use_cache=False", "a package keeps the prefix's keys and values", "set use_cache=True")
    if STATE not in seen.vectors:
        raise refuse(policy, STATE, "SmolVLA needs it", "give it one")
    library = importlib.import_module(_LIBRARY)
    before: list[ProcessorSpec] = []
    if seen.vectors[STATE] < config.max_state_dim:
        before.append({"type": "pad", "features": [STATE], "size": config.max_state_dim})
    cameras = dict(seen.images)
    if config.resize_imgs_with_padding is not None:
        width, height = config.resize_imgs_with_padding
        cameras = {name: (shape[0], height, width) for name, shape in cameras.items()}
        resized = [name for name, shape in seen.images.items() if shape[1:] != (height, width)]
        before += [
            {"type": "resize_with_pad", "features": [name], "height": height, "width": width, "value": 0.0}
            for name in resized
        ]
    before += [{"type": "image", "features": list(cameras), "layout": "chw", "range": [-1.0, 1.0]}]
    missing = min(seen.missing_images, config.empty_cameras)
    prefix = Prefix(
        Prefixing(policy, library, missing),
        {STATE: max(config.max_state_dim, seen.vectors[STATE])},
        tokens,
        cameras,
        before,
        int(config.num_steps),
    )
    return plan_cached(policy, seen, prefix, Denoising(policy.model, library, _cache))


def _cache(kept: Sequence[torch.Tensor]) -> dict[int, dict[str, torch.Tensor]]:
    pairs = zip(kept[::2], kept[1::2], strict=True)
    return {layer: {"key_states": key, "value_states": value} for layer, (key, value) in enumerate(pairs)}
