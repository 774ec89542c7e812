"""Environments to export, and a record of what they do by themselves to compare an export with.

A world is an arm in a simulator of its own: `simulate` moves it with noise, `step` is one decision. Its parts are
overridden one at a time. Nothing here knows how an export works: `run_alone` drives a fresh world by its own `step`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pytest
import torch

import ashore
from ashore.capture.findings import Finding
from ashore.environment import (
    ExportableEnvironment,
    Input,
    Memory,
    Output,
    SessionWrapper,
    export_environment_as_onnx,
)
from ashore.errors import ExportError
from ashore.package import Package

Arrays: TypeAlias = dict[str, np.ndarray]
Read: TypeAlias = Callable[[Any], torch.Tensor]
Actor: TypeAlias = Callable[[Any], torch.Tensor]

QUIET: dict[str, Any] = {"picture": False, "summary": False}
FAST: dict[str, Any] = {**QUIET, "backend": "onnx-torchscript"}
ATOL = 1e-5


class World:
    """An arm of two joints that follows targets, with a command from outside."""

    inputs: ClassVar[Mapping[str, Read]] = {
        "q": lambda world: world.q,
        "qd": lambda world: world.qd,
        "command": lambda world: world.command,
    }
    outputs: ClassVar[Mapping[str, Read]] = {"torque": lambda world: world.torque}
    memories: ClassVar[Mapping[str, Read]] = {}
    decimation = 4
    episode = 7
    """Decisions after which it resets itself."""

    def __init__(self, seed: int = 0, rows: int = 1) -> None:
        self.rows = rows
        self.generator = torch.Generator().manual_seed(seed)
        self.q, self.qd = torch.zeros(rows, 2), torch.zeros(rows, 2)
        self.command = torch.zeros(rows, 1)
        self.actions = torch.zeros(rows, 2)
        self.target = torch.zeros(rows, 2)
        self.torque = torch.zeros(rows, 2)
        self.since_reset = 0
        self.make()
        self.reset_simulation()

    # --- parts to override -------------------------------------------------------------------------------------------

    def make(self) -> None:
        """Make what the parts keep."""

    def reset_parts(self) -> None:
        """Reset what the parts keep."""

    def observe(self) -> Any:
        return torch.cat([self.q, self.qd * 0.5, self.command, self.actions], dim=-1)

    def process_actions(self, actions: torch.Tensor) -> None:
        self.actions[:] = actions
        self.target = 0.5 * actions + 0.1

    def apply_actions(self) -> None:
        self.torque = 3.0 * self.target - 0.2

    # --- the simulator -----------------------------------------------------------------------------------------------

    def noise(self, width: int) -> torch.Tensor:
        return torch.randn(self.rows, width, generator=self.generator)

    def reset_simulation(self) -> None:
        self.q[:] = 0.3 * self.noise(2)
        self.qd[:] = 0.3 * self.noise(2)
        self.command[:] = self.noise(1)

    def simulate(self) -> None:
        self.qd[:] = 0.9 * self.qd + 0.05 * self.torque + 0.1 * self.noise(2)
        self.q[:] = 0.95 * self.q + 0.05 * self.qd

    def reset(self) -> None:
        self.reset_simulation()
        self.actions[:] = 0.0
        self.reset_parts()

    def step(self, actions: torch.Tensor) -> tuple[Any, Any]:
        self.process_actions(actions)
        for _ in range(self.decimation):
            self.apply_actions()
            self.simulate()
        self.since_reset += 1
        done = self.since_reset >= self.episode
        if done:
            self.since_reset = 0
            self.reset()
        return self.observe(), done


class Adapter(ExportableEnvironment):
    """Hands everything on to a world."""

    def __init__(self, world: Any) -> None:
        super().__init__()
        self.world = world
        self.about: dict[str, Any] = {}
        manager = self.context_manager()
        for name, read in world.inputs.items():
            manager.add_component(Input(name, lambda read=read: read(self.world)))
        for name, read in world.outputs.items():
            manager.add_component(Output(name, lambda read=read: read(self.world)))
        for name, read in world.memories.items():
            manager.add_component(Memory(name, lambda read=read: read(self.world)))

    def compute_observations(self) -> Any:
        return self.world.observe()

    def process_actions(self, actions: torch.Tensor) -> object:
        return self.world.process_actions(actions)

    def apply_actions(self) -> object:
        return self.world.apply_actions()

    def step(self, actions: torch.Tensor) -> tuple[Any, Any]:
        return self.world.step(actions)

    @property
    def decimation(self) -> int:
        return self.world.decimation

    def prepare_export(self) -> None:
        pass

    def empty_actor_observations(self) -> Any:
        obs = self.world.observe()
        return {key: torch.zeros_like(one) for key, one in obs.items()} if isinstance(obs, dict) else obs * 0

    def empty_actions(self) -> torch.Tensor:
        return torch.zeros(self.world.rows, 2)

    def metadata(self) -> dict[str, Any]:
        return self.about

    def register_evaluation_hooks(self, *args: Any, **kwargs: Any) -> None:
        pass

    def get_observation_names(self) -> list[str]:
        return []

    def observations_reset(self) -> Any:
        return self.world.observe()


def linear(seed: int = 0, width: int = 7) -> torch.nn.Module:
    """An actor without memory."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(width, 2), torch.nn.Tanh()).eval()


# --- what a world does by itself -------------------------------------------------------------------------------------


@dataclass
class Decision:
    """One decision of a world: what went in and what came out, at both rates."""

    resets: list[bool]
    """Which rows start an episode with it."""

    inputs: Arrays
    obs: Arrays
    actions: np.ndarray = field(default_factory=lambda: np.zeros(0))
    ticks: list[tuple[Arrays, Arrays]] = field(default_factory=list)
    """Inputs before, and outputs after, every time the actions were applied."""


@torch.no_grad()
def run_alone(world: Any, actor: Actor, decisions: int) -> list[Decision]:
    """Drive a world by its own step, and note everything that goes in and comes out."""
    found: list[Decision] = []
    seen: Arrays = {}

    def read(readers: Mapping[str, Read]) -> Arrays:
        return {name: one(world).detach().numpy().copy() for name, one in readers.items()}

    original_observe, original_apply = world.observe, world.apply_actions

    def observe() -> Any:
        nonlocal seen
        seen = read(world.inputs)
        return original_observe()

    def apply() -> Any:
        before = read(world.inputs)
        result = original_apply()
        found[-1].ticks.append((before, read(world.outputs)))
        return result

    world.observe, world.apply_actions = observe, apply
    try:
        resets, obs = [True] * world.rows, world.observe()
        for _ in range(decisions):
            reset = getattr(actor, "reset", None)
            if any(resets) and callable(reset):
                reset(torch.tensor(resets))
            found.append(Decision(resets, seen, named(obs)))
            actions = actor(obs)
            found[-1].actions = actions.numpy().copy()
            obs, done = world.step(actions)
            flags = torch.as_tensor(done).flatten().tolist()
            resets = flags * world.rows if len(flags) == 1 else flags
    finally:
        del world.observe, world.apply_actions
    return found


def named(obs: Any, prefix: str = "obs") -> Arrays:
    if isinstance(obs, torch.Tensor):
        return {prefix: obs.detach().numpy().copy()}
    return {key: value for name, one in obs.items() for key, value in named(one, f"{prefix}.{name}").items()}


def of_row(values: Arrays, row: int, rows: int) -> Arrays:
    """What one of several rows has, as a batch of one."""
    return dict(values) if rows == 1 else {name: value[row : row + 1] for name, value in values.items()}


# --- comparing -------------------------------------------------------------------------------------------------------


def export_world(world: Any, actor: Actor, folder: Path, **options: Any) -> Package:
    """Write ``policy.onnx`` and the package ``policy``."""
    given = {**FAST, **options}
    return export_environment_as_onnx(Adapter(world), actor, folder, "policy.onnx", **given)


def refuse(world: Any, actor: Actor, folder: Path, **options: Any) -> list[Finding]:
    """Export a world, which must fail and leave nothing behind; what stands against it."""
    with pytest.raises(ExportError) as error:
        export_world(world, actor, folder / "refused", **options)
    assert not (folder / "refused").exists()
    return [one for one in error.value.findings if isinstance(one, Finding)]


def check_package(path: Path, alone: list[Decision], row: int = 0, atol: float = ATOL) -> None:
    """A package, running freely at both rates, gives what one row of a world gave by itself."""
    policy, rows = ashore.load(path), len(alone[0].resets)
    for index, one in enumerate(alone):
        if one.resets[row]:
            policy.reset()
        inputs = of_row(one.inputs, row, rows)
        got = policy.step({name: inputs[name] for name in policy.step_inputs})
        same(got, {**of_row(one.obs, row, rows), "actions": one.actions[row : row + 1]}, f"decision {index}", atol)
        for tick, (before, after) in enumerate(one.ticks):
            inputs = of_row(before, row, rows)
            got = policy.substep({name: inputs[name] for name in policy.substep_inputs})
            same(got, of_row(after, row, rows), f"decision {index}, tick {tick}", atol)


def check_one_file(folder: Path, alone: list[Decision], row: int = 0, atol: float = ATOL) -> None:
    """So does the one file, which counts ticks and feeds memory back by itself."""
    wrapper, rows = SessionWrapper(folder, "policy.onnx", optimize=False), len(alone[0].resets)
    for index, one in enumerate(alone):
        if one.resets[row]:
            wrapper.reset()
        for tick, (before, after) in enumerate(one.ticks):
            given = {**of_row(before, row, rows), **(of_row(one.inputs, row, rows) if tick == 0 else {})}
            got = wrapper.run({name: given[name] for name in given if name in wrapper.input_names})
            expected = of_row(after, row, rows)
            if tick == 0:
                expected |= {**of_row(one.obs, row, rows), "actions": one.actions[row : row + 1]}
            same(got, expected, f"decision {index}, tick {tick}", atol)


def same(got: Mapping[str, np.ndarray], expected: Arrays, where: str, atol: float) -> None:
    """Every expected port is there and right."""
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, atol=atol, rtol=atol, err_msg=f"{where}: {name}")


def check_exact(
    make: Callable[..., Any], make_actor: Callable[[], Actor], folder: Path, *, decisions: int = 24, **options: Any
) -> Package:
    """Export a world, and compare package and file with another run of it, over several episodes."""
    package = export_world(make(seed=1), make_actor(), folder, **options)
    alone = run_alone(make(seed=2), make_actor(), decisions)
    assert sum(one.resets[0] for one in alone) >= 3
    check_package(folder / "policy", alone)
    check_one_file(folder, alone)
    return package
