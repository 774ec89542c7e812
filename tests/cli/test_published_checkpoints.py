"""``--use-pretrained-checkpoint``: the weights that Isaac Lab publishes, which Isaac Lab itself fetches."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ashore.cli import main, simulators
from ashore.cli.simulators import Source
from ashore.errors import InputError

TASK = "Isaac-Reach-UR10-Play-v0"


def source(**more: Any) -> Source:
    given: dict[str, Any] = {"task": TASK, "checkpoint": None, "pretrained": True, **more}
    return Source(motion=None, device="cpu", trust=False, **given)


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What a stand-in of Isaac Lab was asked for; it has one checkpoint."""
    found: list[tuple[str, str]] = []

    def fetch(workflow: str, task: str) -> str | None:
        found.append((workflow, task))
        sys.stdout.write("Fetching\n")
        return str(tmp_path / "checkpoint.pt") if task == "Isaac-Reach-UR10-v0" else None

    module = ModuleType("isaaclab_rl.utils.pretrained_checkpoint")
    module.get_published_pretrained_checkpoint = fetch  # type: ignore[attr-defined]
    utils = ModuleType("isaaclab_rl.utils")
    utils.pretrained_checkpoint = module  # type: ignore[attr-defined]
    for name, one in (("isaaclab_rl", ModuleType("isaaclab_rl")), ("isaaclab_rl.utils", utils)):
        monkeypatch.setitem(sys.modules, name, one)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return found


def checkpoint(simulator: Any, given: Source) -> Path:
    return simulators._checkpoint(simulators._front(simulator), given)


def test_isaac_lab_is_asked_for_the_weights_of_the_training_task(
    asked: list[tuple[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checkpoint("isaaclab", source()) == tmp_path / "checkpoint.pt"
    assert asked == [("rsl_rl", "Isaac-Reach-UR10-v0")]
    assert capsys.readouterr().out == ""  # it goes to the error stream


def test_a_task_without_published_weights_is_refused(asked: list[tuple[str, str]]) -> None:
    with pytest.raises(InputError, match="Isaac-Odd-v0: there are no published weights of it, .*; give --checkpoint"):
        checkpoint("isaaclab", source(task="Isaac-Odd-v0"))
    assert asked == [("rsl_rl", "Isaac-Odd-v0")]


@pytest.mark.parametrize("also", [{"checkpoint": Path("model.pt")}, {"load_run": ".*"}, {"load_checkpoint": "m"}])
def test_weights_are_named_or_published_and_not_both(asked: list[tuple[str, str]], also: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="give one or the other"):
        checkpoint("isaaclab", source(**also))
    assert asked == []


@pytest.mark.parametrize(("simulator", "task"), [("mjlab", "Mjlab-Cartpole-Balance"), ("isaaclab", "mine:make_env")])
@pytest.mark.usefixtures("asked")
def test_what_nobody_publishes_is_refused(simulator: str, task: str) -> None:
    with pytest.raises(InputError, match="only registered tasks of Isaac Lab have published weights"):
        checkpoint(simulator, source(task=task))


@pytest.mark.parametrize("option", ["--use-pretrained-checkpoint", "--use_pretrained_checkpoint"])
@pytest.mark.parametrize("command", [("export", "isaaclab"), ("compare-sim", "isaaclab", "package")])
def test_the_option_is_spelled_as_isaac_lab_does_or_as_ashore_does(
    asked: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, capsys: Any, command: tuple[str, ...], option: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["ashore", *command, "--task", "Isaac-Odd-v0", option])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 3
    assert "Isaac-Odd-v0: there are no published weights of it" in capsys.readouterr().err
    assert asked == [("rsl_rl", "Isaac-Odd-v0")]
