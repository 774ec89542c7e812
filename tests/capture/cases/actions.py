"""Last actions, and what becomes of an action on its way to the motors."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import nn

from capture.cases.registry import Code, case

TOPIC = "action"


def _actor(inputs: int, outputs: int = 4) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 8), nn.ELU(), nn.Linear(8, outputs)).eval()


@case(TOPIC, "the last action observed, bound anew")
class Rebound(Code):
    def __init__(self) -> None:
        self.actor = _actor(8)
        self.reset()

    def reset(self) -> None:
        self.last = torch.zeros(1, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.last = self.actor(torch.cat((x, self.last), dim=-1))
        return {"action": self.last}


@case(TOPIC, "the last action, copied in place")
class CopiedInPlace(Code):
    def __init__(self) -> None:
        self.actor, self.last = _actor(8), torch.zeros(1, 4)

    def reset(self) -> None:
        self.last[:] = 0.0

    @torch.no_grad()
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        action = self.actor(torch.cat((x, self.last), dim=-1))
        self.last[:] = action
        return {"action": action}


@case(TOPIC, "the last action, detached and cloned under no_grad")
class DetachedClone(Code):
    def __init__(self) -> None:
        self.actor, self.last = _actor(8), torch.zeros(1, 4)

    def reset(self) -> None:
        self.last = torch.zeros(1, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        with torch.no_grad():
            action = self.actor(torch.cat((x, self.last), dim=-1)).clamp(-1, 1)
        self.last = action.detach().clone()
        return {"target": action * 0.25 + torch.tensor([0.1, 0.8, -1.5, 0.0])}


@case(TOPIC, "the last action in a dict, and the one before it")
class InADict(Code):
    def __init__(self) -> None:
        self.actor = _actor(12)
        self.reset()

    def reset(self) -> None:
        self.extras = {"actions": {"last": torch.zeros(1, 4), "before": torch.zeros(1, 4)}}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        actions = self.extras["actions"]
        action = self.actor(torch.cat((x, actions["last"], actions["before"]), dim=-1))
        actions["before"], actions["last"] = actions["last"], action
        return {"action": action}


@case(TOPIC, "the last action in a nested object")
class InANestedObject(Code):
    def __init__(self) -> None:
        self.actor = _actor(8)
        self.env = SimpleNamespace(manager=SimpleNamespace(action=torch.zeros(1, 4)))

    def reset(self) -> None:
        self.env.manager.action = torch.zeros(1, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.env.manager.action = torch.tanh(self.actor(torch.cat((x, self.env.manager.action), dim=-1)))
        return {"action": self.env.manager.action * 0.5}


@case(TOPIC, "the last actions in a list")
class InAList(Code):
    def __init__(self) -> None:
        self.actor = _actor(8)
        self.reset()

    def reset(self) -> None:
        self.actions = [torch.zeros(1, 4)]

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.actions[0] = self.actor(torch.cat((x, self.actions[0]), dim=-1))
        return {"action": self.actions[0]}


@dataclass
class _Memory:
    last: torch.Tensor = field(default_factory=lambda: torch.zeros(1, 4))
    total: torch.Tensor = field(default_factory=lambda: torch.zeros(1, 4))


@case(TOPIC, "the state is a dataclass")
class InADataclass(Code):
    def __init__(self) -> None:
        self.memory = _Memory()

    def reset(self) -> None:
        self.memory = _Memory()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.memory.total += x - self.memory.last
        self.memory.last = x
        return {"y": self.memory.total}


class _Slots:
    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = torch.zeros(1, 4)


@case(TOPIC, "the state is in __slots__")
class InSlots(Code):
    def __init__(self) -> None:
        self.memory = _Slots()

    def reset(self) -> None:
        self.memory = _Slots()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        change = x - self.memory.last
        self.memory.last = x
        return {"y": change}


class _Carry(NamedTuple):
    last: torch.Tensor
    speed: torch.Tensor


@case(TOPIC, "the state is a namedtuple")
class InANamedTuple(Code):
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.carry = _Carry(torch.zeros(1, 4), torch.ones(1, 4))

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.carry = self.carry._replace(last=x, speed=0.5 * self.carry.speed + x - self.carry.last)
        return {"y": self.carry.speed}


@case(TOPIC, "the state is in a closure")
class InAClosure(Code):
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        last = torch.zeros(1, 4)

        def integrate(x: torch.Tensor) -> torch.Tensor:
            nonlocal last
            last = last * 0.9 + x
            return last

        self.integrate = integrate

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.integrate(x)}


@case(TOPIC, "the state is a local of a generator")
class InAGenerator(Code):
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        def run():
            y = torch.zeros(1, 4)
            while True:
                x = yield y
                y = y * 0.5 + x

        self.generator = run()
        next(self.generator)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.generator.send(x)}


@case(TOPIC, "the state is behind a property")
class BehindAProperty(Code):
    def __init__(self) -> None:
        self._data = {"last": torch.zeros(1, 4)}

    @property
    def last(self) -> torch.Tensor:
        return self._data["last"].clamp(-1, 1)

    @last.setter
    def last(self, value: torch.Tensor) -> None:
        self._data["last"] = value

    def reset(self) -> None:
        self.last = torch.zeros(1, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.last + x
        self.last = x
        return {"y": y}


@case(TOPIC, "scaled, offset and clipped to joint limits")
class ToJointTargets(Code):
    def __init__(self) -> None:
        self.scale = torch.tensor([0.25, 0.5, 0.25, 0.5])
        self.default = torch.tensor([0.1, 0.8, -1.5, 0.0])
        self.limits = torch.tensor([[-1.0, 1.0], [-0.5, 1.5], [-2.7, -0.9], [-1.0, 1.0]])

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        target = x * self.scale + self.default
        return {"target": torch.clamp(target, min=self.limits[:, 0], max=self.limits[:, 1])}


@case(TOPIC, "joints put into the robot's order")
class Reordered(Code):
    def __init__(self) -> None:
        self.order, self.target = [2, 0, 3, 1], torch.zeros(1, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.target[:, self.order] = x
        return {"target": self.target.clone(), "back": x[:, self.order]}


@case(TOPIC, "some joints written by a policy, the others held")
class SomeJoints(Code):
    def __init__(self) -> None:
        self.target, self.legs = torch.full((1, 6), 0.3), torch.tensor([0, 2, 3, 5])

    def reset(self) -> None:
        self.target.fill_(0.3)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.target[:, self.legs] = x * 0.5
        self.target[:, 1] += 0.01
        return {"target": self.target}


@case(TOPIC, "torque of a PD controller, in a loop over substeps")
class PdSubsteps(Code):
    inputs = {"action": (1, 4), "position": (1, 4), "velocity": (1, 4)}

    def __init__(self) -> None:
        self.kp, self.kd = torch.full((4,), 20.0), torch.full((4,), 0.5)

    def step(self, action: torch.Tensor, position: torch.Tensor, velocity: torch.Tensor) -> dict[str, torch.Tensor]:
        for _ in range(4):
            torque = self.kp * (action - position) - self.kd * velocity
            velocity = velocity + 0.005 * torque.clamp(-10, 10)
            position = position + 0.005 * velocity
        return {"torque": torque, "predicted": position}


@case(TOPIC, "two policies, one feeding the other, each with its own last action")
class TwoPolicies(Code):
    def __init__(self) -> None:
        self.high, self.low = _actor(6, 2), _actor(10)
        self.reset()

    def reset(self) -> None:
        self.goal, self.last = torch.zeros(1, 2), torch.zeros(1, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.goal = self.high(torch.cat((x, self.goal), dim=-1))
        self.last = self.low(torch.cat((x, self.goal, self.last), dim=-1))
        return {"goal": self.goal, "action": self.last}


@case(TOPIC, "change of the action as a penalty term")
class ActionRate(Code):
    def __init__(self) -> None:
        self.last = torch.zeros(1, 4)

    def reset(self) -> None:
        self.last.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        rate = torch.sum(torch.square(x - self.last), dim=1)
        self.last = x
        return {"rate": rate}


@case(TOPIC, "an action chunk played back step by step by a tensor counter")
class Chunk(Code):
    def __init__(self) -> None:
        self.actor = _actor(4, 12)
        self.chunk, self.counter = torch.zeros(1, 3, 4), torch.zeros(1, dtype=torch.long)

    def reset(self) -> None:
        self.chunk.zero_()
        self.counter.zero_()

    @torch.no_grad()
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        fresh = self.actor(x).view(1, 3, 4)
        self.chunk = torch.where((self.counter == 0)[:, None, None], fresh, self.chunk)
        action = self.chunk[torch.arange(1), self.counter]
        self.counter = (self.counter + 1) % 3
        return {"action": action}


@case(TOPIC, "an action chunk played back step by step from a list", "first_step")
class ChunkList(Code):
    def __init__(self) -> None:
        self.actor = _actor(4, 12)
        self.queue: list[torch.Tensor] = []

    def reset(self) -> None:
        self.queue.clear()

    @torch.no_grad()
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if not self.queue:
            self.queue = list(self.actor(x).view(3, 1, 4))
        return {"action": self.queue.pop(0) * 1.0}
