"""The recorded steps, and how they fit together: episodes, a reference among them, what corresponds to what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ashore.capture.align import align, different_leaf
from ashore.capture.liveness import Liveness
from ashore.capture.tape import Tape


@dataclass(frozen=True)
class Step:
    """One step as it was recorded."""

    index: int
    tape: Tape
    reset: bool
    """Whether an episode starts with it."""

    resetting: Tape | None = None
    """What was done since the step before, to start the episode."""


class Steps:
    """All steps of a recording, seen from one of them: the reference, which becomes the graph."""

    def __init__(self, steps: list[Step]) -> None:
        self.all = steps
        self.reference = self._choose()
        """The step that the others are compared with."""

        self._matches = [align(self.reference.tape.ops, step.tape.ops) for step in steps]
        self._counterparts: dict[int, dict[int, set[int]]] = {}

    def match(self, step: Step) -> dict[int, int]:
        """Operation of the reference -> the same operation of another step."""
        return self._matches[step.index]

    def counterparts(self, step: Step) -> dict[int, set[int]]:
        """Slot of the reference that an operation gave -> what the same operation gave in another step."""
        if step.index not in self._counterparts:
            found: dict[int, set[int]] = {}
            for ours, theirs in self.match(step).items():
                results = zip(self.reference.tape.ops[ours].results, step.tape.ops[theirs].results, strict=True)
                for mine, other in results:
                    if mine is not None and other is not None:
                        found.setdefault(mine, set()).add(other)
            self._counterparts[step.index] = found
        return self._counterparts[step.index]

    def before(self, step: Step) -> Iterator[Step]:
        """The steps of the same episode before a step, the latest first."""
        index = step.index
        while index > 0 and not self.all[index].reset:
            index -= 1
            yield self.all[index]

    def _choose(self) -> Step:
        """Of the steps that do what the last one does, the one after which the episode goes on longest.

        The first step of an episode is chosen only if there is no other: it may create what later ones find.
        """
        last = self.all[-1]
        wanted = Liveness(last.tape, (), ((output.slot, output.at) for output in last.tape.outputs.values())).ops
        agreeing = [step for step in self.all if _agree(last, step, wanted)]
        return max(agreeing, key=lambda step: (not step.reset, self._steps_after(step), -step.index))

    def _steps_after(self, step: Step) -> int:
        count = 0
        for other in self.all[step.index + 1 :]:
            if other.reset:
                break
            count += 1
        return count


def _agree(last: Step, step: Step, wanted: set[int]) -> bool:
    """Whether two steps compute their outputs by the same operations."""
    if step is last:
        return True
    match, ours, theirs = align(last.tape.ops, step.tape.ops), last.tape.ops, step.tape.ops
    return all(index in match and different_leaf(ours[index], theirs[match[index]]) is None for index in wanted)
