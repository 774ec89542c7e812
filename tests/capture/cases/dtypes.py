"""Numbers of other types."""

from __future__ import annotations

import torch
from torch import nn

from capture.cases.registry import Code, case

TOPIC = "dtype"


@case(TOPIC, "float64 inside, float32 outside")
class Double(Code):
    def __init__(self) -> None:
        self.total = torch.zeros(1, 4, dtype=torch.float64)

    def reset(self) -> None:
        self.total.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.total += x
        return {"y": (self.total / 3).float(), "z": self.total.to(x)}


@case(TOPIC, "float64 inputs and outputs")
class DoublePorts(Code):
    inputs = {"x": lambda generator: torch.randn(1, 4, dtype=torch.float64, generator=generator)}

    def __init__(self) -> None:
        self.net = nn.Linear(4, 2).double()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.net(x)}


@case(TOPIC, "half precision inside")
class Half(Code):
    tolerance = 1e-2
    options = {"atol": 1e-2, "rtol": 1e-2}

    def __init__(self) -> None:
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).half().eval()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.net(x.half()).float()}


@case(TOPIC, "half precision ports and state")
class HalfPorts(Code):
    inputs = {"x": lambda generator: torch.randn(1, 4, generator=generator).half()}
    tolerance = 1e-2
    options = {"atol": 1e-2, "rtol": 1e-2}

    def __init__(self) -> None:
        self.last = torch.zeros(1, 4, dtype=torch.float16)

    def reset(self) -> None:
        self.last.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.last = self.last * 0.5 + x
        return {"y": self.last}


@case(TOPIC, "bfloat16 inside", "unsupported_operation")
class Bfloat(Code):
    tolerance = 5e-2
    options = {"atol": 5e-2, "rtol": 5e-2}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": (x.bfloat16() * 2 + 1).float()}


@case(TOPIC, "int32 inputs, division and remainder of integers")
class Integers(Code):
    inputs = {"n": lambda generator: torch.randint(-20, 20, (1, 4), generator=generator, dtype=torch.int32)}

    def step(self, n: torch.Tensor) -> dict[str, torch.Tensor]:
        return {
            "floor": n // 3,
            "trunc": torch.div(n, 3, rounding_mode="trunc"),
            "rest": n % 3,
            "fmod": torch.fmod(n, 3),
            "true": n / 3,
            "negative": n // -4,
            "rest_negative": n % -4,
        }


@case(TOPIC, "floor, trunc, round, frac, and remainders of negative numbers")
class Rounding(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        x = x * 3
        return {
            "floor": x.floor() + x.ceil(),
            "trunc": torch.trunc(x),
            "round": torch.round(x),
            "half": torch.round(torch.floor(x) + 0.5),
            "decimals": torch.round(x, decimals=1),
            "frac": torch.frac(x),
            "fmod": torch.fmod(x, 0.7),
            "remainder": torch.remainder(x, -0.7),
            "divided": torch.floor_divide(x, 0.4),
            "int": x.int(),
        }


@case(TOPIC, "bool inputs, summed and inverted")
class Bools(Code):
    inputs = {"contact": lambda generator: torch.rand(1, 4, generator=generator) > 0.5}

    def __init__(self) -> None:
        self.last = torch.zeros(1, 4, dtype=torch.bool)

    def reset(self) -> None:
        self.last.zero_()

    def step(self, contact: torch.Tensor) -> dict[str, torch.Tensor]:
        landed = contact & ~self.last
        self.last = contact
        return {
            "landed": landed,
            "count": contact.sum(-1),
            "share": contact.float().mean(-1),
            "signed": contact * 2 - 1,
        }


@case(TOPIC, "bits of an integer")
class Bits(Code):
    inputs = {"word": lambda generator: torch.randint(0, 256, (1,), generator=generator)}

    def step(self, word: torch.Tensor) -> dict[str, torch.Tensor]:
        bits = (word.unsqueeze(-1) >> torch.arange(8)) & 1
        return {"bits": bits, "low": word & 0x0F, "mixed": (word << 2) | 3, "flipped": word ^ 0xFF}


@case(TOPIC, "uint8 and int8 inputs that wrap around")
class Bytes(Code):
    inputs = {
        "u": lambda generator: torch.randint(0, 256, (1, 4), generator=generator, dtype=torch.uint8),
        "i": lambda generator: torch.randint(-128, 128, (1, 4), generator=generator, dtype=torch.int8),
    }

    def step(self, u: torch.Tensor, i: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"sum": u + 100, "double": i * 2, "f": u.float() / 255 - i / 127}


@case(TOPIC, "promotion between integers, floats and numbers")
class Promotion(Code):
    inputs = {"x": (1, 4), "n": lambda generator: torch.randint(0, 9, (1, 4), generator=generator)}

    def step(self, x: torch.Tensor, n: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"a": x + n, "b": n * 0.5, "c": n + 1, "d": x > n, "e": torch.where(x > 0, n, 2.5), "f": n**2, "g": 2**n}


@case(TOPIC, "complex numbers of a Fourier transform")
class Fourier(Code):
    inputs = {"x": (1, 8)}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"power": torch.fft.rfft(x).abs()}


@case(TOPIC, "large integers keep every digit")
class LargeIntegers(Code):
    inputs = {"n": lambda generator: torch.randint(2**40, 2**41, (1, 2), generator=generator)}

    def __init__(self) -> None:
        self.total = torch.zeros(1, 2, dtype=torch.long)

    def reset(self) -> None:
        self.total.zero_()

    def step(self, n: torch.Tensor) -> dict[str, torch.Tensor]:
        self.total = self.total + n
        return {"rest": self.total % 1000, "total": self.total}


@case(TOPIC, "float32 seen as its bits", "unsupported_operation")
class BitCast(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"bits": x.view(torch.int32), "back": (x.view(torch.int32) & 0x7FFFFFFF).view(torch.float32)}
