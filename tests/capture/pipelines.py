"""The realistic pipeline: six sensors, a rotation, a history, the last action and a network; in three forms."""

from __future__ import annotations

import torch

from annotated import SENSORS, draw

__all__ = ["SENSORS", "LstmPolicy", "MlpPolicy", "draw", "quat_rotate_inverse"]


@torch.jit.script
def quat_rotate_inverse(quat: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    w, xyz = quat[:, :1], quat[:, 1:]
    turned = 2.0 * torch.cross(xyz, vector, dim=-1)
    return vector - w * turned + torch.cross(xyz, turned, dim=-1)


class Observation:
    """Builds the observation as an environment does, in place, with a history of three frames."""

    def __init__(self) -> None:
        self.default_pos = torch.linspace(-0.5, 0.5, 12).unsqueeze(0)
        self.gravity = torch.tensor([[0.0, 0.0, -1.0]])
        self.history = torch.zeros(1, 3, 49)
        self.last_action = torch.zeros(1, 12)

    def reset(self) -> None:
        self.history.zero_()
        self.last_action = torch.zeros(1, 12)

    def compute(self, sensors: dict[str, torch.Tensor]) -> torch.Tensor:
        quat = sensors["quat"] / sensors["quat"].norm(dim=-1, keepdim=True)
        frame = torch.cat(
            (
                sensors["angular_velocity"] * 0.25,
                quat_rotate_inverse(quat, self.gravity),
                sensors["command"] * torch.tensor([2.0, 2.0, 0.25]),
                sensors["joint_pos"] - self.default_pos,
                sensors["joint_vel"] * 0.05,
                (sensors["contact"] > 0.5).float(),
                self.last_action,
            ),
            dim=-1,
        )
        self.history[:, :-1] = self.history[:, 1:].clone()
        self.history[:, -1] = frame.clamp(-100.0, 100.0)
        return self.history.flatten(1)


class MlpPolicy:
    """Observation, network, joint targets."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.observation = Observation()
        self.actor = torch.nn.Sequential(
            torch.nn.Linear(147, 64), torch.nn.ELU(), torch.nn.Linear(64, 32), torch.nn.ELU(), torch.nn.Linear(32, 12)
        )

    def reset(self) -> None:
        self.observation.reset()

    @torch.no_grad()
    def step(self, sensors: dict[str, torch.Tensor]) -> torch.Tensor:
        action = self.act(self.observation.compute(sensors))
        self.observation.last_action = action
        return action * 0.25 + self.observation.default_pos

    def act(self, observation: torch.Tensor) -> torch.Tensor:
        return self.actor(observation)


class LstmPolicy(MlpPolicy):
    """The same with a recurrent network, whose state begins with the first step."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = torch.nn.LSTM(147, 32)
        self.head = torch.nn.Linear(32, 12)
        self.hidden: tuple[torch.Tensor, torch.Tensor] | None = None

    def reset(self) -> None:
        super().reset()
        self.hidden = None

    def act(self, observation: torch.Tensor) -> torch.Tensor:
        features, self.hidden = self.memory(observation.unsqueeze(0), self.hidden)
        return self.head(features.squeeze(0))
