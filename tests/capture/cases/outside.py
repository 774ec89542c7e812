"""What changes outside the step: a simulator, an operator, a shared array."""

from __future__ import annotations

import numpy as np
import torch

from capture.cases.registry import Code, case

TOPIC = "outside"

SIM = {"height": torch.zeros(1, 1), "command": torch.ones(1, 4), "steady": torch.ones(1, 4), "tick": torch.zeros(())}
GRAVITY = torch.tensor([0.0, 0.0, -9.81, 0.0])


def _simulate(generator: torch.Generator) -> torch.Tensor:
    SIM["height"] += 0.1
    return torch.randn(1, 4, generator=generator)


def _command_late(generator: torch.Generator) -> torch.Tensor:
    SIM["tick"] += 1
    if SIM["tick"] == 6:
        SIM["command"][:] = 2.0
    return torch.randn(1, 4, generator=generator)


def _rewrite(generator: torch.Generator) -> torch.Tensor:
    SIM["steady"].copy_(torch.ones(1, 4))
    return torch.randn(1, 4, generator=generator)


@case(TOPIC, "a tensor of the simulator that nobody declared", "undeclared_input")
class Simulator(Code):
    inputs = {"x": _simulate}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x + SIM["height"]}


@case(TOPIC, "a command that is constant for most of the recording", "undeclared_input")
class LateCommand(Code):
    inputs = {"x": _command_late}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * SIM["command"]}


@case(TOPIC, "a command that is written every step with the same value", "undeclared_input")
class Rewritten(Code):
    inputs = {"x": _rewrite}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * SIM["steady"]}


@case(TOPIC, "a global that never changes")
class Global(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x + GRAVITY * 0.02}


@case(TOPIC, "a tensor over numpy memory that numpy changes", "undeclared_input")
class NumpyMemory(Code):
    def __init__(self) -> None:
        self.array = np.zeros((1, 4), dtype=np.float32)
        self.tensor = torch.from_numpy(self.array)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.array += 0.5
        return {"y": x + self.tensor}


@case(TOPIC, "numpy memory changed between two reads of one step", "not_reproduced")
class NumpyBetweenReads(Code):
    def __init__(self) -> None:
        self.array = np.zeros((1, 4), dtype=np.float32)
        self.tensor = torch.from_numpy(self.array)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        before = x + self.tensor
        self.array[:] = 1.0
        after = x * self.tensor
        self.array[:] = 0.0
        return {"y": before + after}


@case(TOPIC, "an array turned into a tensor every step, which changes", "python_value")
class ArrayToTensor(Code):
    def __init__(self) -> None:
        self.array = np.zeros((1, 4), dtype=np.float32)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.array = self.array + 0.25
        return {"y": x + torch.from_numpy(self.array)}


@case(TOPIC, "an array turned into a tensor every step, which stays")
class ConstantArray(Code):
    def __init__(self) -> None:
        self.array = np.arange(4, dtype=np.float32)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x + torch.from_numpy(self.array) + torch.as_tensor(self.array * 2)}


def _disturb(generator: torch.Generator) -> torch.Tensor:
    if Disturbed.current is not None:
        Disturbed.current.state.add_(1.0)
    return torch.randn(1, 4, generator=generator)


@case(TOPIC, "a state that the simulator changes between steps", "outside_write")
class Disturbed(Code):
    current: Disturbed | None = None
    inputs = {"x": _disturb}

    def __init__(self) -> None:
        self.state = torch.zeros(1, 4)
        Disturbed.current = self

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.state = self.state * 0.5 + x
        return {"y": self.state}


SHARED = torch.zeros(1, 4)


def _shared(generator: torch.Generator) -> torch.Tensor:
    SHARED.copy_(torch.randn(1, 4, generator=generator))
    return SHARED


@case(TOPIC, "an input that is the simulator's own buffer, kept without a copy", "not_reproduced")
class KeptBuffer(Code):
    inputs = {"x": _shared}

    def __init__(self) -> None:
        self.last = torch.zeros(1, 4)

    def reset(self) -> None:
        self.last = torch.zeros(1, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x - self.last
        self.last = x
        return {"y": y}


@case(TOPIC, "an input that is the simulator's own buffer, kept as a copy")
class CopiedBuffer(KeptBuffer):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x - self.last
        self.last = x.clone()
        return {"y": y}


@case(TOPIC, "a view of the input's memory that is taken elsewhere")
class ViewElsewhere(Code):
    inputs = {"x": _shared}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * 2 + SHARED[:, :1]}
