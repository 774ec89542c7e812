"""Writes the package that faults are planted in: a small walker, recorded from code as an environment has it.

It is kept, so that the tests that plant faults also run where torch is missing; another test records it anew. Usage:
build.py OUT
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import ashore
from ashore.spec import Joint, Timing

JOINTS = ("FL_hip", "FL_thigh", "FL_calf", "FR_hip", "FR_thigh", "FR_calf")
TRAINED_ORDER = (0, 3, 1, 4, 2, 5)
"""The network was trained on hips first, then thighs, then calves."""

DEFAULT = (0.1, 0.8, -1.5, -0.1, 0.8, -1.5)
XYZ = ("x", "y", "z")


class Walker:
    """Observations, normaliser, history, network, action scale and filter."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.default = torch.tensor([DEFAULT])
        self.order = torch.tensor(TRAINED_ORDER)
        self.inverse = self.order.argsort()
        self.scale = torch.tensor([[0.125, 0.25, 0.25] * 2])
        self.mean, self.std = 0.2 * torch.randn(1, 27), 0.5 + torch.rand(1, 27)
        self.actor = torch.nn.Sequential(
            torch.nn.Linear(81, 32), torch.nn.GELU(), torch.nn.Linear(32, 32), torch.nn.GELU(), torch.nn.Linear(32, 6)
        )
        with torch.no_grad():  # actions as large as those of a trained policy
            for weight in self.actor.parameters():
                weight *= 2.5
        self.reset()

    def reset(self) -> None:
        self.history = torch.zeros(1, 3, 27)
        self.last_action = torch.zeros(1, 6)
        self.filtered = self.default.clone()

    @torch.no_grad()
    def act(
        self,
        gravity: torch.Tensor,
        ang_vel: torch.Tensor,
        command: torch.Tensor,
        joint_pos: torch.Tensor,
        joint_vel: torch.Tensor,
    ) -> torch.Tensor:
        pos, vel = (joint_pos - self.default)[:, self.order], 0.05 * joint_vel[:, self.order]
        frame = torch.cat((gravity, 0.25 * ang_vel, command, pos, vel, self.last_action), dim=-1)
        frame = (frame - self.mean) / (self.std + 1e-2)
        self.history = torch.cat((self.history[:, 1:], frame.unsqueeze(1)), dim=1)
        self.last_action = self.actor(self.history.flatten(1))
        target = self.default + self.scale * self.last_action[:, self.inverse]
        self.filtered = 0.8 * target + 0.2 * self.filtered
        return self.filtered


def build(out: Path) -> None:
    """Record it."""
    joints = [
        Joint(name=name, default_position=default, kp=25.0 + number, kd=0.5, effort_limit=23.7)
        for number, (name, default) in enumerate(zip(JOINTS, DEFAULT, strict=True))
    ]
    code = Walker()
    by_joint = {"element_names": JOINTS}
    options = {"timing": Timing(policy_dt_s=0.02), "joints": joints, "picture": False, "summary": False}
    torch.manual_seed(1)
    with ashore.record(out.name, out=out.parent, **options) as rec:
        for step in range(24):
            if step == 15:
                rec.reset()
                code.reset()
            with rec.step():
                down = torch.nn.functional.normalize(torch.tensor([[0.0, 0.0, -1.0]]) + 0.1 * torch.randn(1, 3))
                target = code.act(
                    rec.input("gravity", down, kind="state/body/gravity", unit="1", element_names=XYZ),
                    rec.input("ang_vel", 0.5 * torch.randn(1, 3), kind="state/body/angular_velocity", unit="rad/s"),
                    rec.input("command", 2 * torch.rand(1, 3) - 1, kind="command/body/velocity", source="command"),
                    rec.input(
                        "joint_pos",
                        code.default + 0.2 * torch.randn(1, 6),
                        kind="state/joint/position",
                        unit="rad",
                        **by_joint,
                    ),
                    rec.input("joint_vel", torch.randn(1, 6), kind="state/joint/velocity", unit="rad/s", **by_joint),
                )
                rec.output("joint_target", target, kind="target/joint/position", unit="rad", **by_joint)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
