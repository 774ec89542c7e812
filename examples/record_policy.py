"""Record a policy from running code, and run its package beside it. Usage: record_policy.py OUT

The policy is what an environment has around a network: a history of observations, the last action, a filter.
Nothing in it knows about Ashore, and nothing but inputs and outputs is declared.
"""

import sys
from pathlib import Path

import torch

import ashore
from ashore.spec import Timing

LEG = ("hip", "thigh", "calf")


class Policy:
    def __init__(self) -> None:
        torch.manual_seed(0)
        self.default_pos = torch.tensor([0.0, 0.8, -1.6])
        self.actor = torch.nn.Sequential(torch.nn.Linear(36, 64), torch.nn.ELU(), torch.nn.Linear(64, 3))
        self.reset()

    def reset(self) -> None:
        self.history = torch.zeros(1, 3, 12)
        self.last_action = self.filtered = torch.zeros(1, 3)

    @torch.no_grad()
    def act(self, joint_pos: torch.Tensor, joint_vel: torch.Tensor, command: torch.Tensor) -> torch.Tensor:
        frame = torch.cat((joint_pos - self.default_pos, 0.05 * joint_vel, command, self.last_action), dim=-1)
        self.history = self.history.roll(-1, dims=1)
        self.history[:, -1] = frame
        self.last_action = self.actor(self.history.flatten(1)).clamp(-1.0, 1.0)
        self.filtered = 0.8 * self.last_action + 0.2 * self.filtered
        return self.default_pos + 0.25 * self.filtered


out, code = Path(sys.argv[1]), Policy()
with ashore.record(out.name, out=out.parent, timing=Timing(policy_dt_s=0.02)) as rec:
    for step in range(12):
        if step == 8:  # an episode ends
            rec.reset()
            code.reset()
        with rec.step():  # your simulator gives these
            q = rec.input("joint_pos", torch.randn(1, 3), kind="state/joint/position", unit="rad", element_names=LEG)
            v = rec.input("joint_vel", torch.randn(1, 3), kind="state/joint/velocity", unit="rad/s", element_names=LEG)
            command = rec.input("command", torch.randn(1, 3), kind="command/body/velocity", source="command")
            target = code.act(q, v, command)
            rec.output("joint_target", target, kind="target/joint/position", unit="rad", element_names=LEG)

code.reset()
policy, worst = ashore.load(out), 0.0
for _ in range(200):
    sensors = {name: torch.randn(1, 3) for name in policy.inputs}
    ours = policy.step({name: value.numpy() for name, value in sensors.items()})["joint_target"]
    worst = max(worst, float((code.act(**sensors) - torch.from_numpy(ours)).abs().max()))
print(f"200 steps beside the code, on other inputs: largest difference {worst:.1e} rad")
assert worst < 1e-6
