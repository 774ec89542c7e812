"""Clocks, gait phases and counters."""

from __future__ import annotations

import math
import time

import torch

from capture.cases.registry import Code, case

TOPIC = "clock"


@case(TOPIC, "a gait phase kept as a tensor")
class Phase(Code):
    inputs = {"frequency": (1, 1)}

    def __init__(self) -> None:
        self.phase = torch.zeros(1, 1)

    def reset(self) -> None:
        self.phase.zero_()

    def step(self, frequency: torch.Tensor) -> dict[str, torch.Tensor]:
        self.phase = torch.remainder(self.phase + 0.02 * (2.0 + frequency), 1.0)
        angle = 2 * math.pi * self.phase
        return {"clock": torch.cat((torch.sin(angle), torch.cos(angle)), dim=-1)}


@case(TOPIC, "phases of four feet with offsets, fmod")
class FourFeet(Code):
    def __init__(self) -> None:
        self.phase, self.offset = torch.zeros(1), torch.tensor([[0.0, 0.5, 0.5, 0.0]])

    def reset(self) -> None:
        self.phase[:] = 0.0

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.phase += 0.03
        feet = torch.fmod(self.phase[:, None] + self.offset, 1.0)
        stance = feet < 0.6
        return {"stance": stance, "y": torch.where(stance, x, -x) * torch.sin(2 * torch.pi * feet)}


@case(TOPIC, "a phase from the episode length counter")
class EpisodeLength(Code):
    def __init__(self) -> None:
        self.episode_length_buf = torch.zeros(1, dtype=torch.long)

    def reset(self) -> None:
        self.episode_length_buf[:] = 0

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.episode_length_buf += 1
        phase = (self.episode_length_buf * 0.02 % 0.8 / 0.8).unsqueeze(1)
        return {"y": torch.cat((x, torch.sin(2 * torch.pi * phase)), dim=-1), "time_out": self.episode_length_buf > 20}


@case(TOPIC, "a counter that starts at one and counts in int32")
class CounterInt32(Code):
    def __init__(self) -> None:
        self.counter = torch.ones((), dtype=torch.int32)

    def reset(self) -> None:
        self.counter.fill_(1)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.counter = self.counter + 1
        return {"y": x / self.counter, "count": self.counter}


@case(TOPIC, "a counter that is a number", "python_value")
class CounterNumber(Code):
    def __init__(self) -> None:
        self.counter = 0

    def reset(self) -> None:
        self.counter = 0

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.counter += 1
        return {"y": x * math.sin(0.1 * self.counter)}


@case(TOPIC, "a phase that is a number, turned into a tensor", "python_value")
class PhaseNumberToTensor(Code):
    def __init__(self) -> None:
        self.time = 0.0

    def reset(self) -> None:
        self.time = 0.0

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.time += 0.02
        clock = torch.tensor([[math.sin(self.time), math.cos(self.time)]])
        return {"y": torch.cat((x, clock), dim=-1)}


@case(TOPIC, "a number written into a buffer", "python_value")
class NumberIntoBuffer(Code):
    def __init__(self) -> None:
        self.time, self.buffer = 0.0, torch.zeros(1, 5)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.time += 0.02
        self.buffer[:, :4] = x
        self.buffer[:, 4] = self.time
        return {"y": self.buffer.clone()}


@case(TOPIC, "a number to fill a new tensor with", "python_value")
class NumberFilled(Code):
    def __init__(self) -> None:
        self.time = 0.0

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.time += 0.02
        return {"y": torch.cat((x, torch.full((1, 1), self.time)), dim=-1)}


@case(TOPIC, "the time of the day", "python_value")
class WallClock(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * math.sin(time.monotonic())}


@case(TOPIC, "a counter that is a number and changes after the recording", "python_value")
class CounterLate(Code):
    def __init__(self) -> None:
        self.counter = 0

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.counter += 1
        ramp = min(1.0, self.counter / 5)
        return {"y": x * ramp}


@case(TOPIC, "time in float64, given out as float32")
class DoubleTime(Code):
    def __init__(self) -> None:
        self.time = torch.zeros(1, dtype=torch.float64)

    def reset(self) -> None:
        self.time.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.time += 0.02
        return {"y": x + self.time.sin().to(torch.float32)}


@case(TOPIC, "air time of feet")
class AirTime(Code):
    inputs = {"force": (1, 4)}

    def __init__(self) -> None:
        self.air_time, self.last_contact = torch.zeros(1, 4), torch.zeros(1, 4, dtype=torch.bool)

    def reset(self) -> None:
        self.air_time[:] = 0.0
        self.last_contact[:] = False

    def step(self, force: torch.Tensor) -> dict[str, torch.Tensor]:
        contact = force > 0.5
        filtered = torch.logical_or(contact, self.last_contact)
        self.last_contact = contact
        first = (self.air_time > 0.0) * filtered
        self.air_time += 0.02
        reward = torch.sum((self.air_time - 0.1) * first, dim=1)
        self.air_time *= ~filtered
        return {"reward": reward, "air_time": self.air_time}


@case(TOPIC, "a command held for some steps by a tensor timer")
class HeldCommand(Code):
    def __init__(self) -> None:
        self.left, self.command = torch.zeros(1, dtype=torch.long), torch.zeros(1, 4)

    def reset(self) -> None:
        self.left.zero_()
        self.command.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        renew = self.left <= 0
        self.command = torch.where(renew[:, None], x, self.command)
        self.left = torch.where(renew, torch.full_like(self.left, 4), self.left - 1)
        return {"command": self.command}


@case(TOPIC, "every other step, by a number", "control_flow")
class EveryOtherStep(Code):
    def __init__(self) -> None:
        self.counter, self.held = 0, torch.zeros(1, 4)

    def reset(self) -> None:
        self.counter = 0

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.counter % 2 == 0:
            self.held = torch.tanh(x)
        self.counter += 1
        return {"y": self.held + x}


@case(TOPIC, "every tenth step, by a number that the recording does not reach", "python_value")
class EveryTenthStep(Code):
    steps = 5
    resets = ()

    def __init__(self) -> None:
        self.counter, self.gain = 0, torch.ones(1, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.counter += 1
        if self.counter % 10 == 0:
            self.gain = self.gain * 2
        return {"y": self.gain * x * self.counter}
