"""Inputs that were not recorded, within the ranges of those that were, and what the operations make of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from ashore.capture.program import Programs, all_states
from ashore.capture.steps import Step
from ashore.capture.tape import Name
from ashore.spec import Rate

Tensors = dict[str, torch.Tensor]


class Tick(NamedTuple):
    """One step."""

    rate: Rate
    reset: bool
    inputs: dict[Name, torch.Tensor]
    outputs: dict[Name, torch.Tensor]
    states: Tensors
    """As they are after it."""


_EPISODE = 7


def fresh_rollout(programs: Programs, timeline: Sequence[Step], initial: Tensors, count: int, seed: int) -> list[Tick]:
    """Run programs on fresh inputs, with a reset every few steps, and with as many substeps a step as were recorded.

    Args:
        programs: what to run.
        timeline: the recording; its inputs say which values are possible.
        initial: the states to start with.
        count: how many steps of the policy rate.
        seed: of the inputs.
    """
    generator = torch.Generator().manual_seed(seed)
    rates: list[Rate] = ["policy", *["substep" for step in _first_decision(timeline)[1:]]]
    seen = {
        name: torch.stack([step.tape.inputs[name].value for step in timeline if step.rate == rate])
        for rate, program in programs.items()
        for name in program.inputs
    }
    kept = {name for name, state in all_states(programs).items() if state.reset == "keep"}
    current, ticks = initial, []
    for index in range(count):
        reset = index % _EPISODE == 0
        if reset:
            current = {name: current[name] if name in kept else initial[name] for name in initial}
        for rate in rates:
            inputs = {name: _draw(seen[name], generator) for name in programs[rate].inputs}
            outputs, current = programs[rate].run(inputs, current)
            ticks.append(Tick(rate, reset and rate == "policy", inputs, outputs, dict(current)))
    return ticks


def _first_decision(timeline: Sequence[Step]) -> Sequence[Step]:
    """A step of the policy rate and the substeps that follow it."""
    end = next((index for index, step in enumerate(timeline) if index and step.rate == "policy"), len(timeline))
    return timeline[:end]


def _draw(seen: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A tensor like those that were seen, element by element within their range."""
    choice = torch.randint(len(seen), seen.shape[1:], generator=generator)
    picked = torch.gather(seen, 0, choice.unsqueeze(0))[0]
    if not seen.is_floating_point():
        return picked
    other = torch.gather(seen, 0, torch.randint(len(seen), seen.shape[1:], generator=generator).unsqueeze(0))[0]
    share = torch.rand(seen.shape[1:], generator=generator).to(seen.dtype)
    return torch.where(picked.isfinite() & other.isfinite(), picked + (other - picked) * share, picked)
