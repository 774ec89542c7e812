"""What the states were when a step began, as far as the recording shows it."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import Literal, TypeAlias

import torch

from ashore.capture.analysis import Analyses, Analysis, Carried, made_from_inputs
from ashore.capture.build import waiting
from ashore.capture.liveness import Liveness
from ashore.capture.operations import is_seeded
from ashore.capture.program import execute, execute_again
from ashore.capture.steps import Step
from ashore.capture.tape import Tape
from ashore.capture.tensors import same

Tensors = dict[str, torch.Tensor]
ResetEffect: TypeAlias = Literal["kept", "restored", "unclear", "from_inputs"]


_FAR = (1, 100, -100)
"""How far other values are from the recorded ones: a limit may be far away."""


class Starts:
    """The states at the start of each step.

    A step that finds a state shows its value. One that creates it shows the value too, if what it creates does not
    depend on its inputs.
    """

    def __init__(self, analyses: Analyses) -> None:
        self._analyses = analyses
        self._moves = analyses["policy"].moves()
        self.decided = {*analyses["policy"].writes(), *self._moves} if "substep" in analyses else set[str]()
        """States that decisions write before a substep can find them."""

        self._known: dict[int, Tensors] = {}
        self.from_inputs: set[str] = set()
        """States that a first step made out of its inputs."""

    def at(self, step: Step) -> Tensors:
        """State -> its value at the start of a step, for those that the recording shows."""
        if step.index not in self._known:
            self._known[step.index] = self._look(step)
        return self._known[step.index]

    def touched(self, step: Step) -> list[str]:
        """States that a step found written to since the one before it, by something that was not recorded."""
        analysis, found = self._analyses[step.rate], list[str]()
        before = next(analysis.steps.before(step), None)
        deciding = step if step.rate == "policy" or before is None else before
        for carried in analysis.carried.values():
            capture = analysis.variables.capture(step, carried.variable)
            if capture is None or not capture.touched:
                continue
            # Writing by a mask that chooses nothing is what resets do when there is none.
            listened = deciding.between is not None and capture.place[0] in deciding.between.written()
            if not listened or self._effect(carried, step, deciding, deciding.between) != "kept":
                found.append(carried.name)
        return found

    def opening(self, step: Step) -> Tensors:
        """The same for all states when an episode starts: those that substeps find first are as the first finds them.

        What the decision writes before the first substep can find it is no part of that.
        """
        found = self.at(step)
        for later in self._first_substep(step):
            seen = self.at(later)
            found = {name: value for name, value in seen.items() if name not in self.decided} | found
            # What a decision moved elsewhere before it wrote something new shows what was there.
            found = {other.name: seen[name] for name, (_, other) in self._moves.items() if name in seen} | found
        return found

    def _first_substep(self, step: Step) -> list[Step]:
        return list(self._analyses["policy"].steps.after(step, "substep"))[:1]

    def _look(self, step: Step) -> Tensors:
        analysis = self._analyses[step.rate]
        found = {"/".join(name): step.tape.inputs[name].value for name in analysis.feedback}
        for carried in analysis.carried.values():
            names = waiting(carried)
            for ahead, name in enumerate(reversed(names)):
                # What waits now is read so many steps later, as long as the episode lasts.
                later = next(islice((step, *analysis.steps.after(step)), ahead, None), None)
                value = None if later is None else self._read(carried, later)
                if value is not None:
                    found[name] = value
        return found

    def what_reset_did(self, step: Step) -> dict[str, ResetEffect]:
        """For states whose values tell nothing: what the code did to them before the first step of an episode."""
        return {
            carried.name: self._reset_effect(carried, first, step)
            for first in (*self._first_substep(step), step)
            for carried in self._analyses[first.rate].carried.values()
            if carried.lag == 1
        }

    def _reset_effect(self, carried: Carried, first: Step, step: Step) -> ResetEffect:
        """What was done to a state before `step`, as the first step of its rate finds it."""
        return self._effect(carried, first, step, step.resetting)

    def _effect(self, carried: Carried, first: Step, step: Step, tape: Tape | None) -> ResetEffect:
        """What was done to a state before `step`, as `first` finds it."""
        analysis = self._analyses[first.rate]
        capture = analysis.variables.capture(first, carried.variable)
        if capture is None or tape is None:
            return "restored"  # the step makes it anew, or nobody said what was done
        earlier = analysis.steps.timeline[: step.index]
        before = [next(one.tape for one in reversed(earlier) if one.rate == rate) for rate in self._analyses]
        made = tape.slots_at(capture.place)
        if not made:
            known = any(one.slots_at(capture.place) for one in before)
            return "kept" if known and not tape.writes_at(capture.place) else "restored"
        live = Liveness(tape, made[-1:], ())
        if made_from_inputs(tape, made[-1], analysis.steps.timeline):
            return "from_inputs"
        # Do what the reset did to other values, near and far: does the initial value come out?
        effects: set[ResetEffect] = set()
        for far in _FAR:
            values: dict[int, torch.Tensor] = {}
            for slot, one in tape.captures.items():
                known = any(before_it.slots_at(one.place) for before_it in before)
                values[slot] = _another(one.value, far) if known else one.value.clone()
            given = values[made[-1]].clone() if made[-1] in values else None
            try:
                with torch.no_grad():
                    execute_again(tape, [tape.ops[index] for index in sorted(live.ops)], values)
            except (IndexError, RuntimeError):  # another value is no index any more
                return "unclear"
            kept = given is not None and same(values[made[-1]], given)
            effects.add("restored" if same(values[made[-1]], capture.value) else "kept" if kept else "unclear")
        return effects.pop() if len(effects) == 1 else "unclear"

    def _read(self, carried: Carried, step: Step) -> torch.Tensor | None:
        if carried.declared is not None:
            return step.tape.states[carried.declared].value
        place = self._analyses[step.rate].variables.place(step, carried.variable)
        if place is None:
            return None
        operation, slot = place
        if slot in step.tape.captures:
            return step.tape.captures[slot].value
        return self._made(carried, step, slot, operation)

    def _made(self, carried: Carried, step: Step, slot: int, operation: int) -> torch.Tensor | None:
        """What a slot held that the step itself had made by then."""
        tape = step.tape
        live = Liveness(tape, (), [(slot, operation)])
        decided = decided_slots(self._analyses[step.rate], step, self.decided).values()
        if live.groups & {tape.groups[one] for one in (*(given.slot for given in tape.given()), *decided)}:
            self.from_inputs.add(carried.name)
            return None
        ops = [tape.ops[index] for index in sorted(live.ops)]
        if any(map(is_seeded, ops)):
            return None
        values = {slot: capture.value.clone() for slot, capture in tape.captures.items() if slot in live.slots}
        values |= {one.slot: one.value.clone() for one in tape.given() if not one.inner}
        with torch.no_grad():
            execute(ops, values)
        return values[slot].clone()


def decided_slots(analysis: Analysis, step: Step, decided: Collection[str]) -> dict[str, int]:
    """State -> its slot in a substep, for those that the decision before it has written."""
    found: dict[str, int] = {}
    for carried in analysis.carried.values() if step.rate == "substep" else ():
        capture = analysis.variables.capture(step, carried.variable)
        if carried.name in decided and capture is not None:
            found[carried.name] = capture.slot
    return found


def _another(value: torch.Tensor, far: int) -> torch.Tensor:
    """A value of the same kind that differs everywhere."""
    if value.dtype == torch.bool:
        return ~value
    return value + far
