"""The demo runs from end to end, with the cartpole, which is faster than the Go1."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def walk(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "examples" / "walk.py"), str(out), "--cartpole", *options]
    return subprocess.run(command, capture_output=True, text=True, cwd=out)


def test_the_demo_ends_with_what_was_shown(tmp_path: Path) -> None:
    done = walk(tmp_path, "--seconds", "1", "--steps", "20")
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    shown = done.stdout.split("What was shown")[1]
    assert "2 inputs, " in shown
    assert "the largest error is" in shown
    assert "side by side" in shown
    assert "without torch, it drove the robot for 1 s, and the robot stayed up" in shown
    assert (tmp_path / "film.gif").stat().st_size > 1000
    assert "<html" in (tmp_path / "page.html").read_text()


def test_a_command_that_fails_ends_the_demo_and_says_where_to_look(tmp_path: Path) -> None:
    (tmp_path / "robot.mjb").mkdir()  # where the model is to be written
    done = walk(tmp_path)
    assert done.returncode == 1
    assert f"{tmp_path / 'log.txt'} says more" in done.stderr
    assert "this is a folder" in done.stderr
    assert "What was shown" not in done.stdout
