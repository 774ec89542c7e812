"""Inputs that were not recorded, within the ranges of those that were, and what the operations make of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from ashore.capture.program import Program
from ashore.capture.steps import Step
from ashore.capture.tape import Name

Tensors = dict[str, torch.Tensor]


class Tick(NamedTuple):
    """One step."""

    reset: bool
    inputs: dict[Name, torch.Tensor]
    outputs: dict[Name, torch.Tensor]
    states: Tensors
    """As they are after it."""


_EPISODE = 7


def fresh_rollout(program: Program, steps: Sequence[Step], initial: Tensors, count: int, seed: int) -> list[Tick]:
    """Run a program on fresh inputs, with a reset every few steps.

    Args:
        program: what to run.
        steps: the recording; its inputs say which values are possible.
        initial: the states to start with.
        count: how many steps.
        seed: of the inputs.
    """
    generator = torch.Generator().manual_seed(seed)
    seen = {name: torch.stack([step.tape.inputs[name].value for step in steps]) for name in program.inputs}
    current, ticks = initial, []
    for index in range(count):
        reset = index % _EPISODE == 0
        if reset:
            kept = {name for name, state in program.states.items() if state.reset == "keep"}
            current = {name: current[name] if name in kept else initial[name] for name in initial}
        inputs = {name: _draw(values, generator) for name, values in seen.items()}
        outputs, current = program.run(inputs, current)
        ticks.append(Tick(reset, inputs, outputs, current))
    return ticks


def _draw(seen: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A tensor like those that were seen, element by element within their range."""
    choice = torch.randint(len(seen), seen.shape[1:], generator=generator)
    picked = torch.gather(seen, 0, choice.unsqueeze(0))[0]
    if not seen.is_floating_point():
        return picked
    other = torch.gather(seen, 0, torch.randint(len(seen), seen.shape[1:], generator=generator).unsqueeze(0))[0]
    share = torch.rand(seen.shape[1:], generator=generator).to(seen.dtype)
    return torch.where(picked.isfinite() & other.isfinite(), picked + (other - picked) * share, picked)
