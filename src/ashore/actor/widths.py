"""How wide an observation is, where only the network knows."""

from __future__ import annotations

from typing import Any

import torch

from ashore.errors import InputError

_SAID = {"obs": ("obs_size", "num_obs", "obs_dim", "num_actor_obs"), "ref_obs": ("ref_obs_size", "num_ref_obs")}
_EMBEDDINGS = {"obs": ("obs_embedding",), "ref_obs": ("ref_obs_embedding",)}


def input_width(where: str, name: str, core: Any, normalizer: torch.nn.Module | None) -> int:
    """The width of an input, as the network says it: by an attribute, its normaliser, its embedding or its first layer.

    Args:
        where: what to call the network in an error.
        name: ``obs`` or ``ref_obs``.
        core: the network, or the memory in front of it.
        normalizer: what comes before it, if anything.
    """
    said = {getattr(core, one, None) for one in _SAID[name]}
    widths = {one for one in said if isinstance(one, int)} | set(_normalized(normalizer))
    if not widths:
        embedded = [part for one in _EMBEDDINGS[name] if (part := getattr(core, one, None)) is not None]
        first = _first_layer(embedded[0] if embedded else core if name == "obs" else None)
        widths = {first} if first is not None else set()
    if len(widths) != 1:
        told = f"it could be {sorted(widths)}" if widths else "its first layer does not say"
        raise InputError(f"{where}: how wide is {name}? {told}; give example_obs={{{name!r}: torch.zeros(1, width)}}")
    return widths.pop()


def _normalized(normalizer: torch.nn.Module | None) -> list[int]:
    means = [
        value for key, value in (normalizer.named_buffers(recurse=False) if normalizer else ()) if key.endswith("mean")
    ]
    return [one.shape[-1] for one in means if one.dim()]


def _first_layer(module: Any) -> int | None:
    """What the first layer of a module takes; None where that is neither linear nor recurrent."""
    if not isinstance(module, torch.nn.Module):
        return None
    for one in module.modules():
        if isinstance(one, torch.nn.Linear):
            return one.in_features
        if isinstance(one, torch.nn.RNNBase):
            return one.input_size
        if isinstance(one, torch.nn.Conv1d | torch.nn.Conv2d | torch.nn.Conv3d | torch.nn.MultiheadAttention):
            return None
    return None
