"""Tests lie where one looks for them, and a tool says where."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS, SOURCE = ROOT / "tests", ROOT / "src" / "ashore"


def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "tests_of.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_every_file_of_tests_lies_in_a_folder_of_src_or_one_that_the_readme_names() -> None:
    told = (TESTS / "README.md").read_text()
    layers = {path.name for path in SOURCE.iterdir() if path.is_dir()}
    for path in TESTS.rglob("test_*.py"):
        folder = path.relative_to(TESTS).parts[0]
        assert folder in layers or f"`{folder}/`" in told or folder == path.name, path


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("capture/align.py", "tests/capture/test_align.py"),
        ("interop/exploy/reading.py", "tests/interop/exploy/test_exploy_reading.py"),
        ("deploy/mujoco/cameras.py", "tests/deploy/test_mujoco_cameras.py"),
        ("backends/c/operators.py", "tests/native/test_operators.py"),
    ],
)
def test_the_tool_says_where_the_tests_of_a_module_are(module: str, expected: str) -> None:
    done = ask(f"src/ashore/{module}")
    assert done.stdout.splitlines()[0] == expected, done.stderr


def test_a_module_that_is_not_there_is_an_error() -> None:
    done = ask("src/ashore/nowhere.py")
    assert done.returncode == 2
    assert "there is no such module" in done.stderr
