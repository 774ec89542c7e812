"""From an actor to a package: what is recorded, what is left as it was, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import ashore
from actor.comparing import ATOL, QUICK
from ashore.actor import Normalizer, export_actor
from ashore.errors import ExportError, InputError


class Normalizing(nn.Module):
    """As RSL-RL keeps statistics."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.eps = 1e-2
        self.register_buffer("_mean", torch.linspace(-1.0, 1.0, width).unsqueeze(0))
        self.register_buffer("_std", torch.linspace(0.5, 2.0, width).unsqueeze(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - self._mean) / (self._std + self.eps)


class ActorCritic(nn.Module):
    """An actor-critic of the older kind, with a memory if asked for, and dropout that only training has."""

    def __init__(self, kind: type[nn.RNNBase] | None = None, normalized: bool = True) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.actor_obs_normalizer = Normalizing(5) if normalized else nn.Identity()
        self.memory_a = Memory(kind(5, 6)) if kind else None
        width = 6 if kind else 5
        self.actor = nn.Sequential(nn.Linear(width, 8), nn.ELU(), nn.Dropout(0.5), nn.Linear(8, 2))
        self.critic = nn.Sequential(nn.Linear(5, 8), nn.ELU(), nn.Linear(8, 1))
        self.std = nn.Parameter(torch.tensor([0.5, 2.0]))
        self.distribution: Any = None

    def act_inference(self, observations: torch.Tensor) -> torch.Tensor:
        x = self.actor_obs_normalizer(observations)
        return self.actor(x if self.memory_a is None else self.memory_a(x).squeeze(0))

    def mean_and_std(self, observations: torch.Tensor) -> Any:
        mean = self.act_inference(observations)
        return mean, self.std.expand_as(mean)

    def reset(self, dones: torch.Tensor | None = None) -> None:
        if self.memory_a is not None and self.memory_a.hidden_states is not None:
            for state in self.memory_a.states():
                state[..., dones, :] = 0.0


class Memory(nn.Module):
    """The memory of RSL-RL 2."""

    def __init__(self, rnn: Any) -> None:
        super().__init__()
        self.rnn, self.hidden_states = rnn, None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, self.hidden_states = self.rnn(x.unsqueeze(0), self.hidden_states)
        return out

    def states(self) -> Any:
        return self.hidden_states if isinstance(self.hidden_states, tuple) else (self.hidden_states,)


def test_an_actor_is_left_as_it_was(tmp_path: Path) -> None:
    model = ActorCritic(nn.LSTM)
    model.train()
    model.critic.eval()
    kept = (torch.ones(1, 3, 6), torch.ones(1, 3, 6))
    model.memory_a.hidden_states = kept  # pyright: ignore[reportOptionalMemberAccess]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    identities = {name: id(value) for name, value in model.named_parameters()}
    fused = torch.backends.mha.get_fastpath_enabled()
    export_actor(model, tmp_path / "leg", **QUICK)
    assert model.training
    assert model.actor[2].training
    assert not model.critic.training
    assert model.memory_a is not None
    assert model.memory_a.hidden_states is kept
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert identities == {name: id(value) for name, value in model.named_parameters()}
    assert torch.backends.mha.get_fastpath_enabled() == fused


def test_an_actor_is_left_as_it_was_also_if_the_export_fails(tmp_path: Path) -> None:
    model = ActorCritic()
    model.train()
    with pytest.raises(InputError, match="num_actions: expected 7, the actor gives 2"):
        export_actor(model, tmp_path / "leg", num_actions=7, **QUICK)
    assert model.actor[2].training
    assert not (tmp_path / "leg").exists()


def test_dropout_that_only_training_has_is_not_exported(tmp_path: Path) -> None:
    model = ActorCritic()
    package = export_actor(model.train(), tmp_path / "leg", **QUICK)
    obs = torch.tensor([[1.0, -2.0, 3.0, -4.0, 5.0]])
    with torch.no_grad():
        expected = model.eval().act_inference(obs).numpy()
    np.testing.assert_allclose(ashore.load(package).step({"obs": obs.numpy()})["actions"], expected, atol=ATOL)


def test_the_manifest_says_what_the_actor_is(tmp_path: Path) -> None:
    model = ActorCritic(nn.GRU)
    package = export_actor(model, tmp_path / "leg", metadata={"robot": "leg"}, **QUICK)
    about = package.manifest.metadata["actor"]
    assert package.manifest.metadata["robot"] == "leg"
    assert about["architecture"] == "GRU + MLP"
    assert about["head"] == "deterministic"
    (one,) = about["normalizers"]
    assert (one["name"], one["formula"]) == ("policy.actor_obs_normalizer", "(x - mean) / (std + 0.01)")
    (artifact,) = package.manifest.stages["policy"].artifacts.values()
    assert artifact.opset == 18
    assert package.manifest.verification is not None
    assert package.manifest.verification.status == "passed"
    assert package.manifest.verification.resets >= 3


def test_the_digest_changes_with_the_statistics(tmp_path: Path) -> None:
    def digest(model: ActorCritic, name: str) -> str:
        return export_actor(model, tmp_path / name, **QUICK).manifest.metadata["actor"]["normalizers"][0]["sha256"]

    model, other = ActorCritic(), ActorCritic()
    other.actor_obs_normalizer._mean[0, 0] += 1e-6
    assert digest(model, "a") == digest(ActorCritic(), "b")
    assert digest(model, "a") != digest(other, "c")


def test_a_normaliser_that_is_given_is_applied_once(tmp_path: Path) -> None:
    model, normalizer = ActorCritic(normalized=False), Normalizing(5)
    obs = torch.tensor([[1.0, -2.0, 3.0, -4.0, 5.0]])
    package = export_actor(model, tmp_path / "leg", normalizer=normalizer, **QUICK)
    with torch.no_grad():
        expected = model.eval().act_inference(normalizer(obs)).numpy()
        bare = model.act_inference(obs).numpy()
    made = ashore.load(package).step({"obs": obs.numpy()})["actions"]
    np.testing.assert_allclose(made, expected, atol=ATOL)
    assert np.abs(expected - bare).max() > 0.05


def test_scripts_that_hand_over_the_actors_own_normaliser_do_not_normalise_twice(tmp_path: Path) -> None:
    model = ActorCritic()
    obs = torch.tensor([[1.0, -2.0, 3.0, -4.0, 5.0]])
    package = export_actor(model, tmp_path / "leg", normalizer=model.actor_obs_normalizer, **QUICK)
    with torch.no_grad():
        expected = model.eval().act_inference(obs).numpy()
    np.testing.assert_allclose(ashore.load(package).step({"obs": obs.numpy()})["actions"], expected, atol=ATOL)
    with pytest.raises(InputError, match="normalises its observations itself; normalising them twice"):
        export_actor(model, tmp_path / "other", normalizer=Normalizing(5), **QUICK)


def test_a_normaliser_that_is_not_used_is_an_error(tmp_path: Path) -> None:
    model = ActorCritic()
    model.act_inference = lambda observations: model.actor(observations)  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ExportError, match=r"policy.actor_obs_normalizer belongs to the actor, .* \[lost_normalizer\]"):
        export_actor(model, tmp_path / "leg", **QUICK)
    assert not (tmp_path / "leg").exists()


def test_a_normaliser_that_changes_nothing_is_warned_about(tmp_path: Path) -> None:
    package = export_actor(
        ActorCritic(normalized=False), tmp_path / "leg", normalizer=Normalizer(np.zeros(5), np.ones(5), 1e-12), **QUICK
    )
    assert [one.name for one in package.manifest.findings if one.severity == "warning"] == ["idle_normalizer"]


def test_actions_are_clipped_where_the_wrapper_clips_them(tmp_path: Path) -> None:
    model = ActorCritic()
    package = export_actor(model, tmp_path / "leg", clip_actions=0.05, **QUICK)
    made = ashore.load(package).step({"obs": np.array([[9.0, -9.0, 9.0, -9.0, 9.0]], np.float32)})["actions"]
    assert np.abs(made).max() == np.float32(0.05)
    with pytest.raises(InputError, match="clip_actions: expected a positive limit"):
        export_actor(model, tmp_path / "other", clip_actions=-1.0, **QUICK)


def test_a_stochastic_actor_draws_by_its_seed(tmp_path: Path) -> None:
    model, rows = ActorCritic(), 3000
    package = export_actor(model, tmp_path / "leg", stochastic=True, batch="dynamic", **QUICK)
    obs = torch.tensor([[1.0, -2.0, 3.0, -4.0, 5.0]])
    policy, given = ashore.load(package, batch=rows), np.repeat(obs.numpy(), rows, axis=0)
    drawn = policy.step({"obs": given, "seed": np.arange(rows)})["actions"].copy()
    with torch.no_grad():
        mean, std = (one.numpy() for one in model.eval().mean_and_std(obs))
    scaled = (drawn - mean) / std
    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=0.07)
    np.testing.assert_allclose(scaled.std(axis=0), 1.0, atol=0.05)
    np.testing.assert_array_equal(policy.step({"obs": given, "seed": np.arange(rows)})["actions"], drawn)


def test_a_stochastic_head_that_is_not_known_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"stochastic: of this actor \(forward\) no mean and standard deviation"):
        export_actor(nn.Linear(3, 2), tmp_path / "leg", stochastic=True, **QUICK)


def test_given_observations_become_the_recording(tmp_path: Path) -> None:
    rows = torch.arange(20.0).reshape(4, 5)
    golden = export_actor(ActorCritic(), tmp_path / "leg", example_obs=rows, **QUICK).golden()
    assert golden is not None
    np.testing.assert_array_equal(golden.ticks[1].inputs["obs"][0], rows[2])  # the first one was a trial


def test_a_single_action_without_distribution_could_be_a_critic(tmp_path: Path) -> None:
    from rsl_rl.models import MLPModel
    from tensordict import TensorDict

    obs = TensorDict({"policy": torch.zeros(1, 3)}, batch_size=[1])
    critic = MLPModel(obs, {"critic": ["policy"]}, "critic", 1, hidden_dims=[8])
    with pytest.raises(InputError, match="gives one number and has no distribution, as a critic does"):
        export_actor(critic, tmp_path / "leg", **QUICK)
    assert export_actor(critic, tmp_path / "leg", num_actions=1, **QUICK).manifest.outputs["actions"].shape == (1, 1)


class Drawing(nn.Linear):
    """Makes a distribution to take its mean, as many trainers do; torch checks its arguments, which reads values."""

    def act_inference(self, observations: torch.Tensor) -> torch.Tensor:
        return torch.distributions.Normal(self(observations), torch.ones(2), validate_args=True).mean


class Caught(Drawing):
    """Decides by whether that check fails."""

    def act_inference(self, observations: torch.Tensor) -> torch.Tensor:
        try:
            return super().act_inference(observations)
        except ValueError:
            return torch.zeros(1, 2)


def test_a_script_may_catch_what_an_export_raises(tmp_path: Path) -> None:
    """What is caught around the export is not caught in a step; what is caught in a step decides something."""
    raised: list[Exception] = []
    for model in (Drawing(3, 2), Caught(3, 2)):
        try:
            export_actor(model, tmp_path / type(model).__name__, **QUICK)
        except Exception as error:  # noqa: PERF203
            raised.append(error)
    assert [one.name for one in tmp_path.iterdir()] == ["Drawing"]
    assert ["[value_leak]" in str(one) for one in raised] == [True]


@pytest.mark.parametrize("limit", [-1.0, 0.0, np.nan, np.inf, (1.0, -1.0)])
def test_limits_that_are_none_are_refused(tmp_path: Path, limit: Any) -> None:
    with pytest.raises(InputError, match="clip_actions: expected a positive limit, or a lower and an upper one"):
        export_actor(ActorCritic(), tmp_path / "leg", clip_actions=limit, **QUICK)
    assert not list(tmp_path.iterdir())


class Choosing(nn.Linear):
    """Gives the best of its actions, as a whole number."""

    def act_inference(self, observations: torch.Tensor) -> torch.Tensor:
        return self(observations).argmax(dim=-1)


def test_whole_numbers_are_not_clipped(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"clip_actions: the actor gives torch.int64 actions, which have no limits"):
        export_actor(Choosing(3, 4), tmp_path / "leg", clip_actions=1.0, **QUICK)
    assert not list(tmp_path.iterdir())


class Critic(nn.Linear):
    """Values observations."""


class Branching(nn.Module):
    """Looks at a value in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.layer(obs) if obs[0, 0] > 0 else -self.layer(obs)


class Poisoned(nn.Linear):
    """Has a weight that is no number."""

    def __init__(self) -> None:
        super().__init__(3, 2)
        with torch.no_grad():
            self.weight[0, 0] = torch.nan


@pytest.mark.parametrize(
    ("make", "options", "error", "match"),
    [
        (lambda: Critic(3, 1), {}, InputError, "Critic is a critic: it values observations, and decides nothing"),
        (lambda: Poisoned(), {}, InputError, "module.weight: 1 of 6 values are not finite"),
        (
            lambda: nn.Module(),
            {"example_obs": torch.zeros(1, 3)},
            InputError,
            "it has neither forward nor act_inference",
        ),
        (lambda: lambda obs: obs, {}, InputError, "expected an actor, got function"),
        (lambda: nn.Linear(3, 2), {"example_obs": torch.zeros(0, 3)}, InputError, "example_obs: 'obs' is empty"),
        (lambda: nn.Linear(3, 2), {"example_obs": torch.zeros(1, 4)}, InputError, "cannot decide on obs"),
        (lambda: nn.Conv2d(1, 1, 3), {}, InputError, "how wide is obs\\? its first layer does not say"),
        (lambda: Branching(), {}, ExportError, r"left the graph|\[control_flow\]|\[value_leak\]"),
        (lambda: nn.Linear(3, 2), {"clip": 3}, InputError, "unknown option 'clip'"),
    ],
)
def test_what_is_no_actor_is_refused_by_name(
    tmp_path: Path, make: Any, options: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        export_actor(make(), tmp_path / "leg", **{**QUICK, **options})
    assert not (tmp_path / "leg").exists()
