"""Environments to measure: joints under a filtered position target, with a command, last actions and a history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ashore.environment import ExportableEnvironment, Input, Output

EPISODE = 12


class Environment:
    """Stands for a simulated robot."""

    def __init__(self, joints: int, sensors: int, frames: int, decimation: int) -> None:
        self.decimation = decimation
        self.default_pos = torch.linspace(-0.5, 0.5, joints)
        self.base, self.command = torch.zeros(1, sensors), torch.zeros(1, 3)
        self.joint_pos, self.joint_vel = torch.zeros(1, joints), torch.zeros(1, joints)
        self.last_action, self.goal, self.target = (torch.zeros(1, joints) for _ in range(3))
        self.torque = torch.zeros(1, joints)
        self.width = sensors + 3 + 3 * joints
        self.history = torch.zeros(1, frames, self.width)
        self.age = 0
        self.reset()

    def reset(self) -> None:
        self.age = 0
        self.joint_pos = self.default_pos.unsqueeze(0).clone()
        self.joint_vel = torch.zeros_like(self.joint_pos)
        self.last_action = torch.zeros_like(self.joint_pos)
        self.target = self.default_pos.unsqueeze(0).clone()
        self.history = torch.zeros_like(self.history)

    def observe(self) -> torch.Tensor:
        joints = (self.joint_pos - self.default_pos, 0.05 * self.joint_vel)
        frame = torch.cat((self.base, self.command, *joints, self.last_action), dim=-1)
        if self.history.shape[1] == 0:
            return frame
        self.history = torch.cat((self.history[:, 1:], frame.unsqueeze(1)), dim=1)
        return self.history.flatten(1)

    def take(self, actions: torch.Tensor) -> None:
        self.last_action = actions
        self.goal = self.default_pos + 0.25 * actions

    def act(self) -> None:
        self.target = 0.7 * self.target + 0.3 * self.goal
        self.torque = (40.0 * (self.target - self.joint_pos) - self.joint_vel).clamp(-30.0, 30.0)

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        self.take(actions)
        for _ in range(self.decimation):
            self.act()
            self.joint_vel = self.joint_vel + 0.005 * self.torque
            self.joint_pos = self.joint_pos + 0.005 * self.joint_vel
        self.base, self.command = torch.randn_like(self.base), torch.randn_like(self.command)
        self.age += 1
        done = self.age == EPISODE
        if done:
            self.reset()
        return self.observe(), done


class Exportable(ExportableEnvironment):
    """Hands on to it."""

    def __init__(self, env: Environment) -> None:
        super().__init__()
        self.env = env
        context = self.context_manager()
        for name in ("base", "command", "joint_pos", "joint_vel"):
            if getattr(env, name).shape[-1]:
                context.add_component(Input(name, lambda name=name: getattr(env, name)))
        context.add_component(Output("torque", lambda: env.torque))

    def compute_observations(self) -> torch.Tensor:
        return self.env.observe()

    def process_actions(self, actions: torch.Tensor) -> None:
        self.env.take(actions)

    def apply_actions(self) -> None:
        self.env.act()

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        return self.env.step(actions)

    @property
    def decimation(self) -> int:
        return self.env.decimation

    def prepare_export(self) -> None:
        pass

    def empty_actor_observations(self) -> torch.Tensor:
        return torch.zeros(1, self.env.width * max(self.env.history.shape[1], 1))

    def empty_actions(self) -> torch.Tensor:
        return torch.zeros_like(self.env.last_action)

    def metadata(self) -> dict[str, Any]:
        return {"sim_dt": 0.005}

    def register_evaluation_hooks(self, *args: Any, **kwargs: Any) -> None:
        pass

    def get_observation_names(self) -> list[str]:
        return []

    def observations_reset(self) -> torch.Tensor:
        self.env.reset()
        return self.env.observe()


class Recurrent(torch.nn.Module):
    """An LSTM and a head."""

    def __init__(self, wide: int, hidden: int, actions: int) -> None:
        super().__init__()
        self.lstm, self.head = torch.nn.LSTM(wide, hidden), torch.nn.Linear(hidden, actions)
        self.state: tuple[torch.Tensor, torch.Tensor] | None = None

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        out, self.state = self.lstm(obs.unsqueeze(0), self.state)
        return self.head(out.squeeze(0))

    def reset(self, _: torch.Tensor) -> None:
        self.state = None


@dataclass(frozen=True)
class Subject:
    """An environment with its actor."""

    joints: int
    sensors: int
    frames: int
    """How long the history is; 0 is none."""

    decimation: int
    hidden: tuple[int, ...]
    recurrent: bool = False

    def make(self) -> tuple[Exportable, torch.nn.Module]:
        torch.manual_seed(0)
        env = Exportable(Environment(self.joints, self.sensors, self.frames, self.decimation))
        wide = env.empty_actor_observations().shape[-1]
        if self.recurrent:
            return env, Recurrent(wide, self.hidden[0], self.joints)
        layers: list[torch.nn.Module] = []
        for size in self.hidden:
            layers += [torch.nn.Linear(wide, size), torch.nn.ELU()]
            wide = size
        return env, torch.nn.Sequential(*layers, torch.nn.Linear(wide, self.joints))


SUBJECTS = {
    "2 joints, MLP 12-16-2, decimation 4": Subject(2, 3, 0, 4, (16,)),
    "12 joints, 3 frames of 48, MLP, decimation 4": Subject(12, 9, 3, 4, (256, 128, 64)),
    "12 joints, obs 48, LSTM 64, decimation 10": Subject(12, 9, 0, 10, (64,), recurrent=True),
    "12 joints, obs 48, MLP, decimation 1": Subject(12, 9, 0, 1, (256, 128, 64)),
}
