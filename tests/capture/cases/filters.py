"""Filters of actions and of observations."""

from __future__ import annotations

import torch

from capture.cases.registry import Code, case

TOPIC = "filter"


@case(TOPIC, "exponential, bound anew")
class Exponential(Code):
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.value = torch.zeros(1, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.value = 0.8 * self.value + 0.2 * x
        return {"y": self.value}


@case(TOPIC, "lerp_")
class Lerp(Code):
    def __init__(self) -> None:
        self.value = torch.zeros(1, 4)

    def reset(self) -> None:
        self.value.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.value.lerp_(x, 0.3).clone()}


@case(TOPIC, "torch.lerp with a weight for each joint")
class LerpTensor(Code):
    def __init__(self) -> None:
        self.value, self.weight = torch.zeros(1, 4), torch.tensor([0.1, 0.2, 0.5, 0.9])

    def reset(self) -> None:
        self.value[:] = 0

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.value = torch.lerp(self.value, x, self.weight)
        return {"y": self.value}


@case(TOPIC, "mul_ and add_ in one line")
class MulAdd(Code):
    def __init__(self) -> None:
        self.value = torch.zeros(1, 4)

    def reset(self) -> None:
        self.value.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.value.mul_(0.7).add_(x, alpha=0.3)
        return {"y": self.value}


@case(TOPIC, "addcmul_ and addcdiv_")
class Addcmul(Code):
    def __init__(self) -> None:
        self.value, self.gain = torch.zeros(1, 4), torch.tensor([1.0, 2.0, 3.0, 4.0])

    def reset(self) -> None:
        self.value.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.value.mul_(0.5).addcmul_(x, self.gain, value=0.1).addcdiv_(x, self.gain, value=0.2)
        return {"y": self.value}


@case(TOPIC, "out= arguments")
class Out(Code):
    def __init__(self) -> None:
        self.value, self.scratch = torch.zeros(1, 4), torch.zeros(1, 4)

    def reset(self) -> None:
        self.value.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        torch.mul(x, 0.25, out=self.scratch)
        torch.mul(self.value, 0.75, out=self.value)
        torch.add(self.value, self.scratch, out=self.value)
        return {"y": torch.clamp(self.value, -0.5, 0.5, out=self.scratch)}


@case(TOPIC, "out= into a slice of a buffer")
class OutIntoSlice(Code):
    def __init__(self) -> None:
        self.buffer = torch.zeros(1, 8)

    def reset(self) -> None:
        self.buffer.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        torch.sub(x, self.buffer[:, :4], out=self.buffer[:, 4:])
        torch.tanh(x, out=self.buffer[:, :4])
        return {"y": self.buffer.clone()}


@case(TOPIC, "starts at the first value, by a flag that is a tensor")
class StartsAtFirstTensor(Code):
    def __init__(self) -> None:
        self.value, self.first = torch.zeros(1, 4), torch.ones(1, 1, dtype=torch.bool)

    def reset(self) -> None:
        self.first.fill_(True)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.value = torch.where(self.first, x, 0.9 * self.value + 0.1 * x)
        self.first = torch.zeros_like(self.first)
        return {"y": self.value}


@case(TOPIC, "starts at the first value, by a flag that is a bool", "first_step")
class StartsAtFirstBool(Code):
    def __init__(self) -> None:
        self.value, self.first = torch.zeros(1, 4), True

    def reset(self) -> None:
        self.first = True

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.first:
            self.value[:] = x
            self.first = False
        self.value.lerp_(x, 0.1)
        return {"y": self.value * 2}


@case(TOPIC, "starts at NaN, which means no value yet")
class StartsAtNan(Code):
    def __init__(self) -> None:
        self.value = torch.full((1, 4), torch.nan)

    def reset(self) -> None:
        self.value.fill_(torch.nan)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        old = torch.where(self.value.isnan(), x, self.value)
        self.value[:] = old + 0.2 * (x - old)
        return {"y": self.value}


@case(TOPIC, "two poles with states in a tuple")
class Biquad(Code):
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.z = (torch.zeros(1, 4), torch.zeros(1, 4))

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        first, second = self.z
        y = 0.2 * x + first
        self.z = (0.4 * x + 0.3 * y + second, 0.2 * x - 0.1 * y)
        return {"y": y}


@case(TOPIC, "moving average with a running sum")
class MovingAverage(Code):
    def __init__(self) -> None:
        self.buffer, self.sum = torch.zeros(4, 1, 4), torch.zeros(1, 4)

    def reset(self) -> None:
        self.buffer.zero_()
        self.sum.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.sum += x - self.buffer[0]
        self.buffer = torch.cat((self.buffer[1:], x[None]))
        return {"y": self.sum / 4}


@case(TOPIC, "median of three")
class Median(Code):
    def __init__(self) -> None:
        self.buffer = torch.zeros(3, 1, 4)

    def reset(self) -> None:
        self.buffer.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer = torch.cat((self.buffer[1:], x[None]))
        return {"y": self.buffer.median(dim=0).values}


@case(TOPIC, "a rate limit on the change")
class RateLimit(Code):
    def __init__(self) -> None:
        self.last = torch.zeros(1, 4)

    def reset(self) -> None:
        self.last.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.last += (x - self.last).clamp_(-0.1, 0.1)
        return {"y": self.last}


@case(TOPIC, "a PID controller with a clamped integral")
class Pid(Code):
    inputs = {"target": (1, 3), "position": (1, 3)}

    def __init__(self) -> None:
        self.integral, self.error = torch.zeros(1, 3), torch.zeros(1, 3)

    def reset(self) -> None:
        self.integral.zero_()
        self.error = torch.zeros_like(self.error)

    def step(self, target: torch.Tensor, position: torch.Tensor) -> dict[str, torch.Tensor]:
        error = target - position
        self.integral.add_(error, alpha=0.02).clamp_(-1, 1)
        torque = 20.0 * error + 2.0 * self.integral + 0.5 * (error - self.error) / 0.02
        self.error = error
        return {"torque": torque.clip(-33.5, 33.5)}


@case(TOPIC, "_foreach operations over several states")
class Foreach(Code):
    def __init__(self) -> None:
        self.values = [torch.zeros(1, 2), torch.zeros(1, 2)]

    def reset(self) -> None:
        torch._foreach_zero_(self.values)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        torch._foreach_mul_(self.values, 0.9)
        torch._foreach_add_(self.values, x.chunk(2, dim=-1), alpha=0.1)
        scaled = torch._foreach_mul(self.values, [2.0, 3.0])
        return {"y": torch.cat(scaled, dim=-1)}


@case(TOPIC, "_foreach lerp between lists")
class ForeachLerp(Code):
    def __init__(self) -> None:
        self.values = [torch.zeros(1, 4), torch.ones(1, 4)]

    def reset(self) -> None:
        self.values = [torch.zeros(1, 4), torch.ones(1, 4)]

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        torch._foreach_lerp_(self.values, [x, x * 2], 0.1)
        return {"y": self.values[0] + self.values[1]}


@case(TOPIC, "the weight is a number that decays", "python_value")
class DecayingWeight(Code):
    def __init__(self) -> None:
        self.value, self.weight = torch.zeros(1, 4), 1.0

    def reset(self) -> None:
        self.weight = 1.0

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.value = self.value + self.weight * (x - self.value)
        self.weight = max(0.1, self.weight * 0.9)
        return {"y": self.value}
