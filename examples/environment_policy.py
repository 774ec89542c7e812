"""Export a whole environment, and let the package drive an arm of its own beside it. Usage: environment_policy.py OUT

It decides at 50 Hz; at 200 Hz it filters its target and computes torques. This environment answers Ashore's questions
itself; docs/environment.md wraps one that stays as it is.
"""

import sys

import torch

import ashore
from ashore.environment import ExportableEnvironment, Input, Output, export_environment_as_onnx


class Arm(ExportableEnvironment):
    def __init__(self) -> None:
        super().__init__()
        self.default, self.goal = torch.tensor([[0.3, -0.6]]), torch.zeros(1, 2)
        self.observations_reset()
        self.context_manager().add_components([Input("pos", lambda: self.pos), Input("vel", lambda: self.vel)])
        self.context_manager().add_component(Output("torque", lambda: self.torque))

    def observations_reset(self) -> torch.Tensor:
        self.age, self.pos, self.vel = 0, torch.randn(1, 2), torch.zeros(1, 2)
        self.last_action, self.target = torch.zeros(1, 2), self.default.clone()
        return self.compute_observations()

    def compute_observations(self) -> torch.Tensor:
        return torch.cat((self.pos - self.default, 0.05 * self.vel, self.last_action), dim=-1)

    @property
    def decimation(self) -> int:
        return 4

    def process_actions(self, actions: torch.Tensor) -> None:
        self.last_action, self.goal = actions, self.default + 0.5 * actions

    def apply_actions(self) -> None:
        self.target = self.target + 0.3 * (self.goal - self.target)
        self.torque = 20.0 * (self.target - self.pos) - 0.5 * self.vel

    def simulate(self, torque: torch.Tensor) -> None:
        self.vel = self.vel + 0.005 * (5.0 * torque - 0.5 * self.vel)
        self.pos = self.pos + 0.005 * self.vel

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        self.process_actions(actions)
        for _ in range(self.decimation):
            self.apply_actions()
            self.simulate(self.torque)
        self.age += 1
        return (self.observations_reset(), True) if self.age == 15 else (self.compute_observations(), False)

    def empty_actor_observations(self) -> torch.Tensor:
        return torch.zeros(1, 6)

    def empty_actions(self) -> torch.Tensor:
        return torch.zeros(1, 2)

    def get_observation_names(self) -> list[str]:
        return [f"{term}_{joint}" for term in ("pos", "vel", "last_action") for joint in ("shoulder", "elbow")]

    def metadata(self) -> dict[str, float]:
        return {"sim_dt": 0.005}

    def prepare_export(self) -> None: ...
    def register_evaluation_hooks(self, *args: object, **kwargs: object) -> None: ...


torch.manual_seed(0)
arm, actor = Arm(), torch.nn.Sequential(torch.nn.Linear(6, 32), torch.nn.ELU(), torch.nn.Linear(32, 2))
policy = ashore.load(export_environment_as_onnx(arm, actor, sys.argv[1], "arm.onnx", summary=True))
twin, worst, obs, done = Arm(), 0.0, arm.observations_reset(), True
for _ in range(200):
    if done:  # both arms start alike
        twin.pos, twin.vel = arm.pos, arm.vel
        policy.reset()
    policy.step({"pos": twin.pos.numpy(), "vel": twin.vel.numpy()})
    for _ in range(arm.decimation):
        out = policy.substep({"pos": twin.pos.numpy(), "vel": twin.vel.numpy()})
        twin.simulate(torch.from_numpy(out["torque"]))
    with torch.no_grad():
        obs, done = arm.step(actor(obs))
    worst = max(worst, 0.0 if done else float((twin.pos - arm.pos).abs().max()))
print(f"200 decisions beside the environment: largest difference {worst:.1e} rad")
assert worst < 1e-6
