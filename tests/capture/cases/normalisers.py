"""Normalisers of observations."""

from __future__ import annotations

import torch
from torch import nn

from capture.cases.registry import Code, case

TOPIC = "normaliser"


@case(TOPIC, "fixed mean and standard deviation")
class Fixed(Code):
    def __init__(self) -> None:
        self.mean, self.std = torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([1.0, 2.0, 0.5, 0.1])

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": ((x - self.mean) / (self.std + 1e-8)).clip(-5.0, 5.0)}


class _Empirical(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(1, 4))
        self.register_buffer("var", torch.ones(1, 4))
        self.register_buffer("count", torch.tensor(0, dtype=torch.long))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.update(x)
        return (x - self.mean) / (self.var.sqrt() + 1e-2)

    @torch.jit.unused
    def update(self, x: torch.Tensor) -> None:
        self.count += x.shape[0]
        rate = x.shape[0] / self.count
        delta = torch.mean(x, dim=0, keepdim=True) - self.mean
        self.mean += rate * delta
        self.var += rate * (delta * delta - self.var)


@case(TOPIC, "running statistics of a module in eval mode")
class EmpiricalEval(Code):
    def __init__(self) -> None:
        self.normaliser = _Empirical().eval()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.normaliser(x)}


@case(TOPIC, "running statistics that go on, kept over resets")
class RunningKept(Code):
    def __init__(self) -> None:
        self.mean, self.var, self.count = torch.zeros(4), torch.ones(4), torch.tensor(1e-4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        delta = x.mean(0) - self.mean
        total = self.count + x.shape[0]
        self.mean = self.mean + delta * x.shape[0] / total
        self.var = (self.var * self.count + delta.square() * self.count * x.shape[0] / total) / total
        self.count = total
        return {"y": (x - self.mean) * torch.rsqrt(self.var + 1e-5)}


@case(TOPIC, "Welford's method with an integer count, in place")
class Welford(Code):
    def __init__(self) -> None:
        self.mean, self.m2, self.count = torch.zeros(4), torch.zeros(4), torch.zeros(1, dtype=torch.int64)

    def reset(self) -> None:
        self.mean.zero_()
        self.m2.zero_()
        self.count.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.count += 1
        delta = x[0] - self.mean
        self.mean += delta / self.count
        self.m2 += delta * (x[0] - self.mean)
        std = (self.m2 / self.count).sqrt().clamp_min(1e-2)
        return {"y": (x - self.mean) / std}


@case(TOPIC, "the count is a number", "python_value")
class CountIsANumber(Code):
    def __init__(self) -> None:
        self.mean, self.count = torch.zeros(1, 4), 0

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.count += 1
        self.mean += (x - self.mean) / self.count
        return {"y": x - self.mean}


@case(TOPIC, "statistics of another module's float64 buffers")
class DoublePrecision(Code):
    def __init__(self) -> None:
        self.mean = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
        self.var = torch.tensor([1.0, 2.0, 0.5, 0.1], dtype=torch.float64)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": ((x - self.mean) / torch.sqrt(self.var + 1e-5)).float()}


@case(TOPIC, "statistics gathered but switched off by a constant bool")
class SwitchedOff(Code):
    update = False

    def __init__(self) -> None:
        self.mean = torch.full((4,), 0.5)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.update:
            self.mean = 0.99 * self.mean + 0.01 * x.mean(0)
        return {"y": x - self.mean}


@case(TOPIC, "normalised by its own norm")
class OwnNorm(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        unit = torch.nn.functional.normalize(x, dim=-1)
        return {
            "unit": unit,
            "length": x.norm(dim=-1, keepdim=True),
            "far": torch.linalg.norm(x, ord=torch.inf, dim=-1),
        }


@case(TOPIC, "scaled per term from a dict of numbers")
class ScaledPerTerm(Code):
    inputs = {"velocity": (1, 3), "gravity": (1, 3), "command": (1, 3)}
    scales = {"velocity": 0.25, "gravity": 1.0, "command": 2.0}

    def step(self, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        terms = [inputs[name] * scale for name, scale in self.scales.items()]
        return {"observation": torch.cat(terms, dim=-1).clip_(-18, 18)}


@case(TOPIC, "the largest value so far")
class LargestSoFar(Code):
    def __init__(self) -> None:
        self.largest = torch.full((1, 4), -torch.inf)

    def reset(self) -> None:
        self.largest.fill_(-torch.inf)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        torch.maximum(self.largest, x.abs(), out=self.largest)
        return {"y": x / self.largest.clamp(min=1.0)}
