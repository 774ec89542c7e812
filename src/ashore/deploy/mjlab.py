"""A package in mjlab: its scene and its physics, and none of its managers but the commands, if they are asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from ashore.deploy.simulated import DeploymentEnv, places
from ashore.package import Array, Package

_POSITION = "set_joint_position_target"
_EFFORT = "set_joint_effort_target"


class MjlabDeploymentEnv(DeploymentEnv):
    """A package that drives the scene of an mjlab configuration.

    Args:
        cfg: the configuration of the task's environment; only its scene, simulation and commands are used.
        package: the package.
        num_envs: how many robots.
        device: of torch.
        backend: what runs the stages.
        commands: whether the task's command terms give the commands; otherwise the caller does.
    """

    def __init__(
        self,
        cfg: Any,
        package: Package | str | os.PathLike[str],
        *,
        num_envs: int = 1,
        device: str = "cpu",
        backend: str | None = None,
        commands: bool = False,
    ) -> None:
        super().__init__(package, num_envs=num_envs, backend=backend)
        from mjlab.scene import Scene
        from mjlab.sim.sim import Simulation

        self.cfg, self.device = cfg, device
        cfg.scene.num_envs = num_envs
        self.scene = Scene(cfg.scene, device=device)
        self.sim = Simulation(
            num_envs=num_envs,
            cfg=cfg.sim,
            spec=self.scene.spec,
            variant_info=self.scene.collect_variant_info(),
            device=device,
        )
        self.scene.initialize(mj_model=self.sim.mj_model, model=self.sim.model, data=self.sim.data)
        if self.scene.sensor_context is not None:
            self.sim.set_sensor_context(self.scene.sensor_context)
        self._ids = torch.arange(num_envs, device=device)
        self._commands = self._make_commands() if commands and cfg.commands else None
        self.restore()
        self.sense()
        self.connect()

    # What command terms ask an environment for.

    @property
    def unwrapped(self) -> MjlabDeploymentEnv:
        """Itself."""
        return self

    @property
    def step_dt(self) -> float:
        """The time between two decisions."""
        return self.physics_dt() * self.decimation

    def _make_commands(self) -> Any:
        from mjlab.managers.command_manager import CommandManager

        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long, device=self.device)
        self.termination_manager = SimpleNamespace(
            terminated=torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)
        )
        return CommandManager(self.cfg.commands, self)  # pyright: ignore[reportArgumentType]

    # The simulator.

    def element(self, name: str) -> Any:
        """An entity or a sensor."""
        return self.scene[name]

    def names(self) -> Sequence[str]:
        """What is in the scene."""
        return [*self.scene.entities, *self.scene.sensors]

    def array(self, value: Any) -> Array | None:
        """A copy of a tensor."""
        return value.detach().cpu().numpy().copy() if isinstance(value, torch.Tensor) else None

    def command(self, name: str) -> Any:
        """The command term, if the task's own commands were asked for."""
        return None if self._commands is None else self._commands.get_term(name)

    def further(self, where: str, path: str) -> Callable[[], Any] | None:
        """Arrays of MuJoCo, and Jacobians."""
        if where == "sim":
            return lambda: getattr(self.sim.data, path)[:]
        if where == "jacobian":
            frame, _, part = path.partition(":")
            return self._jacobian(*frame.split("/", 2), part=part)
        return None

    def _jacobian(self, entity: str, kind: str, name: str, *, part: str) -> Callable[[], Any]:
        """The Jacobian of a body, site or geom, as Warp computes it."""
        import mujoco_warp
        import warp

        model, shape = self.sim.mj_model, (self.num_envs, 3, self.sim.mj_model.nv)
        index = int(getattr(model, kind)(f"{entity}/{name}").id)
        body = index if kind == "body" else int(getattr(model, f"{kind}_bodyid")[index])
        positions = "xpos" if kind == "body" else f"{kind}_xpos"
        with warp.ScopedDevice(self.sim.wp_device):
            linear, angular = warp.zeros(shape, dtype=float), warp.zeros(shape, dtype=float)
            point, bodies = warp.zeros(self.num_envs, dtype=warp.vec3), warp.zeros(self.num_envs, dtype=warp.int32)
            bodies.fill_(body)

        def get() -> torch.Tensor:
            warp.to_torch(point).view(self.num_envs, 3)[:] = getattr(self.sim.data, positions)[:, index]
            mujoco_warp.jac(self.sim.wp_model, self.sim.wp_data, linear, angular, point, bodies)
            return warp.to_torch(linear if part == "linear" else angular)

        return get

    def writer(self, entity: Any, method: str, names: Sequence[str]) -> Callable[[Array], object]:
        """Targets go to the joints, tendons or sites of their names; positions as encoders read them."""
        what = method.split("_")[1]
        ids = torch.tensor(places(getattr(entity, f"{what}_names"), names), device=self.device)
        write, data = getattr(entity, method), entity.data
        scale = target_scale(self.sim.mj_model, entity, method, names)
        factor = None if scale is None else torch.tensor(scale, device=self.device)

        def hand_over(target: Array) -> None:
            value = torch.from_numpy(np.ascontiguousarray(target)).to(self.device)
            value = value if factor is None else value / factor
            if method == _POSITION:
                value = value - data.encoder_bias[:, ids]
            write(value, **{f"{what}_ids": ids})

        return hand_over

    def physics_dt(self) -> float:
        """The time step of MuJoCo."""
        return float(self.cfg.sim.mujoco.timestep)

    def advance(self) -> None:
        """One step of physics."""
        self.scene.write_data_to_sim()
        self.sim.step()
        self.scene.update(dt=self.physics_dt())

    def sense(self) -> None:
        """What depends on the state; the commands of the next decision; what sensors see."""
        self.sim.forward()
        if self._commands is not None:
            self._commands.compute(dt=self.step_dt)
        self.sim.sense()

    def restore(self) -> None:
        """The default pose of everything in the scene."""
        from mjlab.envs.mdp.events import reset_scene_to_default

        self.sim.reset(self._ids)
        self.scene.reset(self._ids)
        reset_scene_to_default(self, self._ids)  # pyright: ignore[reportArgumentType]
        if self._commands is not None:
            self._commands.reset(self._ids)
        self.scene.write_data_to_sim()

    def shut(self) -> None:
        """There is nothing that stays."""


def target_scale(model: Any, entity: Any, method: str, names: Sequence[str]) -> list[float] | None:
    """What one of mjlab's units of a target makes at each joint, in N or N*m; None where it is the same.

    mjlab gives an effort to MuJoCo as the control of a motor, and the gear of the motor makes a force of it.

    Args:
        model: the `mujoco.MjModel`.
        entity: what is driven.
        method: that writes the target.
        names: of the joints.
    """
    if method != _EFFORT:
        return None
    ids = dict(zip(entity.joint_names, entity.indexing.joint_ids.tolist(), strict=True))
    scale = [1.0] * len(names)
    for place, name in enumerate(names):
        for one in np.flatnonzero(model.actuator_trnid[:, 0] == ids[name]):
            if model.actuator_trntype[one] == 0 and model.actuator_biastype[one] == 0:  # a motor, at a joint
                scale[place] = float(model.actuator_gear[one, 0] * model.actuator_gainprm[one, 0])
    return None if scale == [1.0] * len(names) else scale
