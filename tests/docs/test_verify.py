"""The page on verification: its blocks run, print what they show, and its tables have every option and every part."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from docs.pages import DOCS, ROOT, blocks, sections
from docs.tutorials import check_marks, check_shown, play

PAGE = (DOCS / "verify.md").read_text()
BLOCKS = list(blocks(PAGE))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("verify")
    example = [sys.executable, str(ROOT / "examples" / "first_package.py"), str(made / "demo" / "first")]
    subprocess.run(example, check=True, capture_output=True)
    return made


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[int, dict[str, Any]]:
    return play(BLOCKS, folder)


def test_every_block_runs_and_prints_what_is_shown(told: dict[int, dict[str, Any]]) -> None:
    check_marks("verify.md", BLOCKS, told)
    assert sum(block.mark == "prints" for block in BLOCKS) == 3
    check_shown("verify.md", BLOCKS, told)


@pytest.mark.usefixtures("told")
def test_the_commands_run_and_exit_as_they_should(folder: Path) -> None:
    commands = [
        line.partition("#")[0].split()
        for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
        for line in block.splitlines()
    ]
    assert [command[:2] for command in commands] == [["ashore", "verify"]] * 4 + [["ashore", "diff"]]
    for command in commands:
        done = subprocess.run([sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True)
        assert done.returncode == (command[1] == "diff"), done.stdout + done.stderr
    assert (folder / "report.html").is_file()


def test_the_table_of_parts_has_them_all() -> None:
    source = "".join(path.read_text() for path in (ROOT / "src" / "ashore" / "verify").glob("*.py"))
    known = set(re.findall(r'Problem\(\s*"(\w+)"', source)) | {"replay"}
    table = sections(PAGE)["What each part shows"].split("\n\n")[0]
    rows = [row for row in table.splitlines() if row.startswith("| ")]
    assert {row.split("|")[1].strip() for row in rows[1:]} == known


@pytest.mark.parametrize("command", ["verify", "diff"])
def test_every_option_is_on_the_page(command: str) -> None:
    done = subprocess.run([sys.executable, "-m", "ashore", command, "--help"], capture_output=True, text=True)
    offered = set(re.findall(r"^│ \*? *(--[a-z-]+)", done.stdout, re.MULTILINE)) - {"--help"}
    elsewhere = {"--device", "--atol", "--rtol", "--seed", "--json"} if command == "verify" else {"--json"}
    assert offered - elsewhere
    for option in offered - elsewhere:
        assert option in PAGE, option
