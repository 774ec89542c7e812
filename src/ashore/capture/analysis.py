"""From recorded steps to what they compute, or to findings that say why that cannot be told.

Follows the outputs of the reference step back to everything they depend on, asks the other steps what each captured
tensor is, follows what the states become, and so on until nothing new turns up.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import torch

from ashore.capture.findings import Finding
from ashore.capture.lines import Line
from ashore.capture.liveness import Liveness
from ashore.capture.naming import spoken, state_name
from ashore.capture.steps import Steps
from ashore.capture.tape import Capture, Name, Place, Ref, is_random, place_of, schema_name, snapshot
from ashore.capture.variables import Origin, Variable, Variables, changed


@dataclass
class Carried:
    """A state: what an earlier step left in a variable for a later one."""

    name: str
    variable: Variable
    origin: Origin
    line: Line
    path: str | None
    declared: Name | None = None
    """What the user called it, if it was declared."""


@dataclass
class Analysis:
    """What is known about the steps."""

    steps: Steps
    variables: Variables
    live: Liveness
    constants: dict[Variable, Capture] = field(default_factory=dict)
    carried: dict[Variable, Carried] = field(default_factory=dict)
    feedback: dict[Name, Name] = field(default_factory=dict)
    """Declared inputs that are what was an output a step earlier -> that output."""

    weights: set[int] = field(default_factory=set)
    """Operations that drew random weights, in a recording of a single step; what they drew is a constant."""

    edges: set[Name] = field(default_factory=set)
    """Outputs that another node of the same step takes as an input."""

    findings: list[Finding] = field(default_factory=list)


def analyse(steps: Steps, *, feedback: bool, owned: Mapping[int, str], named: Mapping[int, str]) -> Analysis:
    """Find out what the reference step computes, and from what.

    Args:
        steps: the recording.
        feedback: whether a declared input that was an output a step earlier is a state.
        owned: id of a tensor -> its path, for the parameters and buffers of modules.
        named: id of a tensor -> what the user called it.
    """
    tape, variables = steps.reference.tape, Variables(steps)
    result = Analysis(steps, variables, Liveness(tape, (), ()))
    if feedback:
        result.feedback = dict(_feedback(steps))
    for name, declared in tape.states.items():
        origin, agreed = variables.declared_origin(name)
        variable = Variable(declared.slot)
        if not agreed and name not in tape.updates:
            message = f"the state {name[1]} comes from different places in different steps"
            result.findings.append(Finding("control_flow", message, declared.line, name[1]))
        known = origin if origin is not None and name not in tape.updates else Origin(1, variable)
        result.carried[variable] = Carried("/".join(name), variable, known, declared.line, name[1], declared=name)
    inner = {declared.slot for declared in tape.inputs.values() if declared.inner}
    result.edges = {name for name, declared in tape.outputs.items() if declared.slot in inner}
    seen: set[Variable] = set(result.carried)
    while True:
        result.live = _liveness(result)
        fresh = [variable for variable in dict.fromkeys(_live_variables(result)) if variable not in seen]
        if not fresh:
            break
        for variable in fresh:
            _classify(result, variable, named)
            seen.add(variable)
    if len(steps.all) == 1:
        result.findings += _unproven(result, owned)
        _keep_weights(result)
    result.findings += _waiting_in_lists(result)
    return result


def _liveness(result: Analysis) -> Liveness:
    tape = result.steps.reference.tape
    ends = {carried.origin.source.slot for carried in result.carried.values()}
    ends |= {tape.outputs[output].slot for output in result.feedback.values()}
    moments = [(declared.slot, declared.at) for declared in (*tape.outputs.values(), *tape.updates.values())]
    return Liveness(tape, ends, moments)


def _live_variables(result: Analysis) -> Iterator[Variable]:
    """Captured variables whose content matters, in the order in which they are read."""
    tape, live = result.steps.reference.tape, result.live
    for index in sorted(live.ops):
        for argument, leaf in enumerate(tape.ops[index].leaves):
            if isinstance(leaf, Ref) and leaf.slot in tape.captures and tape.groups[leaf.slot] in live.groups:
                yield result.variables.variable(leaf.slot, (index, argument))
    for carried in list(result.carried.values()):
        if carried.origin.source.slot in tape.captures:
            yield carried.origin.source


def _classify(result: Analysis, variable: Variable, named: Mapping[int, str]) -> None:
    capture = result.steps.reference.tape.captures[variable.slot]
    origin, agreed = result.variables.origin(variable)
    if origin is not None and (origin != Origin(1, variable) or variable.read is None):
        known = [one for one in result.carried.values() if one.variable.slot == variable.slot and one.origin == origin]
        taken = {carried.name.rpartition("/")[2] for carried in result.carried.values()}
        ids = [id(sighting.capture.tensor) for sighting in result.variables.sightings(variable)]
        called = next((named[one] for one in ids if one in named), None)
        name = known[0].name if known else state_name(called or capture.path, taken)
        result.carried[variable] = Carried(name, variable, origin, capture.line, capture.path)
        return
    result.constants[variable] = capture
    if not agreed:
        message = f"{spoken(capture)} comes from different places in different steps"
        result.findings.append(Finding("control_flow", message, capture.line, capture.path))
    elif _drawn_by_reset(result, variable):
        message = f"{spoken(capture)} is drawn at random by a reset"
        result.findings.append(Finding("reset_value", message, capture.line, capture.path))
    elif _made_from_inputs(result, variable):
        message = f"{spoken(capture)} was made by an earlier step from its inputs, and not again"
        result.findings.append(Finding("first_step", message, capture.line, capture.path))
    elif capture.created and changed(result.variables.sightings(variable)):
        message = f"a number in `{capture.line.text}` changes between steps"
        result.findings.append(Finding("python_value", message, capture.line))
    elif changed(result.variables.sightings(variable)):
        message = f"{spoken(capture)} changes between steps, and nobody declared it"
        result.findings.append(Finding("undeclared_input", message, capture.line, capture.path))


def _drawn_by_reset(result: Analysis, variable: Variable) -> bool:
    """Whether what looks like a constant was made of random numbers when an episode began."""
    for sighting in result.variables.sightings(variable):
        tape = sighting.step.resetting
        if tape is None:
            continue
        for slot in tape.slots_at(sighting.capture.place):
            if any(is_random(tape.ops[index]) for index in Liveness(tape, [slot], ()).ops):
                return True
    return False


def _made_from_inputs(result: Analysis, variable: Variable) -> bool:
    """Whether what looks like a constant was computed by a recorded step from what was declared there."""
    places = {sighting.capture.place for sighting in result.variables.sightings(variable)}
    for step in result.steps.all:
        tape = step.tape
        declared = {tape.groups[one.slot] for one in tape.given()}
        for slot in (slot for place in places for slot in tape.slots_at(place) if slot not in tape.captures):
            if declared & Liveness(tape, (), [(slot, len(tape.ops))]).groups:
                return True
    return False


def _feedback(steps: Steps) -> Iterator[tuple[Name, Name]]:
    """Declared inputs that are, in every step that has one before it, an output of the step before."""
    for name in steps.reference.tape.inputs:
        candidates: set[Name] | None = None
        for step in steps.all:
            before = next(steps.before(step), None)
            declared = step.tape.inputs.get(name)
            if before is None or declared is None:
                continue
            slots = set(before.tape.slots_at(declared.place))
            found = {output for output, other in before.tape.outputs.items() if other.slot in slots}
            candidates = found if candidates is None else candidates & found
        if candidates:
            yield name, min(candidates)


def _unproven(result: Analysis, owned: Mapping[int, str]) -> Iterator[Finding]:
    """One step proves little: what it read and nobody declared could be anything."""
    captures = result.steps.reference.tape.captures
    read = {variable.slot for variable in (*result.constants, *result.carried)} & captures.keys()
    for capture in (captures[slot] for slot in sorted(read)):
        if id(capture.tensor) not in owned and not capture.created:
            message = (
                f"{spoken(capture)} was read, and one step cannot tell whether it is a constant, a state or an input"
            )
            yield Finding("too_few_steps", message, capture.line, capture.path)


_DRAWING = frozenset({"aten::randn", "aten::rand", "aten::randint", "aten::normal", "aten::randperm"})
_MATRIX = frozenset({"aten::mm", "aten::matmul", "aten::linear", "aten::addmm", "aten::bmm", "aten::mv", "aten::dot"})


def _keep_weights(result: Analysis) -> None:
    """Take random numbers for constants that are made once and only multiplied with: weights."""
    tape = result.steps.reference.tape
    for index in sorted(result.live.ops):
        op = tape.ops[index]
        if schema_name(op) not in _DRAWING or (slot := op.results[0]) is None or op.mutates:
            continue
        readers = [other for other in tape.ops if any(tape.groups[read] == tape.groups[slot] for read in other.reads())]
        if readers and all(schema_name(other) in _MATRIX or schema_name(other) == "aten::detach" for other in readers):
            tensor = tape.tensor(slot)
            drawn = Capture(slot, tensor, snapshot(tensor), None, op.line, None, True, tape.place(slot))
            result.constants[Variable(slot)] = drawn
            result.weights.add(index)


def _waiting_in_lists(result: Analysis) -> Iterator[Finding]:
    """A constant that lies in a list among tensors that steps made: the list is longer than the episodes were."""
    made = {declared.place for step in result.steps.all for declared in step.tape.inputs.values()}
    for step in result.steps.all:
        tape = step.tape
        fresh = {slot for op in tape.ops for slot in op.results if slot is not None and slot not in op.reads()}
        made |= {tape.place(slot) for slot in fresh if tape.groups[slot] not in tape.captures}
    found = {variable: result.variables.sightings(variable) for variable in result.constants}
    tensors = {id(one.capture.tensor): one.capture.tensor for sightings in found.values() for one in sightings}
    # One call for all of them: each goes through everything that is alive.
    holders = [one for one in gc.get_referrers(*tensors.values()) if isinstance(one, list | deque)]
    tapes = [tape for step in result.steps.all for tape in (step.tape, step.resetting) if tape is not None]
    holders = [one for one in holders if not any(tape.holds(one) for tape in tapes)]
    for variable, sightings in found.items():
        known = {id(one.capture.tensor) for one in sightings}
        if any(_holds_both(holder, known, made) for holder in holders):
            capture = result.constants[variable]
            message = f"{spoken(capture)} lies in a list with tensors that steps put there, and that none has read"
            yield Finding("too_few_steps", message, capture.line, capture.path)


def _holds_both(holder: list[object] | deque[object], known: Collection[int], places: Collection[Place]) -> bool:
    """Whether a list of nothing but tensors holds one that is known, and one that lies at one of the places."""
    if not all(isinstance(thing, torch.Tensor) for thing in holder):
        return False
    others = [thing for thing in holder if isinstance(thing, torch.Tensor) and id(thing) not in known]
    return len(others) < len(holder) and any(place_of(thing) in places for thing in others)
