"""The recorded steps, and how they fit together: episodes, rates, a reference among them, what corresponds to what.

A recording may have two rates. Steps of the policy rate decide, steps of the substep rate act on the decision; they
follow each other in time, and each rate is one graph, so each has a reference of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ashore.capture.align import align, different_leaf
from ashore.capture.liveness import Liveness
from ashore.capture.tape import Tape
from ashore.spec.manifest import Rate


@dataclass(frozen=True)
class Step:
    """One step as it was recorded."""

    index: int
    tape: Tape
    reset: bool
    """Whether an episode starts with it."""

    resetting: Tape | None = None
    """What was done since the step before, to start the episode."""

    rate: Rate = "policy"
    opening: bool = False
    """Whether it is the first of its rate in its episode."""

    rows: tuple[bool, ...] | None = None
    """Which rows start an episode with it, where not all of them do."""

    between: Tape | None = None
    """What was done since the step before, where that was listened to and was no reset."""

    @property
    def separate(self) -> bool:
        """Whether it has nothing to do with the steps before it: all rows start an episode with it."""
        return self.reset and self.rows is None


class Steps:
    """The steps of one rate, seen from one of them: the reference, which becomes the graph.

    Args:
        timeline: all steps of the recording, of both rates.
        rate: whose steps.
    """

    def __init__(self, timeline: list[Step], rate: Rate = "policy") -> None:
        self.timeline = timeline
        self.rate: Rate = rate
        self.all = [step for step in timeline if step.rate == rate]
        """The steps of this rate."""

        self.reference = self._choose()
        """The step that the others are compared with."""

        self._matches = {step.index: align(self.reference.tape.ops, step.tape.ops) for step in self.all}
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
        """The steps of the same episode before a step, of both rates, the latest first."""
        index = step.index
        while index > 0 and not self.timeline[index].separate:
            index -= 1
            yield self.timeline[index]

    def reset_before(self, step: Step) -> Tape | None:
        """What was done to start the episode of a step, where that was recorded."""
        first = next((one for one in (step, *self.before(step)) if one.reset), None)
        return None if first is None else first.resetting

    def after(self, step: Step, rate: Rate | None = None) -> Iterator[Step]:
        """The steps of the same episode after a step, of this rate or another."""
        for other in self.timeline[step.index + 1 :]:
            if other.separate:
                return
            if other.rate == (rate or self.rate):
                yield other

    def _choose(self) -> Step:
        """Of the steps that do what the last one does, the one after which the episode goes on longest.

        The first step of an episode is chosen only if there is no other: it may create what later ones find.
        """
        last = self.all[-1]
        wanted = Liveness(last.tape, (), ((output.slot, output.at) for output in last.tape.outputs.values())).ops
        agreeing = [step for step in self.all if _agree(last, step, wanted)]
        return max(agreeing, key=lambda step: (not step.opening, len(list(self.after(step))), -step.index))


def _agree(last: Step, step: Step, wanted: set[int]) -> bool:
    """Whether two steps compute their outputs by the same operations."""
    if step is last:
        return True
    match, ours, theirs = align(last.tape.ops, step.tape.ops), last.tape.ops, step.tape.ops
    return all(index in match and different_leaf(ours[index], theirs[match[index]]) is None for index in wanted)
