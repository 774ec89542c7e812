"""Running a package loads no torch and no onnx: shown in fresh processes, and by an environment without torch."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

import support
from ashore.package import Package

FORBIDDEN = ("torch", "onnx", "mujoco", "mjlab", "lerobot", "stable_baselines3", "skrl", "gymnasium", "scipy")

# Loaded modules are listed at the end, and an import of a forbidden one fails where it happens.
GUARD = f"""
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {FORBIDDEN!r}:
            raise AssertionError("imported " + name)

sys.meta_path.insert(0, Refuse())
"""
REPORT = f"""
loaded = sorted({{name.split(".")[0] for name in sys.modules}} & set({FORBIDDEN!r}))
assert not loaded, loaded
print("clean")
"""
RUN = """
import numpy as np
import ashore

policy = ashore.load(sys.argv[1], backend=sys.argv[2])
for _ in range(3):
    policy.step({"q": np.zeros((1, 2), np.float32)})
    policy.substep({"v": np.zeros((1, 2), np.float32)})
policy.restore(policy.state())
policy.reset()
"""
COMMAND = """
from ashore.cli import main

sys.argv = ["ashore", *sys.argv[1:]]
try:
    main()
except SystemExit as stop:
    assert stop.code in (0, None), stop.code
"""


def check(code: str, *arguments: str) -> None:
    done = support.run_python(GUARD + code + REPORT, *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("clean\n")


def test_the_guard_can_fail() -> None:
    done = support.run_python(GUARD + "import onnx" + REPORT)
    assert "imported onnx" in done.stderr


def test_importing_ashore_loads_next_to_nothing() -> None:
    done = support.run_python("import sys, ashore; print('numpy' in sys.modules, 'onnxruntime' in sys.modules)")
    assert done.stdout.split() == ["False", "False"], done.stderr


@pytest.mark.parametrize("backend", ["onnx", "openvino"])
def test_loading_and_stepping_are_free_of_torch_and_onnx(arm_package: Package, backend: str) -> None:
    check(RUN, str(arm_package.path), backend)


@pytest.mark.parametrize("form", ["directory", "archive"])
@pytest.mark.parametrize("command", ["inspect", "verify", "bench", "pack"])
def test_every_command_is_free_of_torch_and_onnx(arm_package: Package, tmp_path: Path, command: str, form: str) -> None:
    from ashore.package import pack

    path = arm_package.path
    if form == "archive":
        path = pack(arm_package, tmp_path / "p.ashore").path
        command = "unpack" if command == "pack" else command
    arguments = [command, str(path)]
    if command in ("pack", "unpack"):
        arguments.append(str(tmp_path / ("out" if command == "unpack" else "out.ashore")))
    check(COMMAND, *arguments, *(["--samples", "100"] if command == "bench" else []))


def test_torch_is_here_to_be_left_alone_or_is_not_here_at_all() -> None:
    """`make test` runs this in both environments: where torch could be imported, and where it could not."""
    installed = importlib.util.find_spec("torch") is not None
    assert installed is ("ASHORE_NO_TORCH" not in os.environ)
