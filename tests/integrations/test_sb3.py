"""Models of stable-baselines3 and sb3-contrib: what `predict` gives, and what packages give."""

from __future__ import annotations

import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import stable_baselines3
import torch
from sb3_contrib import RecurrentPPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import ashore
from actor.comparing import ATOL, QUICK, ROWS, Pair, refusing, varied, with_file, worst_error
from ashore.actor import export_actor
from ashore.errors import InputError
from ashore.integrations.trainers import Source, export_checkpoint
from integrations.actors.pendulum import GOOD, played

CHECKPOINTS = Path(__file__).parent / "actors" / "checkpoints"
STATISTICS = CHECKPOINTS / "sb3_ppo_vecnormalize.pkl"
KINDS: dict[str, Any] = {
    "sb3_ppo": stable_baselines3.PPO,
    "sb3_a2c": stable_baselines3.A2C,
    "sb3_sac": stable_baselines3.SAC,
    "sb3_td3": stable_baselines3.TD3,
    "sb3_dqn": stable_baselines3.DQN,
    "sb3_recurrent": RecurrentPPO,
}
CARTPOLE = ("sb3_a2c", "sb3_dqn", "sb3_recurrent")


def source(name: str, **more: Any) -> Source:
    normalizer = str(STATISTICS) if name == "sb3_ppo" else "none"
    return Source(CHECKPOINTS / f"{name}.zip", **{"normalizer": normalizer, "trust": True, **more})


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Pair]:
    folder, made = tmp_path_factory.mktemp("packages"), dict[str, Pair]()

    def export(name: str) -> Pair:
        if name not in made:
            made[name] = with_file(export_checkpoint("sb3", source(name), folder / name, batch="dynamic", **QUICK))
        return made[name]

    return export


class Own:
    """A model as stable-baselines3 loads and plays it."""

    def __init__(self, name: str) -> None:
        self.model = KINDS[name].load(CHECKPOINTS / f"{name}.zip", device="cpu")
        self.statistics = None
        if name == "sb3_ppo":
            env = DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")])
            self.statistics = VecNormalize.load(str(STATISTICS), env)
        self.state: Any = None
        self.starts = np.ones(1, bool)

    def decide(self, inputs: Any) -> np.ndarray:
        obs = inputs["obs"].numpy()
        obs = obs if self.statistics is None else self.statistics.normalize_obs(obs)
        if not isinstance(self.model, RecurrentPPO):
            return self.model.predict(obs, deterministic=True)[0]
        starts = self.starts if len(self.starts) == len(obs) else np.ones(len(obs), bool)
        actions, self.state = self.model.predict(obs, self.state, episode_start=starts, deterministic=True)
        return actions

    def reset(self, dones: torch.Tensor) -> None:
        self.starts = dones.numpy()


def draw(name: str) -> Callable[[int, torch.Generator], dict[str, torch.Tensor]]:
    width = 4 if name in CARTPOLE else 3
    return lambda rows, generator: {"obs": 1.5 * torch.randn(rows, width, generator=generator)}


@pytest.mark.parametrize("rows", [1, ROWS])
@pytest.mark.parametrize("name", KINDS)
def test_package_and_file_decide_as_predict_does(name: str, rows: int, exported: Callable[[str], Pair]) -> None:
    assert varied(Own(name).decide, draw(name)) > 0.05
    own = Own(name)
    assert worst_error(exported(name), draw(name), own.decide, own.reset, rows) <= ATOL


@pytest.mark.parametrize("name", ["sb3_ppo", "sb3_sac", "sb3_td3"])
def test_it_was_trained(name: str, exported: Callable[[str], Pair]) -> None:
    assert played(exported(name).package, torque=2.0) > GOOD


@pytest.mark.parametrize("name", CARTPOLE)
def test_it_was_trained_to_balance(name: str, exported: Callable[[str], Pair]) -> None:
    """A pole that nobody balances falls within 10 steps; pushed at random, within about 20."""
    policy, env = ashore.load(exported(name).package, batch=1), gymnasium.make("CartPole-v1")
    steps = 0
    for seed in range(3):
        obs, _ = env.reset(seed=seed)
        policy.reset()
        over = False
        while not over:
            action = int(policy.step({"obs": obs[None]})["actions"][0])
            obs, _, fallen, long, _ = env.step(action)
            over, steps = fallen or long, steps + 1
    assert steps / 3 > 60


def test_the_normaliser_has_the_formula_of_vecnormalize(exported: Callable[[str], Pair]) -> None:
    (one,) = exported("sb3_ppo").package.manifest.metadata["actor"]["normalizers"]
    assert one["formula"] == "clip((x - mean) / sqrt(var + 1e-08), -10, 10)"
    assert one["effect"] > 0.1


def test_whole_numbers_come_out_of_discrete_actions(exported: Callable[[str], Pair]) -> None:
    for name in CARTPOLE:
        port = exported(name).package.manifest.outputs["actions"]
        assert (port.dtype, port.shape) == ("int64", ("batch",))


def test_a_recurrent_policy_has_its_hidden_state_as_states(exported: Callable[[str], Pair]) -> None:
    assert list(exported("sb3_recurrent").package.manifest.states) == ["h", "c"]


def test_a_live_model_takes_its_vecnormalize_along(tmp_path: Path) -> None:
    env = VecNormalize(DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")]))
    env.obs_rms.mean, env.obs_rms.var = np.array([0.1, 0.2, 0.3]), np.array([0.5, 0.6, 7.0])
    model = stable_baselines3.PPO("MlpPolicy", env, device="cpu", policy_kwargs={"net_arch": [8]})
    package = export_actor(model, tmp_path / "ppo", **QUICK)
    obs = np.array([[0.5, -0.5, 2.0]], np.float32)
    expected = model.predict(env.normalize_obs(obs), deterministic=True)[0]
    np.testing.assert_allclose(ashore.load(package).step({"obs": obs})["actions"], expected, atol=ATOL)


def test_a_model_may_draw_its_actions_by_a_seed(tmp_path: Path) -> None:
    package = export_checkpoint("sb3", source("sb3_sac"), tmp_path / "sac", stochastic=True, batch="dynamic", **QUICK)
    rows = 4000
    policy, own = ashore.load(package, batch=rows), Own("sb3_sac")
    obs = np.repeat(np.array([[0.6, 0.8, 0.5]], np.float32), rows, axis=0)
    drawn = policy.step({"obs": obs, "seed": np.arange(rows)})["actions"].copy()
    with torch.no_grad():
        mean, log_std, _ = own.model.actor.get_action_dist_params(torch.from_numpy(obs[:1]))
    unsquashed = np.arctanh(np.clip(drawn / 2.0, -0.999999, 0.999999))
    scaled = (unsquashed - mean.numpy()) / log_std.exp().numpy()
    assert abs(np.median(scaled)) < 0.08
    assert abs(np.quantile(scaled, 0.84) - np.quantile(scaled, 0.16) - 2.0) < 0.15
    again = policy.step({"obs": obs, "seed": np.arange(rows)})["actions"]
    np.testing.assert_array_equal(drawn, again)


# --- what is refused --------------------------------------------------------------------------------------------------


def refused(tmp_path: Path, given: Source, match: str) -> None:
    with refusing(tmp_path, match):
        export_checkpoint("sb3", given, tmp_path / "package", **QUICK)


def rewritten(tmp_path: Path, change: Callable[[dict[str, Any]], Any], name: str = "sb3_td3") -> Source:
    """A model with other weights in it."""
    with zipfile.ZipFile(CHECKPOINTS / f"{name}.zip") as whole:
        data, policy = whole.read("data"), whole.open("policy.pth")
        weights = torch.load(policy, weights_only=True)
    change(weights)
    torch.save(weights, tmp_path / "policy.pth")
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as made:
        made.writestr("data", data)
        made.write(tmp_path / "policy.pth", "policy.pth")
    return Source(tmp_path / "m.zip", trust=True)


def test_a_model_has_to_be_trusted_for_its_classes_are_pickles(tmp_path: Path) -> None:
    refused(tmp_path, source("sb3_a2c", trust=False), r"keeps classes and spaces as pickles, .*trust=True \(--trust\)")


def test_a_pickle_in_place_of_weights_is_refused_also_if_trusted(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "ran",)

    given = rewritten(tmp_path, lambda weights: weights.update(extra=Evil()))
    refused(tmp_path, given, "it holds more than tensors")
    assert not (tmp_path / "ran").exists()


def test_statistics_that_lie_beside_a_model_are_not_forgotten(tmp_path: Path) -> None:
    for name in ("sb3_ppo.zip", STATISTICS.name):
        shutil.copy(CHECKPOINTS / name, tmp_path)
    refused(
        tmp_path, Source(tmp_path / "sb3_ppo.zip", trust=True), "sb3_ppo_vecnormalize.pkl lies beside it; if the policy"
    )


def test_statistics_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other.pkl").write_bytes(pickle.dumps([1, 2]))
    refused(tmp_path, source("sb3_ppo", normalizer=str(tmp_path / "other.pkl")), "expected a VecNormalize, got list")


def test_missing_keys_and_other_shapes_are_named(tmp_path: Path) -> None:
    refused(tmp_path, rewritten(tmp_path, lambda weights: weights.pop("actor.mu.0.bias")), "missing: actor.mu.0.bias")

    def narrow(weights: dict[str, Any]) -> None:
        weights["actor.mu.0.weight"] = torch.zeros(5, 3)

    refused(tmp_path, rewritten(tmp_path, narrow), r"of another shape: actor.mu.0.weight is \[5, 3\], not \[32, 3\]")


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    given = rewritten(tmp_path, lambda weights: weights["actor.mu.0.bias"].fill_(np.nan))
    refused(tmp_path, given, "actor.mu.0.bias: 32 of 32 values are not finite")


def test_a_critic_decides_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ContinuousCritic decides nothing; export the model, or its policy"):
        export_actor(Own("sb3_sac").model.critic, tmp_path / "package", **QUICK)


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x05\x06" + bytes(18)])
def test_what_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.zip").write_bytes(content)
    refused(
        tmp_path,
        Source(tmp_path / "m.zip", trust=True),
        "m.zip: (this is no zip|expected a model) of stable-baselines3",
    )


def test_a_description_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(CHECKPOINTS / "sb3_td3.zip") as whole, zipfile.ZipFile(tmp_path / "m.zip", "w") as made:
        made.writestr("policy.pth", whole.read("policy.pth"))
        made.writestr("data", b"{ no JSON")
    refused(tmp_path, Source(tmp_path / "m.zip", trust=True), "m.zip: this is no model of stable-baselines3: JSON")


def test_weights_of_another_algorithm_are_refused(tmp_path: Path) -> None:
    def other(weights: dict[str, Any]) -> None:
        with zipfile.ZipFile(CHECKPOINTS / "sb3_ppo.zip") as whole, whole.open("policy.pth") as policy:
            found = torch.load(policy, weights_only=True)
        weights.clear()
        weights.update(found)

    refused(tmp_path, rewritten(tmp_path, other, "sb3_sac"), "its weights are not those of this SACPolicy: missing")


def test_statistics_of_another_width_are_refused(tmp_path: Path) -> None:
    refused(tmp_path, source("sb3_a2c", normalizer=str(STATISTICS)), r"the actor cannot decide on obs \[1, 4\]")


def test_an_empty_observation_is_refused(tmp_path: Path) -> None:
    class Nothing(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Dict(
            {"a": gymnasium.spaces.Box(-1, 1, (2,)), "b": gymnasium.spaces.Box(-1, 1, (0,))}
        )
        action_space = gymnasium.spaces.Box(-1, 1, (1,))

    model = stable_baselines3.PPO("MultiInputPolicy", Nothing(), device="cpu")
    with pytest.raises(InputError, match=r"observation 'b' is empty, its shape is \[0\]"):
        export_actor(model, tmp_path / "package", **QUICK)
