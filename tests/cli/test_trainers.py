"""``ashore export TRAINER CHECKPOINT``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ashore
import support
from ashore.cli.main import app

CHECKPOINTS = Path(__file__).parents[1] / "integrations" / "actors" / "checkpoints"


def test_a_checkpoint_becomes_a_package_and_a_plain_file_in_a_process_of_its_own(tmp_path: Path) -> None:
    checkpoint, config = CHECKPOINTS / "rsl3_mlp.pt", CHECKPOINTS / "rsl3_mlp.json"
    command = ["export", "rsl_rl", str(checkpoint), "--config", str(config), "--out", str(tmp_path), "--no-graph"]
    command += ["--onnx", str(tmp_path / "policy.onnx"), "--validation-steps", "3", "--json"]
    start = f"import sys; sys.path.insert(0, {str(Path(ashore.__file__).parents[1])!r}); sys.argv[1:] = {command!r}"
    done = support.run_python(f"{start}; from ashore.cli import main; main()")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["inputs"] == {"obs": [1, 3]}
    assert told["actor"]["architecture"] == "MLP"
    assert told["verification"]["status"] == "passed"
    assert (tmp_path / "policy.onnx").exists()
    assert (tmp_path / "rsl3_mlp" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["rsl_rl", "nowhere.pt"], "nowhere.pt: there is no such checkpoint"),
        (["rsl_rl", "{c}/rsl3_mlp.pt", "--obs", "policy"], "--obs policy: expected NAME=SHAPE, such as policy=48"),
        (["rsl_rl", "{c}/rsl3_mlp.pt", "--obs", "policy=1.5"], "--obs policy=1.5: expected whole numbers"),
        (["rl_games", "{c}/rl_games_mlp.pt", "--actions=1"], "expected the least and the largest action"),
        (["rsl_rl", "{c}/rsl3_mlp.pt", "--onnx", "policy.pt"], "filename: expected a name that ends in .onnx"),
        (
            ["rsl_rl", "{c}/rsl3_mlp.pt", "--onnx", "policy.onnx", "--export-method", "jit-script"],
            "--onnx policy.onnx: --export-method jit-script writes no ONNX; use onnx-dynamo, or leave it out",
        ),
    ],
)
def test_what_cannot_be_is_said_and_nothing_written(
    arguments: list[str], match: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [one.replace("{c}", str(CHECKPOINTS)) for one in arguments]
    done = CliRunner().invoke(app, ["export", *given, "--out", str(tmp_path / "out")])
    assert done.exit_code == 1
    assert match in str(done.exception)
    assert not list(tmp_path.iterdir())


def test_a_plain_file_that_has_no_place_is_refused_before_the_package_is_written(tmp_path: Path) -> None:
    (tmp_path / "there.onnx").mkdir()
    given = ["rsl_rl", str(CHECKPOINTS / "rsl3_mlp.pt"), "--config", str(CHECKPOINTS / "rsl3_mlp.json")]
    given += ["--onnx", str(tmp_path / "there.onnx"), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, ["export", *given])
    assert done.exit_code == 1
    assert "is there already, and is no plain file" in str(done.exception)
    assert [one.name for one in tmp_path.iterdir()] == ["there.onnx"]


@pytest.mark.parametrize("trainer", ["rsl_rl", "sb3", "skrl", "rl_games", "cleanrl"])
def test_every_trainer_has_its_command(trainer: str) -> None:
    done = CliRunner().invoke(app, ["export", trainer, "--help"])
    assert done.exit_code == 0
    assert "CHECKPOINT" in done.output
