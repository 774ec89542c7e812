"""Numbers from a seed are normal, and differ between rows, places and seeds."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ashore.actor.noise import PRIME, standard_normal


@pytest.mark.parametrize("seeds", [torch.arange(20_000), torch.arange(20_000) * 4096 - 7, torch.arange(20_000) * 2**31])
def test_numbers_are_normal_and_independent(seeds: torch.Tensor) -> None:
    drawn = standard_normal(seeds, 4).double().numpy()
    assert np.abs(drawn.mean(axis=0)).max() < 0.03
    assert np.abs(drawn.std(axis=0) - 1.0).max() < 0.03
    assert np.abs((drawn**3).mean(axis=0)).max() < 0.12
    assert np.abs((drawn**4).mean(axis=0) - 3.0).max() < 0.3
    assert np.abs(np.corrcoef(drawn, rowvar=False) - np.eye(4)).max() < 0.03
    assert np.abs((drawn[1:] * drawn[:-1]).mean(axis=0)).max() < 0.03


def test_the_same_seed_gives_the_same_and_another_gives_another() -> None:
    one = standard_normal(torch.tensor([5, 6, 5]), 3)
    assert one.dtype == torch.float32
    assert torch.equal(one[0], one[2])
    assert not torch.isclose(one[0], one[1]).any()
    assert torch.equal(standard_normal(torch.tensor([5 + PRIME]), 3), one[:1])


def test_every_seed_gives_finite_numbers() -> None:
    edges = torch.tensor([0, 1, -1, PRIME, PRIME - 1, 2**62, -(2**63), 2**63 - 1])
    assert standard_normal(edges, 50).isfinite().all()
