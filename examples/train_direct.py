"""Train the actor of direct_environment.py on the CPU, in about two minutes. Usage: train_direct.py [OUT.pt]

What is saved is what an export needs: the weights of the actor. It made examples/checkpoints/direct_lstm.pt.
"""

import copy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

from direct_environment import AGENT, CartPole

ENVIRONMENTS, ITERATIONS = 64, 300


class Wrapped(VecEnv):
    """The environment as RSL-RL wants it."""

    def __init__(self, env: CartPole) -> None:
        self.env, self.num_envs, self.num_actions, self.device, self.cfg = env, env.num_envs, 1, "cpu", {}
        self.max_episode_length = env.max_episode_length
        self.obs, _ = env.reset()

    @property
    def episode_length_buf(self) -> torch.Tensor:
        return self.env.episode_length_buf

    @episode_length_buf.setter
    def episode_length_buf(self, value: torch.Tensor) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.env.episode_length_buf = value

    def get_observations(self) -> TensorDict:
        return TensorDict(self.obs, batch_size=[self.num_envs])  # pyright: ignore[reportArgumentType]

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        self.obs, reward, terminated, truncated, _ = self.env.step(actions)
        return self.get_observations(), reward, (terminated | truncated).long(), {"time_outs": truncated}


def train(out: Path) -> float:
    """Train, save the actor, and give how far from its goal the cart is in the last second, in metres."""
    torch.set_num_threads(1)  # the network is small
    torch.manual_seed(0)
    np.random.seed(0)
    env = Wrapped(CartPole(ENVIRONMENTS))
    runner = OnPolicyRunner(env, copy.deepcopy(AGENT), device="cpu")
    runner.learn(ITERATIONS, init_at_random_ep_len=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"actor_state_dict": runner.alg.save()["actor_state_dict"], "iter": ITERATIONS, "infos": None}, out)
    policy = runner.get_inference_policy(device="cpu")
    policy.reset()
    far: list[torch.Tensor] = []
    with torch.inference_mode():
        env.obs, _ = env.env.reset()
        for _ in range(249):
            env.obs, *_ = env.env.step(policy(env.get_observations()))
            far.append((env.env.joint_pos[:, :1] - env.env.command).abs())
    return float(torch.stack(far[-50:]).mean())


if __name__ == "__main__":
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("checkpoints") / "direct_lstm.pt"
    print(f"{where}: {train(where):.3f} m from the goal on average, in the last second of an episode")
