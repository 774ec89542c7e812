"""States that are easily taken for something else."""

from __future__ import annotations

import torch

from capture.cases.registry import Code, case

TOPIC = "state"


def _louder(generator: torch.Generator) -> torch.Tensor:
    """Small numbers while recorded, large ones when the package is compared with the code."""
    return torch.randn(1, 4, generator=generator) * 10.0 ** (3 * (generator.initial_seed() - 1) - 3)


@case(TOPIC, "a latch that the recording never trips, in place")
class NeverTripped(Code):
    inputs = {"x": _louder}

    def __init__(self) -> None:
        self.tripped = torch.zeros(1, 1, dtype=torch.bool)

    def reset(self) -> None:
        self.tripped.fill_(False)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.tripped |= (x > 1).any(-1, keepdim=True)
        return {"y": x * ~self.tripped}


@case(TOPIC, "a latch that the recording never trips, bound anew")
class NeverTrippedBound(NeverTripped):
    def reset(self) -> None:
        self.tripped = torch.zeros(1, 1, dtype=torch.bool)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.tripped = torch.where((x > 1).any(-1, keepdim=True), True, self.tripped)
        return {"y": x * ~self.tripped}


@case(TOPIC, "a latch that the recording never trips, and no reset clears")
class NeverTrippedKept(NeverTripped):
    def reset(self) -> None:
        pass


@case(TOPIC, "a largest value that the recording never exceeds, and no reset clears")
class NeverExceededKept(Code):
    inputs = {"x": _louder}

    def __init__(self) -> None:
        self.largest = torch.ones(1, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.largest = torch.maximum(self.largest, x.abs())
        return {"y": x / self.largest}


@case(TOPIC, "a counter that had reached its end before the recording", "reset_value")
class Saturated(Code):
    def __init__(self) -> None:
        self.counter = torch.tensor([3])

    def reset(self) -> None:
        self.counter.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.counter = torch.clamp(self.counter + 1, max=3)
        return {"y": x * self.counter}


@case(TOPIC, "a number that becomes a tensor in the first step")
class StartsAsNumber(Code):
    def __init__(self) -> None:
        self.integral: torch.Tensor | float = 0.0

    def reset(self) -> None:
        self.integral = 0.0

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.integral = self.integral + x * 0.02
        return {"y": x + self.integral}


@case(TOPIC, "an integer tensor that becomes a float in the first step", "changing_shape")
class DtypeDrifts(Code):
    def __init__(self) -> None:
        self.total = torch.zeros(1, 4, dtype=torch.long)

    def reset(self) -> None:
        self.total = torch.zeros(1, 4, dtype=torch.long)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.total = self.total + x
        return {"y": self.total}


@case(TOPIC, "a vector that becomes a row in the first step", "changing_shape")
class ShapeDrifts(Code):
    def __init__(self) -> None:
        self.last = torch.zeros(4)

    def reset(self) -> None:
        self.last = torch.zeros(4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x - self.last
        self.last = x
        return {"y": y}


@case(TOPIC, "a buffer that broadcasts in the first step and not later", "changing_shape")
class Broadcasts(Code):
    def __init__(self) -> None:
        self.value = torch.zeros(1, 1)

    def reset(self) -> None:
        self.value = torch.zeros(1, 1)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.value = 0.5 * self.value + x
        return {"y": self.value * 2}


@case(TOPIC, "one state bound to another's tensor, which is then changed in place")
class Aliased(Code):
    def __init__(self) -> None:
        self.last, self.before = torch.zeros(1, 4), torch.zeros(1, 4)

    def reset(self) -> None:
        self.last, self.before = torch.zeros(1, 4), torch.zeros(1, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.before = self.last
        self.last = x * 2
        self.before += 1.0
        return {"y": self.last - self.before}


@case(TOPIC, "the classic mistake: the last action and the action are one tensor")
class SameTensor(Code):
    def __init__(self) -> None:
        self.action = torch.zeros(1, 4)
        self.last = self.action

    def reset(self) -> None:
        self.action = torch.zeros(1, 4)
        self.last = self.action

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.last = self.action
        self.action[:] = x
        return {"rate": self.action - self.last + x * 0.5}


@case(TOPIC, "states in a list that is rotated")
class Rotated(Code):
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.slots = [torch.full((1, 4), float(index)) for index in range(3)]

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.slots = [*self.slots[1:], self.slots[0] * 0.5 + x]
        return {"y": self.slots[0] + self.slots[2]}


@case(TOPIC, "a state that only a state depends on")
class Chain(Code):
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.first, self.second, self.third = (torch.full((1, 4), value) for value in (0.1, 0.2, 0.3))

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.third * 2
        self.third, self.second, self.first = self.second, self.first, x
        return {"y": y}


@case(TOPIC, "a state that nothing shows")
class Invisible(Code):
    def __init__(self) -> None:
        self.steps_done = torch.zeros((), dtype=torch.long)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.steps_done += 1
        return {"y": x * 2}


@case(TOPIC, "a state that is a parameter, changed in place")
class Parameter(Code):
    def __init__(self) -> None:
        self.gain = torch.nn.Parameter(torch.ones(4))

    def reset(self) -> None:
        with torch.no_grad():
            self.gain.fill_(1.0)

    @torch.no_grad()
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.gain.mul_(0.99).add_(0.01 * x[0].abs())
        return {"y": x * self.gain}
