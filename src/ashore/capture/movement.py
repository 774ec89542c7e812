"""What in a step can be different another time: what depends on inputs, on states, or on what others write."""

from __future__ import annotations

from collections import defaultdict

from ashore.capture.analysis import Analysis
from ashore.capture.steps import Step, Steps
from ashore.capture.variables import Sighting, changed

_NEVER = 1 << 62


class Movement:
    """Which captured tensors move, and what moves with them."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._captures = _moving_captures(analysis.steps)
        self._began: dict[int, dict[int, int]] = {}

    def moves(self, step: Step, slot: int, at: int) -> bool:
        """Whether what a slot of a step holds after so many operations can be different another time."""
        if step.index not in self._began:
            self._began[step.index] = self._follow(step)
        return self._began[step.index].get(step.tape.groups[slot], _NEVER) <= at

    def _follow(self, step: Step) -> dict[int, int]:
        """Group -> how many operations were done when it began to move."""
        tape, groups = step.tape, step.tape.groups
        began = {groups[one.slot]: 0 for one in tape.given()}
        began |= {groups[slot]: 0 for slot in self._captures[step.index]}
        for variable in self._analysis.carried:
            place = self._analysis.variables.place(step, variable)
            if place is not None:
                began[groups[place[1]]] = 0
        for index, op in enumerate(tape.ops, start=1):
            if any(groups[slot] in began for slot in op.reads()):
                for group in (*op.mutates, *(groups[slot] for slot in op.results if slot is not None)):
                    began.setdefault(group, index)
        return began


def _moving_captures(steps: Steps) -> dict[int, set[int]]:
    """For each step, the captured slots that are not the same in all steps, whatever the outputs need."""
    by_tensor: dict[int, list[Sighting]] = defaultdict(list)
    by_path: dict[str, list[Sighting]] = defaultdict(list)
    for step in steps.all:
        for capture in step.tape.captures.values():
            by_tensor[id(capture.tensor)].append(Sighting(step, capture))
            if capture.path is not None and not capture.created:
                by_path[capture.path].append(Sighting(step, capture))
    moving: dict[int, set[int]] = {step.index: set() for step in steps.all}
    for seen in (*by_tensor.values(), *by_path.values()):
        if changed(seen) or any(_written_or_made(steps, sighting) for sighting in seen):
            for sighting in seen:
                moving[sighting.step.index].add(sighting.capture.slot)
    return moving


def _written_or_made(steps: Steps, sighting: Sighting) -> bool:
    """Whether the step writes into a captured tensor, or another step made it."""
    step, capture = sighting.step, sighting.capture
    if step.tape.writes(capture.slot):
        return True
    tapes = [other.tape for other in steps.timeline if other is not step]
    return any(slot not in tape.captures for tape in tapes for slot in tape.slots_at(capture.place))
