"""Policies of skrl: what an agent's own call gives as mean actions, and what packages give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ashore
from actor.comparing import ATOL, QUICK, ROWS, Pair, exported_elsewhere, refusing, varied, worst_error
from ashore.actor import export_actor
from ashore.integrations.trainers import Source, export_checkpoint
from integrations.actors import networks
from integrations.actors.pendulum import GOOD, played

CHECKPOINT = Path(__file__).parent / "actors" / "checkpoints" / "skrl.pt"
MODULE = "integrations.actors.networks"


def saved(tmp_path: Path, name: str) -> Path:
    """A checkpoint of a model alone, whose weights nobody trained, but which are not all alike."""
    torch.manual_seed(3)
    path = tmp_path / f"{name}.pt"
    torch.save(getattr(networks, f"skrl_{name}")().state_dict(), path)
    return path


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Pair, Path]]:
    folder, made = tmp_path_factory.mktemp("packages"), dict[str, tuple[Pair, Path]]()

    def export(name: str) -> tuple[Pair, Path]:
        if name not in made:
            path = CHECKPOINT if name == "agent" else saved(folder, name)
            made[name] = exported_elsewhere(folder, name, "skrl", path, f"{MODULE}:skrl_{name}"), path
        return made[name]

    return export


def draw(rows: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"obs": torch.randn(rows, 3, generator=generator) * torch.tensor([0.7, 0.7, 3.0])}


class Own:
    """What skrl evaluates: the mean actions of the agent, or of a model with its hidden state."""

    def __init__(self, name: str, path: Path) -> None:
        self.made = getattr(networks, f"skrl_{name}")()
        self.policy = getattr(self.made, "policy", self.made)
        self.rnn: list[torch.Tensor] = []
        if name == "agent":
            self.made.load(str(path))
            self.made.enable_training_mode(False)
        else:
            self.made.load_state_dict(torch.load(path, weights_only=True))
            self.made.eval()

    def decide(self, inputs: Any) -> np.ndarray:
        obs = inputs["obs"]
        if self.policy is not self.made:
            actions, outputs = self.made.act(obs, None, timestep=0, timesteps=1)
        else:
            if "Recurrent" in type(self.policy).__name__ and (not self.rnn or self.rnn[0].shape[1] != len(obs)):
                self.rnn = [torch.zeros(1, len(obs), 16) for _ in range(2)]
            actions, outputs = self.policy.act({"observations": obs, "rnn": self.rnn}, role="policy")
            self.rnn = outputs.get("rnn", [])
        return outputs.get("mean_actions", actions).numpy()

    def reset(self, dones: torch.Tensor) -> None:
        for state in self.rnn:
            if state.shape[1] == len(dones):
                state[:, dones] = 0.0


@pytest.mark.parametrize("rows", [1, ROWS])
@pytest.mark.parametrize("name", ["agent", "recurrent", "deterministic"])
def test_package_and_file_decide_as_the_agent_does(
    name: str, rows: int, exported: Callable[[str], tuple[Pair, Path]]
) -> None:
    pair, path = exported(name)
    assert varied(Own(name, path).decide, draw) > 0.01
    own = Own(name, path)
    assert worst_error(pair, draw, own.decide, own.reset, rows) <= ATOL


def test_it_was_trained(exported: Callable[[str], tuple[Pair, Path]]) -> None:
    assert played(exported("agent")[0].package, torque=2.0) > GOOD


def test_the_preprocessor_travels_with_its_formula(exported: Callable[[str], tuple[Pair, Path]]) -> None:
    (one,) = exported("agent")[0].package.manifest.metadata["actor"]["normalizers"]
    assert one["formula"] == "clip((x - mean) / (std + 1e-08), -5, 5)"
    assert one["effect"] > 0.1


def test_a_recurrent_model_has_its_hidden_state_as_states(exported: Callable[[str], tuple[Pair, Path]]) -> None:
    assert list(exported("recurrent")[0].package.manifest.states) == ["h", "c"]


def test_a_live_agent_is_exported_as_it_is(tmp_path: Path) -> None:
    own = Own("agent", CHECKPOINT)
    package = export_actor(own.made, tmp_path / "agent", **QUICK)
    obs = torch.tensor([[0.6, -0.8, 2.5]])
    with torch.no_grad():
        np.testing.assert_allclose(
            ashore.load(package).step({"obs": obs.numpy()})["actions"], own.decide({"obs": obs}), atol=ATOL
        )


# --- what is refused --------------------------------------------------------------------------------------------------


def refused(tmp_path: Path, given: Source, match: str) -> None:
    with refusing(tmp_path, match):
        export_checkpoint("skrl", given, tmp_path / "package", **QUICK)


def changed(tmp_path: Path, change: Callable[[dict[str, Any]], Any], model: str = "agent") -> Source:
    loaded = torch.load(CHECKPOINT, weights_only=True)
    change(loaded)
    torch.save(loaded, tmp_path / "m.pt")
    return Source(tmp_path / "m.pt", model=f"{MODULE}:skrl_{model}")


def test_statistics_that_nothing_takes_are_not_forgotten(tmp_path: Path) -> None:
    given = Source(CHECKPOINT, model=f"{MODULE}:skrl_without_preprocessor")
    refused(tmp_path, given, "it has the statistics of a observation_preprocessor, and what .* makes has none")


def test_a_model_is_code_and_has_to_be_named(tmp_path: Path) -> None:
    refused(tmp_path, Source(CHECKPOINT), r"skrl's models are code; say with model='package.module:make' \(--model\)")


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    refused(tmp_path, changed(tmp_path, lambda loaded: loaded["policy"].pop("net.0.bias")), "missing: net.0.bias")
    refused(tmp_path, changed(tmp_path, lambda _: None, "deterministic"), "not known: log_std_parameter, net.4.weight")
    refused(tmp_path, changed(tmp_path, lambda loaded: loaded.pop("policy")), r"there is no policy in it, only")
    given = changed(tmp_path, lambda loaded: loaded["policy"]["net.0.bias"].fill_(np.nan))
    refused(tmp_path, given, "net.0.bias: 32 of 32 values are not finite")


def test_a_pickle_with_code_in_it_is_refused_before_it_runs(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "ran",)

    given = changed(tmp_path, lambda loaded: loaded.update(optimizer=Evil()))
    refused(tmp_path, given, "it holds more than tensors, and reading it could run code")
    assert not (tmp_path / "ran").exists()


def test_a_value_function_is_no_policy(tmp_path: Path) -> None:
    agent = networks.skrl_agent()
    torch.save(agent.value.state_dict(), tmp_path / "m.pt")
    given = Source(tmp_path / "m.pt", model=f"{MODULE}:skrl_without_preprocessor")
    refused(tmp_path, given, "missing: log_std_parameter, net.4.weight, net.4.bias; of another shape: net.2.weight")


def test_a_preprocessor_without_statistics_is_refused(tmp_path: Path) -> None:
    """It would normalise by a mean of zero, which nobody trained with."""
    given = changed(tmp_path, lambda loaded: loaded.pop("observation_preprocessor"))
    refused(tmp_path, given, "skrl_agent makes has a observation_preprocessor, and there are no statistics for it")
    torch.save(torch.load(CHECKPOINT, weights_only=True)["policy"], tmp_path / "alone.pt")
    given = Source(tmp_path / "alone.pt", model=f"{MODULE}:skrl_agent")
    refused(tmp_path, given, "there are no statistics for it; let it make the agent as it was trained, or take")


def without_observations() -> Any:
    """A policy that reads nothing."""
    policy = networks.skrl_without_preprocessor()
    policy.num_observations = 0
    return policy


def test_an_empty_observation_space_is_refused(tmp_path: Path) -> None:
    given = changed(tmp_path, lambda loaded: loaded.pop("observation_preprocessor"))
    given = Source(given.checkpoint, model=f"{__name__}:without_observations")
    refused(tmp_path, given, "Policy: its observation space is empty")
