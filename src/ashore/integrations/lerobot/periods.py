"""Time as sines and cosines, in float32 and as exact as in float64.

LeRobot computes them in float64, since a time of 1 is 250 turns of the fastest sine, and rounds them to float32 then.
Not every runtime has float64. Here turns are counted in parts that float32 holds exactly, and whole ones are dropped
before anything is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ashore.errors import ExportError

_HALF = 2.0**12
"""Numbers of so many steps have exact products in float32."""


class TimeEmbedding(torch.nn.Module):
    """Sines, then cosines, of ``2 pi time / period``; within 1e-6 of what float64 gives.

    Args:
        dimension: of a row; half of it are sines.
        min_period: of the first sine.
        max_period: of the last.
    """

    high: torch.Tensor
    low: torch.Tensor

    def __init__(self, dimension: int, min_period: float, max_period: float) -> None:
        super().__init__()
        self.made_for = dimension, min_period, max_period
        share = torch.linspace(0.0, 1.0, dimension // 2, dtype=torch.float64)
        frequency = 1.0 / (min_period * (max_period / min_period) ** share)  # turns, while time goes from 0 to 1
        grain = 2.0 ** math.ceil(math.log2(1.0 / min_period)) / _HALF
        coarse = torch.round(frequency / grain) * grain
        self.register_buffer("high", coarse.to(torch.float32))
        self.register_buffer("low", (frequency - coarse).to(torch.float32))

    def forward(self, time: torch.Tensor) -> torch.Tensor:
        """Times (n,), float32, 0 to 1, to (n, dimension)."""
        late = torch.round(time * _HALF) / _HALF
        early = (time - late)[:, None]
        late = late[:, None]
        turns = late * self.high  # exact
        turns = turns - torch.round(turns)
        turns = turns + (late * self.low + (early * self.high + early * self.low))
        angle = (turns - torch.round(turns)) * (2.0 * math.pi)
        return torch.cat([torch.sin(angle), torch.cos(angle)], dim=1)


@contextmanager
def in_float32(module: Any, embedding: TimeEmbedding) -> Iterator[None]:
    """Have the functions of a LeRobot module embed time so."""
    before = module.create_sinusoidal_pos_embedding

    def embed(time: torch.Tensor, dimension: int, min_period: float, max_period: float, **_: object) -> torch.Tensor:
        if (dimension, min_period, max_period) != embedding.made_for:
            raise ExportError(f"time: expected an embedding of {embedding.made_for}, got {dimension, min_period}")
        return embedding(time)

    module.create_sinusoidal_pos_embedding = embed
    try:
        yield
    finally:
        module.create_sinusoidal_pos_embedding = before
