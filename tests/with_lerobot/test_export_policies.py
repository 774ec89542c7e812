"""Each kind of policy, exported from its folder, beside LeRobot's own pipeline: the same noise, the same actions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from beside import noise_of, run_package
from eager import Eager, Run, run
from statistics_of_data import TASK, observations

from ashore import load
from ashore.package import Package
from ashore.spec import NOISE

TICKS, RESETS = 100, (37, 70)
MOST = {"onnx": 1e-5, "openvino": 1e-4}
HISTORY = {"ddpm": 2, "ddim": 2, "vqbet": 5}


@pytest.fixture(scope="session")
def hundred(eager: Eager) -> tuple[list[dict[str, np.ndarray]], Run]:
    """What LeRobot does in a hundred ticks."""
    seen = list(observations(eager.config, TICKS))
    torch.manual_seed(8)
    return seen, run(eager, seen, TASK, RESETS)


@pytest.mark.parametrize("backend", ["onnx", "openvino"])
def test_a_hundred_ticks_with_resets_are_those_of_lerobot(
    package: Package,
    hundred: tuple[list[dict[str, np.ndarray]], Run],
    name: str,
    backend: str,
    record_property: Any,
) -> None:
    seen, done = hundred
    actions = run_package(load(package, backend=backend), seen, TASK, RESETS, done.draws)
    worst = float(np.abs(actions - done.actions).max())
    record_property("max_abs_error", worst)
    sys.stderr.write(f"{name} on {backend}: {worst:.2g} over {TICKS} ticks\n")  # shown with -rP
    assert worst <= MOST[backend]
    assert np.ptp(done.actions, axis=0).max() > 1e-2  # they are no constants


def test_the_export_itself_compared_it_with_lerobot(package: Package) -> None:
    beside = package.manifest.metadata["lerobot"]
    assert beside["version"] == "0.4.4"
    assert beside["resets"] == 2
    assert beside["max_abs_error"] <= 1e-5
    assert package.manifest.verification is not None
    assert package.manifest.verification.status == "passed"


def test_the_inputs_are_what_a_robot_has(package: Package, eager: Eager, name: str) -> None:
    inputs = {key: port for key, port in package.manifest.inputs.items() if port.kind != NOISE}
    cameras = list(eager.config.image_features)
    assert set(inputs) == {*cameras, "observation.state", *(["task"] if name in ("smolvla", "pi05") else [])}
    for camera in cameras:
        assert (inputs[camera].dtype, inputs[camera].shape) == ("uint8", (1, 48, 64, 3))
    assert list(package.manifest.outputs) == ["action"]


def test_each_feature_is_scaled_once_by_its_own_mode(package: Package, saved: Path) -> None:
    (step,) = [
        one
        for one in json.loads((saved / "policy_preprocessor.json").read_text())["steps"]
        if one["registry_name"] == "normalizer_processor"
    ]
    modes = step["config"]["norm_map"]
    kinds = {key: modes[one["type"]].lower() for key, one in step["config"]["features"].items()}
    scaled = {
        stage.processor.params["statistics"]: (stage.processor.type, stage.processor.params["mode"])
        for stage in package.manifest.stages.values()
        if stage.processor and stage.processor.type in ("normalize", "denormalize")
    }
    expected = {
        key: ("denormalize" if key == "action" else "normalize", mode)
        for key, mode in kinds.items()
        if mode != "identity"
    }
    assert scaled == expected
    stages = [one.processor.type for one in package.manifest.stages.values() if one.processor]
    assert sum(kind in ("normalize", "denormalize") for kind in stages) == len(expected)


def test_the_package_holds_only_the_statistics_that_it_uses(package: Package) -> None:
    from ashore.package import load_arrays

    held = set(load_arrays(package.read("stats.safetensors"), "stats.safetensors"))
    assert all(key.split("/")[0] in ("action", *package.manifest.inputs) for key in held)
    assert not [key for key in held if key.endswith("/count")]


def test_history_is_that_of_the_policy(package: Package, name: str) -> None:
    windows = [state.shape[1] for state in package.manifest.states.values() if state.role == "history"]
    assert set(windows) == ({HISTORY[name]} if name in HISTORY else set())


def test_it_runs_where_there_is_no_torch(
    package: Package, hundred: tuple[list[dict[str, np.ndarray]], Run], name: str, tmp_path: Path
) -> None:
    seen, done = hundred
    policy = load(package)
    arrays = {f"seen/{tick}/{key}": value for tick, one in enumerate(seen[:6]) for key, value in one.items()}
    for tick in range(6):
        arrays |= {f"noise/{tick}/{key}": value for key, value in noise_of(done.draws[tick], policy).items()}
    np.savez(tmp_path / "given.npz", **arrays)
    out = tmp_path / "actions.npy"
    given = [str(package.path), str(tmp_path / "given.npz"), str(out), TASK if "task" in policy.inputs else ""]
    runtime = os.environ.get("ASHORE_RUNTIME_PYTHON", sys.executable)  # `make test-lerobot` names one without torch
    done_there = subprocess.run([runtime, "-c", WITHOUT_TORCH, *given], capture_output=True, text=True)
    assert done_there.returncode == 0, done_there.stderr
    assert done_there.stdout.strip() == ALSO.get(name, "")
    assert np.abs(np.load(out) - done.actions[:6]).max() <= 1e-5


WITHOUT_TORCH = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "torchvision", "lerobot", "transformers", "diffusers", "safetensors.torch"):
            raise ModuleNotFoundError(f"{name} is blocked", name=name)

sys.meta_path.insert(0, Blocker())
import numpy as np
from ashore.staged import load_exported_policy

path, given, out, task = sys.argv[1:]
policy, given = load_exported_policy(path, backend="onnx", device="cpu"), np.load(given)
actions = []
for tick in range(6):
    seen = {key.split("/", 2)[2]: given[key] for key in given if key.startswith(f"seen/{tick}/")}
    noise = {key.split("/", 2)[2]: given[key] for key in given if key.startswith(f"noise/{tick}/")}
    actions.append(policy.select_action(seen | ({"task": task} if task else {}), noise=noise or None))
np.save(out, np.stack(actions))
files = {name.split(".")[0]: str(getattr(module, "__file__", "")) for name, module in list(sys.modules.items())}
installed = {name for name, file in files.items() if "site-packages" in file and not name.startswith(("_", "ashore"))}
print(*sorted(installed - {"numpy", "onnxruntime", "safetensors", "msgspec", "typing_extensions"}))
"""
ALSO = {"smolvla": "tokenizers", "pi05": "tokenizers"}
"""What a policy that is told a task needs beside numpy, onnxruntime, safetensors and msgspec."""


@pytest.mark.parametrize("name", ["smolvla", "pi05"], indirect=True)
def test_other_tasks_are_told_as_lerobot_tells_them(package: Package, eager: Eager) -> None:
    """Blanks, underscores, line ends, letters beyond ASCII, nothing at all, and more than fits."""
    tasks = [" open_the\ndrawer ", "öffne die Schublade", "", "push the cube\n", "again and " * 40]
    seen = list(observations(eager.config, 1, seed=9)) * len(tasks)
    policy, theirs, draws = load(package), [], []
    for one, task in zip(seen, tasks, strict=True):
        eager.reset()
        action, drawn = eager.act(one, task)
        theirs.append(action)
        draws.append(drawn)
    ours = run_package(policy, seen, tasks, range(len(tasks)), draws)
    assert np.abs(ours - np.stack(theirs)).max() <= 1e-5
