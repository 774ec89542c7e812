"""Checkpoints of rl_games, which cannot live beside the pinned versions: what its player decided lies beside them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from actor.comparing import ATOL, QUICK, ROWS, Pair, recorded_error, with_file
from ashore.errors import InputError
from ashore.integrations.trainers import Source, export_checkpoint
from integrations.actors.pendulum import trajectory

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


def test_the_normaliser_has_the_formula_of_rl_games(exported: Callable[[str], Pair]) -> None:
    (one,) = exported("rl_games_mlp").package.manifest.metadata["actor"]["normalizers"]
    assert one["formula"] == "clip((x - mean) / sqrt(var + 1e-05), -5, 5)"
    assert one["effect"] > 1e-3


def test_memory_in_front_of_the_layers_is_a_state(exported: Callable[[str], Pair]) -> None:
    assert list(exported("rl_games_lstm").package.manifest.states) == ["h", "c"]
    assert not exported("rl_games_mlp").package.manifest.states


# --- what is refused --------------------------------------------------------------------------------------------------


def refused(tmp_path: Path, given: Source, match: str) -> None:
    with pytest.raises(InputError, match=match):
        export_checkpoint("rl_games", given, tmp_path / "package", **QUICK)
    assert not (tmp_path / "package").exists()


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
    ],
)
def test_what_does_not_fit_is_refused_by_name(tmp_path: Path, change: Any, match: str) -> None:
    refused(tmp_path, changed(tmp_path, change), match)
