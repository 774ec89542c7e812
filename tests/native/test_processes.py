"""What a process needs that runs a compiled policy: numpy, and next to nothing more."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import graphs
import support
from ashore.package import Package

FORBIDDEN = ("torch", "onnx", "onnxruntime", "openvino", "mujoco", "scipy", "cffi", "typer", "rich")
MIB_OVER_NUMPY = 20
# The peak that the kernel reports for children would be that of the parent before it started them.
PEAK = """
print([line for line in open("/proc/self/status") if line.startswith("VmHWM:")][0].split()[1])
"""
BARE = """
import numpy as np

np.zeros((1, 48), np.float32).sum()
"""
RUN = f"""
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {FORBIDDEN!r}:
            raise AssertionError("imported " + name)

sys.meta_path.insert(0, Refuse())
import numpy as np
import ashore

policy = ashore.load(sys.argv[1], backend="c")
for tick in range(20):
    if tick == 7:
        policy.restore(policy.state())
        policy.reset()
    policy.step({{name: np.zeros(port.shape, np.float32) for name, port in policy.inputs.items() if name != "v"}})
    for _ in policy.substep_inputs:
        policy.substep({{"v": np.zeros((1, 2), np.float32)}})
loaded = sorted({{name.split(".")[0] for name in sys.modules}} & set({FORBIDDEN!r}))
assert not loaded, loaded
"""


def peak_mib(code: str, *arguments: str) -> float:
    done = support.run_python(code + PEAK, *arguments)
    assert done.returncode == 0, done.stderr
    return int(done.stdout) / 1024


@pytest.mark.parametrize("subject", ["arm", "mlp"])
def test_a_fresh_process_imports_no_runtime_and_takes_little_memory(
    arm_package: Package, tmp_path: Path, fresh_cache: Path, subject: str
) -> None:
    """First with generating and compiling, then with what is in the cache."""
    package = arm_package
    if subject == "mlp":
        package = graphs.write_subject(graphs.mlp(48, 256, 128, 64, 12), tmp_path / "p")
    bare = peak_mib(BARE)
    for _ in range(2):
        assert peak_mib(RUN, str(package.path)) < bare + MIB_OVER_NUMPY
    assert len(list(fresh_cache.iterdir())) == 2


def test_the_guard_can_fail(arm_package: Package) -> None:
    done = support.run_python(RUN.replace('backend="c"', 'backend="onnx"'), str(arm_package.path))
    assert "imported onnxruntime" in done.stderr


def test_the_second_time_nothing_that_generates_is_imported(arm_package: Package, fresh_cache: Path) -> None:
    code = "import sys, ashore; ashore.load(sys.argv[1], backend='c')\n"
    code += "print('ashore.backends.c.generating' in sys.modules)"
    assert [support.run_python(code, str(arm_package.path)).stdout for _ in range(2)] == ["True\n", "False\n"]


COMMAND = """
import sys
from ashore.cli import main

sys.argv = ["ashore", *sys.argv[1:]]
try:
    main()
except SystemExit as stop:
    assert stop.code in (0, None), stop.code
loaded = sorted({name.split(".")[0] for name in sys.modules} & {"torch", "onnx"})
assert not loaded, loaded
"""


@pytest.mark.parametrize("command", ["verify --backend c", "bench --backend c --samples 100", "compile --out"])
def test_every_command_is_free_of_torch_and_onnx(arm_package: Package, tmp_path: Path, command: str) -> None:
    arguments = command.split() + [str(tmp_path / "out")] * command.endswith("--out")
    done = support.run_python(COMMAND, arguments[0], str(arm_package.path), *arguments[1:])
    assert done.returncode == 0, done.stderr


def test_it_runs_where_no_torch_is_installed(arm_package: Package) -> None:
    python = Path(__file__).parents[2] / ".venv-runtime" / "bin" / "python"
    done = subprocess.run([python, "-c", RUN, str(arm_package.path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
