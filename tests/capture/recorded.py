"""Code for the record door, and how it is recorded and compared with the package it became."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import ashore
import ashore.backends.onnx

QUIET: dict[str, Any] = {"picture": False, "summary": False}
FAST: dict[str, Any] = {**QUIET, "backend": "onnx-torchscript"}


class Filter:
    """An action filter with a history: one state that is rebound, one that is written in place."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.net = torch.nn.Linear(8, 4)
        self.smooth = torch.full((1, 4), 0.25)
        self.history = torch.zeros(1, 2, 4)

    def reset(self) -> None:
        self.smooth = torch.full((1, 4), 0.25)
        self.history.zero_()

    @torch.no_grad()
    def step(self, x: torch.Tensor) -> torch.Tensor:
        self.history[:, 0] = self.history[:, 1].clone()
        self.history[:, 1] = x
        self.smooth = self.smooth * 0.8 + self.net(self.history.flatten(1)) * 0.2
        return self.smooth.clamp(-1.0, 1.0)


def numbers(seed: int, count: int, shape: tuple[int, ...] = (1, 4)) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for _ in range(count)]


def export_filter(out: Path, *, steps: int = 6, resets: tuple[int, ...] = (3,), **options: Any) -> Path:
    code = Filter()
    with ashore.record("filter", out, **{**FAST, **options}) as rec:
        for index, x in enumerate(numbers(1, steps)):
            if index in resets:
                rec.reset()
                code.reset()
            with rec.step():
                rec.output("y", code.step(rec.input("x", x)))
    return out / "filter"


def check_exact(
    path: Path, make: Callable[[], Any], *, steps: int = 30, resets: tuple[int, ...] = (6, 7, 19), atol: float = 1e-6
) -> None:
    """A package gives what fresh code gives, on inputs that were not recorded."""
    code, policy = make(), ashore.load(path)
    for index, x in enumerate(numbers(2, steps)):
        if index in resets:
            code.reset()
            policy.reset()
        got = policy.step({"x": x.numpy()})["y"]
        np.testing.assert_allclose(got, code.step(x).detach().numpy(), atol=atol, rtol=0, err_msg=f"step {index}")
