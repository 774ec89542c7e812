"""Whether all steps declare the same things."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ashore.capture.findings import Finding
from ashore.capture.steps import Step
from ashore.capture.tape import Declared, Name

_GROUPS: tuple[tuple[Literal["inputs", "outputs", "states", "updates"], str], ...] = (
    ("inputs", "input"),
    ("outputs", "output"),
    ("states", "state"),
    ("updates", "update of the state"),
)


def check_declarations(steps: list[Step]) -> Iterator[Finding]:
    """Findings about ports that come and go, or change their shape or dtype, between steps."""
    for group, what in _GROUPS:
        first: dict[Name, Declared] = {}
        for step in steps:
            for name, declared in getattr(step.tape, group).items():
                first.setdefault(name, declared)
        for name, example in first.items():
            yield from _check(steps, group, f"{what} {name[1]}", name, example)
    decides = any(step.rate == "policy" for step in steps)
    if decides and not any(step.tape.outputs for step in steps):
        yield Finding("unwritten_output", "no step declared an output")


def _check(steps: list[Step], group: str, what: str, name: Name, example: Declared) -> Iterator[Finding]:
    for step in steps:
        declared: Declared | None = getattr(step.tape, group).get(name)
        if declared is None:
            message = f"the {what} is declared in some steps, but not in step {step.index}"
            yield Finding("control_flow", message, example.line, name[1])
            return
        ours, theirs = example.value, declared.value
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            was, now = (f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}" for value in (ours, theirs))
            message = f"the {what} is {was} in one step and {now} in step {step.index}"
            yield Finding("changing_shape", message, declared.line, name[1])
            return
        if example.inner != declared.inner:
            message = f"the {what} is computed within some steps, and comes from outside in step {step.index}"
            yield Finding("control_flow", message, declared.line, name[1])
            return
