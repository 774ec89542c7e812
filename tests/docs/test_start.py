"""The first page runs as it is written: its code, and its commands."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from docs.pages import DOCS, blocks
from docs.tutorials import check_marks, check_shown, play, play_alone

PAGE = (DOCS / "start.md").read_text().replace("leg.py:", "tutorial.py:")
"""Whoever follows the page has a leg.py; here its parts are run as parts of tutorial.py."""

BLOCKS = list(blocks(PAGE))
COMMANDS = [line for part in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in part.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("start")


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[int, dict[str, Any]]:
    """Line of a block in the page -> what became of it."""
    return play(BLOCKS, folder)


def test_every_block_runs_or_raises_and_prints_what_is_shown(told: dict[int, dict[str, Any]]) -> None:
    check_marks("start.md", BLOCKS, told)
    check_shown("start.md", BLOCKS, told)
    assert sum(block.shown is not None for block in BLOCKS) == 2


@pytest.mark.usefixtures("told")
def test_the_package_runs_where_torch_cannot_be_imported(folder: Path) -> None:
    (alone,) = [block for block in BLOCKS if block.mark == "alone"]
    assert play_alone(alone, folder).count("[[") == 3


@pytest.mark.usefixtures("told")
def test_every_command_runs(folder: Path) -> None:
    assert len(COMMANDS) == 4
    for line in COMMANDS:
        program, *words = shlex.split(line)
        assert program == "ashore"
        done = subprocess.run([sys.executable, "-m", "ashore", *words], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}: {done.stderr}"
