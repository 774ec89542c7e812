"""Running programs over the recording they were made of.

This gives them their initial states and reset rules, and checks that they compute what the code computed, step by
step and over whole episodes, before anything is exported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import torch

from ashore.capture.align import different_leaf
from ashore.capture.analysis import Analyses, Analysis
from ashore.capture.findings import Finding
from ashore.capture.firststeps import is_explained
from ashore.capture.lines import Line
from ashore.capture.program import Program, Programs, ProgramState, all_states
from ashore.capture.starts import ResetEffect, Starts, Tensors
from ashore.capture.steps import Step
from ashore.capture.tape import Name
from ashore.capture.tensors import close, same

States: TypeAlias = Mapping[str, ProgramState]


@dataclass
class Rollout:
    """What programs give on the inputs of their recording."""

    states: list[Tensors] = field(default_factory=list)
    """The states after each step."""

    findings: list[Finding] = field(default_factory=list)


def roll_out(analyses: Analyses, programs: Programs, *, exclusive: bool = False) -> Rollout:
    """Complete the states of the programs, and run them over the recording.

    Args:
        analyses: what is known about the steps.
        programs: what they do.
        exclusive: whether nothing but steps and resets may write into states, even if that changes nothing.
    """
    starts, timeline, states = Starts(analyses), analyses["policy"].steps.timeline, all_states(programs)
    rollout = Rollout()
    unknown, unseen = _set_initial(states, starts, timeline)
    rollout.findings += _changing(states, starts, timeline)
    if unknown:
        message = f"the initial value of {', '.join(unknown)} cannot be told from so few steps"
        rollout.findings.append(Finding("too_few_steps", message, states[unknown[0]].line))
    if rollout.findings:
        return rollout
    for rate, analysis in analyses.items():
        rollout.findings += _first_steps(analysis, programs[rate], states, starts, unseen)
    votes: dict[str, set[str]] = {name: set() for name in states}
    current: Tensors = {}
    for step in timeline:
        if step.reset:
            seen = starts.opening(step)
            if step.index:
                rollout.findings += _resets(states, current, seen, votes, starts.what_reset_did(step), step.rows)
            before = current if step.rows is not None and step.index else {}
            current = {name: seen.get(name, before.get(name, state.start)) for name, state in states.items()}
        else:
            seen = starts.at(step)
            rollout.findings += _outside_writes(states, current, seen)
            # What agrees goes on as it was seen, so that rounding errors do not add up.
            agreed = {name: value for name, value in seen.items() if name in current and close(value, current[name])}
            current = {**current, **agreed}
            rollout.findings += _touched(states, starts.touched(step)) if exclusive else ()
        program = programs[step.rate]
        inputs = {name: step.tape.inputs[name].value for name in program.inputs}
        outputs, current = program.run(inputs, current)
        rollout.states.append(current)
        rollout.findings += _differences(analyses[step.rate], step, outputs)
    rollout.findings += _settle(states, votes, recorded=any(step.reset for step in timeline[1:]))
    return rollout


def _set_initial(states: States, starts: Starts, timeline: list[Step]) -> tuple[list[str], set[str]]:
    """Give every state its initial value.

    Returns:
        The states of which no step shows any value, and those of which later steps do, but not the first.
    """
    first, unknown, unseen = starts.opening(timeline[0]), [], set[str]()
    for name, state in states.items():
        seen = [value for step in timeline if (value := starts.at(step).get(name)) is not None]
        if name in first:
            rows = timeline[0].rows
            state.initial = first[name] if rows is None else _like_row(first[name], rows)
        elif seen:
            state.initial = torch.zeros_like(seen[0])
            unseen.add(name)
        else:
            unknown.append(name)
    return unknown, unseen - starts.decided


def _first_steps(
    analysis: Analysis, program: Program, states: States, starts: Starts, unseen: set[str]
) -> Iterator[Finding]:
    """First steps of episodes that do something else than later ones, and that no initial state explains."""
    odd = [step for step in analysis.steps.all if step.opening and _odd_line(analysis, step) is not None]
    unexplained = [
        step for step in odd if not is_explained(analysis, program, step, _start(states, starts, step), starts.decided)
    ]
    if not unexplained:
        return
    doubtful = starts.from_inputs | unseen
    for name in sorted(doubtful):
        state = states[name]
        called = state.path or name
        message = f"{called} is made from the inputs of the first step of an episode, not from an initial value"
        yield Finding("first_step", message, state.line, called)
    if not doubtful:
        message = "the first step of an episode does something that no initial state explains"
        yield Finding("first_step", message, _odd_line(analysis, unexplained[0]))


def _start(states: States, starts: Starts, step: Step) -> Tensors:
    """The states that a first step starts with: as it shows them, else their initial values."""
    seen = starts.at(step)
    return {name: seen.get(name, state.start) for name, state in states.items()}


def _changing(states: States, starts: Starts, steps: list[Step]) -> Iterator[Finding]:
    """States that do not keep their shape or dtype."""
    for name, state in states.items():
        seen = {(tuple(value.shape), value.dtype) for step in steps if (value := starts.at(step).get(name)) is not None}
        if len(seen) > 1:
            shapes = sorted(str(list(shape)) for shape, _ in seen)
            message = f"the state {name} has other shapes or dtypes in other steps: {', '.join(shapes[:4])}"
            yield Finding("changing_shape", message, state.line, state.path or name)


def _resets(
    states: States,
    before: Tensors,
    seen: Tensors,
    votes: dict[str, set[str]],
    effects: Mapping[str, ResetEffect],
    rows: tuple[bool, ...] | None,
) -> Iterator[Finding]:
    """What a reset did to each state: a vote for a rule, or a finding if it fits none."""
    for name, value in seen.items():
        if name not in states:
            continue
        state, start, left = states[name], states[name].start, before[name]
        if rows is not None:
            axis = _axis_of_rows(value, left, rows)
            if axis is None and len(rows) in value.shape:
                message = f"a reset of some rows changed the state {name} of the others"
                yield Finding("reset_value", message, state.line, state.path or name)
            value, start, left = (_of_rows(one, axis, rows) for one in (value, start, left))
        if effects.get(name) == "from_inputs":
            message = f"a reset made the state {name} from an input"
            yield Finding("reset_value", message, state.line, state.path or name)
            continue
        restored, kept = same(value, start), close(value, left)
        if kept and not restored and rows is None and effects.get(name) == "unclear":
            message = f"a reset changes the state {name} in part or within limits, which no rule for resets can say"
            yield Finding("reset_value", message, state.line, state.path or name)
        elif restored != kept:
            votes[name].add("initial" if restored else "keep")
        elif restored and effects.get(name) == "kept":  # its value tells nothing, but nobody wrote to it
            votes[name].add("keep")
        elif restored and effects.get(name) == "unclear":
            message = (
                f"a reset changed the state {name} in part, while it had its initial value; reset it after it changed"
            )
            yield Finding("reset_value", message, state.line, state.path or name)
        elif not restored:
            message = f"a reset gave the state {name} a value of its own: {_first_difference(start, value)}"
            yield Finding("reset_value", message, state.line, state.path or name)


def _axis_of_rows(value: torch.Tensor, left: torch.Tensor, rows: tuple[bool, ...]) -> int | None:
    """The axis of a state along which a reset of some rows left the others alone, or None."""
    others = tuple(not row for row in rows)
    axes = [axis for axis, length in enumerate(value.shape) if length == len(rows)]
    return next((axis for axis in axes if close(_of_rows(value, axis, others), _of_rows(left, axis, others))), None)


def _of_rows(value: torch.Tensor, axis: int | None, rows: tuple[bool, ...]) -> torch.Tensor:
    """Some rows of a state; all of one that has no rows."""
    return value if axis is None else value.index_select(axis, torch.tensor(rows).nonzero().flatten())


def _like_row(value: torch.Tensor, rows: tuple[bool, ...]) -> torch.Tensor:
    """A state whose rows are all like the first that starts an episode; the others are in the middle of one."""
    axis = next((axis for axis, length in enumerate(value.shape) if length == len(rows)), None)
    return value if axis is None else value.narrow(axis, rows.index(True), 1).expand_as(value).clone()


def _settle(states: States, votes: dict[str, set[str]], *, recorded: bool) -> Iterator[Finding]:
    """Give every state the rule that the resets voted for."""
    for name, cast in votes.items():
        if len(cast) > 1:
            state = states[name]
            message = f"resets restored the state {name} at one time and kept it at another"
            yield Finding("reset_value", message, state.line, state.path or name)
        states[name].reset = "keep" if cast == {"keep"} else "initial"
    if states and not recorded:
        yield Finding("no_reset", "no reset was recorded")


def _outside_writes(states: States, expected: Tensors, seen: Tensors) -> Iterator[Finding]:
    """States that a step found with another value than the step before had left."""
    for name, value in seen.items():
        if name in expected and not close(value, expected[name]):
            state = states[name]
            message = f"the state {name} was changed between steps: {_first_difference(expected[name], value)}"
            yield Finding("outside_write", message, state.line, state.path or name)


def _touched(states: States, names: Iterable[str]) -> Iterator[Finding]:
    """States that something outside of the steps wrote into, though it changed nothing while that was recorded."""
    for name in names:
        if name in states:
            state = states[name]
            message = f"something outside of the parts that are exported writes into the state {name}"
            yield Finding("outside_write", message, state.line, state.path or name)


def _differences(analysis: Analysis, step: Step, outputs: dict[Name, torch.Tensor]) -> Iterator[Finding]:
    """Outputs that differ from what the code computed."""
    for name, value in outputs.items():
        declared = step.tape.outputs[name]
        if not close(declared.value, value):
            odd = _odd_line(analysis, step) if step.opening else None
            kind = "first_step" if odd else "not_reproduced"
            what = "the first step of an episode" if odd else f"step {step.index}"
            message = f"{what} gave another {name[1]}: {_first_difference(declared.value, value)}"
            yield Finding(kind, message, odd or declared.line, name[1])


def _odd_line(analysis: Analysis, step: Step) -> Line | None:
    """Where a step first does something that the reference does not, or the other way round."""
    match, ops = analysis.steps.match(step), analysis.steps.reference.tape.ops
    for index in sorted(analysis.live.ops):
        if index not in match or different_leaf(ops[index], step.tape.ops[match[index]]) is not None:
            return ops[index].line
    matched = set(match.values())
    return next((op.line for index, op in enumerate(step.tape.ops) if index not in matched), None)


def _first_difference(expected: torch.Tensor, got: torch.Tensor) -> str:
    if expected.shape != got.shape:
        return f"shape {list(expected.shape)} became {list(got.shape)}"
    wrong = (expected != got).nonzero()
    index = tuple(int(part) for part in wrong[0]) if len(wrong) else ()
    return f"element {list(index)} was {expected[index].item():.6g}, and is {got[index].item():.6g}"
