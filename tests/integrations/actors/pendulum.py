"""Many pendulums at once, by the equations of Gymnasium's Pendulum-v1, for trainers that bring no environment.

One file for every trainer: RSL-RL of either generation takes `Pendulums` as it is, rl_games through `RlGames`.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

SIDE = 8
GOOD = -0.3
"""What a policy that has learned it earns a step, at least."""


class Pendulums:
    """A vectorised environment with the interface of RSL-RL."""

    num_actions, max_episode_length, device = 1, 200, "cpu"

    def __init__(self, rows: int = 64, image: bool = False) -> None:
        self.num_envs, self._image, self.cfg = rows, image, {}
        self.episode_length_buf = torch.zeros(rows, dtype=torch.long)
        self._angle, self._speed = torch.zeros(rows), torch.zeros(rows)
        self._begin(torch.ones(rows, dtype=torch.bool))

    @property
    def unwrapped(self) -> Pendulums:
        return self

    def get_observations(self) -> Any:
        from tensordict import TensorDict

        shown = torch.stack((torch.cos(self._angle), torch.sin(self._angle), self._speed), dim=-1)
        groups = {"policy": shown, "privileged": torch.cat((shown, shown.square()), dim=-1)}
        if self._image:
            groups["camera"] = picture(shown)
        return TensorDict(groups, batch_size=[self.num_envs])

    def reset(self) -> tuple[Any, dict[str, Any]]:
        self._begin(torch.ones(self.num_envs, dtype=torch.bool))
        return self.get_observations(), {}

    def step(self, actions: torch.Tensor) -> tuple[Any, torch.Tensor, torch.Tensor, dict[str, Any]]:
        torque = 2.0 * actions[:, 0].clamp(-1.0, 1.0)
        error = (self._angle + math.pi) % (2 * math.pi) - math.pi
        reward = -(error**2 + 0.1 * self._speed**2 + 0.001 * torque**2)
        self._speed = (self._speed + (15.0 * torch.sin(self._angle) + 3.0 * torque) * 0.05).clamp(-8.0, 8.0)
        self._angle = self._angle + 0.05 * self._speed
        self.episode_length_buf += 1
        dones = self.episode_length_buf >= self.max_episode_length
        self._begin(dones)
        return self.get_observations(), reward / 8.0, dones.long(), {"time_outs": dones.float()}

    def _begin(self, rows: torch.Tensor) -> None:
        count = int(rows.sum())
        self._angle[rows] = (2.0 * torch.rand(count) - 1.0) * math.pi
        self._speed[rows] = 2.0 * torch.rand(count) - 1.0
        self.episode_length_buf[rows] = 0


def picture(shown: torch.Tensor) -> torch.Tensor:
    """The tip as a blot of 8 by 8 pixels, by the cosine and the sine of its angle."""
    places = torch.linspace(-1.2, 1.2, SIDE)
    across = (places - shown[:, 1, None]) ** 2
    up = (places - shown[:, 0, None]) ** 2
    return torch.exp(-4.0 * (up[:, :, None] + across[:, None, :])).unsqueeze(1)


class RlGames:
    """The same for rl_games."""

    def __init__(self, rows: int) -> None:
        self._env = Pendulums(rows)
        info = self.get_env_info()
        self.observation_space, self.action_space = info["observation_space"], info["action_space"]

    def step(self, actions: torch.Tensor) -> Any:
        obs, reward, dones, extras = self._env.step(actions)
        return obs["policy"], reward, dones.bool(), extras

    def reset(self) -> torch.Tensor:
        return self._env.reset()[0]["policy"]

    def reset_done(self) -> torch.Tensor:
        return self._env.get_observations()["policy"]

    def get_number_of_agents(self) -> int:
        return 1

    def has_action_masks(self) -> bool:
        return False

    def set_train_info(self, *_: Any) -> None:
        """Nothing to do."""

    def get_env_state(self) -> None:
        """Nothing to keep."""

    def get_env_info(self) -> dict[str, Any]:
        import gymnasium

        return {
            "observation_space": gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32),
            "action_space": gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32),
        }


def trajectory(steps: int, rows: int, seed: int) -> SimpleNamespace:
    """Observations to compare policies on, and which rows begin an episode before each step."""
    generator = torch.Generator().manual_seed(seed)
    obs = torch.randn(steps, rows, 3, generator=generator) * torch.tensor([0.7, 0.7, 3.0])
    dones = torch.rand(steps, rows, generator=generator) < 0.08
    dones[0] = True
    return SimpleNamespace(obs=obs, dones=dones)


def played(package: Any, torque: float = 1.0, rows: int = 16) -> float:
    """What a package earns a step: hanging still about -1.2, the best about -0.1.

    Args:
        package: with an open batch.
        torque: what the policy calls the largest one.
        rows: how many pendulums.
    """
    import ashore

    policy, total = ashore.load(package, batch=rows), 0.0
    (name,) = (one for one in policy.inputs if one != "camera")
    images = "camera" in policy.inputs
    with torch.random.fork_rng():
        torch.manual_seed(1)
        env = Pendulums(rows, image=images)
    policy.reset()
    obs = env.get_observations()
    for _ in range(190):
        given = {name: obs["policy"].numpy()} | ({"camera": obs["camera"].numpy()} if images else {})
        actions = torch.from_numpy(policy.step(given)["actions"].copy()) / torque
        obs, reward, _, _ = env.step(actions)
        total += float(reward.mean())
    return total / 190
