"""The page about simulators runs as it is written, with the trained cartpole of the examples."""

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

NAME = "simulators.md"
PAGE = (DOCS / NAME).read_text()
BLOCKS = list(blocks(PAGE))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("simulators")
    shutil.copy(ROOT / "examples" / "checkpoints" / "cartpole_balance.pt", folder)
    return play(BLOCKS, folder)


def test_every_block_runs(told: dict[int, dict[str, Any]]) -> None:
    check_marks(NAME, BLOCKS, told)


def test_what_is_shown_is_printed(told: dict[int, dict[str, Any]]) -> None:
    shown = [(told[block.line]["printed"], line) for block in BLOCKS for line in (block.shown or "").splitlines()]
    assert len(shown) >= 6
    for printed, line in shown:
        assert line in printed.splitlines()


@pytest.mark.parametrize("command", ["export", "deploy", "compare-sim"])
def test_the_options_in_the_tables_are_those_of_the_commands(command: str) -> None:
    group: Any = typer.main.get_command(app)
    params = [one for one in group.commands[command].commands["isaaclab"].params if one.opts[0].startswith("--")]
    head = "| option | |" if command == "export" else f"| `ashore {command}` | |"
    named = set(re.findall(r"--[a-z][a-z_-]+", PAGE.split(head)[1].split("\n\n")[0]))
    assert named <= {option for one in params for option in one.opts}
    assert not [one.opts for one in params if not named & {*one.opts} and one.opts != ["--task"]]


def test_the_checkpoints_that_the_page_names_are_there() -> None:
    for path in re.findall(r"`(examples/[^`]+)`", PAGE):
        assert (ROOT / Path(path)).exists(), path
