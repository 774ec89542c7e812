"""What is said about a checkpoint is used, or refused: a normaliser that nothing applies would be a wrong policy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actor.comparing import QUICK, refusing
from ashore.integrations.trainers import TRAINERS, Source, export_checkpoint

CHECKPOINTS = Path(__file__).parent / "actors" / "checkpoints"
FILES = {
    "rsl_rl": "rsl5_mlp.pt",
    "sb3": "sb3_ppo.zip",
    "skrl": "skrl.pt",
    "rl_games": "rl_games_mlp.pt",
    "cleanrl": "cleanrl.pt",
}
TAKEN = {
    "rsl_rl": {"config", "obs"},
    "sb3": {"normalizer"},
    "skrl": {"model", "obs"},
    "rl_games": {"config", "actions"},
    "cleanrl": {"model", "normalizer", "obs"},
}
SAID: dict[str, Any] = {
    "config": CHECKPOINTS / "rsl5_mlp.json",
    "model": "integrations.actors.networks:Agent",
    "normalizer": "statistics.pkl",
    "obs": {"obs": (3,)},
    "actions": (-1.0, 1.0),
}


@pytest.mark.parametrize(
    ("trainer", "option"), [(one, option) for one in TRAINERS for option in SAID if option not in TAKEN[one]]
)
def test_what_a_trainer_does_not_take_is_refused(trainer: str, option: str, tmp_path: Path) -> None:
    given = replace(Source(CHECKPOINTS / FILES[trainer], trust=True), **{option: SAID[option]})
    match = rf"{FILES[trainer]}: checkpoints of {trainer} take no {option} \(--{option}\): .*; leave it out"
    with refusing(tmp_path, match):
        export_checkpoint(trainer, given, tmp_path / "package", **QUICK)


def test_a_trainer_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    with refusing(tmp_path, "there is no trainer 'slb3'; did you mean 'sb3'"):
        export_checkpoint("slb3", Source(CHECKPOINTS / "sb3_ppo.zip"), tmp_path / "package", **QUICK)
