"""The examples run as they are written, the one in the README too."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


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


def test_the_readme_example_runs(first: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 1
    assert "joint_target" in run("-c", blocks[0], cwd=first.parents[1])


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_the_code_on_every_page_runs(page: Path, first: Path) -> None:
    """The Python blocks of a page run one after the other, beside a folder demo/ with the first package in it."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    if blocks:
        run("-c", "\n".join(blocks), cwd=first.parents[1])
