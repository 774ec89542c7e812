"""What the states were when a step began, as far as the recording shows it."""

from __future__ import annotations

from itertools import islice
from typing import Literal, TypeAlias

import torch

from ashore.capture.analysis import Analyses, Carried
from ashore.capture.build import waiting
from ashore.capture.liveness import Liveness
from ashore.capture.operations import is_seeded
from ashore.capture.program import execute
from ashore.capture.steps import Step
from ashore.capture.tape import Tape
from ashore.capture.tensors import same

Tensors = dict[str, torch.Tensor]
ResetEffect: TypeAlias = Literal["kept", "restored", "unclear"]


class Starts:
    """The states at the start of each step.

    A step that finds a state shows its value. One that creates it shows the value too, if what it creates does not
    depend on its inputs.
    """

    def __init__(self, analyses: Analyses) -> None:
        self._analyses = analyses
        self.decided = set(analyses["policy"].writes()) if "substep" in analyses else set[str]()
        """States that decisions write before a substep can find them."""

        self._known: dict[int, Tensors] = {}
        self.from_inputs: set[str] = set()
        """States that a first step made out of its inputs."""

    def at(self, step: Step) -> Tensors:
        """State -> its value at the start of a step, for those that the recording shows."""
        if step.index not in self._known:
            self._known[step.index] = self._look(step)
        return self._known[step.index]

    def opening(self, step: Step) -> Tensors:
        """The same for all states when an episode starts: those that substeps find first are as the first finds them.

        What the decision writes before the first substep can find it is no part of that.
        """
        found = self.at(step)
        for later in self._first_substep(step):
            found = {name: value for name, value in self.at(later).items() if name not in self.decided} | found
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
        analysis = self._analyses[first.rate]
        place = analysis.variables.place(first, carried.variable)
        capture = None if place is None else first.tape.captures.get(place[1])
        if capture is None or step.resetting is None:
            return "restored"  # the step makes it anew, or nobody said what was done
        before, tape = analysis.steps.timeline[step.index - 1].tape, step.resetting
        made = tape.slots_at(capture.place)
        if not made:
            return "kept" if before.slots_at(capture.place) and not tape.writes_at(capture.place) else "restored"
        # Do what the reset did to another value: does the initial value come out?
        live = Liveness(tape, made[-1:], ())
        values: dict[int, torch.Tensor] = {}
        for slot, one in tape.captures.items():
            values[slot] = _another(one.value) if before.slots_at(one.place) else one.value.clone()
        given = {slot: value.clone() for slot, value in values.items()}
        with torch.no_grad():
            execute([tape.ops[index] for index in sorted(live.ops)], values)
        if same(values[made[-1]], capture.value):
            return "restored"
        return "kept" if made[-1] in given and same(values[made[-1]], given[made[-1]]) else "unclear"

    def _read(self, carried: Carried, step: Step) -> torch.Tensor | None:
        if carried.declared is not None:
            return step.tape.states[carried.declared].value
        place = self._analyses[step.rate].variables.place(step, carried.variable)
        if place is None:
            return None
        operation, slot = place
        if slot in step.tape.captures:
            return step.tape.captures[slot].value
        return self._made(carried, step.tape, slot, operation)

    def _made(self, carried: Carried, tape: Tape, slot: int, operation: int) -> torch.Tensor | None:
        """What a slot held that the step itself had made by then."""
        live = Liveness(tape, (), [(slot, operation)])
        if live.groups & {tape.groups[one.slot] for one in tape.given()}:
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


def _another(value: torch.Tensor) -> torch.Tensor:
    """A value of the same kind that differs everywhere."""
    if value.dtype == torch.bool:
        return ~value
    return value + 1
