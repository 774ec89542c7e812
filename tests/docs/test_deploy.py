"""The page on robots runs as it is written, and prints what it shows; also where there is no torch."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from docs.pages import DOCS, ROOT, blocks, sections
from docs.tutorials import check_marks, check_shown, play

PAGE = (DOCS / "deploy.md").read_text()
BLOCKS = list(blocks(PAGE))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Any]]:
    """Line of a block in the page -> what became of it."""
    folder = tmp_path_factory.mktemp("deploy")
    made = [sys.executable, str(ROOT / "examples" / "first_package.py"), str(folder / "demo" / "first")]
    subprocess.run(made, check=True, capture_output=True)
    return play(BLOCKS, folder)


def test_every_block_runs_or_raises_as_marked(told: dict[int, dict[str, Any]]) -> None:
    check_marks("deploy.md", BLOCKS, told)
    assert sum(block.mark == "raises: BindError" for block in BLOCKS) == 2


def test_what_is_shown_below_a_block_is_what_it_prints_or_raises(told: dict[int, dict[str, Any]]) -> None:
    assert [block for block in BLOCKS if block.mark] == [block for block in BLOCKS if block.shown]
    check_shown("deploy.md", BLOCKS, told)


def test_a_robot_takes_about_thirty_lines() -> None:
    assert "class Arm" in BLOCKS[0].code
    assert len(BLOCKS[0].code.splitlines()) <= 31


def test_the_table_of_options_has_them_all() -> None:
    done = subprocess.run([sys.executable, "-m", "ashore", "play", "--help"], capture_output=True, text=True)
    offered = set(re.findall(r"^│ \*? *(--[a-z-]+)", done.stdout, re.MULTILINE)) - {"--help"}
    part = sections(PAGE)["From the command line"]
    named = re.findall(
        r"`(--[a-z-]+)", "".join(row.split("|")[1] for row in part.splitlines() if row.startswith("| `"))
    )
    assert sorted(named) == sorted(offered)


def test_the_table_of_what_is_read_has_it_all(tmp_path: Path) -> None:
    from ashore.deploy import MujocoRobot

    path = tmp_path / "base.xml"
    path.write_text(
        "<mujoco><worldbody><body name='a'><freejoint/><geom size='1'/><site name='s'/>"
        "<body><joint name='j'/><geom size='1'/></body></body></worldbody><actuator><motor joint='j'/></actuator>"
        "<sensor><touch name='t' site='s'/></sensor></mujoco>"
    )
    table = sections(PAGE)["Plain MuJoCo"].split("| it reads")[1].split("\n\n")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    read = [name for name in MujocoRobot(path).reads if "." not in name]
    assert sorted(re.findall(r"`(\w+)`", "".join(rows))) == sorted(read)
