"""Checkpoints of rl_games, which cannot live beside the pinned versions: what its player decided lies beside them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from actor.comparing import ATOL, QUICK, ROWS, Pair, recorded_error, refusing, with_file
from ashore.integrations.trainers import Source, export_checkpoint
from integrations.actors.pendulum import GOOD, played, trajectory

CHECKPOINTS = Path(__file__).parent / "actors" / "checkpoints"
NAMES = ["rl_games_mlp", "rl_games_lstm"]


def source(name: str, **more: Any) -> Source:
    path = CHECKPOINTS / f"{name}.pt"
    return Source(path, **{"config": CHECKPOINTS / f"{name}.json", "actions": (-1.0, 1.0), **more})


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Pair]:
    folder, made = tmp_path_factory.mktemp("packages"), dict[str, Pair]()

    def export(name: str) -> Pair:
        if name not in made:
            made[name] = with_file(export_checkpoint("rl_games", source(name), folder / name, batch="dynamic", **QUICK))
        return made[name]

    return export


@pytest.mark.parametrize("rows", [1, ROWS])
@pytest.mark.parametrize("name", NAMES)
def test_package_and_file_decide_as_the_player_did(name: str, rows: int, exported: Callable[[str], Pair]) -> None:
    expected = np.load(CHECKPOINTS / f"{name}.npz")[f"actions_{rows}"]
    assert expected.std() > 0.05
    path = trajectory(100, rows, seed=rows)
    inputs = ({"obs": obs} for obs in path.obs.numpy())
    assert recorded_error(exported(name), inputs, path.dones.numpy(), expected) <= ATOL


@pytest.mark.parametrize("name", NAMES)
def test_it_was_trained(name: str, exported: Callable[[str], Pair]) -> None:
    assert played(exported(name).package) > GOOD


def test_the_normaliser_has_the_formula_of_rl_games(exported: Callable[[str], Pair]) -> None:
    (one,) = exported("rl_games_mlp").package.manifest.metadata["actor"]["normalizers"]
    assert one["formula"] == "clip((x - mean) / sqrt(var + 1e-05), -5, 5)"
    assert one["effect"] > 1e-3


def test_memory_in_front_of_the_layers_is_a_state(exported: Callable[[str], Pair]) -> None:
    assert list(exported("rl_games_lstm").package.manifest.states) == ["h", "c"]
    assert not exported("rl_games_mlp").package.manifest.states


# --- what is refused --------------------------------------------------------------------------------------------------


def refused(tmp_path: Path, given: Source, match: str) -> None:
    with refusing(tmp_path, match):
        export_checkpoint("rl_games", given, tmp_path / "package", **QUICK)


def changed(tmp_path: Path, change: Callable[[dict[str, Any], dict[str, Any]], Any]) -> Source:
    loaded = torch.load(CHECKPOINTS / "rl_games_mlp.pt", weights_only=True)
    settings = json.loads((CHECKPOINTS / "rl_games_mlp.json").read_text())
    change(loaded["model"], settings["params"]["network"])
    torch.save(loaded, tmp_path / "m.pt")
    (tmp_path / "m.json").write_text(json.dumps(settings))
    return Source(tmp_path / "m.pt", config=tmp_path / "m.json", actions=(-1.0, 1.0))


def test_the_limits_of_the_environment_have_to_be_said(tmp_path: Path) -> None:
    refused(
        tmp_path, source("rl_games_mlp", actions=None), r"scales actions to the limits of the environment.*--actions"
    )


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda model, _: model.pop("a2c_network.actor_mlp.2.bias"), r"missing: network.parts.mlp.2.bias"),
        (lambda model, _: model["a2c_network.mu.bias"].fill_(np.nan), r"mu.bias: 1 of 1 values are not finite"),
        (lambda _, network: network.update(cnn={"type": "conv2d"}), r"this network has convolutions \(cnn\), which"),
        (lambda _, network: network["mlp"].update(activation="wavy"), "unknown activation 'wavy'"),
        (lambda _, network: network.update(rnn={"name": "lstm"}), "the configuration has a memory, the checkpoint has"),
        (lambda model, _: [model.pop(key) for key in list(model) if "mu." in key], "it has neither mu nor logits"),
        (lambda model, _: [model.pop(key) for key in list(model) if "value" not in key], "there is no actor in it"),
        (lambda model, _: model.clear(), r"model: expected the weights of a network by name, got \w+ with \[\]"),
        (
            lambda model, _: [model.pop(key) for key in list(model) if key.startswith("running")],
            "there are no statistics of observations in it, and the configuration says normalize_input: True",
        ),
        (
            lambda model, _: model.update({"a2c_network.act.weight": torch.zeros(1)}),
            r"a2c_network.act.weight: it is not known what this weight is for",
        ),
        (
            lambda _, network: network["mlp"].pop("activation"),
            "expected a configuration of rl_games, with the activation of",
        ),
        (lambda _, network: network["mlp"].update(units=[], d2rl=True), r"this network has d2rl, which cannot be"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(tmp_path: Path, change: Any, match: str) -> None:
    refused(tmp_path, changed(tmp_path, change), match)


class Evil:
    """Runs code when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_a_pickle_with_code_in_it_is_refused_before_it_runs(tmp_path: Path) -> None:
    given = changed(tmp_path, lambda model, _: model.update(evil=Evil(tmp_path / "ran")))
    refused(tmp_path, given, r"m.pt: it holds more than tensors, and reading it could run code .*--trust")


def test_observations_of_no_numbers_are_refused(tmp_path: Path) -> None:
    def empty(model: dict[str, Any], _: Any) -> None:
        model["a2c_network.actor_mlp.0.weight"] = torch.zeros(32, 0)
        model |= {f"running_mean_std.running_{one}": torch.zeros(0, dtype=torch.float64) for one in ("mean", "var")}

    refused(tmp_path, changed(tmp_path, empty), "it reads no observations")


@pytest.mark.parametrize(
    ("checkpoint", "config", "match"),
    [
        ("rl_games_mlp.pt", "rsl5_mlp.json", r"rsl5_mlp.json: expected a configuration of rl_games, with"),
        ("rl_games_lstm.pt", "rl_games_mlp.json", "it has a memory, .*, and the configuration has none"),
        ("rl_games_mlp.pt", "rl_games_lstm.json", "the configuration has a memory, the checkpoint has none"),
        ("rsl5_mlp.pt", "rl_games_mlp.json", "expected a checkpoint of rl_games, with a model in it"),
    ],
)  # fmt: skip
def test_a_configuration_of_something_else_is_refused(checkpoint: str, config: str, match: str, tmp_path: Path) -> None:
    given = Source(CHECKPOINTS / checkpoint, config=CHECKPOINTS / config, actions=(-1.0, 1.0))
    refused(tmp_path, given, match)


@pytest.mark.parametrize("actions", [(1.0, -1.0), (1.0, 1.0), (float("nan"), 1.0), (-1.0, float("inf"))])
def test_limits_that_are_none_are_refused(actions: tuple[float, float], tmp_path: Path) -> None:
    refused(tmp_path, source("rl_games_mlp", actions=actions), "actions: expected the least and the largest action")


def test_limits_that_scale_nothing_are_refused(tmp_path: Path) -> None:
    settings = json.loads((CHECKPOINTS / "rl_games_mlp.json").read_text())
    settings["params"]["config"]["clip_actions"] = False
    (tmp_path / "m.json").write_text(json.dumps(settings))
    refused(tmp_path, source("rl_games_mlp", config=tmp_path / "m.json"), r"its actions are not scaled, and actions=")
