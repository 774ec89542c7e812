"""The page about trained actors runs as it is written, with the checkpoints of the tests."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer.main

from ashore.cli.main import app
from docs.pages import DOCS, ROOT, blocks
from docs.tutorials import check_marks, play

NAME = "actor.md"
PAGE = (DOCS / NAME).read_text()
BLOCKS = list(blocks(PAGE))
ACTORS = ROOT / "tests" / "integrations" / "actors"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("actors")
    for file in ACTORS.joinpath("checkpoints").iterdir():
        shutil.copy(file, folder)
    shutil.copy(ACTORS / "networks.py", folder)
    return folder


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[int, dict[str, Any]]:
    return play(BLOCKS, folder)


def test_every_block_runs(told: dict[int, dict[str, Any]]) -> None:
    check_marks(NAME, BLOCKS, told)


def test_what_is_shown_is_printed(told: dict[int, dict[str, Any]]) -> None:
    shown = [(told[block.line]["printed"], line) for block in BLOCKS for line in (block.shown or "").splitlines()]
    assert len(shown) == 8
    for printed, line in shown:
        assert line in printed.splitlines()


@pytest.mark.usefixtures("told")
def test_the_first_block_leaves_one_file_and_nothing_else(folder: Path) -> None:
    assert [one.name for one in (folder / "exported_models").iterdir()] == ["robot_policy.onnx"]


@pytest.mark.parametrize("trainer", ["rsl_rl", "sb3", "skrl", "rl_games", "cleanrl"])
def test_the_options_in_the_table_are_those_of_the_commands(trainer: str) -> None:
    group: Any = typer.main.get_command(app)
    params = [one for one in group.commands["export"].commands[trainer].params if one.opts[0].startswith("--")]
    named = set(re.findall(r"--[a-z][a-z_-]+", PAGE.split("## The command line")[1]))
    assert named == {option for one in params for option in one.opts}
    assert f"ashore export {trainer} " in PAGE
