"""The examples that record something, which needs torch; the others are tried in tests/examples, without it too."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*command: object, cwd: Path = ROOT) -> str:
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_policy_is_recorded_verified_and_gives_what_the_code_gives(tmp_path: Path) -> None:
    assert "200 steps beside the code" in run("examples/record_policy.py", tmp_path / "recorded")
    assert "verified" in run("-m", "ashore", "verify", tmp_path / "recorded")


def test_an_environment_is_exported_and_its_package_drives_an_arm_as_it_does(tmp_path: Path) -> None:
    assert "200 decisions beside the environment" in run("examples/environment_policy.py", tmp_path)
    assert "verified" in run("-m", "ashore", "verify", tmp_path / "arm")
    assert (tmp_path / "arm.onnx").is_file()


def test_the_readme_examples_of_recording_and_running_run(tmp_path: Path) -> None:
    recording, running = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    run("-c", recording, cwd=tmp_path)
    assert "verified" in run("-m", "ashore", "verify", tmp_path / "packages" / "leg")
    assert run("-c", f"import sys\nsys.modules['torch'] = None\n{running}", cwd=tmp_path).startswith("[[")
