"""From recorded steps to what they compute, or to findings that say why that cannot be told.

Follows the outputs of the reference step back to everything they depend on, asks the other steps what each captured
tensor is, follows what the states become, and so on until nothing new turns up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

import torch

from ashore.capture.findings import Finding
from ashore.capture.lines import Line
from ashore.capture.liveness import Liveness, looked_at
from ashore.capture.naming import spoken, state_name, unique
from ashore.capture.operations import Ref, is_random, schema_name
from ashore.capture.steps import Step, Steps
from ashore.capture.tape import Capture, Held, Name, Tape
from ashore.capture.tensors import Place, place_of, snapshot
from ashore.capture.variables import Origin, Sighting, Variable, Variables, changed
from ashore.spec import RATES, Rate


@dataclass
class Carried:
    """A state: what an earlier step left in a variable for a later one."""

    name: str
    variable: Variable
    origins: Mapping[Rate, Origin]
    """Rate -> what steps of that rate leave in it."""

    line: Line
    path: str | None
    declared: Name | None = None
    """What the user called it, if it was declared."""

    @property
    def lag(self) -> int:
        """How many steps earlier it was left there."""
        return max(origin.lag for origin in self.origins.values())


@dataclass
class Analysis:
    """What is known about the steps of one rate."""

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

    unused: set[Name] = field(default_factory=set)
    """Declared inputs that nothing which comes out of this rate depends on."""

    elsewhere: set[Name] = field(default_factory=set)
    """Those of them that are inputs of the other rate, and are told of there if that does not use them either."""

    findings: list[Finding] = field(default_factory=list)

    everything: list[Carried] = field(default_factory=list)
    """What is carried at this rate and at the other."""

    def writes(self) -> dict[str, tuple[Carried, Origin]]:
        """State -> what steps of this rate leave in it, where that is something else than they found."""
        found: dict[str, tuple[Carried, Origin]] = {}
        for carried in self.everything:
            origin = carried.origins.get(self.steps.rate)
            if origin is not None and origin.source.rate == self.steps.rate and not self._hands_on(carried, origin):
                found.setdefault(carried.name, (carried, origin))
        return found

    def moves(self) -> dict[str, tuple[Carried, Carried]]:
        """State -> (it, another): what a decision leaves in it is what the other was before."""
        found: dict[str, tuple[Carried, Carried]] = {}
        for carried in self.everything if self.steps.rate == "policy" else ():
            origin = carried.origins.get("policy")
            others = [one for one in self.everything if origin is not None and one.variable == origin.source]
            if others and others[0].variable.rate != "policy":
                found[carried.name] = carried, others[0]
        return found

    def _hands_on(self, carried: Carried, origin: Origin) -> bool:
        """Whether a step leaves a state as it found it, for the other rate to find."""
        found = self.carried.get(origin.source)
        passive = origin.lag == 1 and origin.source.read is not None
        return passive and found is not None and found.name == carried.name


Analyses: TypeAlias = Mapping[Rate, Analysis]


def analyse(
    timeline: list[Step],
    *,
    feedback: bool,
    owned: Mapping[int, str],
    named: Mapping[int, str],
    lists: Sequence[list[object] | deque[object]],
) -> dict[Rate, Analysis]:
    """Find out what the reference steps compute, and from what.

    Args:
        timeline: the recording.
        feedback: whether a declared input that was an output a step earlier is a state.
        owned: id of a tensor -> its path, for the parameters and buffers of modules.
        named: id of a tensor -> what the user called it.
        lists: every list and deque that is alive.

    Returns:
        Rate -> what is known about it, for the rates that were recorded.
    """
    rates: dict[Rate, Steps] = {
        rate: Steps(timeline, rate) for rate in RATES if any(step.rate == rate for step in timeline)
    }
    variables = Variables(rates)
    everything: list[Carried] = []
    results: dict[Rate, Analysis] = {
        rate: Analysis(steps, variables, Liveness(steps.reference.tape, (), ()), everything=everything)
        for rate, steps in rates.items()
    }
    for result in results.values():
        _take_declared(result, feedback=feedback)
    seen = {carried.variable for carried in everything}
    while True:
        for result in results.values():
            result.live = _liveness(result)
        live = (variable for result in results.values() for variable in _live_variables(result))
        fresh = [variable for variable in dict.fromkeys(live) if variable not in seen]
        if not fresh:
            break
        for variable in fresh:
            _classify(results[variable.rate], variable, named)
            seen.add(variable)
    _find_unused(results)
    for result in results.values():
        if len(result.steps.all) == 1:
            result.findings += _unproven(result, owned)
            _keep_weights(result)
        result.findings += _waiting_in_lists(result, lists)
    return results


def _find_unused(results: Analyses) -> None:
    for result in results.values():
        tape, groups = result.steps.reference.tape, result.live.groups
        result.unused = {
            name for name, one in tape.inputs.items() if not one.inner and tape.groups[one.slot] not in groups
        }
    for result in results.values():
        others = [other for other in results.values() if other is not result]
        used = {name[1] for other in others for name in other.steps.reference.tape.inputs if name not in other.unused}
        first = result is next(iter(results.values()))
        result.elsewhere = {name for name in result.unused if name[1] in used or not first}


def _take_declared(result: Analysis, *, feedback: bool) -> None:
    """Take up the states that the user declared."""
    steps, tape = result.steps, result.steps.reference.tape
    if feedback:
        result.feedback = dict(_feedback(steps))
    for name, declared in tape.states.items():
        origin, agreed = result.variables.declared_origin(name)
        variable = Variable(declared.slot)
        if not agreed and name not in tape.updates:
            message = f"the state {name[1]} comes from different places in different steps"
            result.findings.append(Finding("control_flow", message, declared.line, name[1]))
        known = origin if origin is not None and name not in tape.updates else Origin(1, variable)
        origins: dict[Rate, Origin] = {steps.rate: known}
        _carry(result, Carried("/".join(name), variable, origins, declared.line, name[1], declared=name))
    inner = {declared.slot for declared in tape.inputs.values() if declared.inner}
    result.edges = {name for name, declared in tape.outputs.items() if declared.slot in inner}


def _carry(result: Analysis, carried: Carried) -> None:
    result.carried[carried.variable] = carried
    result.everything.append(carried)


def _left(result: Analysis) -> Iterator[Variable]:
    """What steps of this rate leave for later ones, of this rate or the other."""
    sources = [origin.source for carried in result.everything for origin in carried.origins.values()]
    yield from (source for source in sources if source.rate == result.steps.rate)


def _liveness(result: Analysis) -> Liveness:
    tape = result.steps.reference.tape
    ends = {variable.slot for variable in _left(result)}
    ends |= {tape.outputs[output].slot for output in result.feedback.values()}
    moments = [(declared.slot, declared.at) for declared in (*tape.outputs.values(), *tape.updates.values())]
    return Liveness(tape, ends, moments)


def _live_variables(result: Analysis) -> Iterator[Variable]:
    """Captured variables whose content matters, in the order in which they are read."""
    tape, live = result.steps.reference.tape, result.live
    for index in sorted(live.ops):
        for argument, leaf in enumerate(tape.ops[index].leaves):
            if isinstance(leaf, Ref) and leaf.slot in tape.captures and tape.groups[leaf.slot] in live.groups:
                yield result.variables.variable(result.steps.rate, leaf.slot, (index, argument))
    yield from (variable for variable in _left(result) if variable.slot in tape.captures)


def _classify(result: Analysis, variable: Variable, named: Mapping[int, str]) -> None:
    capture = result.steps.reference.tape.captures[variable.slot]
    origins, agreed = result.variables.origins(variable)
    if origins and not result.variables.is_constant(variable):
        name = _state_of(result, variable, origins, named)
        _carry(result, Carried(name, variable, origins, capture.line, capture.path))
        return
    result.constants[variable] = capture
    if not agreed:
        message = f"{spoken(capture)} comes from different places in different steps"
        result.findings.append(Finding("control_flow", message, capture.line, capture.path))
    elif _drawn_by_reset(result, variable) and not _moves_within(result.variables.sightings(variable)):
        message = f"{spoken(capture)} is drawn at random by a reset"
        result.findings.append(Finding("reset_value", message, capture.line, capture.path))
    elif _reset_from_inputs(result, variable):
        message = f"{spoken(capture)} is made by a reset from an input"
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


def _state_of(result: Analysis, variable: Variable, origins: Mapping[Rate, Origin], named: Mapping[int, str]) -> str:
    """The name of the state that a variable is a part of."""
    for one in result.everything:
        same_tensor = one.variable.rate == variable.rate and one.variable.slot == variable.slot
        if (same_tensor and one.origins == origins) or _is_left_by_other(one, variable, origins):
            return one.name
    taken = {carried.name.rpartition("/")[2] for carried in result.everything}
    capture = result.steps.reference.tape.captures[variable.slot]
    ids = [id(sighting.capture.tensor) for sighting in result.variables.sightings(variable)]
    called = next((named[one] for one in ids if one in named), None)
    return unique(called, taken) if called else state_name(capture.path, taken)


def _is_left_by_other(one: Carried, variable: Variable, origins: Mapping[Rate, Origin]) -> bool:
    """Whether a variable is the tensor that the other rate found too, and left where it was."""
    if one.variable.rate == variable.rate:
        return False
    theirs, ours = one.origins.get(variable.rate), origins.get(one.variable.rate)
    return (theirs is not None and theirs.source[::2] == variable[::2]) or (
        ours is not None and ours.source[::2] == one.variable[::2]
    )


def _moves_within(sightings: list[Sighting]) -> bool:
    """Whether something changed in the middle of an episode."""
    return any(changed([before, after]) for before, after in pairwise(sightings) if not after.step.opening)


def _drawn_by_reset(result: Analysis, variable: Variable) -> bool:
    """Whether what looks like a constant was made of random numbers when an episode began."""
    for sighting in result.variables.sightings(variable):
        tape = result.steps.reset_before(sighting.step)
        if tape is None:
            continue
        for slot in tape.slots_at(sighting.capture.place):
            if any(is_random(tape.ops[index]) for index in Liveness(tape, [slot], ()).ops):
                return True
    return False


def made_from_inputs(tape: Tape, slot: int, timeline: list[Step]) -> bool:
    """Whether a reset looks at declared inputs, also if it had given them values before, to make a tensor."""
    live = Liveness(tape, [slot], (), _rows_of_a_reset(tape, timeline))
    inputs = {one.place[0] for step in timeline for one in step.tape.inputs.values()}
    slots = (slot for index in live.ops for slot in looked_at(tape.ops[index], tape.groups))
    return any(tape.place(slot)[0] in inputs for slot in slots)


def _rows_of_a_reset(tape: Tape, timeline: list[Step]) -> set[int]:
    """The tensors of a reset that say which rows are reset: that may come from anything."""
    step = next((step for step in timeline if step.resetting is tape), None)
    found: set[int] = set()
    if step is None:
        return found
    for op in tape.ops:
        if schema_name(op) == "aten::nonzero" and op.results[0] is not None:
            rows = tape.tensor(op.results[0]).flatten().tolist()
            every = list(range(len(rows) if step.rows is None else len(step.rows)))
            if rows == [row for row in every if step.rows is None or step.rows[row]]:
                found.add(op.results[0])
    return found


def _reset_from_inputs(result: Analysis, variable: Variable) -> bool:
    """Whether what looks like a constant was computed by a reset from what is an input."""
    for sighting in result.variables.sightings(variable):
        tape = result.steps.reset_before(sighting.step)
        slots = [] if tape is None else tape.slots_at(sighting.capture.place)
        for slot in (slot for slot in slots if tape is not None and slot not in tape.captures):
            if tape is not None and made_from_inputs(tape, slot, result.steps.timeline):
                return True
    return False


def _made_from_inputs(result: Analysis, variable: Variable) -> bool:
    """Whether what looks like a constant was computed by a recorded step from what was declared there."""
    places = {sighting.capture.place for sighting in result.variables.sightings(variable)}
    for step in result.steps.timeline:
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
            result.constants[Variable(slot, None, result.steps.rate)] = drawn
            result.weights.add(index)


def _waiting_in_lists(result: Analysis, lists: Sequence[list[object] | deque[object]]) -> Iterator[Finding]:
    """A constant that lies in a list among tensors that steps made: the list is longer than the episodes were."""
    timeline = result.steps.timeline
    made = {declared.place for step in timeline for declared in step.tape.inputs.values()}
    for step in timeline:
        tape = step.tape
        fresh = {slot for op in tape.ops for slot in op.results if slot is not None and slot not in op.reads()}
        made |= {tape.place(slot) for slot in fresh if tape.groups[slot] not in tape.captures}
    found = {variable: result.variables.sightings(variable) for variable in result.constants}
    captured = {id(one.capture.tensor) for sightings in found.values() for one in sightings}
    contents = [things for holder in lists if (things := _tensors_in(holder))]
    holders = [things for things in contents if any(id(thing) in captured for thing in things)]
    for variable, sightings in found.items():
        known = {id(one.capture.tensor) for one in sightings}
        if any(_holds_both(holder, known, made) for holder in holders):
            capture = result.constants[variable]
            message = f"{spoken(capture)} lies in a list with tensors that steps put there, and that none has read"
            yield Finding("too_few_steps", message, capture.line, capture.path)


def _tensors_in(holder: list[object] | deque[object]) -> list[object]:
    """What a list of the user's holds, if it begins with a tensor; else nothing.

    It may be any list of the process. So only what lists themselves do is asked, which a subclass may do otherwise, and
    all of it is taken at once, since another thread may be at work in it.
    """
    if type(holder) is Held:
        return []
    kind = list if issubclass(type(holder), list) else deque
    try:
        first = kind.__getitem__(holder, 0)  # type: ignore[arg-type]
    except IndexError:
        return []
    return list(kind.__iter__(holder)) if issubclass(type(first), torch.Tensor) else []  # type: ignore[arg-type]


def _holds_both(holder: list[object], known: Collection[int], places: Collection[Place]) -> bool:
    """Whether a list of nothing but tensors holds one that is known, and one that lies at one of the places."""
    if not all(isinstance(thing, torch.Tensor) for thing in holder):
        return False
    others = [thing for thing in holder if isinstance(thing, torch.Tensor) and id(thing) not in known]
    return len(others) < len(holder) and any(place_of(thing) in places for thing in others)
