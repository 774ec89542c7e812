"""pi0.5: images and a prompt, which holds the state in digits, in a prefix; a flow with full attention."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ashore.integrations.lerobot.cached import Denoising, Prefix, plan_cached, with_missing
from ashore.integrations.lerobot.plan import Plan, Seen, refuse
from ashore.staged.exportable import ProcessorSpec

_LIBRARY = "lerobot.policies.pi05.modeling_pi05"


class Prefixing(torch.nn.Module):
    """Images and tokens to the keys and values of the prefix."""

    def __init__(self, policy: Any, library: Any, missing: int) -> None:
        super().__init__()
        self.model = policy.model
        self._library = library
        self._missing = missing

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor, *images: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Tokens (1, n), images (1, 3, H, W) in -3 to 1, to the mask, keys and values."""
        model = self.model
        seen, masks = with_missing(images, self._missing)
        embedded, padding, attention = model.embed_prefix(seen, masks, tokens, mask)
        attending = model._prepare_attention_masks_4d(self._library.make_att_2d_masks(padding, attention))
        _, cache = model.paligemma_with_expert.forward(
            attention_mask=attending,
            position_ids=torch.cumsum(padding, dim=1) - 1,
            past_key_values=None,
            inputs_embeds=[embedded, None],
            use_cache=True,
        )
        return padding, *(one for key, value in _pairs(cache) for one in (key, value))


def plan(policy: Any, seen: Seen, tokens: int) -> Plan:
    """How a pi0.5 policy is exported."""
    config = policy.config
    library = importlib.import_module(_LIBRARY)
    height, width = config.image_resolution
    if any(shape[0] != 3 for shape in seen.images.values()):
        raise refuse(policy, "images", "it takes three channels", "give it colour images")
    before: list[ProcessorSpec] = [
        {
            "type": "resize_with_pad",
            "features": [name],
            "height": height,
            "width": width,
            "value": -1.0,  # before the mapping, so that it becomes -3, as LeRobot has it
            "align": "center",
            "clip": [-1.0, 1.0],
        }
        for name, shape in seen.images.items()
        if shape[1:] != (height, width)
    ]
    before.append({"type": "image", "features": list(seen.images), "layout": "chw", "range": [-1.0, 1.0]})
    prefix = Prefix(
        Prefixing(policy, library, seen.missing_images),
        {},
        tokens,
        dict.fromkeys(seen.images, (3, height, width)),
        before,
        int(config.num_inference_steps),
    )
    return plan_cached(policy, seen, prefix, Denoising(policy.model, library, _cache_of(policy)))


def _pairs(cache: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Keys and values by layer, of a list of pairs or of a cache of transformers."""
    if hasattr(cache, "layers"):
        return [(layer.keys, layer.values) for layer in cache.layers]
    return [(key, value) for key, value in cache]


def _cache_of(policy: Any) -> Callable[[Sequence[torch.Tensor]], Any]:
    """Makes what the expert of a policy takes of keys and values: a cache of transformers where it is LeRobot's own."""
    own = type(policy.model.paligemma_with_expert).__module__.startswith("lerobot.")

    def cache(kept: Sequence[torch.Tensor]) -> Any:
        pairs = list(zip(kept[::2], kept[1::2], strict=True))
        return importlib.import_module("transformers").DynamicCache.from_legacy_cache(tuple(pairs)) if own else pairs

    return cache
