"""Networks of the user's own code, as CleanRL's and skrl's scripts have them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

OBSERVATIONS = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
ACTIONS = gymnasium.spaces.Box(-2.0, 2.0, (1,), np.float32)


# --- CleanRL ----------------------------------------------------------------------------------------------------------


class Agent(nn.Module):
    """The agent of ppo_continuous_action.py."""

    def __init__(self) -> None:
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
        self.actor_mean = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
        self.actor_logstd = nn.Parameter(torch.zeros(1, 1))

    def get_action_and_value(self, x: torch.Tensor, action: torch.Tensor | None = None) -> Any:
        mean = self.actor_mean(x)
        found = torch.distributions.Normal(mean, torch.exp(self.actor_logstd.expand_as(mean)))
        action = found.sample() if action is None else action
        return action, found.log_prob(action).sum(1), found.entropy().sum(1), self.critic(x)


class DiscreteAgent(nn.Module):
    """The agent of ppo.py."""

    def __init__(self) -> None:
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
        self.actor = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 4))

    def get_action_and_value(self, x: torch.Tensor, action: torch.Tensor | None = None) -> Any:
        found = torch.distributions.Categorical(logits=self.actor(x))
        action = found.sample() if action is None else action
        return action, found.log_prob(action), found.entropy(), self.critic(x)


class SacActor(nn.Module):
    """The actor of sac_continuous_action.py."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc_mean, self.fc_logstd = nn.Linear(3, 16), nn.Linear(16, 2), nn.Linear(16, 2)
        self.register_buffer("action_scale", torch.tensor([2.0, 0.5]))
        self.register_buffer("action_bias", torch.tensor([0.0, 0.25]))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.relu(self.fc1(x))
        return self.fc_mean(x), -5.0 + 0.5 * 7.0 * (torch.tanh(self.fc_logstd(x)) + 1.0)


# --- skrl -------------------------------------------------------------------------------------------------------------


def _skrl() -> SimpleNamespace:
    from skrl.models.torch import DeterministicMixin, GaussianMixin, Model

    spaces = {"observation_space": OBSERVATIONS, "action_space": ACTIONS, "device": "cpu"}

    class Policy(GaussianMixin, Model):
        def __init__(self) -> None:
            Model.__init__(self, **spaces)
            GaussianMixin.__init__(self, clip_actions=True, clip_mean_actions=True)
            self.net = nn.Sequential(nn.Linear(3, 32), nn.ELU(), nn.Linear(32, 32), nn.ELU(), nn.Linear(32, 1))
            self.log_std_parameter = nn.Parameter(torch.zeros(1))

        def compute(self, inputs: Any, role: str = "") -> Any:
            return 2.0 * torch.tanh(self.net(inputs["observations"])), {"log_std": self.log_std_parameter}

    class Recurrent(GaussianMixin, Model):
        def __init__(self, rows: int = 1) -> None:
            Model.__init__(self, **spaces)
            GaussianMixin.__init__(self)
            self.rows, self.lstm = rows, nn.LSTM(3, 16, batch_first=True)
            self.net = nn.Sequential(nn.Linear(16, 16), nn.ELU(), nn.Linear(16, 1))
            self.log_std_parameter = nn.Parameter(torch.zeros(1))

        def get_specification(self) -> Any:
            return {"rnn": {"sequence_length": 16, "sizes": [(1, self.rows, 16), (1, self.rows, 16)]}}

        def compute(self, inputs: Any, role: str = "") -> Any:
            obs, terminated = inputs["observations"], inputs.get("terminated")
            hidden, cell = inputs["rnn"]
            if self.training:
                length = 16
                sequence = obs.view(-1, length, 3)
                hidden, cell = (one.view(1, -1, length, 16)[:, :, 0].contiguous() for one in (hidden, cell))
                out, _ = self.lstm(sequence, (hidden, cell))
                out = out.reshape(-1, 16)
                state = (hidden, cell)
            else:
                out, state = self.lstm(obs.view(-1, 1, 3), (hidden, cell))
                out = out.flatten(0, 1)
            del terminated
            return self.net(out), {"log_std": self.log_std_parameter, "rnn": list(state)}

    class Deterministic(DeterministicMixin, Model):
        def __init__(self) -> None:
            Model.__init__(self, **spaces)
            DeterministicMixin.__init__(self, clip_actions=True)
            self.net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))

        def compute(self, inputs: Any, role: str = "") -> Any:
            return 3.0 * self.net(inputs["observations"]), {}

    class Value(DeterministicMixin, Model):
        def __init__(self) -> None:
            Model.__init__(self, **spaces)
            DeterministicMixin.__init__(self)
            self.net = nn.Sequential(nn.Linear(3, 32), nn.ELU(), nn.Linear(32, 1))

        def compute(self, inputs: Any, role: str = "") -> Any:
            return self.net(inputs["observations"]), {"rnn": []}

    return SimpleNamespace(Policy=Policy, Recurrent=Recurrent, Deterministic=Deterministic, Value=Value)


def skrl_agent() -> Any:
    """PPO with a preprocessor of observations, as it was trained."""
    return _ppo(_skrl().Policy())


def skrl_without_preprocessor() -> Any:
    """The policy of `skrl_agent` alone."""
    return _skrl().Policy()


def skrl_recurrent() -> Any:
    """A policy with an LSTM."""
    return _skrl().Recurrent()


def skrl_deterministic() -> Any:
    """A policy whose actions are clipped."""
    return _skrl().Deterministic()


def _ppo(policy: Any, **changes: Any) -> Any:
    from skrl.agents.torch.ppo import PPO, PPO_CFG
    from skrl.memories.torch import RandomMemory
    from skrl.resources.preprocessors.torch import RunningStandardScaler

    cfg = PPO_CFG(
        rollouts=64,
        mini_batches=4,
        learning_rate=1e-3,
        discount_factor=0.95,
        observation_preprocessor=RunningStandardScaler,
        observation_preprocessor_kwargs={"size": OBSERVATIONS, "device": "cpu"},
        rewards_shaper=lambda rewards, *_: rewards / 8.0,
        **changes,
    )
    cfg.experiment.write_interval = cfg.experiment.checkpoint_interval = 0
    return PPO(
        models={"policy": policy, "value": _skrl().Value()},
        memory=RandomMemory(memory_size=64, num_envs=16, device="cpu"),
        observation_space=OBSERVATIONS,
        action_space=ACTIONS,
        device="cpu",
        cfg=cfg,
    )
