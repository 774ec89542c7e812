"""What a reset does."""

from __future__ import annotations

import torch

from capture.cases.registry import Code, case

TOPIC = "reset"


class _Two(Code):
    def __init__(self) -> None:
        self.fast, self.slow = torch.zeros(1, 4), torch.ones(1, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.fast = 0.5 * self.fast + x
        self.slow = 0.9 * self.slow + 0.1 * x
        return {"fast": self.fast, "slow": self.slow}


@case(TOPIC, "of one state, the other is kept")
class Partial(_Two):
    def reset(self) -> None:
        self.fast = torch.zeros(1, 4)


@case(TOPIC, "of nothing")
class Nothing(_Two):
    pass


@case(TOPIC, "to a random value", "reset_value")
class Random(_Two):
    def reset(self) -> None:
        self.fast, self.slow = torch.rand(1, 4), torch.ones(1, 4)


@case(TOPIC, "to another value than the one it was made with", "reset_value")
class Another(_Two):
    def reset(self) -> None:
        self.fast, self.slow = torch.zeros(1, 4), torch.full((1, 4), 2.0)


@case(TOPIC, "to a fraction of what it was", "reset_value")
class Fraction(_Two):
    def reset(self) -> None:
        self.fast = torch.zeros(1, 4)
        self.slow = self.slow * 0.5


@case(TOPIC, "of some elements only", "reset_value")
class SomeElements(_Two):
    def reset(self) -> None:
        self.slow = torch.ones(1, 4)
        self.fast[:, :2] = 0.0


@case(TOPIC, "never recorded, taken to restore the start")
class NeverRecorded(Code):
    resets = ()

    def __init__(self) -> None:
        self.state = torch.full((1, 4), 0.5)

    def reset(self) -> None:
        self.state.fill_(0.5)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.state = self.state * 0.5 + x
        return {"y": self.state}


@case(TOPIC, "by copying a saved tensor")
class FromSaved(Code):
    def __init__(self) -> None:
        self.default = torch.tensor([[0.1, 0.2, 0.3, 0.4]])
        self.target = self.default.clone()

    def reset(self) -> None:
        self.target.copy_(self.default)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.target += 0.1 * (x - self.default)
        return {"y": self.target}


@case(TOPIC, "by binding the saved tensor itself, which the steps then change", "reset_value")
class SavedIsChanged(Code):
    def __init__(self) -> None:
        self.default = torch.zeros(1, 4)
        self.target = self.default

    def reset(self) -> None:
        self.target = self.default

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.target = self.target + x
        self.default[:, 0] = 0.7
        return {"y": self.target}


@case(TOPIC, "by index, as vectorised environments do it")
class ByIndex(Code):
    inputs = {"x": (3, 4)}

    def __init__(self) -> None:
        self.last, self.length = torch.zeros(3, 4), torch.zeros(3, dtype=torch.long)

    def reset(self) -> None:
        ids = torch.arange(3)
        self.last[ids] = 0.0
        self.length[ids] = 0

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.length += 1
        y = x - self.last
        self.last = x.clone()
        return {"y": y / self.length[:, None]}


@case(TOPIC, "of a part of the environments in the step, by their own time-out")
class TimeOut(Code):
    inputs = {"x": (3, 4)}

    def __init__(self) -> None:
        self.sum, self.length = torch.zeros(3, 4), torch.tensor([0, 2, 4])

    def reset(self) -> None:
        self.sum.zero_()
        self.length.copy_(torch.tensor([0, 2, 4]))

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.length += 1
        over = self.length > 5
        self.sum = torch.where(over[:, None], torch.zeros_like(x), self.sum + x)
        self.length.masked_fill_(over, 0)
        return {"sum": self.sum, "over": over}
