"""Code written for the annotate door, and how it is recorded and compared with the package it became."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

import ashore
from ashore import annotate
from ashore.package import read


class Script:
    """User code with annotate calls in it. Outside a session these pass through, so it is its own eager reference."""

    inputs: ClassVar[Mapping[str, tuple[int, ...]]] = {"x": (1, 4)}
    """Name of a package input -> shape."""

    def reset(self) -> None:
        """Start a new episode."""

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Compute what the package gives, by its names."""
        raise NotImplementedError


def draw(made: type[Script], generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {name: torch.randn(shape, generator=generator) for name, shape in made.inputs.items()}


def run_annotated(made: type[Script], *, steps: int = 6, resets: tuple[int, ...] = (3,)) -> None:
    """Run code for some steps, as a person would between `start` and `stop`."""
    generator = torch.Generator().manual_seed(1)
    torch.manual_seed(0)
    code = made()
    for step in range(steps):
        if step in resets:
            annotate.reset()
            code.reset()
        code.step(draw(made, generator))


def export_annotated(
    made: type[Script], out: Path, *, steps: int = 6, resets: tuple[int, ...] = (3,), **options: Any
) -> Path:
    """Record code by the annotate door and compile it; the path of the package."""
    ashore.start("made", save_path=out)
    try:
        run_annotated(made, steps=steps, resets=resets)
    finally:
        ashore.stop()
    done = ashore.compile_graph(visualize=False, summary=False, **options)
    assert done
    assert all(done.values())
    return out / "made"


def worst_error(
    made: type[Script],
    path: Path,
    *,
    steps: int = 30,
    resets: tuple[int, ...] = (6, 7, 19),
    backend: str | Mapping[str, str] | None = None,
) -> float:
    """The largest difference between a package and a fresh instance of the code, on inputs that were not recorded."""
    policy = ashore.load(path, backend=backend)
    generator = torch.Generator().manual_seed(2)
    torch.manual_seed(0)
    code, worst = made(), 0.0
    for step in range(steps):
        if step in resets:
            code.reset()
            policy.reset()
        given = draw(made, generator)
        got = policy.step({name: tensor.numpy().copy() for name, tensor in given.items()})
        worst = max(worst, apart(got, code.step(given)))
    return worst


def apart(got: Mapping[str, np.ndarray], wanted: Mapping[str, torch.Tensor]) -> float:
    """The largest absolute difference between named arrays; names, shapes and dtypes must be the same."""
    assert got.keys() == wanted.keys()
    worst = 0.0
    for name, tensor in wanted.items():
        expected = tensor.detach().numpy()
        assert got[name].shape == expected.shape, name
        assert got[name].dtype == expected.dtype, name
        worst = max(worst, float(np.abs(got[name].astype(np.float64) - expected.astype(np.float64)).max()))
    return worst


def names_of(path: Path) -> tuple[list[str], list[str]]:
    """The inputs and the outputs of a package."""
    manifest = read(path).manifest
    return list(manifest.inputs), list(manifest.outputs)


class DeclaredStates(Script):
    """A filter in place and a counter that is rebound, both declared and updated."""

    def __init__(self) -> None:
        self.filtered = torch.full((1, 4), 0.5)
        self.count = torch.zeros(1, dtype=torch.int64)

    def reset(self) -> None:
        self.filtered = torch.full((1, 4), 0.5)
        self.count = torch.zeros(1, dtype=torch.int64)

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x = annotate.input_tensors("policy", {"x": given["x"]})
        filtered, count = annotate.state_tensors("policy", {"filtered": self.filtered, "count": self.count})
        filtered = filtered * 0.9 + x * 0.1
        count = count + 1
        self.filtered, self.count = annotate.update_state("policy", {"filtered": filtered, "count": count})
        y = filtered * count
        annotate.output_tensors("policy", {"y": y})
        return {"y": y}


class Shared(Script):
    """Two policies in one step that have port names in common."""

    inputs: ClassVar = {"left/x": (1, 4), "right/x": (1, 4), "gain": (1, 1)}

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x, gain = annotate.input_tensors("left", {"x": given["left/x"], "gain": given["gain"]})
        left = torch.sin(x) * gain
        annotate.output_tensors("left", {"y": left})
        x = annotate.input_tensors("right", {"x": given["right/x"]})
        right = torch.cos(x)
        annotate.output_tensors("right", {"y": right})
        return {"left/y": left, "right/y": right}
