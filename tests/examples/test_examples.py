"""The examples run as they are written, the one in the README too."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
CHECKED_ELSEWHERE = {"actor.md", "annotate.md", "deploy.md", "environment.md", "extending.md", "findings.md"}
CHECKED_ELSEWHERE |= {"simulators.md", "staged.md", "start.md"}
"""Pages whose blocks raise or need torch: they have tests of their own in tests/docs, as have recording examples."""


def run(*command: object, cwd: Path = ROOT) -> str:
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def first(tmp_path: Path) -> Path:
    assert "4 files" in run("examples/first_package.py", tmp_path / "demo" / "first")
    return tmp_path / "demo" / "first"


def test_the_first_package_is_built_verified_and_run(first: Path) -> None:
    assert "verified" in run("-m", "ashore", "verify", first)
    assert "reached [ 0.878 -0.186] rad" in run("examples/run_package.py", first)


def test_the_readme_has_an_example_of_recording_and_one_of_running() -> None:
    assert ["ashore.record" in block for block in README] == [True, False]
    assert len(README[0].splitlines()) <= 16
    assert len([line for block in README for line in block.splitlines() if line.strip()]) <= 23


@pytest.mark.parametrize(
    "page",
    [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in CHECKED_ELSEWHERE],
    ids=lambda page: page.name,
)
def test_the_code_on_every_page_runs(page: Path, first: Path) -> None:
    """The Python blocks of a page run one after the other, beside a folder demo/ with the first package in it."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    if blocks:
        run("-c", "\n".join(blocks), cwd=first.parents[1])
