"""Normal numbers from a seed, in operations that every runtime computes alike.

A random operation in a file would draw other numbers on every runtime, and none that could be compared. So an exported
stochastic policy has a seed as its input, and the same seed gives the same action everywhere.
"""

from __future__ import annotations

import math

import torch

PRIME = 2**31 - 1
"""Seeds count modulo this prime; all products of two numbers below it fit into 64 bits."""

_ROUNDS = ((48271, 1_234_567_891), (69621, 987_654_321), (39373, 1_999_999_973))
_PLACE = 1_597_334_677


def standard_normal(seed: torch.Tensor, width: int) -> torch.Tensor:
    """Normally distributed numbers, by Box and Muller.

    Args:
        seed: int64 of shape [rows].
        width: how many numbers a row gets.

    Returns:
        float32 of shape [rows, width].
    """
    place = (torch.arange(1, 2 * width + 1, dtype=torch.int64) * _PLACE) % PRIME
    mixed = (seed.reshape(-1, 1) % PRIME + place) % PRIME
    for factor, offset in _ROUNDS:
        mixed = (mixed * factor + offset) % PRIME
        square = mixed * mixed % PRIME
        mixed = square * square % PRIME * mixed % PRIME  # the fifth power: a permutation, for 5 does not divide PRIME-1
    uniform = (mixed.to(torch.float64) + 0.5) / PRIME
    radius = torch.sqrt(-2.0 * torch.log(uniform[:, :width]))
    return (radius * torch.cos(2.0 * math.pi * uniform[:, width:])).to(torch.float32)
