"""What Python decides."""

from __future__ import annotations

import itertools
import random

import torch

from capture.cases.registry import Code, case

TOPIC = "control flow"


@case(TOPIC, "options that never change")
class Options(Code):
    def __init__(self) -> None:
        self.config = {"clip": True, "gain": 0.5, "terms": ("a", "b"), "noise": None}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x * self.config["gain"]
        if self.config["clip"]:
            y = y.clip(-1, 1)
        for term in self.config["terms"]:
            y = y + (1.0 if term == "a" else 2.0)
        return {"y": y if self.config["noise"] is None else y + self.config["noise"]}


@case(TOPIC, "a mode that changes during the recording", "control_flow")
class ModeChanges(Code):
    def __init__(self) -> None:
        self.modes = itertools.cycle(("walk", "stand", "trot"))

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        mode = next(self.modes)
        return {"y": torch.tanh(x) if mode == "walk" else torch.relu(x) if mode == "stand" else x.abs()}


@case(TOPIC, "a gain that is drawn by Python", "python_value")
class DrawnGain(Code):
    def __init__(self) -> None:
        self.random = random.Random(1)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * self.random.uniform(0.9, 1.1)}


@case(TOPIC, "a gain that is drawn at each reset", "python_value")
class DrawnAtReset(Code):
    def __init__(self) -> None:
        self.random = random.Random(1)
        self.reset()

    def reset(self) -> None:
        self.gain = self.random.uniform(0.5, 1.5)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * self.gain}


@case(TOPIC, "other tensors taken in turn")
class TakenInTurn(Code):
    def __init__(self) -> None:
        self.gains = itertools.cycle([torch.tensor(1.0), torch.tensor(2.0), torch.tensor(3.0)])

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * next(self.gains)}


@case(TOPIC, "a schedule of tensors played from a list", "undeclared_input")
class Schedule(Code):
    def __init__(self) -> None:
        self.commands, self.index = [torch.full((1, 4), float(n)) for n in range(60)], 0

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.index += 1
        return {"y": x - self.commands[self.index]}


@case(TOPIC, "an extra term that is added every third step", "control_flow")
class EveryThird(Code):
    def __init__(self) -> None:
        self.counter = itertools.count()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x * 2
        if next(self.counter) % 3 == 2:
            y = y + 1
        return {"y": y}


@case(TOPIC, "logging every other step is harmless")
class LoggedEveryOther(Code):
    def __init__(self) -> None:
        self.counter, self.log = itertools.count(), []

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x * 2
        if next(self.counter) % 2:
            self.log.append((y - x).square().mean())
        return {"y": y}


@case(TOPIC, "terms in another order each step, of which the sum is the same", "control_flow")
class Shuffled(Code):
    def __init__(self) -> None:
        self.random, self.scales = random.Random(4), [1.0, 2.0, 3.0, 4.0]

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.random.shuffle(self.scales)
        terms = [torch.sin(x) if scale > 2 else torch.cos(x) * scale for scale in self.scales]
        return {"y": terms[0] + terms[3]}


@case(TOPIC, "early exit from a loop at a constant bound")
class EarlyExit(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        for iteration in range(10):
            x = x - 0.1 * torch.sin(x)
            if iteration >= 3:
                break
        return {"y": x}


@case(TOPIC, "recursion over a tree of links")
class Recursion(Code):
    tree = {"base": ("left", "right"), "left": ("foot",), "right": (), "foot": ()}

    def visit(self, name: str, x: torch.Tensor, depth: int = 0) -> torch.Tensor:
        own = torch.sin(x[:, depth : depth + 1]) * len(name)
        return own + sum(self.visit(child, x, depth + 1) for child in self.tree[name])

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.visit("base", x)}


@case(TOPIC, "torch.cond on a tensor", "value_leak")
class Cond(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": torch.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, (x,))}
