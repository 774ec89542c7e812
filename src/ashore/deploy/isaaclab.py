"""A package in Isaac Lab: its scene and its physics, and none of its managers but the commands, if asked for."""

# pyright: reportMissingImports=false
# Isaac Lab comes with a simulator of several gigabytes, and is not installed where types are checked.

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ashore.deploy.arrays import shared_tensor
from ashore.deploy.simulated import DeploymentEnv, places
from ashore.errors import BindError
from ashore.package import Array, Package

_WRITES = {"set_joint": ("joint_names", "joint_ids"), "set_thrust": ("thruster_names", "thruster_ids")}
"""Beginning of a method -> the attribute with the names of what it drives, and its parameter with the indices."""


class IsaacLabDeploymentEnv(DeploymentEnv):
    """A package that drives the scene of an Isaac Lab configuration. A process has room for one at a time.

    Args:
        cfg: the configuration of the task's environment; only its scene, simulation and commands are used.
        package: the package.
        num_envs: how many robots.
        device: of the simulation; None is what the configuration says.
        backend: what runs the stages.
        commands: whether the task's command terms give the commands; otherwise the caller does.
    """

    def __init__(
        self,
        cfg: Any,
        package: Package | str | os.PathLike[str],
        *,
        num_envs: int = 1,
        device: str | None = None,
        backend: str | None = None,
        commands: bool = False,
    ) -> None:
        super().__init__(package, num_envs=num_envs, backend=backend)
        from isaaclab.sim import SimulationContext

        if SimulationContext.instance() is not None:
            raise BindError("Isaac Lab has room for one simulation in a process, and there is one; close it first")
        forget_closed()
        cfg.scene.num_envs = num_envs
        if device is not None:
            cfg.sim.device = device
        _resolve(cfg)
        self.cfg = cfg
        self._steps = 0
        self.extras: dict[str, Any] = {}
        self._commands: Any = None
        self.sim: Any = SimulationContext(cfg.sim)
        try:
            self._build(commands)
            self.connect()
        except BaseException:  # also Ctrl-C: the simulation would stay for ever
            self.close()
            raise

    def _build(self, commands: bool) -> None:
        from isaaclab.scene import InteractiveScene
        from isaaclab.sim.utils.stage import use_stage

        with use_stage(self.sim.stage):
            self.scene: Any = InteractiveScene(self.cfg.scene)
            if hasattr(self.scene, "initialize_renderers"):
                self.scene.initialize_renderers()
        if hasattr(self.sim, "register_interactive_scene"):
            self.sim.register_interactive_scene(self.scene)
        with use_stage(self.sim.stage):
            self.sim.reset()
        self.scene.update(dt=self.physics_dt())
        self._ids = torch.arange(self.num_envs, dtype=torch.int32, device=self.device)
        if commands and getattr(self.cfg, "commands", None) is not None:
            from isaaclab.managers import CommandManager

            self._commands = CommandManager(self.cfg.commands, self)
        self._targets = {name: tensor.clone() for name, tensor in self._find_targets().items()}
        self.restore()

    # What command terms and resets ask an environment for.

    @property
    def unwrapped(self) -> IsaacLabDeploymentEnv:
        """Itself."""
        return self

    @property
    def device(self) -> str:
        """Of the simulation."""
        return str(self.sim.device)

    @property
    def step_dt(self) -> float:
        """The time between two decisions."""
        return self.physics_dt() * self.decimation

    # The simulator.

    def element(self, name: str) -> Any:
        """An articulation, an object or a sensor."""
        return self.scene[name]

    def names(self) -> Sequence[str]:
        """What is in the scene."""
        return list(self.scene.keys())

    def array(self, value: Any) -> Array | None:
        """A copy of a tensor, a ``ProxyArray`` or a Warp array."""
        tensor = shared_tensor(value)
        return None if tensor is None else tensor.detach().cpu().numpy().copy()

    def command(self, name: str) -> Any:
        """The command term, if the task's own commands were asked for."""
        return None if self._commands is None else self._commands.get_term(name)

    def writer(self, entity: Any, method: str, names: Sequence[str]) -> Callable[[Array], object]:
        """Targets go to the joints or thrusters of their names."""
        attribute, parameter = next(
            (found for beginning, found in _WRITES.items() if method.startswith(beginning)), ("", "")
        )
        if not attribute:
            raise BindError(f"{method!r}: expected a method that begins with {' or '.join(_WRITES)}")
        there = list(getattr(entity, attribute))
        ids: dict[str, Any] = {} if list(names) == there else {parameter: places(there, names)}
        if ids and method.endswith("_mask"):
            raise BindError(f"{method!r} sets all of {there}, the package has {list(names)}")
        write = getattr(entity, method)

        def hand_over(target: Array) -> None:
            write(target=torch.from_numpy(np.ascontiguousarray(target)).to(self.device), **ids)

        return hand_over

    def physics_dt(self) -> float:
        """The time step of the physics."""
        return float(self.cfg.sim.dt)

    def advance(self) -> None:
        """One step of physics: actuators, simulator, data."""
        self._steps += 1
        self.scene.write_data_to_sim()
        self.sim.step(render=False)
        if self.sim.is_rendering and self._steps % self.cfg.sim.render_interval == 0:
            self.sim.render()
        self.scene.update(dt=self.physics_dt())

    def sense(self) -> None:
        """The commands of the next decision; sensors look when they are read."""
        if self._commands is not None:
            self._commands.compute(dt=self.step_dt)

    def restore(self) -> None:
        """The default pose of everything in the scene."""
        from isaaclab.envs.mdp.events import reset_scene_to_default

        self.scene.reset(self._ids)
        reset_scene_to_default(self, self._ids)
        for name, tensor in self._find_targets().items():  # actuators with a delay would still follow the last ones
            tensor.copy_(self._targets[name])
        if self._commands is not None:
            self._commands.reset(self._ids)
        self.settle()

    def _find_targets(self) -> dict[str, torch.Tensor]:
        """What joints were told to do, by entity and property."""
        properties = ("joint_pos_target", "joint_vel_target", "joint_effort_target")
        there = {
            f"{name}.{one}": shared_tensor(getattr(asset.data, one, None))
            for name, asset in self.scene.articulations.items()
            for one in properties
        }
        return {name: tensor for name, tensor in there.items() if tensor is not None}

    def settle(self) -> None:
        """Have everything follow from a state that was written."""
        self.scene.write_data_to_sim()
        self.sim.forward()
        for asset in (*self.scene.articulations.values(), *self.scene.rigid_objects.values()):
            # Writing a pose does not tell these that they are out of date.
            for name in ("_projected_gravity_b", "_heading_w"):
                buffer: Any = getattr(asset.data, name, None)
                if hasattr(buffer, "timestamp"):
                    buffer.timestamp = -1.0

    def shut(self) -> None:
        """Stop the simulation, and make room for another."""
        self._reads.clear()
        self._writes.clear()
        self._commands = None
        self.sim.stop()
        if hasattr(self, "scene"):
            del self.scene
        self.sim.clear_instance()


LeappDeploymentEnv = IsaacLabDeploymentEnv
"""What Isaac Lab calls its own: ``LeappDeploymentEnv(cfg, path)``."""


def forget_closed() -> None:
    """Forget what sensors of a closed simulation still ask Newton for; the next one would look for their bodies."""
    manager = getattr(sys.modules.get("isaaclab_newton.physics.newton_manager"), "NewtonManager", None)
    context = getattr(sys.modules.get("isaaclab.sim"), "SimulationContext", None)
    if manager is not None and (context is None or context.instance() is None):
        manager.clear()


def _resolve(cfg: Any) -> None:
    """Check a configuration, and choose the defaults where it leaves a choice, as an environment does."""
    cfg.validate()
    try:
        module = importlib.import_module("isaaclab.utils.configclass")
    except ModuleNotFoundError:  # before 3.0
        return
    resolve = getattr(module, "resolve_cfg_presets", None)
    if resolve is not None:
        resolve(cfg)
