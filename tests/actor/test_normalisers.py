"""Normalisers: whose formula it is, found by trying, and what belongs to an actor."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ashore.actor.normalisers import Normalizer, as_normalizer, describe, digest, find_normalizers
from ashore.errors import InputError


class Kept(nn.Module):
    """A normaliser by some formula."""

    def __init__(
        self, call: Any, mean: str = "running_mean", spread: str = "running_var", epsilon: float = 1e-3
    ) -> None:
        super().__init__()
        self.call, self.names, self.epsilon = call, (mean, spread), epsilon
        self.register_buffer(mean, torch.tensor([1.0, -2.0, 0.5]))
        self.register_buffer(spread, torch.tensor([0.5, 2.0, 9.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean, spread = (getattr(self, name) for name in self.names)
        return self.call(x, mean, spread, self.epsilon)


@pytest.mark.parametrize(
    ("module", "formula"),
    [
        (Kept(lambda x, m, v, e: (x - m) / torch.sqrt(v + e)), "(x - mean) / sqrt(var + 0.001)"),
        (Kept(lambda x, m, v, e: (x - m) / (torch.sqrt(v) + e)), "(x - mean) / (std + 0.001)"),
        (Kept(lambda x, m, s, e: (x - m) / (s + e), "_mean", "_std"), "(x - mean) / (std + 0.001)"),
        (Kept(lambda x, m, v, e: ((x - m) / (v + e) ** 0.5).clamp(-5, 5)), "clip((x - mean) / sqrt(var + 0.001), -5, 5)"),  # noqa: E501
        (Kept(lambda x, m, v, e: (x - m) / (v + e)), "as recorded"),
        (Kept(lambda x, m, v, e: torch.tanh(x - m)), "as recorded"),
        (Kept(lambda x, m, s, e: (x - m) / (s.sqrt() + e), "_mean", "_std"), "as recorded"),
        (Normalizer(np.ones(3), np.ones(3), 1e-8, 10.0), "clip((x - mean) / sqrt(var + 1e-08), -10, 10)"),
        (Normalizer(np.ones(3), np.ones(3)), "(x - mean) / sqrt(var + 1e-08)"),
    ],
)  # fmt: skip
def test_the_formula_is_what_the_module_computes(module: nn.Module, formula: str) -> None:
    before = {name: value.clone() for name, value in module.named_buffers()}
    (found,) = find_normalizers({"policy": module})
    assert describe(found)["formula"] == formula
    assert all(torch.equal(value, before[name]) for name, value in module.named_buffers())


def test_a_normaliser_of_ours_computes_in_the_precision_of_numpy() -> None:
    mean, var = np.array([1e4, -3.0]), np.array([1e-4, 4.0])
    obs = np.array([[1e4 + 0.015, 1.0]], np.float32)
    expected = np.clip((obs - mean) / np.sqrt(var + 1e-8), -10, 10).astype(np.float32)
    np.testing.assert_array_equal(Normalizer(mean, var, 1e-8, 10.0)(torch.from_numpy(obs)).numpy(), expected)


def test_those_of_critics_and_layers_of_networks_are_left_out() -> None:
    policy = nn.ModuleDict(
        {
            "critic_obs_normalizer": Kept(None),
            "value_mean_std": Kept(None),
            "norm": nn.BatchNorm1d(3),
            "obs": Kept(None),
        }
    )
    assert [one.name for one in find_normalizers({"policy": policy})] == ["policy.obs"]


def test_the_digest_is_that_of_the_statistics_alone() -> None:
    one, same, other = (Normalizer([0.0], [1.0], epsilon) for epsilon in (1e-8, 1e-8, 1e-8))
    other.mean[0] = 1e-9
    assert digest(one) == digest(same) != digest(other)


def test_running_statistics_make_a_normaliser() -> None:
    wrapper = SimpleNamespace(obs_rms=SimpleNamespace(mean=np.zeros(2), var=np.ones(2)), epsilon=1e-4, clip_obs=3.0)
    made = as_normalizer(wrapper)
    assert isinstance(made, Normalizer)
    assert (made.epsilon, made.clip) == (1e-4, 3.0)
    assert as_normalizer(None) is as_normalizer(nn.Identity()) is None


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: as_normalizer(3), "expected a module, or something with obs_rms, got int"),
        (lambda: as_normalizer(SimpleNamespace(obs_rms={})), "normalises a dict of observations"),
        (lambda: Normalizer([0.0], [1.0, 2.0]), "expected a mean and variances of one shape"),
        (lambda: Normalizer([0.0], [-1.0]), "the least variance is -1"),
    ],
)
def test_what_is_no_normaliser_is_refused(make: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        make()
