"""Delayed observations and actions."""

from __future__ import annotations

import random
from collections import deque
from queue import SimpleQueue

import torch

from capture.cases.registry import Code, case

TOPIC = "delay"


@case(TOPIC, "one step, by keeping the last tensor")
class OneStep(Code):
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.last = torch.zeros(1, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        delayed, self.last = self.last, x
        return {"y": delayed * 1.5}


@case(TOPIC, "one step, where the output is the delayed input itself")
class OneStepPlain(Code):
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.last = torch.zeros(1, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        delayed, self.last = self.last, x.clone()
        return {"y": delayed}


@case(TOPIC, "two steps, by two attributes")
class TwoAttributes(Code):
    def __init__(self) -> None:
        self.last, self.before = torch.ones(1, 4), torch.ones(1, 4)

    def reset(self) -> None:
        self.last[:] = 1.0
        self.before[:] = 1.0

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        delayed = self.before.clone()
        self.before[:] = self.last
        self.last[:] = x
        return {"y": delayed}


@case(TOPIC, "a list as a queue, three steps")
class ListQueue(Code):
    steps = 14
    resets = (7,)

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.queue = [torch.zeros(1, 4)] * 3

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.queue.append(x)
        return {"y": self.queue.pop(0) + 1}


@case(TOPIC, "a deque that is never reset")
class KeptDeque(Code):
    def __init__(self) -> None:
        self.queue = deque([torch.zeros(1, 4), torch.ones(1, 4)], maxlen=2)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.queue[0] * 2
        self.queue.append(x)
        return {"y": y}


@case(TOPIC, "a queue of the standard library")
class LibraryQueue(Code):
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.queue: SimpleQueue[torch.Tensor] = SimpleQueue()
        for _ in range(2):
            self.queue.put(torch.zeros(1, 4))

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.queue.put(x * 3)
        return {"y": self.queue.get()}


@case(TOPIC, "different delays for each joint, constant, by gather")
class PerJointLag(Code):
    def __init__(self) -> None:
        self.buffer = torch.zeros(1, 4, 4)
        self.lag = torch.tensor([[[0, 1, 2, 3]]])

    def reset(self) -> None:
        self.buffer.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer = torch.roll(self.buffer, 1, 1)
        self.buffer[:, 0] = x
        return {"y": torch.gather(self.buffer, 1, self.lag).squeeze(1)}


@case(TOPIC, "the lag is an input")
class LagAsInput(Code):
    inputs = {"x": (1, 4), "lag": lambda generator: torch.randint(0, 3, (1,), generator=generator)}

    def __init__(self) -> None:
        self.buffer = torch.zeros(1, 3, 4)

    def reset(self) -> None:
        self.buffer.zero_()

    def step(self, x: torch.Tensor, lag: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer = torch.cat((x[:, None], self.buffer[:, :-1]), dim=1)
        return {"y": self.buffer[torch.arange(1), lag]}


@case(TOPIC, "limited by how much was pushed since the reset")
class LimitedLag(Code):
    def __init__(self) -> None:
        self.buffer, self.pushes = torch.zeros(3, 1, 4), torch.zeros(1, dtype=torch.long)
        self.lag = torch.tensor([2])

    def reset(self) -> None:
        self.buffer.zero_()
        self.pushes.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer = self.buffer.roll(1, 0)
        self.buffer[0] = x
        self.pushes += 1
        lag = torch.minimum(self.lag, self.pushes - 1)
        return {"y": self.buffer[lag, torch.arange(1)]}


@case(TOPIC, "a fraction of a step, by interpolation")
class Fractional(Code):
    def __init__(self) -> None:
        self.last, self.fraction = torch.zeros(1, 4), 0.3

    def reset(self) -> None:
        self.last.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = (1 - self.fraction) * x + self.fraction * self.last
        self.last.copy_(x)
        return {"y": y}


@case(TOPIC, "drawn anew every step by Python", "python_value")
class RandomLag(Code):
    def __init__(self) -> None:
        self.random, self.buffer = random.Random(3), torch.zeros(1, 4, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer = torch.cat((x[:, None], self.buffer[:, :-1]), dim=1)
        return {"y": self.buffer[:, self.random.randint(0, 3)]}


@case(TOPIC, "drawn anew every step by torch", "randomness")
class RandomLagTensor(Code):
    def __init__(self) -> None:
        self.buffer = torch.zeros(1, 4, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer = torch.cat((x[:, None], self.buffer[:, :-1]), dim=1)
        return {"y": self.buffer[torch.arange(1), torch.randint(0, 4, (1,))]}


@case(TOPIC, "a list that is filled before it delays", "control_flow")
class FilledBeforeItDelays(Code):
    def __init__(self) -> None:
        self.queue: list[torch.Tensor] = []

    def reset(self) -> None:
        self.queue.clear()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.queue.append(x)
        return {"y": self.queue.pop(0) * 2 if len(self.queue) > 2 else torch.zeros(1, 4)}


@case(TOPIC, "two buffers that change places every step")
class PingPong(Code):
    def __init__(self) -> None:
        self.front, self.back = torch.zeros(1, 4), torch.zeros(1, 4)

    def reset(self) -> None:
        self.front.zero_()
        self.back.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.back.copy_(self.front * 0.9 + x)
        self.front, self.back = self.back, self.front
        return {"y": self.front - self.back}


@case(TOPIC, "two filters that take turns")
class Turns(Code):
    def __init__(self) -> None:
        self.filters = [torch.zeros(1, 4), torch.zeros(1, 4)]

    def reset(self) -> None:
        for one in self.filters:
            one.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.filters.reverse()
        self.filters[0].lerp_(x, 0.25)
        return {"y": self.filters[0] * 2}


@case(TOPIC, "two filters that take turns and start differently")
class UnequalTurns(Code):
    def __init__(self) -> None:
        self.filters = [torch.zeros(1, 4), torch.ones(1, 4)]

    def reset(self) -> None:
        for index, one in enumerate(self.filters):
            one.fill_(float(index))

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.filters.reverse()
        self.filters[0].lerp_(x, 0.25)
        return {"y": self.filters[0] * 2}


@case(TOPIC, "two filters that take turns, and whose turn it is survives a reset", "reset_value")
class TurnSurvives(Code):
    resets = (3,)

    def __init__(self) -> None:
        self.slow, self.fast = torch.zeros(1, 4), torch.ones(1, 4)
        self.filters = [self.slow, self.fast]

    def reset(self) -> None:
        self.slow.zero_()
        self.fast.fill_(1.0)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.filters.reverse()
        self.filters[0].lerp_(x, 0.25)
        return {"y": self.filters[0] * 2}
