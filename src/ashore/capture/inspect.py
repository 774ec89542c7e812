"""Findings that the operations themselves show: values that leave, chance, shapes that depend on data, other paths."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import pairwise

import torch

from ashore.capture.align import different_leaf
from ashore.capture.analysis import Analyses, Analysis
from ashore.capture.findings import Finding
from ashore.capture.lines import Line
from ashore.capture.movement import Movement
from ashore.capture.operations import RECURRENT, Op, Ref, is_random, schema_name
from ashore.capture.steps import Step
from ashore.capture.tape import Leak, Name, Tape

aten = torch.ops.aten

_DYNAMIC = frozenset(
    {
        "aten::nonzero",
        "aten::masked_select",
        "aten::_unique2",
        "aten::unique_dim",
        "aten::unique_consecutive",
        "aten::repeat_interleave",
        "aten::bincount",
    }
)
_LONGEST = 60


def inspect_recording(analyses: Analyses, static: Collection[Name] = ()) -> list[Finding]:
    """Everything that the recorded operations of all rates show to be wrong.

    Args:
        analyses: what is known about the steps.
        static: outputs that are meant to be constant.
    """
    return [finding for analysis in analyses.values() for finding in _inspect_operations(analysis, static)]


def _inspect_operations(analysis: Analysis, static: Collection[Name]) -> Iterator[Finding]:
    yield from _other_paths(analysis)
    tape, movement = analysis.steps.reference.tape, Movement(analysis)
    yield from _leaks(analysis, movement)
    yield from _dynamic(analysis, movement)
    for index in sorted(analysis.live.ops):
        op = tape.ops[index]
        if is_random(op) and index not in analysis.weights:
            yield Finding("randomness", f"{_named(op)} draws random numbers", op.line)
        yield from _training(op)
    for name, line in tape.odd:
        yield Finding("unsupported_operation", f"{name} works on a sparse or quantised tensor in `{line.text}`", line)
    yield from _ends(analysis, movement, static)
    yield from _counters(analysis)
    yield from _late_leaks(analysis, movement)


def _other_paths(analysis: Analysis) -> Iterator[Finding]:
    """Steps that do something else than the reference does."""
    for step in analysis.steps.all:
        if step is analysis.steps.reference or step.opening:
            continue  # the first step of an episode is judged by what comes out of it
        finding = _other_path(analysis, step)
        if finding is not None:
            yield finding
            return


def _other_path(analysis: Analysis, step: Step) -> Finding | None:
    match, ours, theirs = analysis.steps.match(step), analysis.steps.reference.tape.ops, step.tape.ops
    crossed, made_here = _crossing(analysis, step), _making(analysis, step)
    for index in sorted(analysis.live.ops):
        op = ours[index]
        if index not in match:
            line = _near(match, theirs, index) or op.line
            return Finding("control_flow", f"steps do different things: {_named(op)} is not done in every step", line)
        other = theirs[match[index]]
        leaf = different_leaf(op, other)
        if leaf is not None:
            message = (
                f"a number in {_named(op)} is {_short(op.leaves[leaf])} in one step"
                f" and {_short(other.leaves[leaf])} in another"
            )
            return Finding("python_value", message, op.line)
        if any(crossed(left.slot, right.slot) for left, right in _pairs(op, other)):
            return Finding("control_flow", f"{_named(op)} works on other tensors in other steps", op.line)
        if any(made_here(left.slot, right.slot) for left, right in _pairs(op, other)):
            message = f"steps do different things: what {_named(op)} works on is changed before it in some steps only"
            return Finding("control_flow", message, op.line)
    for name, declared in analysis.steps.reference.tape.outputs.items():
        other = step.tape.outputs[name].slot
        if crossed(declared.slot, other):
            line = next((op.line for op in reversed(theirs) if other in op.results), declared.line)
            message = f"steps do different things: the output {name[1]} is not made by the same operation in every step"
            return Finding("control_flow", message, line, name[1])
    extra = _extra_writes(analysis, step)
    if extra is not None:
        return Finding(
            "control_flow", f"steps do different things: {_named(extra)} is not done in every step", extra.line
        )
    return None


def _short(leaf: object) -> str:
    text = repr(leaf).splitlines()[0]
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _pairs(op: Op, other: Op) -> Iterator[tuple[Ref, Ref]]:
    """The tensors among the arguments of two aligned operations."""
    return ((left, right) for left, right in zip(op.leaves, other.leaves, strict=True) if isinstance(left, Ref))


def _crossing(analysis: Analysis, step: Step) -> Callable[[int, int], bool]:
    """Says of a slot of the reference and one of another step whether different operations gave them."""
    tape, theirs = analysis.steps.reference.tape, analysis.steps.counterparts(step)
    found = {*tape.captures, *(one.slot for one in tape.given())}
    return lambda ours, other: ours not in found and ours in theirs and other not in theirs[ours]


def _making(analysis: Analysis, step: Step) -> Callable[[int, int], bool]:
    """Says whether the reference finds a tensor, where another step works on something that it made itself."""
    found = analysis.steps.reference.tape.captures
    made = {slot for op in step.tape.ops for slot in op.results if slot not in op.reads()}
    made -= {*step.tape.captures, *(one.slot for one in step.tape.given())}
    return lambda ours, theirs: ours in found and theirs in made


def _extra_writes(analysis: Analysis, step: Step) -> Op | None:
    """An operation of another step that writes into what matters there, and that the reference does not do."""
    matched = set(analysis.steps.match(step).values())
    wanted = {step.tape.groups[out.slot] for out in step.tape.outputs.values()}
    for variable in analysis.carried:
        place = analysis.variables.place(step, variable)
        wanted |= set() if place is None else {step.tape.groups[place[1]]}
    for index, op in enumerate(step.tape.ops):
        if index not in matched and op.mutates & wanted:
            return op
    return None


def _near(match: dict[int, int], theirs: list[Op], index: int) -> Line | None:
    """Where another step goes on instead of doing an operation of the reference."""
    before = [other for ours, other in match.items() if ours < index]
    following = max(before, default=-1) + 1
    return theirs[following].line if following < len(theirs) else None


def _leaks(analysis: Analysis, movement: Movement) -> Iterator[Finding]:
    """Values that left for Python before the last output, and that can be different another time."""
    for step in analysis.steps.all:
        seen: set[Line] = set()
        for leak in step.tape.leaks:
            late = _is_late(analysis, step, leak)
            if not late and leak.line not in seen and movement.moves(step, leak.slot, leak.at):
                seen.add(leak.line)
                yield Finding("value_leak", f"a value leaves the graph by {leak.how} in `{leak.line.text}`", leak.line)
        if seen:
            return


def _dynamic(analysis: Analysis, movement: Movement) -> Iterator[Finding]:
    """Shapes that depend on data, which Python can see, whether the outputs need the tensors or not."""
    for step in analysis.steps.all:
        seen: set[Line] = set()
        for index, op in enumerate(step.tape.ops[: _last_output(analysis, step)]):
            deciding = _deciding(step.tape, op)
            if op.line not in seen and any(movement.moves(step, slot, index) for slot in deciding):
                seen.add(op.line)
                message = f"the shape of what {_named(op)} gives depends on data"
                yield Finding("data_dependent_shape", message, op.line)
        if seen:
            return


def _deciding(tape: Tape, op: Op) -> list[int]:
    """The slots whose values decide about the shape of what an operation gives."""
    name = schema_name(op)
    if name in _DYNAMIC:
        return op.reads()
    indices = op.leaves[1:] if name == "aten::index" else ()
    return [
        leaf.slot for leaf in indices if isinstance(leaf, Ref) and tape.dtype(leaf.slot) in (torch.bool, torch.uint8)
    ]


def _counters(analysis: Analysis) -> Iterator[Finding]:
    """Numbers of Python that change from step to step."""
    seen: set[tuple[int, str]] = set()
    steps = analysis.steps.all
    pairs = [(before, after) for before, after in pairwise(steps) if not after.opening]
    pairs += pairwise(step for step in steps if step.opening)
    for before, after in pairs:
        for key, (number, name, line) in after.tape.numbers.items():
            old = before.tape.numbers.get(key)
            if old is None or key in seen or old[0] == number:
                continue
            seen.add(key)
            message = f"{name} is a number of Python that changes between steps, from {old[0]!r} to {number!r}"
            yield Finding("python_counter", message, line, name)


def _late_leaks(analysis: Analysis, movement: Movement) -> Iterator[Finding]:
    """The first value that left for Python after the last output: it can decide what a later step does."""
    for step in analysis.steps.all:
        for leak in step.tape.leaks:
            if _is_late(analysis, step, leak) and movement.moves(step, leak.slot, leak.at):
                what = f"a value is read by {leak.how} after the outputs, in `{leak.line.text}`"
                yield Finding("late_leak", f"{what}; a later step must not depend on it", leak.line)
                return


def _is_late(analysis: Analysis, step: Step, leak: Leak) -> bool:
    """Whether a value left after all outputs, so that it can no longer decide about them in its own step."""
    return not _has_two_rates(analysis) and leak.outputs == len(step.tape.outputs)


def _has_two_rates(analysis: Analysis) -> bool:
    return len(analysis.steps.all) < len(analysis.steps.timeline)


def _last_output(analysis: Analysis, step: Step) -> int:
    """How far into a step its operations matter: with two rates to its end, since the other rate goes on from there."""
    if _has_two_rates(analysis):
        return len(step.tape.ops)
    return max((out.at for out in step.tape.outputs.values()), default=0)


def _training(op: Op) -> Iterator[Finding]:
    name, given = schema_name(op), op.given()
    if "batch_norm" in name and given.get("training") is True:
        yield Finding("training_mode", "a batch normalisation is in training mode", op.line)
    recurrent = name in RECURRENT and given.get("train") and given.get("dropout", 0.0) > 0.0
    if recurrent or "dropout" in name:
        yield Finding("training_mode", "a dropout is in training mode", op.line)


def _ends(analysis: Analysis, movement: Movement, static: Collection[Name]) -> Iterator[Finding]:
    """Inputs that nothing uses, outputs that nothing moves or that the step did not compute."""
    tape = analysis.steps.reference.tape
    for name in sorted(analysis.unused - analysis.elsewhere):
        message = f"nothing that comes out depends on the input {name[1]}"
        yield Finding("unused_input", message, tape.inputs[name].line, name[1])
    for name, declared in tape.outputs.items():
        if name in static or movement.moves(analysis.steps.reference, declared.slot, declared.at):
            continue
        if declared.captured:
            yield Finding("unwritten_output", f"the step did not compute the output {name[1]}", declared.line, name[1])
        else:
            message = f"the output {name[1]} depends on no input and on no state"
            yield Finding("constant_output", message, declared.line, name[1])


def _named(op: Op) -> str:
    return f"{str(op.target).split('.')[1] if '.' in str(op.target) else op.target} in `{op.line.text}`"
