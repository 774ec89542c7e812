"""Inputs and outputs."""

from __future__ import annotations

import torch
from torch import nn

from capture.cases.registry import Code, case

TOPIC = "port"


@case(TOPIC, "an output that is the input itself")
class Identity(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"same": x, "y": x + 1}


@case(TOPIC, "one tensor as two outputs")
class Twice(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x * 2
        return {"a": y, "b": y, "c": y[:, 1:]}


@case(TOPIC, "an output that is a state as it was")
class StateAsItWas(Code):
    def __init__(self) -> None:
        self.last = torch.zeros(1, 4)

    def reset(self) -> None:
        self.last = torch.zeros(1, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        last, self.last = self.last, x + 1
        return {"last": last, "now": self.last}


@case(TOPIC, "an input that nothing uses", "unused_input")
class Unused(Code):
    inputs = {"x": (1, 4), "extra": (1, 4)}

    def step(self, x: torch.Tensor, extra: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * 2}


@case(TOPIC, "an input whose result is thrown away", "unused_input")
class ThrownAway(Code):
    inputs = {"x": (1, 4), "extra": (1, 4)}

    def step(self, x: torch.Tensor, extra: torch.Tensor) -> dict[str, torch.Tensor]:
        self.seen = torch.tanh(extra) + x
        return {"y": x * 2}


@case(TOPIC, "an input that is overwritten before it is read", "unused_input")
class Overwritten(Code):
    inputs = {"x": (1, 4), "extra": (1, 4)}

    def step(self, x: torch.Tensor, extra: torch.Tensor) -> dict[str, torch.Tensor]:
        extra.copy_(x)
        return {"y": extra * 2}


@case(TOPIC, "an output that never changes", "constant_output")
class Constant(Code):
    def __init__(self) -> None:
        self.gains = torch.tensor([[20.0, 0.5]])

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * 2, "gains": self.gains * 1.0}


@case(TOPIC, "an output that depends on a state only")
class StateOnly(Code):
    def __init__(self) -> None:
        self.count = torch.zeros(1, 1)

    def reset(self) -> None:
        self.count.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.count += 1
        return {"y": x * 2, "clock": torch.sin(self.count)}


@case(TOPIC, "an input that only a state depends on, which an output shows later")
class Later(Code):
    inputs = {"x": (1, 4), "push": (1, 4)}

    def __init__(self) -> None:
        self.pushed = torch.zeros(1, 4)

    def reset(self) -> None:
        self.pushed = torch.zeros(1, 4)

    def step(self, x: torch.Tensor, push: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x + self.pushed
        self.pushed = push * 0.5
        return {"y": y}


@case(TOPIC, "observations in nested dicts")
class NestedInputs(Code):
    inputs = {"gyro": (1, 3), "joints": (1, 4), "image": (1, 2, 2)}

    def __init__(self) -> None:
        self.net = nn.ModuleDict({"state": nn.Linear(7, 3), "image": nn.Linear(4, 3)}).eval()

    def step(self, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        obs = {"state": {key: inputs[key] for key in ("gyro", "joints")}, "image": inputs["image"].flatten(1)}
        obs["state"] = torch.cat(tuple(obs["state"].values()), dim=-1)
        return {"y": sum(net(obs[name]) for name, net in self.net.items())}


@case(TOPIC, "many outputs of one network, split")
class Split(Code):
    def __init__(self) -> None:
        self.net = nn.Linear(4, 9)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        legs, arms, value = torch.split(self.net(x), (4, 4, 1), dim=-1)
        return {"legs": legs, "arms": arms.contiguous(), "value": value.squeeze(-1)}


@case(TOPIC, "outputs that are no contiguous memory")
class NotContiguous(Code):
    inputs = {"x": (3, 4)}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"turned": (x * 2).T, "strided": (x + 1)[:, ::2], "spread": x[:1].expand(3, 4)}


@case(TOPIC, "an input that is no contiguous memory")
class StridedInput(Code):
    inputs = {"x": lambda generator: torch.randn(4, 3, generator=generator).T}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x.reshape(-1) * 2, "z": x.contiguous().view(4, 3)}


@case(TOPIC, "names with dots, slashes and spaces")
class OddNames(Code):
    inputs = {"robot/joint.pos": (1, 4), "base lin_vel": (1, 3)}

    def step(self, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"action.legs/left": inputs["robot/joint.pos"] * 2, "1st": inputs["base lin_vel"] + 1}


@case(TOPIC, "an input and an output of the same name")
class SameName(Code):
    inputs = {"position": (1, 4), "velocity": (1, 4)}

    def step(self, position: torch.Tensor, velocity: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"position": position + 0.02 * velocity}


_MEMORY = torch.zeros(1, 6)


def _left(generator: torch.Generator) -> torch.Tensor:
    _MEMORY.copy_(torch.randn(1, 6, generator=generator))
    return _MEMORY[:, :4]


@case(TOPIC, "two inputs that are views of one buffer, side by side")
class SideBySide(Code):
    inputs = {"left": _left, "right": lambda generator: _MEMORY[:, 4:]}

    def step(self, left: torch.Tensor, right: torch.Tensor) -> dict[str, torch.Tensor]:
        left *= 2
        right += 1
        return {"y": left.sum() + right, "z": left * 1.0}


@case(TOPIC, "two inputs that overlap in memory, one of them changed in place", "not_reproduced")
class OverlappingInputs(Code):
    inputs = {"left": _left, "right": lambda generator: _MEMORY[:, 2:]}

    def step(self, left: torch.Tensor, right: torch.Tensor) -> dict[str, torch.Tensor]:
        left += 1
        return {"y": left + right}


@case(TOPIC, "an output of which one element is one number")
class ScalarOutputs(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"norm": x.norm(), "sum": x.sum(), "best": x.argmax()}


@case(TOPIC, "an empty output beside others")
class EmptyPiece(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": torch.cat((x[:, :0], x, torch.zeros(1, 0)), dim=-1)}
