"""Whether a first step that does something else still does the same.

``self.filtered = 0.0`` becomes a tensor in the first step, by other operations than later ones. What these operations
compute is tried with other inputs: if the program, started with the initial value, always gives the same outputs and
the same next states, then the initial value explains the first step. Otherwise it was only right by chance.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch

from ashore.capture.analysis import Analysis, Carried
from ashore.capture.program import Program, execute_again
from ashore.capture.starts import decided_slots
from ashore.capture.steps import Step
from ashore.capture.tape import Name
from ashore.capture.tensors import close

_SCALES = (1.0, 10.0, 1000.0)
"""How far the other inputs are from the recorded ones: a limit may be far away."""


def is_explained(
    analysis: Analysis, program: Program, step: Step, start: Mapping[str, torch.Tensor], decided: Collection[str]
) -> bool:
    """Whether a program gives what the first step of an episode would have given, whatever its inputs.

    Args:
        analysis: what is known about the steps.
        program: what to run.
        step: a first step.
        start: the states to start with.
        decided: states that decisions write before a substep finds them, so that they are as good as inputs.
    """
    slots = decided_slots(analysis, step, decided)
    generator = torch.Generator().manual_seed(0)
    for scale in _SCALES:
        inputs = {name: _other(step.tape.inputs[name].value, generator, scale) for name in program.inputs}
        left = {name: _other(step.tape.captures[slot].value, generator, scale) for name, slot in slots.items()}
        try:
            outputs, states = _replay(analysis, step, inputs, {slots[name]: value for name, value in left.items()})
            wanted, following = program.run(inputs, {**start, **left})
        except (RuntimeError, IndexError, ValueError):  # inputs that the code cannot work with
            continue
        if not all(close(outputs[name], value) for name, value in wanted.items()):
            return False
        if not all(close(value, following[name]) for name, value in states.items() if name in following):
            return False
    return True


def _replay(
    analysis: Analysis, step: Step, inputs: dict[Name, torch.Tensor], found: dict[int, torch.Tensor]
) -> tuple[dict[Name, torch.Tensor], dict[str, torch.Tensor]]:
    """What the operations of a step give on other inputs: its outputs, and the states that the next step finds."""
    tape = step.tape
    values = {slot: capture.value.clone() for slot, capture in tape.captures.items()}
    values |= {one.slot: one.value.clone() for one in tape.given() if not one.inner}
    values |= {slot: value.clone() for slot, value in found.items()}
    values |= {tape.inputs[name].slot: value.clone() for name, value in inputs.items()}
    outputs: dict[Name, torch.Tensor] = {}
    with torch.no_grad():
        for index in range(len(tape.ops) + 1):
            outputs |= {name: values[one.slot].clone() for name, one in tape.outputs.items() if one.at == index}
            execute_again(tape, tape.ops[index : index + 1], values)  # weights made on first use stay as drawn
    left = {carried.name: _left(analysis, carried, step) for carried in analysis.everything}
    return outputs, {name: values[slot] for name, slot in left.items() if slot is not None}


def _left(analysis: Analysis, carried: Carried, step: Step) -> int | None:
    """The slot of a step in which it leaves a state for the next one."""
    after = next(analysis.steps.after(step, carried.variable.rate), None)
    if after is None or carried.lag != 1:
        return None
    capture = analysis.variables.capture(after, carried.variable)
    slots = [] if capture is None else step.tape.slots_at(capture.place)
    return slots[-1] if slots else None


def _other(value: torch.Tensor, generator: torch.Generator, scale: float) -> torch.Tensor:
    if not value.is_floating_point():
        return value
    return value + scale * torch.randn(value.shape, generator=generator).to(value.dtype)
