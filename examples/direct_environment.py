"""A direct environment: no managers, and its own code is marked by hand. It needs mujoco, and rsl-rl for the actor.

The actor is an LSTM that sees three frames of positions and no velocity. In this folder, this makes a package of it:

    ashore export mjlab --task direct_environment:make_env --agent direct_environment:AGENT \
        --checkpoint checkpoints/direct_lstm.pt --out ../demo
"""

# pyright: reportAttributeAccessIssue=false
# MuJoCo has no type stubs.

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import torch

from ashore import InputKindEnum, OutputKindEnum, TensorSemantics, annotate
from ashore.spec import Joint

MODEL = Path(__file__).with_name("cart_pole.xml")
JOINTS = ["slider", "hinge"]
NETWORK = {"class_name": "RNNModel", "hidden_dims": [32], "rnn_type": "lstm", "rnn_hidden_dim": 32, "rnn_num_layers": 1}
GAUSSIAN = {"class_name": "GaussianDistribution", "init_std": 0.5}
AGENT: dict[str, Any] = {
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "actor": {**NETWORK, "obs_normalization": True, "distribution_cfg": GAUSSIAN},
    "critic": {**NETWORK, "obs_normalization": True},
    "algorithm": {"class_name": "PPO", "entropy_coef": 0.0, "desired_kl": 0.02, "num_learning_epochs": 8},
    "num_steps_per_env": 48,
}


class CartPole:
    """A cart that balances a pole, and goes where it is told. Its methods are those of an Isaac Lab `DirectRLEnv`."""

    num_actions, decimation, max_episode_length, device, cfg = 1, 4, 250, "cpu", None

    def __init__(self, num_envs: int = 1) -> None:
        self.model, self.num_envs = mujoco.MjModel.from_xml_path(str(MODEL)), num_envs
        self.rows = [mujoco.MjData(self.model) for _ in range(num_envs)]
        self.physics_dt = self.model.opt.timestep
        self.joint_pos, self.command = torch.zeros(num_envs, 2), torch.zeros(num_envs, 1)
        self.last_action, self.force = torch.zeros(num_envs, 1), torch.zeros(num_envs, 1)
        self.history, self.fresh = torch.zeros(num_envs, 3, 3), torch.ones(num_envs, 1, 1, dtype=torch.bool)
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long)

    def _get_observations(self) -> dict[str, torch.Tensor]:
        joint_pos, command = annotate.input_tensors(
            "policy",
            [
                TensorSemantics(
                    "joint_pos", self.joint_pos, InputKindEnum.JOINT_POSITION, [None, JOINTS], {"unit": ["m", "rad"]}
                ),
                TensorSemantics(
                    "command", self.command, InputKindEnum.COMMAND_JOINT_POSITION, [None, ["slider"]], {"unit": "m"}
                ),
            ],
        )
        frame = torch.cat((joint_pos[:, :1] - command, joint_pos[:, 1:], self.last_action), dim=-1)
        shifted = torch.cat((self.history[:, 1:], frame.unsqueeze(1)), dim=1)
        self.history = torch.where(self.fresh, frame.unsqueeze(1), shifted)  # the first frame fills it
        self.fresh = torch.zeros_like(self.fresh)
        return {"policy": self.history.flatten(1)}

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        self.last_action = actions.clamp(-1.0, 1.0)
        self.force = 2.0 * self.last_action
        target = TensorSemantics("force", self.force, OutputKindEnum.JOINT_EFFORT, [None, ["slider"]], {"unit": "N"})
        annotate.output_tensors("policy", target)

    def _apply_action(self) -> None:
        for data, force in zip(self.rows, self.force.tolist(), strict=True):
            data.ctrl[:] = force

    def _reset_idx(self, ids: torch.Tensor) -> None:
        annotate.reset()  # an episode ends; said before anything is reset
        for row in ids.tolist():
            mujoco.mj_resetData(self.model, self.rows[row])
            self.rows[row].qpos[:] = np.random.uniform((-0.5, -0.1), (0.5, 0.1))
        self.command[ids] = torch.rand(len(ids), 1) - 0.5
        self.last_action[ids] = 0.0
        self.history[ids], self.fresh[ids] = 0.0, True
        self.episode_length_buf[ids] = 0

    def reset(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        self._reset_idx(torch.arange(self.num_envs))
        self._measure()
        return self._get_observations(), {}

    def step(self, actions: torch.Tensor) -> tuple[Any, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        self._pre_physics_step(actions)
        for _ in range(self.decimation):
            self._apply_action()
            for data in self.rows:
                mujoco.mj_step(self.model, data)
        self._measure()
        self.episode_length_buf += 1
        far, lean = (self.joint_pos[:, :1] - self.command).abs().squeeze(1), self.joint_pos[:, 1].abs()
        terminated, truncated = lean > 0.8, self.episode_length_buf >= self.max_episode_length
        reward = 1.0 - 2.0 * far - 0.3 * lean - 5.0 * terminated.float()
        done = (terminated | truncated).nonzero().flatten()
        if len(done):
            self._reset_idx(done)
            self._measure()
        return self._get_observations(), reward, terminated, truncated, {}

    def _measure(self) -> None:
        self.joint_pos = torch.tensor(np.stack([data.qpos for data in self.rows]), dtype=torch.float32)


def make_env(num_envs: int = 1) -> tuple[CartPole, dict[str, Any]]:
    """The environment, and what else shall be in the package."""
    joints = [Joint(name="slider", type="prismatic", effort_limit=2.0), Joint(name="hinge")]
    return CartPole(num_envs), {"joints": joints, "description": "A cart that balances a pole."}
