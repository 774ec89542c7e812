"""The pipeline that Ashore and LEAPP are compared on: written once, recorded by either.

Six sensors, a rotation by a quaternion, a history of three frames, the last action and a network. All that LEAPP needs
to be told is told: every state is declared, and nothing is written in place.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch

NODE, NAME, OUTPUT = "policy", "pipeline", "joint_target"
STEPS = 10
SENSORS = {
    "quat": (1, 4),
    "angular_velocity": (1, 3),
    "command": (1, 3),
    "joint_pos": (1, 12),
    "joint_vel": (1, 12),
    "contact": (1, 4),
}
FRAME, FRAMES, JOINTS, HIDDEN = 49, 3, 12, 64

Tensors = dict[str, torch.Tensor]


def quat_rotate_inverse(quat_wxyz: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    w, xyz = quat_wxyz[:, :1], quat_wxyz[:, 1:]
    turned = 2.0 * torch.cross(xyz, vector, dim=-1)
    return vector - w * turned + torch.cross(xyz, turned, dim=-1)


class Pipeline:
    """Sensors in, joint targets out.

    Args:
        recurrent: with an LSTM before the MLP.
    """

    def __init__(self, *, recurrent: bool = False) -> None:
        torch.manual_seed(0)
        wide = FRAMES * FRAME
        self._memory = torch.nn.LSTM(wide, HIDDEN).eval() if recurrent else None
        layers: list[torch.nn.Module] = []
        for width_in, width_out in pairwise((HIDDEN if recurrent else wide, 256, 128, 64, JOINTS)):
            layers += [torch.nn.Linear(width_in, width_out), torch.nn.ELU()]
        self._actor = torch.nn.Sequential(*layers[:-1]).eval()
        self._default_pos = torch.linspace(-0.5, 0.5, JOINTS).unsqueeze(0)
        self._gravity = torch.tensor([[0.0, 0.0, -1.0]])
        self._command_scale = torch.tensor([2.0, 2.0, 0.25])
        self.state: Tensors = {"history": torch.zeros(1, FRAMES, FRAME), "last_action": torch.zeros(1, JOINTS)}
        if recurrent:
            self.state |= {"h": torch.zeros(1, 1, HIDDEN), "c": torch.zeros(1, 1, HIDDEN)}

    @torch.no_grad()
    def step(self, sensors: Tensors) -> torch.Tensor:
        target, self.state = self.advance(sensors, self.state)
        return target

    def advance(self, sensors: Tensors, state: Tensors) -> tuple[torch.Tensor, Tensors]:
        """One step: the joint targets, and the state after it."""
        quat = sensors["quat"] / sensors["quat"].norm(dim=-1, keepdim=True)
        frame = torch.cat(
            (
                sensors["angular_velocity"] * 0.25,
                quat_rotate_inverse(quat, self._gravity),
                sensors["command"] * self._command_scale,
                sensors["joint_pos"] - self._default_pos,
                sensors["joint_vel"] * 0.05,
                (sensors["contact"] > 0.5).float(),
                state["last_action"],
            ),
            dim=-1,
        )
        history = torch.cat((state["history"][:, 1:], frame.clamp(-100.0, 100.0).unsqueeze(1)), dim=1)
        after = {"history": history}
        features = history.flatten(1)
        if self._memory is not None:
            features, (h, c) = self._memory(features.unsqueeze(0), (state["h"], state["c"]))
            features, after = features.squeeze(0), after | {"h": h, "c": c}
        action = self._actor(features)
        return action * 0.25 + self._default_pos, after | {"last_action": action}


class Annotated(Pipeline):
    """The same with its tensors marked.

    Args:
        annotate: of Ashore or of LEAPP. Outside a session, both let tensors pass.
        exporter: a name that both have.
    """

    def __init__(self, annotate: Any, exporter: str) -> None:
        super().__init__()
        self._annotate, self._exporter = annotate, exporter

    @torch.no_grad()
    def step(self, sensors: Tensors) -> torch.Tensor:
        mark = self._annotate
        given = dict(zip(sensors, mark.input_tensors(NODE, sensors), strict=True))
        state = dict(zip(self.state, mark.state_tensors(NODE, self.state), strict=True))
        target, self.state = self.advance(given, state)
        mark.update_state(NODE, self.state)
        mark.output_tensors(NODE, {OUTPUT: target}, export_with=self._exporter)
        return target


def draw(generator: torch.Generator) -> Tensors:
    return {name: torch.randn(shape, generator=generator) for name, shape in SENSORS.items()}


def rollout(pipeline: Pipeline, steps: int, seed: int) -> list[tuple[Tensors, torch.Tensor]]:
    """Run a pipeline on random sensors: what went in, and what came out."""
    generator = torch.Generator().manual_seed(seed)
    return [(sensors, pipeline.step(sensors)) for sensors in (draw(generator) for _ in range(steps))]
