"""Policies that were really trained: they balance and walk where their training environment is not.

The weights are in examples/checkpoints. Speeds are forward in the axes of the base, over the second half of a run.
"""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import support
from ashore.integrations.mjlab import open_deployment, write_model
from ashore.integrations.rsl_rl import read_checkpoint
from ashore.package import Package
from integrations.mjlab_tasks import CARTPOLE, GO1, export, opened

CHECKPOINTS = Path(__file__).parents[2] / "examples" / "checkpoints"
FORWARD = np.array([[0.6, 0.0, 0.0]], np.float32)
WALK_S = 20.0
BALANCE_S = 50.0

REFUSE_TORCH = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "mjlab", "warp", "onnx"):
            raise AssertionError("imported " + name)

sys.meta_path.insert(0, Refuse())
"""
BALANCE = """
import json
import ashore
from ashore.deploy import MujocoRobot

package, model, seconds, driven = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4] == "driven"
robot = MujocoRobot(model)
bound = ashore.load(package).bind(robot)
bound.reset()
robot.data.qpos[:] = [0.1, 0.034]
rows = []
for _ in range(round(seconds / robot.tick_s)):
    if driven:
        bound.tick()
    robot.advance()
    rows.append([abs(float(one)) for one in robot.data.qpos])
print(json.dumps([max(column) for column in zip(*rows)] + [rows[-1][1]]))
"""
WALK = """
import dataclasses, json
import ashore
from ashore.deploy import MujocoRobot, play

package, model, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
bound = ashore.load(package).bind(MujocoRobot(model), commands={"twist": (0.6, 0.0, 0.0)})
print(json.dumps(dataclasses.asdict(play(bound, seconds=seconds))))
"""


def show(record_property: Any, what: str, figure: str) -> None:
    """Have a figure printed below the tests."""
    record_property("figures", {"what": what, "figure": figure})


def without_torch(code: str, *arguments: object) -> Any:
    """Run code where torch cannot be imported; what it prints last."""
    done = support.run_python(REFUSE_TORCH + code, *map(str, arguments))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# --- cartpole --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Package, Path]:
    folder = tmp_path_factory.mktemp("cartpole")
    env, actor = opened(CARTPOLE, CHECKPOINTS / "cartpole_balance.pt")
    package = export(env, actor, folder / "p", checkpoint=CHECKPOINTS / "cartpole_balance.pt", task=CARTPOLE)
    write_model(env, folder / "cart.mjb")
    env.close()
    return package, folder / "cart.mjb"


def test_cartpole_balances_for_50_s_in_the_deployment_environment(
    cartpole: tuple[Package, Path], record_property: Any
) -> None:
    rows = []
    with open_deployment(CARTPOLE, cartpole[0]) as deployment:
        deployment.reset()
        deployment.sim.data.qpos[:] = torch.tensor([[0.1, 0.034]])
        deployment.sense()
        for _ in range(round(BALANCE_S / 0.05)):
            deployment.step()
            rows.append(deployment.sim.data.qpos[0].abs().numpy().copy())
    slider, hinge = np.max(rows, axis=0)
    show(record_property, "cartpole, 50 s in the deployment environment: largest lean", f"{hinge:.3f} rad")
    assert slider < 1.0
    assert hinge < 0.1
    assert rows[-1][1] < 0.01


def test_cartpole_balances_for_50_s_in_plain_mujoco(cartpole: tuple[Package, Path], record_property: Any) -> None:
    slider, hinge, last = without_torch(BALANCE, cartpole[0].path, cartpole[1], BALANCE_S, "driven")
    show(record_property, "cartpole, 50 s in plain MuJoCo: largest lean", f"{hinge:.3f} rad")
    assert slider < 1.0
    assert hinge < 0.1
    assert last < 0.01


def test_the_script_that_trained_cartpole_writes_such_a_checkpoint(tmp_path: Path) -> None:
    """Here it trains for a moment only."""
    train = runpy.run_path(str(CHECKPOINTS.parent / "train_cartpole.py"))["train"]
    reward = train(tmp_path / "model.pt", environments=4, iterations=1)
    assert 0.0 < reward < 1.0
    made, ours = (read_checkpoint(one) for one in (tmp_path / "model.pt", CHECKPOINTS / "cartpole_balance.pt"))
    assert made.keys() == ours.keys() == {"actor_state_dict", "iter", "infos"}
    shapes = [{name: value.shape for name, value in one["actor_state_dict"].items()} for one in (made, ours)]
    assert shapes[0] == shapes[1]


def test_cartpole_falls_without_its_policy(cartpole: tuple[Package, Path]) -> None:
    _, hinge, _ = without_torch(BALANCE, cartpole[0].path, cartpole[1], 5.0, "alone")
    assert hinge > 1.0


# --- Go1 -------------------------------------------------------------------------------------------------------------


def command_forward(cfg: Any, _: Any) -> None:
    """The play configuration, with one command for everybody."""
    command = cfg.commands["twist"]
    command.rel_standing_envs = command.rel_heading_envs = command.rel_forward_envs = 0.0
    command.heading_command = False
    ranges = command.ranges
    ranges.lin_vel_x, ranges.lin_vel_y, ranges.ang_vel_z, ranges.heading = (0.6, 0.6), (0.0, 0.0), (0.0, 0.0), None


class Walker:
    """A trained Go1: its package, its model, and how fast it is in training's own environment."""

    def __init__(self, name: str, folder: Path) -> None:
        checkpoint, self.name = CHECKPOINTS / f"go1_velocity_flat_{name}.pt", name
        self.env, self.actor = opened(GO1, checkpoint, change=command_forward)
        self.package = export(self.env, self.actor, folder / name, checkpoint=checkpoint, task=GO1)
        self.model = folder / f"{name}.mjb"
        write_model(self.env, self.model)
        self.trained_speed = self.run_training(6.0)

    @torch.no_grad()
    def run_training(self, seconds: float) -> float:
        """The speed in the environment that it was trained in, which would start again if it fell."""
        obs, _ = self.env.reset(seed=1)
        self.actor.reset(torch.ones(1, dtype=torch.bool))
        speeds = []
        for _ in range(round(seconds / self.env.step_dt)):
            obs, _, terminated, truncated, _ = self.env.step(self.actor(obs))
            assert not bool((terminated | truncated).any()), "it fell in training's own environment"
            speeds.append(float(self.env.scene["robot"].data.root_link_lin_vel_b[0, 0]))
        return float(np.mean(speeds[len(speeds) // 2 :]))


@pytest.fixture(scope="module", params=["mlp", "lstm"])
def walker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walker]:
    made = Walker(request.param, tmp_path_factory.mktemp("go1"))
    yield made
    made.env.close()


def test_go1_walks_in_training(walker: Walker, record_property: Any) -> None:
    show(record_property, f"Go1 {walker.name}: speed in training's own environment", f"{walker.trained_speed:.4f} m/s")
    assert walker.trained_speed == pytest.approx(0.56, abs=0.06)


def test_go1_walks_for_20_s_in_the_deployment_environment(walker: Walker, record_property: Any) -> None:
    heights, tilts, speeds = [], [], []
    with open_deployment(GO1, walker.package) as deployment:
        deployment.reset()
        robot = deployment.scene["robot"].data
        for _ in range(round(WALK_S / 0.02)):
            deployment.step({"twist": FORWARD})
            heights.append(float(robot.root_link_pos_w[0, 2]))
            tilts.append(float(robot.projected_gravity_b[0, 2]))
            speeds.append(float(robot.root_link_lin_vel_b[0, 0]))
        travelled = float(robot.root_link_pos_w[0, :2].norm())
    speed = float(np.mean(speeds[len(speeds) // 2 :]))
    show(record_property, f"Go1 {walker.name}: speed in 20 s in the deployment environment", f"{speed:.4f} m/s")
    assert min(heights) > 0.2
    assert max(tilts) < -0.9  # gravity points down through the belly
    assert travelled > 0.8 * 0.6 * WALK_S * 0.9
    assert speed == pytest.approx(walker.trained_speed, rel=0.1)


def test_go1_walks_for_20_s_in_plain_mujoco(walker: Walker, record_property: Any) -> None:
    told = without_torch(WALK, walker.package.path, walker.model, WALK_S)
    forward = next(one for one in told["tracking"] if one["element"] == "vx")
    show(record_property, f"Go1 {walker.name}: speed in 20 s in plain MuJoCo", f"{forward['measured']:.4f} m/s")
    assert told["survived"], told["ended_by"]
    assert told["seconds"] == pytest.approx(WALK_S)
    assert told["height_m"]["lowest"] > 0.2
    assert told["tilt_rad"]["highest"] < 0.4
    assert forward["asked"] == pytest.approx(0.6)
    assert forward["measured"] == pytest.approx(walker.trained_speed, rel=0.1)
