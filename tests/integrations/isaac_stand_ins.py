"""A small Isaac Lab of our own: its data classes, managers and terms, by their names, on a simulator of a few lines.

State lives in Warp arrays, as Isaac Lab's does. In its early form a property gives the array itself, later a
`ProxyArray` around it. Joints are driven by a Warp kernel, so that nothing of a write can be seen by torch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import warp as wp

from ashore.deploy.arrays import shared_tensor
from ashore.deploy.simulated import DeploymentEnv, places
from ashore.integrations.isaaclab import IsaacLab

JOINTS = ("hip", "slide", "knee", "ankle")
TYPES = ("PhysicsRevoluteJoint", "PhysicsPrismaticJoint", "PhysicsRevoluteJoint", "PhysicsRevoluteJoint")
DEFAULTS = (0.1, -0.2, 0.3, 0.0)
DT_S = 0.01


@wp.kernel
def write_columns(source: wp.array2d(dtype=float), columns: wp.array(dtype=int), target: wp.array2d(dtype=float)):
    row, place = wp.tid()
    target[row, columns[place]] = source[row, place]


@wp.kernel
def turned_gravity(rotation: wp.array(dtype=wp.quatf), gravity: wp.array(dtype=wp.vec3f)):
    row = wp.tid()
    gravity[row] = wp.quat_rotate_inv(rotation[row], wp.vec3f(0.0, 0.0, -1.0))


class ProxyArray:
    """A Warp array that also shows itself to torch, always as the same tensor."""

    def __init__(self, array: wp.array) -> None:
        self._array, self._tensor = array, wp.to_torch(array)

    @property
    def warp(self) -> wp.array:
        return self._array

    @property
    def torch(self) -> torch.Tensor:
        return self._tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    @property
    def dtype(self) -> Any:
        return self._array.dtype


def as_torch(value: Any) -> torch.Tensor:
    """How terms read a property, in both forms."""
    return value.torch if isinstance(value, ProxyArray) else wp.to_torch(value)


def lazily(getter: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """As Isaac Lab decorates what it computes on demand: all such properties share the code of this wrapper."""

    @functools.wraps(getter)
    def wrapper(self: Any) -> Any:
        return getter(self)

    return wrapper


class BaseArticulationData:
    """What the properties are described for."""


BaseArticulationData.__module__ = "isaaclab.assets.articulation.base_articulation_data"


class ArticulationData(BaseArticulationData):
    """As a backend has it.

    Args:
        rows: how many robots.
        shown: how a property shows an array.
    """

    def __init__(self, rows: int, shown: Callable[[wp.array], Any]) -> None:
        self._shown, self.time_s = shown, 0.0
        shape = (rows, len(JOINTS))
        self.arrays = {name: wp.zeros(shape, dtype=float) for name in ("pos", "vel", "pos_target", "effort_target")}
        self.arrays["default"] = wp.array(np.tile(np.float32(DEFAULTS), (rows, 1)), dtype=float)
        self.arrays["limits"] = wp.array(np.full((*shape, 2), (-2.0, 1e10), np.float32), dtype=wp.vec2f)
        self.arrays["quat"] = wp.array(np.tile(np.float32([0, 0, 0, 1]), (rows, 1)), dtype=wp.quatf)
        self.arrays["gravity"] = wp.zeros(rows, dtype=wp.vec3f)
        self._proxies = {name: shown(array) for name, array in self.arrays.items()}
        self._gravity_time_s = -1.0

    @property
    def joint_pos(self) -> Any:
        return self._proxies["pos"]

    @property
    def joint_vel(self) -> Any:
        return self._proxies["vel"]

    @property
    def default_joint_pos(self) -> Any:
        return self._proxies["default"]

    @property
    def joint_pos_limits(self) -> Any:
        return self._proxies["limits"]

    @property
    def root_link_quat_w(self) -> Any:
        return self._proxies["quat"]

    @property
    def root_quat_w(self) -> Any:
        return self.root_link_quat_w

    @property
    @lazily
    def projected_gravity_b(self) -> Any:
        if self._gravity_time_s != self.time_s:
            rows = self.arrays["quat"].shape[0]
            wp.launch(turned_gravity, dim=rows, inputs=[self.arrays["quat"]], outputs=[self.arrays["gravity"]])
            self._gravity_time_s = self.time_s
        return self._proxies["gravity"]

    @property
    @lazily
    def wobble(self) -> Any:
        return self._proxies["effort_target"]


class ImplicitActuator:
    def __init__(self, cfg: Any, names: Sequence[str], rows: int) -> None:
        self.cfg, self.joint_names = cfg, list(names)
        self.stiffness = torch.full((rows, len(names)), 7.0)
        self.damping = torch.full((rows, len(names)), 0.7)
        self.effort_limit = torch.full((rows, len(names)), 30.0)
        self.velocity_limit = torch.full((rows, len(names)), 1e6)


class DelayedPDActuator(ImplicitActuator):
    pass


class Articulation:
    def __init__(self, rows: int, shown: Callable[[wp.array], Any]) -> None:
        self.data, self.joint_names = ArticulationData(rows, shown), list(JOINTS)
        given = {"stiffness": None, "damping": {"hip": 0.5, "s.*": 0.25}, "effort_limit_sim": None}
        legs = SimpleNamespace(joint_names_expr=["hip", "slide"], **given)
        feet = SimpleNamespace(
            joint_names_expr=["knee", "ankle"], stiffness=20.0, damping=0.4, effort_limit=12.0, min_delay=1, max_delay=3
        )
        self.cfg = SimpleNamespace(prim_path="/World/envs/env_.*/Robot", actuators={"legs": legs, "feet": feet})
        self.actuators = {
            "legs": ImplicitActuator(legs, JOINTS[:2], rows),
            "feet": DelayedPDActuator(feet, JOINTS[2:], rows),
        }

    def set_joint_position_target_index(self, *, target: torch.Tensor, joint_ids: Any = None) -> None:
        places = list(range(len(JOINTS))) if joint_ids in (None, slice(None)) else joint_ids
        columns = wp.array(np.int32(places), dtype=int)
        wp.launch(write_columns, dim=tuple(target.shape), inputs=[target, columns], outputs=[self.targets])

    def set_joint_position_target(self, target: torch.Tensor, joint_ids: Any = None) -> None:
        """The older name."""
        self.set_joint_position_target_index(target=target, joint_ids=joint_ids)

    @property
    def targets(self) -> wp.array:
        return self.data.arrays["pos_target"]

    def reset(self, rows: torch.Tensor, generator: torch.Generator) -> None:
        for name, offset in (("pos", np.float32(DEFAULTS)), ("vel", 0.0)):
            drawn = torch.rand(len(rows), len(JOINTS), generator=generator).numpy() - 0.5
            self.data.arrays[name].numpy()[rows.numpy()] = offset + 0.2 * drawn


class CircularBuffer:
    """Isaac Lab's history: it rolls, and its first push of an episode is a branch in Python."""

    def __init__(self, max_len: int, batch_size: int, device: str = "cpu") -> None:
        self.batch_size, self.device = batch_size, device
        self._max_len = torch.full((batch_size,), max_len, dtype=torch.int)
        self._num_pushes = torch.zeros(batch_size, dtype=torch.long)
        self._buffer: Any = None

    @property
    def max_length(self) -> int:
        return int(self._max_len[0].item())

    @property
    def current_length(self) -> torch.Tensor:
        return torch.minimum(self._num_pushes, self._max_len)

    @property
    def buffer(self) -> torch.Tensor:
        return torch.transpose(self._buffer, 0, 1)

    def reset(self, batch_ids: Any = None) -> None:
        rows = slice(None) if batch_ids is None else batch_ids
        self._num_pushes[rows] = 0
        if self._buffer is not None:
            self._buffer[:, rows] = 0.0

    def append(self, data: torch.Tensor) -> None:
        first = self._num_pushes == 0
        if self._buffer is None:
            self._buffer = data.unsqueeze(0).expand(self.max_length, *data.shape).clone()
        if torch.any(first):
            self._buffer[:, first] = data[first]
        self._buffer = torch.roll(self._buffer, shifts=-1, dims=0)
        self._buffer[-1] = data
        self._num_pushes += 1


class NoiseModel:
    """Noise with a bias that every episode draws anew."""

    def __init__(self) -> None:
        self.bias = torch.zeros(1)

    def __call__(self, obs: torch.Tensor) -> torch.Tensor:
        return obs + self.bias + torch.rand_like(obs)

    def reset(self, env_ids: Any = None) -> None:
        self.bias = torch.rand(1)


class Smoothing:
    """A modifier that remembers."""

    def __init__(self, rows: int, width: int) -> None:
        self.before = torch.zeros(rows, width)

    def __call__(self, data: torch.Tensor) -> torch.Tensor:
        self.before = 0.7 * self.before + 0.3 * data
        return self.before.clone()

    def reset(self, env_ids: Any = None) -> None:
        self.before[slice(None) if env_ids is None else env_ids] = 0.0


@dataclass
class Term:
    func: Callable[..., torch.Tensor]
    params: dict[str, Any] = field(default_factory=dict)
    modifiers: list[Any] | None = None
    noise: Any = None
    clip: tuple[float, float] | None = None
    scale: torch.Tensor | None = None
    history_length: int = 0
    flatten_history_dim: bool = True


class ObservationManager:
    def __init__(self, env: Any, groups: dict[str, dict[str, Term]]) -> None:
        self._env = env
        self._group_obs_term_names = {group: list(terms) for group, terms in groups.items()}
        self._group_obs_term_cfgs = {group: list(terms.values()) for group, terms in groups.items()}
        self._group_obs_term_history_buffer = {
            group: {
                name: CircularBuffer(term.history_length, env.num_envs)
                for name, term in terms.items()
                if term.history_length
            }
            for group, terms in groups.items()
        }
        every = [term for terms in groups.values() for term in terms.values()]
        self._group_obs_class_instances = [
            one for term in every for one in (*(term.modifiers or ()), term.noise) if one
        ]

    @property
    def active_terms(self) -> dict[str, list[str]]:
        return self._group_obs_term_names

    def reset(self, env_ids: Any = None) -> dict[str, float]:
        for buffers in self._group_obs_term_history_buffer.values():
            for buffer in buffers.values():
                buffer.reset(batch_ids=env_ids)
        for one in self._group_obs_class_instances:
            one.reset(env_ids=env_ids)
        return {}

    def compute(self, update_history: bool = False) -> dict[str, torch.Tensor]:
        return {group: self.compute_group(group, update_history) for group in self._group_obs_term_names}

    def compute_group(self, group_name: str, update_history: bool = False) -> torch.Tensor:
        found: list[torch.Tensor] = []
        names, terms = self._group_obs_term_names[group_name], self._group_obs_term_cfgs[group_name]
        for name, term in zip(names, terms, strict=True):
            obs = term.func(self._env, **term.params).clone()
            for modifier in term.modifiers or ():
                obs = modifier(obs)
            if term.noise is not None:
                obs = term.noise(obs)
            if term.clip:
                obs = obs.clip_(*term.clip)
            if term.scale is not None:
                obs = obs.mul_(term.scale)
            if term.history_length > 0:
                buffer = self._group_obs_term_history_buffer[group_name][name]
                if update_history:
                    buffer.append(obs)
                elif buffer._buffer is None:
                    buffer = CircularBuffer(buffer.max_length, buffer.batch_size)
                    buffer.append(obs)
                obs = buffer.buffer.reshape(self._env.num_envs, -1)
            found.append(obs)
        return torch.cat(found, dim=-1)


class JointPositionAction:
    """Targets about the default pose, clipped after scale and offset."""

    def __init__(self, asset: Articulation, names: Sequence[str], scale: float, clip: float | None = None) -> None:
        self._asset, self._scale = asset, scale
        self._joint_ids = [JOINTS.index(name) for name in names]
        self._offset = as_torch(asset.data.default_joint_pos)[:, self._joint_ids].clone()
        self._clip = clip
        self.raw_actions = torch.zeros_like(self._offset)

    def process_actions(self, actions: torch.Tensor) -> None:
        self.raw_actions[:] = actions
        self._processed = self.raw_actions * self._scale + self._offset
        if self._clip is not None:
            self._processed = torch.clamp(self._processed, -self._clip, self._clip)

    def apply_actions(self) -> None:
        self._asset.set_joint_position_target_index(target=self._processed, joint_ids=self._joint_ids)


class RelativeJointPositionAction(JointPositionAction):
    """Targets about where the joints are, in every substep; written by the older name of the method."""

    def process_actions(self, actions: torch.Tensor) -> None:
        self.raw_actions[:] = actions
        self._processed = self.raw_actions * self._scale

    def apply_actions(self) -> None:
        here = as_torch(self._asset.data.joint_pos)[:, self._joint_ids]
        self._asset.set_joint_position_target(self._processed + here, joint_ids=self._joint_ids)


class ActionManager:
    def __init__(self, terms: dict[str, JointPositionAction], rows: int) -> None:
        self._terms = terms
        width = sum(len(term._joint_ids) for term in terms.values())
        self._action, self._prev_action = torch.zeros(rows, width), torch.zeros(rows, width)

    @property
    def active_terms(self) -> list[str]:
        return list(self._terms)

    @property
    def action(self) -> torch.Tensor:
        return self._action

    def reset(self, env_ids: Any = None) -> None:
        rows = slice(None) if env_ids is None else env_ids
        for one in (self._action, self._prev_action, *(term.raw_actions for term in self._terms.values())):
            one[rows] = 0.0

    def process_action(self, action: torch.Tensor) -> None:
        self._prev_action[:] = self._action
        self._action[:] = action
        place = 0
        for term in self._terms.values():
            width = len(term._joint_ids)
            term.process_actions(action[:, place : place + width])
            place += width

    def apply_action(self) -> None:
        for term in self._terms.values():
            term.apply_actions()


class UniformVelocityCommand:
    """A command that changes now and then."""

    def __init__(self, rows: int) -> None:
        self.vel_command_b = torch.zeros(rows, 3)

    @property
    def command(self) -> torch.Tensor:
        return self.vel_command_b

    def resample(self, generator: torch.Generator) -> None:
        self.vel_command_b[:] = torch.rand(self.vel_command_b.shape, generator=generator)


UniformVelocityCommand.__module__ = "isaaclab.envs.mdp.commands.velocity_command"


class CommandManager:
    def __init__(self, terms: dict[str, Any]) -> None:
        self._terms = terms

    def get_term(self, name: str) -> Any:
        return self._terms[name]

    def get_command(self, name: str) -> torch.Tensor:
        return self._terms[name].command


class Prim:
    def __init__(self, path: str, kind: str) -> None:
        self._path, self._kind = path, kind

    def GetPath(self) -> str:  # noqa: N802 - USD calls it so
        return self._path

    def GetName(self) -> str:  # noqa: N802
        return self._path.rpartition("/")[2]

    def GetTypeName(self) -> str:  # noqa: N802
        return self._kind


class Stage:
    def __init__(self, rows: int) -> None:
        joints = list(zip(JOINTS, TYPES, strict=True))
        self._prims = [Prim("/World/envs", "Scope")]
        for row in range(rows):
            root = f"/World/envs/env_{row}/Robot"
            self._prims += [Prim(root, "Xform"), *(Prim(f"{root}/joints/{name}", kind) for name, kind in joints)]

    def Traverse(self) -> list[Prim]:  # noqa: N802
        return self._prims


class Physics:
    """As Isaac Lab's: the class itself is the simulation, and holds what it knows."""

    steps: int = 0
    warmstart: Any = None

    @classmethod
    def step(cls, data: ArticulationData) -> None:
        """Every joint is pulled to its target, and a little by what it did before."""
        cls.steps += 1
        pos, vel, target = (data.arrays[name].numpy() for name in ("pos", "vel", "pos_target"))
        if cls.warmstart is None:
            cls.warmstart = wp.zeros(pos.shape, dtype=float)
        before = cls.warmstart.numpy()
        before[:] = 0.5 * before + 20.0 * (target - pos) - vel
        vel += DT_S * before
        pos += DT_S * vel
        angle = 0.5 * pos[:, 0]
        data.arrays["quat"].numpy()[:] = np.stack([np.sin(angle), 0 * angle, 0 * angle, np.cos(angle)], axis=-1)
        data.time_s += DT_S


class Environment:
    """A manager-based environment, in the order of Isaac Lab's step.

    Args:
        rows: how many robots.
        proxies: whether properties give a `ProxyArray`, or the Warp array itself.
        noisy: whether observations have noise, as in training.
    """

    def __init__(self, rows: int = 1, *, proxies: bool = True, noisy: bool = True, seed: int = 0) -> None:
        Physics.steps, Physics.warmstart = 0, None
        self.num_envs, self.device, self.unwrapped = rows, "cpu", self
        self.physics_dt, self.step_dt, self.max_episode_length = DT_S, 2 * DT_S, 12
        self.cfg = SimpleNamespace(decimation=2)
        self._generator = torch.Generator().manual_seed(seed)
        robot = Articulation(rows, ProxyArray if proxies else lambda array: array)
        self.robot = robot
        self.scene = _Scene(articulations={"robot": robot}, sensors={})
        self.sim = SimpleNamespace(stage=Stage(rows), physics_manager=Physics)
        self.command_manager = CommandManager({"velocity": UniformVelocityCommand(rows)})
        self.action_manager = ActionManager(
            {
                "feet": RelativeJointPositionAction(robot, ["ankle", "hip"], 0.3),
                "legs": JointPositionAction(robot, ["slide", "knee"], 0.5, clip=0.4),
            },
            rows,
        )
        self.observation_manager = ObservationManager(self, observation_terms(rows, noisy))
        self.reward_manager = SimpleNamespace(compute=lambda dt: torch.rand(rows, generator=self._generator))
        self.recorder_manager = SimpleNamespace(active_terms=[], record_pre_step=lambda: None)
        self.episode_length_buf = torch.zeros(rows, dtype=torch.long)
        self.common_step_counter = 0
        self.closed = False
        self.before_apply: Callable[[], object] = lambda: None

    def reset(self, seed: int | None = None) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        if seed is not None:
            self._generator.manual_seed(seed)
        self._reset_idx(torch.arange(self.num_envs, dtype=torch.int32))
        return self.observation_manager.compute(update_history=True), {}

    def _reset_idx(self, env_ids: torch.Tensor) -> None:
        self.robot.reset(env_ids, self._generator)
        self.robot.data.time_s += 1e-6
        self.observation_manager.reset(env_ids)
        self.action_manager.reset(env_ids)
        self.episode_length_buf[env_ids] = 0

    def step(self, action: torch.Tensor) -> tuple[Any, ...]:
        self.action_manager.process_action(action.to(self.device))
        self.recorder_manager.record_pre_step()
        for _ in range(self.cfg.decimation):
            self.before_apply()
            self.action_manager.apply_action()
            self.sim.physics_manager.step(self.robot.data)
        self.episode_length_buf += 1
        self.common_step_counter += 1
        truncated = self.episode_length_buf >= self.max_episode_length
        terminated = as_torch(self.robot.data.joint_pos)[:, 0].abs() > 1.5
        reward = self.reward_manager.compute(dt=self.step_dt)
        if len(self.recorder_manager.active_terms) > 0:
            self.recorder_manager.record_post_step()
        rows = (terminated | truncated).nonzero().squeeze(-1).int()
        if len(rows):
            self._reset_idx(rows)
        if self.common_step_counter % 5 == 0:
            self.command_manager.get_term("velocity").resample(self._generator)
        return self.observation_manager.compute(update_history=True), reward, terminated, truncated, {}

    def close(self) -> None:
        self.closed = True


class _Scene:
    def __init__(self, articulations: dict[str, Any], sensors: dict[str, Any]) -> None:
        self.articulations, self.sensors = articulations, sensors

    def __getitem__(self, name: str) -> Any:
        return {**self.articulations, **self.sensors}[name]


def observation_terms(rows: int, noisy: bool) -> dict[str, dict[str, Term]]:
    """What the actor sees, and what only the critic does."""
    policy = {
        "gravity": Term(gravity, clip=(-0.95, 0.95), scale=torch.tensor([1.0, 2.0, 3.0]), history_length=3),
        "joint_pos": Term(joint_pos, noise=NoiseModel() if noisy else None, history_length=2),
        "joint_vel": Term(joint_vel, modifiers=[Smoothing(rows, len(JOINTS))], scale=torch.tensor(0.1)),
        "command": Term(generated_command, {"name": "velocity"}),
        "actions": Term(last_action),
    }
    return {"policy": policy, "critic": {"random": Term(lambda env: torch.rand(env.num_envs, 2))}}


def gravity(env: Environment) -> torch.Tensor:
    return as_torch(env.scene["robot"].data.projected_gravity_b)


def joint_pos(env: Environment) -> torch.Tensor:
    data = env.scene["robot"].data
    return as_torch(data.joint_pos) - as_torch(data.default_joint_pos)


def joint_vel(env: Environment) -> torch.Tensor:
    return as_torch(env.scene["robot"].data.joint_vel)


def generated_command(env: Environment, name: str) -> torch.Tensor:
    return env.command_manager.get_command(name)


def last_action(env: Environment) -> torch.Tensor:
    return env.action_manager.action


class Actor(torch.nn.Module):
    """A small recurrent actor."""

    def __init__(self, width: int, rows: int = 1) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.cell, self.head = torch.nn.GRUCell(width, 6), torch.nn.Linear(6, len(JOINTS))
        self.hidden = torch.zeros(rows, 6)
        self.groups = ["policy"]

    def forward(self, obs: Any) -> torch.Tensor:
        self.hidden = self.cell(obs["policy"], self.hidden)
        return self.head(self.hidden)

    def reset(self, dones: torch.Tensor) -> None:
        self.hidden[dones] = 0.0


class StandInDeployment(DeploymentEnv):
    """A package in the scene of the stand-in, with physics only."""

    def __init__(self, package: Any, *, num_envs: int = 1) -> None:
        super().__init__(package, num_envs=num_envs)
        self.shut_times = 0
        self.scene = Environment(num_envs).scene
        self.robot = self.scene["robot"]
        self.connect()

    def element(self, name: str) -> Any:
        return self.scene[name]

    def names(self) -> Sequence[str]:
        return ["robot"]

    def array(self, value: Any) -> Any:
        tensor = shared_tensor(value)
        return None if tensor is None else tensor.numpy().copy()

    def writer(self, entity: Any, method: str, names: Sequence[str]) -> Callable[[Any], object]:
        ids = places(entity.joint_names, names)
        return lambda target: getattr(entity, method)(target=torch.from_numpy(target), joint_ids=ids)

    def physics_dt(self) -> float:
        return DT_S

    def advance(self) -> None:
        Physics.step(self.robot.data)

    def sense(self) -> None:
        self.robot.data.time_s += 1e-6

    def restore(self) -> None:
        for name in ("pos", "vel"):
            self.robot.data.arrays[name].zero_()

    def shut(self) -> None:
        self.shut_times += 1


class StandInLab(IsaacLab):
    """The adapter, with a state that can be copied."""

    def _arrays(self, env: Any) -> dict[str, wp.array]:
        return {**env.robot.data.arrays, **({} if Physics.warmstart is None else {"warmstart": Physics.warmstart})}

    def state(self, env: Any) -> dict[str, np.ndarray]:
        return {name: self._arrays(env)[name].numpy().copy() for name in ("pos", "vel", "quat")}

    def snapshot(self, env: Any) -> dict[str, np.ndarray]:
        return {name: array.numpy().copy() for name, array in self._arrays(env).items()}

    def put(self, deployment: Any, snapshot: Any) -> None:
        Physics.warmstart = wp.zeros(snapshot["pos"].shape, dtype=float)
        for name, array in self._arrays(deployment).items():
            array.assign(snapshot.get(name, np.zeros(array.shape, np.float32)))
        deployment.sense()
