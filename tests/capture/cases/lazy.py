"""What is made on first use."""

from __future__ import annotations

from functools import cached_property, lru_cache

import torch
from torch import nn

from capture.cases.registry import Code, case

TOPIC = "lazy"


@case(TOPIC, "a buffer made by the first step")
class LazyBuffer(Code):
    def __init__(self) -> None:
        self.last: torch.Tensor | None = None

    def reset(self) -> None:
        self.last = None

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.last is None:
            self.last = torch.zeros_like(x)
        y = x - self.last
        self.last = x
        return {"y": y}


@case(TOPIC, "a buffer made by the first step of all, kept and zeroed at resets")
class LazyBufferOnce(Code):
    def __init__(self) -> None:
        self.buffer: torch.Tensor | None = None

    def reset(self) -> None:
        if self.buffer is not None:
            self.buffer.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.buffer is None:
            self.buffer = torch.zeros(1, 4)
        self.buffer += x
        return {"y": self.buffer}


@case(TOPIC, "a state by hasattr")
class HasAttr(Code):
    def reset(self) -> None:
        if hasattr(self, "last"):
            del self.last

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if not hasattr(self, "last"):
            self.last = torch.ones(1, 4)
        self.last = 0.5 * self.last + x
        return {"y": self.last}


@case(TOPIC, "states by setdefault in a dict")
class SetDefault(Code):
    def __init__(self) -> None:
        self.memory: dict[str, torch.Tensor] = {}

    def reset(self) -> None:
        self.memory.clear()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        last = self.memory.setdefault("last", torch.zeros(1, 4))
        self.memory["last"] = x * 2
        return {"y": x + last}


@case(TOPIC, "a constant computed once and kept")
class CachedProperty(Code):
    @cached_property
    def window(self) -> torch.Tensor:
        return torch.hann_window(4) + torch.arange(4.0).cos()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * self.window}


@lru_cache(maxsize=4)
def _grid(size: int) -> torch.Tensor:
    return torch.stack(torch.meshgrid(torch.linspace(-1, 1, size), torch.arange(size) * 0.1, indexing="ij"))


@case(TOPIC, "a grid behind lru_cache")
class Cached(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": _grid(4).sum(0) * x}


@case(TOPIC, "a network made by the first step of every episode", "undeclared_input")
class LazyNetworkEveryReset(Code):
    def __init__(self) -> None:
        self.net: nn.Module | None = None

    def reset(self) -> None:
        self.net = None

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.net is None:
            self.net = nn.Linear(4, 2).eval()
        return {"y": self.net(x)}


@case(TOPIC, "a network made by the first step of all, its weights constant")
class LazyNetwork(Code):
    def __init__(self) -> None:
        self.net: nn.Module | None = None

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.net is None:
            self.net = nn.Linear(4, 2).eval()
            nn.init.constant_(self.net.weight, 0.5)
            nn.init.zeros_(self.net.bias)
        return {"y": self.net(x)}


@case(TOPIC, "a network with random weights made by the first step of all")
class LazyRandomNetwork(Code):
    def __init__(self) -> None:
        self.net: nn.Module | None = None

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.net is None:
            torch.manual_seed(3)
            self.net = nn.Sequential(nn.Linear(4, 3), nn.ELU()).eval()
        return {"y": self.net(x)}


@case(TOPIC, "LazyLinear, whose weights come with the first input")
class LazyLinear(Code):
    def __init__(self) -> None:
        self.net = nn.Sequential(nn.LazyLinear(6), nn.ELU(), nn.LazyLinear(2)).eval()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if isinstance(self.net[0], nn.LazyLinear):
            torch.manual_seed(5)
        return {"y": self.net(x)}


@case(TOPIC, "a default pose measured at the first step", "first_step")
class FirstPose(Code):
    def __init__(self) -> None:
        self.pose: torch.Tensor | None = None

    def reset(self) -> None:
        self.pose = None

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.pose is None:
            self.pose = x.clone()
        return {"y": x - self.pose}


@case(TOPIC, "a default pose measured at the first step of all, kept over resets", "first_step")
class FirstPoseKept(Code):
    def __init__(self) -> None:
        self.pose: torch.Tensor | None = None

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.pose is None:
            self.pose = x.clone()
        return {"y": (x - self.pose) * 2}


@case(TOPIC, "a default pose measured where a flag that is a tensor says so")
class FirstPoseFlag(Code):
    def __init__(self) -> None:
        self.pose, self.known = torch.zeros(1, 4), torch.zeros(1, 1, dtype=torch.bool)

    def reset(self) -> None:
        self.known.fill_(False)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.pose = torch.where(self.known, self.pose, x)
        self.known = torch.ones_like(self.known)
        return {"y": x - self.pose}


@case(TOPIC, "the first step returns something else", "first_step")
class FirstStepDiffers(Code):
    def __init__(self) -> None:
        self.first = True

    def reset(self) -> None:
        self.first = True

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.first:
            self.first = False
            return {"y": x * 0.0}
        return {"y": x * 2.0}


@case(TOPIC, "the first step returns what the state explains")
class FirstStepExplained(Code):
    def __init__(self) -> None:
        self.last, self.first = torch.zeros(1, 4), True

    def reset(self) -> None:
        self.first = True

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.first:
            self.last, self.first = torch.full((1, 4), 0.25), False
        y = x + self.last
        self.last = x * 0.5
        return {"y": y}


@case(TOPIC, "a warm-up of several steps by a counter", "control_flow")
class WarmUp(Code):
    def __init__(self) -> None:
        self.steps_done = 0

    def reset(self) -> None:
        self.steps_done = 0

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.steps_done += 1
        return {"y": torch.tanh(x) if self.steps_done > 2 else x * 0.0}
