"""What the tensors that a step captured really are: constants, states, or inputs that nobody declared.

One step cannot tell; several can. A captured tensor that was produced by an earlier step is a state, also if the code
only carried it along in a list. One that a step writes into is a state. One that never changes is a constant. What
changes otherwise is an input. With two rates, what one rate left is found by the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from ashore.capture.operations import Op, Ref
from ashore.capture.steps import Step, Steps
from ashore.capture.tape import Capture, Name
from ashore.capture.tensors import Place, same
from ashore.spec import Rate


class Variable(NamedTuple):
    """A value of the reference step of a rate.

    A captured tensor that the step does not write into is one variable for each place that reads it: in other steps
    different tensors may stand there. Everything else is one variable for its slot.
    """

    slot: int
    read: tuple[int, int] | None = None
    """(operation, argument) that reads it."""

    rate: Rate = "policy"


class Origin(NamedTuple):
    """Where a state comes from: what a variable held at the end of an earlier step."""

    lag: int
    """How many steps of its rate earlier."""

    source: Variable


@dataclass(frozen=True)
class Sighting:
    """A variable in one step."""

    step: Step
    capture: Capture


class Variables:
    """The captured variables of the references, followed through all steps.

    Args:
        steps: rate -> its steps.
    """

    def __init__(self, steps: Mapping[Rate, Steps]) -> None:
        self._steps = steps
        self._written = {
            rate: {group for op in one.reference.tape.ops for group in op.mutates} for rate, one in steps.items()
        }
        self._origins: dict[Variable, tuple[dict[Rate, Origin], bool]] = {}
        self._from_reference = {
            step.index: self._correspondence(one, step) for one in steps.values() for step in one.all
        }

    def variable(self, rate: Rate, slot: int, read: tuple[int, int]) -> Variable:
        """The variable that a captured slot of the reference of a rate is where it is read."""
        group = self._steps[rate].reference.tape.groups[slot]
        return Variable(slot, None, rate) if group in self._written[rate] else Variable(slot, read, rate)

    def is_captured(self, variable: Variable) -> bool:
        """Whether the step found it, and did not make it."""
        return variable.slot in self._steps[variable.rate].reference.tape.captures

    def sightings(self, variable: Variable) -> list[Sighting]:
        """The variable in every step in which it is captured too."""
        captures = ((step, self.capture(step, variable)) for step in self._steps[variable.rate].all)
        return [Sighting(step, capture) for step, capture in captures if capture is not None]

    def capture(self, step: Step, variable: Variable) -> Capture | None:
        """What stands for the variable in a step, if the step found it there."""
        place = self.place(step, variable)
        return None if place is None else step.tape.captures.get(place[1])

    def origins(self, variable: Variable) -> tuple[dict[Rate, Origin], bool]:
        """Where a captured variable comes from in all steps, and whether the steps agree about it.

        Returns:
            Rate -> what steps of that rate leave in it, for the rates that do. A decision may also leave in it what a
            substep had found elsewhere (``self.last = self.target``); then its source is of the other rate.
        """
        if variable not in self._origins:
            self._origins[variable] = self._find_origins(variable)
        return self._origins[variable]

    def _find_origins(self, variable: Variable) -> tuple[dict[Rate, Origin], bool]:
        places = [(sighting.step, sighting.capture.place) for sighting in self.sightings(variable)]
        # A substep right after a decision finds what that left; the others find what the substep before left.
        deciding = [one for one in places if self._follows_decision(one[0])]
        found: dict[Rate, Origin] = {}
        for group in ([one for one in places if not self._follows_decision(one[0])], deciding):
            origin, agreed = self._common_origin(variable, group)
            if not agreed:
                return {}, False
            if origin is None or found.setdefault(origin.source.rate, origin) == origin:
                continue
            if not self.is_captured(origin.source):
                return {}, False
            found["policy"] = origin  # the decision puts here what the substeps before it had elsewhere
        if len(found) > 1 and any(origin.lag > 1 for origin in found.values()):
            return {}, False
        if len(found) > 1 and variable.read is not None and found[variable.rate] == Origin(1, variable):
            del found[variable.rate]  # steps of its own rate only look at it
        return found, True

    def _follows_decision(self, step: Step) -> bool:
        return step.rate == "substep" and next(self._steps["substep"].before(step)).rate == "policy"

    def is_constant(self, variable: Variable) -> bool:
        """Whether steps of whatever rate only ever hand on what they found in it, and never anything else."""
        seen, pending = {variable}, [variable]
        while pending:
            one = pending.pop()
            if one.read is None or not self.is_captured(one):
                return False
            origins, agreed = self.origins(one)
            if not agreed:
                return False
            for origin in origins.values():
                if origin.lag > 1 or not self._stays(one, origin.source):
                    return False
                if origin.source not in seen:
                    seen.add(origin.source)
                    pending.append(origin.source)
        return True

    @staticmethod
    def _stays(variable: Variable, source: Variable) -> bool:
        """Whether a source is the same tensor: that of the other rate, or the very same of this one."""
        return source.rate != variable.rate or source == variable

    def declared_origin(self, name: Name) -> tuple[Origin | None, bool]:
        """The same for a state that the user declared."""
        steps = self._steps["policy"]
        places = [(step, step.tape.states[name].place) for step in steps.all if name in step.tape.states]
        return self._common_origin(Variable(steps.reference.tape.states[name].slot), places)

    def _common_origin(self, variable: Variable, places: list[tuple[Step, Place]]) -> tuple[Origin | None, bool]:
        known = [self._seen_before(step, place, made=False) for step, place in places]
        candidates = _common(known)
        if candidates == set():
            # Tensors that lay there when the episode began explain nothing; those that steps made do.
            candidates = _common(self._seen_before(step, place, made=True) for step, place in places)
        if candidates is None:
            return None, not any(known)
        # What a step computed is a better explanation than what it only carried along.
        ordered = sorted(
            candidates,
            key=lambda o: (o.lag, o.source.read is not None, o.source != variable, o.source.slot, o.source.read or ()),
        )
        return (ordered[0], True) if ordered else (None, False)

    def _seen_before(self, step: Step, place: Place, *, made: bool) -> set[Origin] | None:
        """What a tensor was in the latest earlier step of the episode that knew it, or made it; None if none did.

        Nothing, where that step made it by an operation of its own, which others do not do. A first step may.
        """
        lags: Counter[Rate] = Counter()
        for earlier in self._steps[step.rate].before(step):
            lags[earlier.rate] += 1
            slots = earlier.tape.slots_at(place)
            if made:
                slots = [slot for slot in slots if slot not in earlier.tape.captures or earlier.tape.writes(slot)]
            if slots:
                known, lag = self._from_reference[earlier.index], lags[earlier.rate]
                found = {Origin(lag, variable) for slot in slots for variable in known.get(slot, ())}
                return found if found or not earlier.opening else None
        return None

    def place(self, step: Step, variable: Variable) -> tuple[int, int] | None:
        """Where another step first reads what stands for the variable: (operation, slot)."""
        steps = self._steps[step.rate]
        match, reference = steps.match(step), steps.reference.tape
        reads = [variable.read] if variable.read else _reads(reference.ops, variable.slot)
        for operation, argument in reads:
            if operation in match:
                leaf = step.tape.ops[match[operation]].leaves[argument]
                return (match[operation], leaf.slot) if isinstance(leaf, Ref) else None
        return None

    def _correspondence(self, steps: Steps, step: Step) -> dict[int, set[Variable]]:
        """Slot of a step -> the variables of the reference that it is."""
        found: dict[int, set[Variable]] = {}
        reference, rate = steps.reference.tape, steps.rate
        for ours, theirs in steps.match(step).items():
            mine, other = reference.ops[ours], step.tape.ops[theirs]
            for slot, result in zip(other.results, mine.results, strict=True):
                if slot is not None and result is not None and result not in reference.captures:
                    found.setdefault(slot, set()).add(Variable(result, None, rate))
            for argument, (left, right) in enumerate(zip(mine.leaves, other.leaves, strict=True)):
                if isinstance(left, Ref) and isinstance(right, Ref) and left.slot in reference.captures:
                    found.setdefault(right.slot, set()).add(self.variable(rate, left.slot, (ours, argument)))
        for group in ("inputs", "states"):
            for name, declared in getattr(reference, group).items():
                other = getattr(step.tape, group).get(name)
                if other is not None:
                    found.setdefault(other.slot, set()).add(Variable(declared.slot, None, rate))
        return found


def _common(found: Iterable[set[Origin] | None]) -> set[Origin] | None:
    """What all of those have in common that are known; None if none is."""
    candidates: set[Origin] | None = None
    for origins in found:
        if origins is not None:
            candidates = origins if candidates is None else candidates & origins
    return candidates


def _reads(ops: Iterable[Op], slot: int) -> list[tuple[int, int]]:
    return [
        (index, argument)
        for index, op in enumerate(ops)
        for argument, leaf in enumerate(op.leaves)
        if isinstance(leaf, Ref) and leaf.slot == slot
    ]


def changed(sightings: list[Sighting]) -> bool:
    """Whether what a variable held differed between steps, or was written to without a trace of it."""
    first = sightings[0].capture
    for before, after in pairwise(sightings):
        ours, theirs = before.capture, after.capture
        if theirs.touched or not same(theirs.value, first.value):
            return True
        if not after.step.opening and _rebound(ours, theirs):
            return True
        if ours.tensor is theirs.tensor and ours.version != theirs.version:
            return True
    return False


def _rebound(ours: Capture, theirs: Capture) -> bool:
    """Whether another tensor stands in the place of one, that the step did not make of numbers itself."""
    elsewhere = ours.tensor is not theirs.tensor and ours.place[0] != theirs.place[0]
    return elsewhere and not ours.created and not theirs.created
