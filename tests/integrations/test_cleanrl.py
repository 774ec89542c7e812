"""CleanRL's agents, by import path: what their own networks give, and what packages give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ashore
from actor.comparing import ATOL, QUICK, ROWS, Pair, exported_elsewhere, refusing, varied, worst_error
from ashore.actor import Normalizer
from ashore.integrations.trainers import Source, export_checkpoint
from integrations.actors import networks
from integrations.actors.pendulum import GOOD, played

CHECKPOINTS = Path(__file__).parent / "actors" / "checkpoints"
CHECKPOINT = CHECKPOINTS / "cleanrl.pt"
MODULE = "integrations.actors.networks"
HEADS: dict[str, Callable[[Any, torch.Tensor], torch.Tensor]] = {
    "Agent": lambda agent, obs: agent.actor_mean(obs),
    "DiscreteAgent": lambda agent, obs: agent.actor(obs).argmax(dim=1),
    "SacActor": lambda actor, obs: torch.tanh(actor(obs)[0]) * actor.action_scale + actor.action_bias,
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Pair, Any]]:
    folder, made = tmp_path_factory.mktemp("packages"), dict[str, tuple[Pair, Any]]()

    def export(name: str) -> tuple[Pair, Any]:
        if name not in made:
            torch.manual_seed(5)
            network, path = getattr(networks, name)(), CHECKPOINT
            if name != "Agent":
                path = folder / f"{name}.pt"
                state = network.state_dict()
                torch.save((state, {"q": torch.zeros(1)}) if name == "SacActor" else state, path)
            network.load_state_dict(torch.load(CHECKPOINT, weights_only=True) if name == "Agent" else state)
            made[name] = exported_elsewhere(folder, name, "cleanrl", path, f"{MODULE}:{name}"), network
        return made[name]

    return export


def draw(rows: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"obs": torch.randn(rows, 3, generator=generator) * torch.tensor([0.7, 0.7, 3.0])}


@pytest.mark.parametrize("rows", [1, ROWS])
@pytest.mark.parametrize("name", HEADS)
def test_package_and_file_decide_as_the_network_does(
    name: str, rows: int, exported: Callable[[str], tuple[Pair, Any]]
) -> None:
    pair, network = exported(name)

    def decide(inputs: Any) -> np.ndarray:
        return HEADS[name](network, inputs["obs"]).numpy()

    assert varied(decide, draw) > 0.01
    assert worst_error(pair, draw, decide, lambda _: None, rows) <= ATOL


def test_it_was_trained(exported: Callable[[str], tuple[Pair, Any]]) -> None:
    assert played(exported("Agent")[0].package) > GOOD


def statistics() -> Normalizer:
    """What NormalizeObservation of Gymnasium had when the training ended."""
    return Normalizer(np.array([0.1, -0.2, 0.5]), np.array([0.5, 0.4, 9.0]), 1e-8, 10.0)


def test_statistics_of_gymnasium_are_given_by_import_path(tmp_path: Path) -> None:
    source = Source(CHECKPOINT, model=f"{MODULE}:Agent", normalizer=f"{__name__}:statistics")
    package = export_checkpoint("cleanrl", source, tmp_path / "agent", **QUICK)
    agent = networks.Agent()
    agent.load_state_dict(torch.load(CHECKPOINT, weights_only=True))
    obs = np.array([[0.9, -0.4, 4.0]])
    scaled = np.clip((obs - [0.1, -0.2, 0.5]) / np.sqrt(np.array([0.5, 0.4, 9.0]) + 1e-8), -10, 10)
    with torch.no_grad():
        expected = agent.actor_mean(torch.from_numpy(scaled).float()).numpy()
    made = ashore.load(package).step({"obs": obs.astype(np.float32)})["actions"]
    np.testing.assert_allclose(made, expected, atol=ATOL)


def pair_with_function() -> Any:
    """A network and what decides with it."""
    network = networks.DiscreteAgent()
    return network, lambda obs: torch.softmax(network.actor(obs), dim=-1)


def test_a_function_may_say_how_a_network_decides(tmp_path: Path) -> None:
    torch.save(networks.DiscreteAgent().state_dict(), tmp_path / "m.pt")
    source = Source(tmp_path / "m.pt", model=f"{__name__}:pair_with_function", obs={"obs": (3,)})
    package = export_checkpoint("cleanrl", source, tmp_path / "package", **QUICK)
    made = ashore.load(package).step({"obs": np.ones((1, 3), np.float32)})["actions"]
    np.testing.assert_allclose(made.sum(), 1.0, rtol=1e-6)


def needs_environments(envs: Any) -> Any:
    """As CleanRL's own classes are."""
    return envs


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (None, r"its network is code; say with model='package.module:make'"),
        (f"{MODULE}:Missing", "has no 'Missing'"),
        ("nowhere.at_all:make", "there is no module 'nowhere'"),
        ("no path", "expected package.module:name"),
        (f"{__name__}:needs_environments", "it cannot be called without arguments"),
        (f"{__name__}:refused", "it cannot be called without arguments"),
        (f"{__name__}:failing", r"it failed: RuntimeError: no CUDA here"),
        ("math:pi", "expected a function or a class, got float"),
        (f"{MODULE}:SacActor", r"its weights are not those of this SacActor: missing: action_scale"),
    ],
)
def test_what_is_no_network_is_refused(tmp_path: Path, model: str | None, match: str) -> None:
    refused(tmp_path, Source(CHECKPOINT, model=model), match)


def changed(tmp_path: Path, change: Callable[[dict[str, Any]], Any]) -> Source:
    loaded = torch.load(CHECKPOINT, weights_only=True)
    change(loaded)
    torch.save(loaded, tmp_path / "m.pt")
    return Source(tmp_path / "m.pt", model=f"{MODULE}:Agent")


class Evil:
    """Runs code when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_checkpoints_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    refused(tmp_path, changed(tmp_path, lambda loaded: loaded.pop("actor_mean.0.bias")), "missing: actor_mean.0.bias")
    given = changed(tmp_path, lambda loaded: loaded["actor_mean.0.bias"].fill_(np.nan))
    refused(tmp_path, given, "actor_mean.0.bias: 32 of 32 values are not finite")
    given = changed(tmp_path, lambda loaded: loaded.update(evil=Evil(tmp_path / "ran")))
    refused(tmp_path, given, "it holds more than tensors, and reading it could run code")
    given = changed(tmp_path, lambda loaded: [loaded.pop(key) for key in list(loaded) if "critic" not in key])
    refused(tmp_path, given, "missing: actor_logstd, actor_mean.0.weight")
    refused(tmp_path, changed(tmp_path, lambda loaded: loaded.clear()), "expected the weights of a network by name")
    refused(
        tmp_path, Source(CHECKPOINTS / "skrl.pt", model=f"{MODULE}:Agent"), "its weights are not those of this Agent"
    )


def critic_alone() -> Any:
    """The half that values observations."""
    return networks.Agent().critic


def test_a_critic_decides_nothing(tmp_path: Path) -> None:
    agent = torch.load(CHECKPOINT, weights_only=True)
    critic = {key.removeprefix("critic."): value for key, value in agent.items() if key.startswith("critic.")}
    torch.save(critic, tmp_path / "m.pt")
    given = Source(tmp_path / "m.pt", model=f"{__name__}:critic_alone")
    refused(tmp_path, given, "gives one number and has no distribution, as a critic does")


def test_an_empty_observation_is_refused(tmp_path: Path) -> None:
    given = Source(CHECKPOINT, model=f"{MODULE}:Agent", obs={"obs": (0,)})
    refused(tmp_path, given, r"obs obs=\[0\]: an observation group cannot be empty")


def failing() -> Any:
    """As scripts do that want what is not there."""
    raise RuntimeError("no CUDA here")


def refused(tmp_path: Path, given: Source, match: str) -> None:
    with refusing(tmp_path, match):
        export_checkpoint("cleanrl", given, tmp_path / "package", **QUICK)
