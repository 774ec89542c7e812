"""Observations to record an actor with: those that were given, or drawn at the scale that it was trained at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from ashore.actor.actors import Actor
from ashore.actor.normalisers import Found

_BYTE = 256
_REAL = 6
"""How many steps have observations that were given; what follows is drawn, since those may be all alike."""


class Examples:
    """Draws the inputs of a step.

    Args:
        actor: its inputs say dtypes and shapes.
        given: name -> rows of observations, or None.
        normalizers: those of the actor; an input of their width gets their scale.
        rows: how many rows a step has.
    """

    def __init__(
        self,
        actor: Actor,
        given: Mapping[str, torch.Tensor] | None,
        normalizers: Sequence[Found],
        rows: int,
    ) -> None:
        self._inputs, self._counts, self._rows = actor.inputs, actor.counts, rows
        self.given = given if given is not None and any(bool(one.any()) for one in given.values()) else None
        """Name -> rows that were given, if there is anything but zeros in them."""

        self._scales = {one.mean.shape[-1]: one for one in reversed(normalizers) if one.mean.dim()}
        self._generator = torch.Generator().manual_seed(0)
        self._next = self._drawn = 0

    def draw(self) -> dict[str, torch.Tensor]:
        """The inputs of a step."""
        self._drawn += 1
        if self.given is None or self._drawn > _REAL:
            return {name: self._one(name, example) for name, example in self._inputs.items()}
        length = len(next(iter(self.given.values())))
        rows = torch.tensor([(self._next + row) % length for row in range(self._rows)])
        self._next += self._rows
        return {
            name: self.given[name][rows].to(example.dtype) if name in self.given else self._one(name, example)
            for name, example in self._inputs.items()
        }

    def seeds(self) -> torch.Tensor:
        """Seeds to draw actions with, of shape [rows]."""
        return torch.randint(0, 2**31 - 1, (self._rows,), generator=self._generator)

    def _one(self, name: str, example: torch.Tensor) -> torch.Tensor:
        shape = (self._rows, *example.shape[1:])
        if example.dtype == torch.bool:
            return self._mask(shape)
        if example.dtype == torch.uint8:
            return torch.randint(0, _BYTE, shape, generator=self._generator, dtype=torch.uint8)
        if name in self._counts:
            return torch.randint(0, self._counts[name], shape, generator=self._generator, dtype=example.dtype)
        if not example.is_floating_point():
            return example.expand(shape).clone()
        drawn = torch.randn(shape, generator=self._generator)
        scale = self._scales.get(shape[-1]) if len(shape) == 2 else None
        if scale is not None:
            drawn = scale.mean.reshape(-1).float() + scale.std.reshape(-1).float() * drawn
        return drawn.to(example.dtype)

    def _mask(self, shape: tuple[int, ...]) -> torch.Tensor:
        """Masks of varying length, now and then none and now and then all."""
        if len(shape) == 1:
            return torch.rand(shape, generator=self._generator) < 0.5
        lengths = torch.randint(0, shape[-1] + 1, (*shape[:-1], 1), generator=self._generator)
        return torch.arange(shape[-1]) < lengths
