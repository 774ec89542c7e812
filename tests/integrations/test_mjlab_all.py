"""All of mjlab's tasks. It takes many minutes, so it runs with ``make test-all`` only, which shows a table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mjlab.tasks  # noqa: F401 - registers them
import numpy as np
import pytest
import torch
from mjlab.tasks.registry import list_tasks

from ashore.package import read
from ashore.verify import replay
from integrations.mjlab_tasks import exported

pytestmark = [
    pytest.mark.all_tasks,
    pytest.mark.filterwarnings("ignore:MULTICCD is enabled:UserWarning"),  # what the rough ground is made of
]
STEPS = 100
BOLDNESS = 0.1
"""What legged robots do with random weights is mostly falling, and a fall repeats for nobody: theirs are small."""

CALM = 4e-5
FALLS = {"Mjlab-Velocity-Rough-Unitree-G1"}
"""Where the robot falls wherever it starts, so that the last bit of an action decides how. Their package is compared
as TorchScript, which computes what torch computes to the bit."""

TASKS = [name for name in list_tasks() if name.startswith("Mjlab-")]


def test_there_are_twelve() -> None:
    assert len(TASKS) == 12


@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_exported_verified_and_equal_for_100_steps(
    task: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    boldness = BOLDNESS if "Unitree" in task else 1.0
    one = exported(task, tmp_path, boldness=boldness)
    try:
        manifest, seconds = one.package.manifest, one.seconds
        assert not [finding for finding in manifest.findings if finding.severity == "error"]
        report = replay(read(one.package.path))
        assert report.passed
        np.testing.assert_array_equal(one.rows_again, one.rows)
        if task in FALLS:
            one.close()
            one = exported(task, tmp_path / "to_the_bit", boldness=boldness, backend="jit-trace")
            seed, apart, most = 0, np.nan, 0.0
        else:
            seed, apart = calm_seed(one.env, one.actor)
            most = 1e-4
        found = one.compare(steps=STEPS, seed=seed)
    finally:
        one.close()
    worst, motion = found.worst, found.trajectories["environment/sim.qpos"]
    figures = {
        "task": task,
        "inputs": len(manifest.inputs),
        "export s": f"{seconds:.1f}",
        "verification error": f"{report.worst('free_running'):.1e}",
        "actions": f"{worst['actions']:.1e}",
        "qpos": f"{worst['sim.qpos']:.1e}",
        "qpos of itself": f"{apart:.1e}",
        "resets": found.resets,
    }
    record_property("figures", {name: str(value) for name, value in figures.items()})
    assert worst["sim.qpos"] <= most, found.first
    assert worst["actions"] <= 1e-3, found.first
    assert found.steps == STEPS
    assert np.ptp(motion, axis=0).max() > 0.01  # it moves


def calm_seed(env: Any, actor: Any) -> tuple[int, float]:
    """A seed from which rounding does not grow in the environment itself; and how much it grows.

    Where a robot falls or cubes start inside each other, actions that differ by half a unit in the last place lead to
    positions that differ by centimetres, whoever decides. Nothing could be said about a package there.
    """
    for seed in range(40):
        alone = positions(env, actor, seed, 0.0)
        apart = 0.0
        for draw in range(3):
            apart = max(apart, float(np.abs(alone - positions(env, actor, seed, 6e-8, draw)).max()))
            if apart > CALM:
                break
        else:
            return seed, apart
    raise AssertionError("wherever it starts, it does not even repeat itself")


@torch.no_grad()
def positions(env: Any, actor: Any, seed: int, noise: float, draw: int = 0) -> np.ndarray:
    """Where an environment goes with actions that are a little off."""
    chance, rows = torch.Generator().manual_seed(draw), []
    torch.manual_seed(seed)
    obs, _ = env.reset(seed=seed)
    for _ in range(STEPS):
        actions = actor(obs)
        obs, *_ = env.step(actions + noise * (2.0 * torch.rand(actions.shape, generator=chance) - 1.0))
        rows.append(env.sim.data.qpos[0].numpy().copy())
    return np.stack(rows)
