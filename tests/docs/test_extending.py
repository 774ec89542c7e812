"""The page on extending: its files make a package, which is installed and used."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import DOCS, blocks

PAGE = (DOCS / "extending.md").read_text()
BLOCKS = list(blocks(PAGE))
FILES = {block.mark.removeprefix("file: "): block.code for block in BLOCKS if block.mark}
(USED,) = (block for block in BLOCKS if not block.mark)
LINES = 40
ENTRY_POINTS = "".join(
    f"[ashore.{group}]\n{line}\n"
    for group, line in re.findall(r'\[project\.entry-points\."ashore\.(\w+)"\]\n +(\w+ = ".*?")', PAGE)
).replace('"', "")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    (folder / "tidewater").mkdir()
    (folder / "tidewater" / "__init__.py").touch()
    for name, code in FILES.items():
        (folder / name).write_text(code)
    about = folder / "tidewater-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tidewater\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


@pytest.fixture(scope="module")
def used(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Where the last block of the page ran, and what it printed."""
    folder = tmp_path_factory.mktemp("used")
    done = run(installed, folder, USED.code)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


START = """
import runpy, site, sys

sys.path.append(sys.argv.pop(1))
code = sys.argv.pop(1)
sys.argv[0] = "ashore"
exec(code, {"__name__": "__main__"})
"""
COMMAND = "import runpy; runpy.run_module('ashore', run_name='__main__')"


def run(installed: Path, folder: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python, where the package of the page is installed."""
    called = [sys.executable, "-c", START, str(installed), code, *arguments]
    return subprocess.run(called, cwd=folder, capture_output=True, text=True)


def test_all_four_are_on_the_page_and_short() -> None:
    assert list(FILES) == [f"tidewater/{name}.py" for name in ("backend", "runner", "processor", "policy")]
    for name, code in FILES.items():
        assert len(code.splitlines()) < LINES, name
    assert ENTRY_POINTS.count("tidewater.") == 3


def test_the_package_of_the_page_is_used(used: tuple[Path, str]) -> None:
    assert used[1] == USED.shown


@pytest.mark.parametrize(
    "command", [("inspect",), ("verify",), ("verify", "--backend", "reference"), ("bench", "--samples", "100")]
)
def test_commands_work_on_its_package(installed: Path, used: tuple[Path, str], command: tuple[str, ...]) -> None:
    done = run(installed, used[0], COMMAND, command[0], "pilot", *command[1:], "--json")
    assert done.returncode == 0, done.stdout + done.stderr


def test_where_it_is_not_installed_the_missing_part_is_named(used: tuple[Path, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ashore", "verify", "pilot"], cwd=used[0], capture_output=True, text=True
    )
    assert done.returncode == 3
    assert "unknown processor 'deadband'" in done.stderr + done.stdout
