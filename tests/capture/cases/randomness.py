"""Random numbers."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from capture.cases.registry import Code, case

TOPIC = "randomness"


@case(TOPIC, "noise added to an observation", "randomness")
class Noise(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x + 0.01 * torch.randn_like(x)}


@case(TOPIC, "noise drawn in place, seeded", "randomness")
class NoiseInPlace(Code):
    def __init__(self) -> None:
        self.generator, self.noise = torch.Generator().manual_seed(0), torch.zeros(1, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.noise.uniform_(-0.1, 0.1, generator=self.generator)
        return {"y": x + self.noise}


@case(TOPIC, "noise from numpy", "python_value")
class NumpyNoise(Code):
    def __init__(self) -> None:
        self.random = np.random.default_rng(0)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x + torch.from_numpy(self.random.normal(size=(1, 4)).astype(np.float32))}


@case(TOPIC, "an action sampled from a distribution", "randomness")
class Sampled(Code):
    def __init__(self) -> None:
        self.net = nn.Linear(4, 2)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": torch.distributions.Normal(self.net(x), 0.2).sample()}


@case(TOPIC, "a class sampled by multinomial", "randomness")
class Multinomial(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": torch.multinomial(torch.softmax(x, -1), 1)}


@case(TOPIC, "dropout that stays on", "training_mode")
class Dropout(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": nn.functional.dropout(x, 0.1, training=True)}


@case(TOPIC, "noise that is an input")
class NoiseAsInput(Code):
    inputs = {"x": (1, 4), "noise": (1, 4)}

    def step(self, x: torch.Tensor, noise: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x + 0.01 * noise}


@case(TOPIC, "noise switched off by an option")
class NoiseSwitchedOff(Code):
    corrupt = False

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x + torch.rand_like(x) if self.corrupt else x * 1.0}


@case(TOPIC, "a friction drawn once when the code is made")
class DrawnOnce(Code):
    def __init__(self) -> None:
        self.friction = torch.rand(1, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * self.friction}


@case(TOPIC, "a random permutation each step", "randomness")
class Permutation(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x[:, torch.randperm(4)]}
