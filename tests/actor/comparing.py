"""A package and its plain file, step by step against what a trainer's own inference call decides."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import pytest
import torch

import ashore
import support
from ashore.actor.plain import write_onnx
from ashore.errors import InputError
from ashore.package import Package

STEPS, ROWS = 100, 3
ATOL = 1e-5
QUICK = {"picture": False, "summary": False, "validation_steps": 5}
Inputs = Mapping[str, torch.Tensor]


@contextmanager
def refusing(folder: Path, match: str, error: type[Exception] = InputError) -> Iterator[None]:
    """Expect an error that says so, and nothing written into a folder, not even a part of it."""
    before = sorted(folder.rglob("*"))
    with pytest.raises(error, match=match):
        yield
    assert sorted(folder.rglob("*")) == before


class Pair(NamedTuple):
    """What an export gives."""

    package: Package
    file: Path


def with_file(package: Package) -> Pair:
    """A package, and its plain file beside it."""
    file = package.path.parent / f"{package.path.name}.onnx"
    write_onnx(package, file)
    return Pair(package, file)


_EXPORT = """
import os, sys
folder, out, trainer, checkpoint, model, *places = sys.argv[1:]
sys.path[:0] = places
from pathlib import Path
from actor.comparing import QUICK, with_file
from ashore.integrations.trainers import Source, export_checkpoint
source = Source(Path(checkpoint), model=model)
with_file(export_checkpoint(trainer, source, Path(folder) / out, batch="dynamic", **QUICK))
"""


def exported_elsewhere(folder: Path, name: str, trainer: str, checkpoint: Path, model: str) -> Pair:
    """A checkpoint, exported by a process that starts with nothing but the file."""
    places = [str(Path(__file__).parents[1]), str(Path(ashore.__file__).parents[1])]
    done = support.run_python(_EXPORT, str(folder), name, trainer, str(checkpoint), model, *places)
    assert done.returncode == 0, done.stderr
    return Pair(ashore.package.read(folder / name), folder / f"{name}.onnx")


class Plain:
    """A plain file, run as a controller runs it: hidden states are handed from one step to the next."""

    def __init__(self, file: Path) -> None:
        self.session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        self.inputs = [one.name for one in self.session.get_inputs()]
        self.outputs = [one.name for one in self.session.get_outputs()]
        self._shapes = {one.name: one.shape for one in self.session.get_inputs() if one.name.endswith("_in")}
        self._states: dict[str, np.ndarray] = {}

    def reset(self, rows: np.ndarray) -> None:
        for name, shape in self._shapes.items():
            axis = next((place for place, length in enumerate(shape) if isinstance(length, str)), 1)
            if name not in self._states or self._states[name].shape[axis] != len(rows):
                sizes = [len(rows) if isinstance(length, str) else length for length in shape]
                self._states[name] = np.zeros(sizes, np.float32)
            kept = self._states[name].copy()
            kept[(slice(None),) * axis + (rows,)] = 0.0
            self._states[name] = kept

    def step(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        made = dict(zip(self.outputs, self.session.run(None, {**inputs, **self._states}), strict=True))
        self._states = {name: made[f"{name.removesuffix('_in')}_out"] for name in self._shapes}
        return made["actions"]


def resets(steps: int, rows: int, seed: int = 0) -> torch.Tensor:
    """Which rows begin an episode before each step."""
    dones = torch.rand(steps, rows, generator=torch.Generator().manual_seed(100 + seed)) < 0.08
    dones[0] = True
    return dones


def worst_error(
    pair: Pair,
    draw: Callable[[int, torch.Generator], Inputs],
    decide: Callable[[Inputs], Any],
    reset: Callable[[torch.Tensor], Any],
    rows: int,
    steps: int = STEPS,
) -> float:
    """The largest difference of an action in a run with resets.

    Args:
        pair: with an open batch, or for one row.
        draw: inputs with so many rows.
        decide: the trainer's own call.
        reset: its own reset of the rows that are done.
        rows: how many.
        steps: how many.
    """
    generator, dones = torch.Generator().manual_seed(rows), resets(steps, rows, seed=rows)
    batched = any("batch" in port.shape for port in pair.package.manifest.inputs.values())
    policy, plain, worst = (
        ashore.load(pair.package, batch=rows) if batched else ashore.load(pair.package),
        Plain(pair.file),
        0.0,
    )
    policy.reset()
    for done in dones:
        inputs = draw(rows, generator)
        reset(done)
        with torch.no_grad():
            expected = np.asarray(decide({name: value.clone() for name, value in inputs.items()}))
        if batched:
            policy.reset(done.numpy())
        elif done.any():
            policy.reset()
        plain.reset(done.numpy())
        given = {name: value.numpy() for name, value in inputs.items()}
        for made in (np.array(policy.step(given)["actions"]), plain.step(given)):
            assert made.shape == expected.shape
            worst = max(worst, float(np.abs(made.astype(np.float64) - expected.astype(np.float64)).max()))
    show(pair, rows, worst)
    return worst


def recorded_error(
    pair: Pair, inputs: Iterable[Mapping[str, np.ndarray]], dones: Iterable[np.ndarray], expected: np.ndarray
) -> float:
    """The largest difference from actions that a trainer decided elsewhere, [step, row, action].

    Args:
        pair: with an open batch.
        inputs: of each step.
        dones: which rows begin an episode before each step.
        expected: what was decided.
    """
    rows = expected.shape[1]
    policy, plain, worst = ashore.load(pair.package, batch=rows), Plain(pair.file), 0.0
    for given, done, wanted in zip(inputs, dones, expected, strict=True):
        policy.reset(done)
        plain.reset(done)
        for made in (policy.step(dict(given))["actions"], plain.step(given)):
            assert made.shape == wanted.shape
            worst = max(worst, float(np.abs(made.astype(np.float64) - wanted).max()))
    show(pair, rows, worst)
    return worst


def show(pair: Pair, rows: int, worst: float) -> None:
    """Write a figure to where pytest shows it with -rP."""
    sys.stderr.write(f"largest error: {pair.package.manifest.name}, {rows} rows, {worst:.1e}\n")


def varied(decide: Callable[[Inputs], Any], draw: Callable[[int, torch.Generator], Inputs]) -> float:
    """How much actions differ between observations: a policy that always does the same proves nothing."""
    with torch.no_grad():
        return float(
            np.asarray(decide(draw(64, torch.Generator().manual_seed(0)))).astype(np.float64).std(axis=0).max()
        )
