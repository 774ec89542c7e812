"""Attention with masks as torch computes it: where everything is masked it gives zeros, and not NaN."""

from __future__ import annotations

import math
from typing import Any

import torch

aten = torch.ops.aten
Tensor = torch.Tensor


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Attention in single operations, if it has a mask; exporters' own words for it forget the rows without any key."""
    if attn_mask is None or is_causal or enable_gqa or dropout_p:
        return NotImplemented
    factor = math.sqrt(1.0 / math.sqrt(query.shape[-1]) if scale is None else scale)
    scores = aten.matmul.default(query * factor, aten.transpose.int(key * factor, -2, -1))
    if attn_mask.dtype == torch.bool:
        lowest = aten.full.default([], -math.inf, dtype=scores.dtype)
        scores = aten.where.self(attn_mask, scores, lowest)
    else:
        scores = scores + attn_mask
    return aten.matmul.default(safe_softmax(scores, -1), value)


def safe_softmax(scores: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """A softmax that gives zeros along an axis on which there is nothing but minus infinity."""
    scores = scores if dtype is None else scores.to(dtype)
    nothing = aten.amax.default(scores, [dim], True) == -math.inf
    zero = aten.full.default([], 0.0, dtype=scores.dtype)
    made = aten._softmax.default(aten.where.self(nothing, zero, scores), dim, False)
    return aten.where.self(nothing, zero, made)
