"""mjlab's stock tasks to export: with random weights, a motion of our own, and a record of what they do by themselves.

Nothing here knows how an export works: `run_alone` drives an environment by its own `step`, and notes what its actor
was given and decided, and what its actions handed to the actuators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Any, TypeAlias

import mujoco
import numpy as np
import pytest
import torch

import ashore
from ashore.capture.findings import Finding
from ashore.errors import ExportError
from ashore.integrations.comparing import Comparison, compare_sim
from ashore.integrations.exporting import export_managed
from ashore.integrations.mjlab import FRAMEWORK, open_deployment, open_task, task_configs, without_randomness
from ashore.package import Package

Arrays: TypeAlias = dict[str, np.ndarray]
Change: TypeAlias = Callable[[Any, Any], object]
"""Changes the configurations of environment and agent."""

QUICK: dict[str, Any] = {"picture": False, "summary": False, "validation_steps": 5}
CARTPOLE, GO1 = "Mjlab-Cartpole-Balance", "Mjlab-Velocity-Flat-Unitree-Go1"
SHORT_EPISODE_STEPS = 9


def unchanged(cfg: Any, agent: Any) -> None:
    """The configuration as mjlab has it."""


def opened(
    task: str, checkpoint: Path | None = None, *, change: Change = unchanged, seed: int = 7, **options: Any
) -> tuple[Any, Any]:
    """An environment and its actor; without a checkpoint, with random weights, the same for the same seed."""
    torch.manual_seed(seed)
    np.random.seed(seed)  # draws the ground, where that is random
    return open_task(task, checkpoint, change=change, **options)


def save_weights(actor: Any, path: Path) -> Path:
    """Write a checkpoint as RSL-RL does, with what a load of the actor needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"actor_state_dict": actor.policy.state_dict(), "iter": 0, "infos": None}, path)
    return path


def export(env: Any, actor: Any, out: Path, **options: Any) -> Package:
    """Export strictly."""
    return export_managed(env, actor, out, FRAMEWORK, groups=actor.groups, **{**QUICK, **options})


def refused(env: Any, actor: Any, out: Path, **options: Any) -> list[Finding]:
    """Export, which must fail and leave nothing behind; what stands against it."""
    with pytest.raises(ExportError) as error:
        export(env, actor, out, **options)
    assert not out.exists()
    return [one for one in error.value.findings if isinstance(one, Finding)]


def plain(change: Change = unchanged, *, episode_steps: int | None = None) -> Change:
    """A change with nothing random but where episodes start; and with episodes of some steps."""

    def both(cfg: Any, agent: Any) -> None:
        change(cfg, agent)
        without_randomness(cfg)
        if episode_steps is not None:
            cfg.episode_length_s = episode_steps * cfg.decimation * cfg.sim.mujoco.timestep

    return both


@dataclass
class Exported:
    """A task that was exported from a checkpoint file, and the environment that the weights were made in."""

    task: str
    env: Any
    """With nothing random but where episodes start."""

    actor: Any
    checkpoint: Path
    stock: Any
    """The environment that was exported: with everything that is random."""

    package: Package
    seconds: float
    """That the export kept the cores busy, which is the same on a busy machine."""

    rows: np.ndarray
    """What the exported environment did for some steps before the export,"""

    rows_again: np.ndarray
    """and for the same steps, with the export in the middle of them."""

    motion: Path | None = None

    def compare(self, steps: int = 100, bias: torch.Tensor | None = None, **options: Any) -> Comparison:
        """Run the environment and the package in a deployment environment, side by side."""
        with open_deployment(self.task, self.package, motion=self.motion, change=without_randomness) as deployment:
            if bias is not None:
                deployment.scene["robot"].data.encoder_bias[:] = bias
            return compare_sim(self.env, self.actor, deployment, FRAMEWORK, steps=steps, **options)

    def close(self) -> None:
        """Close both environments."""
        self.env.close()
        self.stock.close()


def exported(
    task: str,
    folder: Path,
    *,
    change: Change = unchanged,
    plainly: Change | None = None,
    boldness: float = 1.0,
    **options: Any,
) -> Exported:
    """Random weights, saved to a file; the stock environment with that file, exported.

    Args:
        task: its name.
        folder: where to write.
        change: of the stock configuration.
        plainly: of the one in which nothing is random.
        boldness: what the weights of the last layer are multiplied by, so that a robot need not fall.
        options: of the export.
    """
    motion = write_motion(task, folder / "motion.npz") if "Tracking" in task else None
    env, actor = opened(task, change=plainly or plain(change), motion=motion)
    with torch.no_grad():
        actor.policy.mlp[-1].weight.mul_(boldness)
        actor.policy.mlp[-1].bias.mul_(boldness)
    checkpoint = save_weights(actor, folder / "model_0.pt")
    stock, loaded = opened(task, checkpoint, change=change, motion=motion, seed=8)
    begin(stock)
    rows = moved(stock, loaded, 6)
    begin(stock)
    first, began = moved(stock, loaded, 3), process_time()
    package = export(stock, loaded, folder / task, task=task, checkpoint=checkpoint, **options)
    seconds = process_time() - began
    again = np.concatenate([first, moved(stock, loaded, 3)])
    return Exported(task, env, actor, checkpoint, stock, package, seconds, rows, again, motion)


def begin(env: Any, seed: int = 5) -> None:
    """Reset an environment; twice, since it may choose the place for its next episode when it has begun one."""
    env.reset(seed=seed)
    env.reset(seed=seed)


@torch.no_grad()
def moved(env: Any, actor: Any, steps: int) -> np.ndarray:
    """Where some steps take an environment, and what its actor sees there."""
    obs, rows = env.observation_manager.compute(), []
    for _ in range(steps):
        obs, reward, *_ = env.step(actor(obs))
        seen = [obs[group].flatten() for group in actor.groups]
        rows.append(torch.cat([env.sim.data.qpos[0], env.sim.data.qvel[0], *seen, reward]).numpy())
    return np.stack(rows)


def write_motion(task: str, path: Path, seconds: float = 4.0) -> Path:
    """A motion to follow: the robot sways about its first pose, every joint in its own phase."""
    from mjlab.scene import Scene

    cfg, _, _ = task_configs(task)
    cfg.scene.num_envs = 1
    scene = Scene(cfg.scene, device="cpu")
    model, robot = scene.compile(), scene["robot"]
    data, start = mujoco.MjData(model), model.key("init_state").qpos.copy()
    joints = [model.joint(f"robot/{name}").id for name in robot.joint_names]
    bodies = [model.body(f"robot/{name}").id for name in robot.body_names]
    positions, speeds, phases = model.jnt_qposadr[joints], model.jnt_dofadr[joints], np.arange(len(joints))
    rows: dict[str, list[np.ndarray]] = {}
    for time_s in np.arange(0.0, seconds, 0.02):
        angle = np.pi * time_s + phases
        data.qpos[:] = start
        data.qpos[positions] += 0.05 * np.sin(angle)
        data.qvel[speeds] = 0.05 * np.pi * np.cos(angle)
        mujoco.mj_forward(model, data)
        velocity = np.zeros((len(bodies), 6))
        for row, body in zip(velocity, bodies, strict=True):
            mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, body, row, 0)
        frame = {
            "joint_pos": data.qpos[positions],
            "joint_vel": data.qvel[speeds],
            "body_pos_w": data.xpos[bodies],
            "body_quat_w": data.xquat[bodies],
            "body_ang_vel_w": velocity[:, :3],
            "body_lin_vel_w": velocity[:, 3:],
        }
        for name, value in frame.items():
            rows.setdefault(name, []).append(value.astype(np.float32))
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, fps=np.array([50]), **{name: np.stack(values) for name, values in rows.items()})
    return path


# --- what an environment does by itself ------------------------------------------------------------------------------


@dataclass
class Decision:
    """One decision of an environment: what went in and what came out."""

    begins: list[bool]
    """Which rows start an episode with it."""

    inputs: Arrays
    obs: Arrays
    actions: np.ndarray
    targets: list[Arrays] = field(default_factory=list)
    """What actions handed to the actuators in every substep, by the name of the method."""


def value_of(env: Any, connection: str) -> np.ndarray:
    """What there is to read at a connection of a package."""
    where, owner, *name = connection.split(":")
    if where == "command":
        value = env.command_manager.get_term(owner)
    else:
        value = env.scene[owner].data
    for one in name:
        value = getattr(value, one)
    return value.detach().numpy().copy()


@torch.no_grad()
def run_alone(env: Any, actor: Any, manifest: ashore.Manifest, decisions: int, seed: int = 3) -> list[Decision]:
    """Drive an environment by its own step, and note everything that goes in and comes out."""
    inputs = {name: str(port.connection) for name, port in manifest.inputs.items()}
    writes = [str(port.connection).split(":")[1:] for port in manifest.outputs.values() if port.connection]
    found: list[Decision] = []
    handed: list[Arrays] = []
    for owner, method in writes:
        _note(env.scene[owner], method, handed)
    try:
        obs, _ = env.reset(seed=seed)
        begins = torch.ones(env.num_envs, dtype=torch.bool)
        for _ in range(decisions):
            if begins.any():
                actor.reset(begins)
            given = {name: value_of(env, connection) for name, connection in inputs.items()}
            seen = {f"obs.{group}": obs[group].numpy().copy() for group in actor.groups}
            actions = actor(obs)
            found.append(Decision(begins.tolist(), given, seen, actions.numpy().copy()))
            handed.clear()
            obs, _, terminated, truncated, _ = env.step(actions)
            found[-1].targets = list(handed)
            begins = terminated | truncated
    finally:
        for owner, method in writes:
            delattr(env.scene[owner], method)
    return found


def _note(entity: Any, method: str, handed: list[Arrays]) -> None:
    original = getattr(entity, method)

    def write(*args: Any, **kwargs: Any) -> Any:
        (value,) = [one for one in (*args, *kwargs.values()) if getattr(one, "dtype", None) == torch.float32]
        handed.append({method: value.numpy().copy()})
        return original(*args, **kwargs)

    setattr(entity, method, write)


def check_package(
    package: Package,
    alone: list[Decision],
    *,
    row: int | None = None,
    scale: float = 1.0,
    offset: np.ndarray | float = 0.0,
    atol: float = 1e-5,
) -> None:
    """A package, running freely at both rates, gives what the environment gave by itself.

    Args:
        package: the package.
        alone: what the environment did.
        row: which of several robots; None is all of them, in a package with an open batch.
        scale: a target of the package is a target of the environment times this,
        offset: plus this.
        atol: how much may differ.
    """
    policy = ashore.load(package, batch=len(alone[0].begins) if row is None else 1)
    rows = slice(None) if row is None else slice(row, row + 1)
    methods = {name: str(port.connection).split(":")[2] for name, port in policy.outputs.items() if port.connection}
    for index, one in enumerate(alone):
        starting = one.begins[row or 0]
        if starting:
            policy.reset()
        got = policy.step({name: one.inputs[name][rows] for name in policy.step_inputs})
        same(got, {name: value[rows] for name, value in {**one.obs, "actions": one.actions}.items()}, index, atol)
        for target in one.targets:
            got = policy.substep({name: one.inputs[name][rows] for name in policy.substep_inputs})
            expected = {name: target[method][rows] * scale + offset for name, method in methods.items()}
            same(got, expected, index, atol * abs(scale))


def same(got: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], decision: int, atol: float) -> None:
    """Every expected port is there and right."""
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, atol=atol, rtol=0, err_msg=f"decision {decision}: {name}")


def check_exact(one: Exported, *, decisions: int = 40, seed: int = 11, **options: Any) -> list[Decision]:
    """Compare a package with its environment on another seed, over several episodes; what the environment did."""
    alone = run_alone(one.env, one.actor, one.package.manifest, decisions, seed)
    assert sum(decision.begins[0] for decision in alone) >= 3, "there have to be resets in the middle"
    assert all(len(decision.targets) == one.env.cfg.decimation for decision in alone)
    check_package(one.package, alone, **options)
    return alone
