"""Which recorded operations matter for what comes out of a step.

What computed a declared input does not, nor does logging, nor a simulator that was recorded along. Memory is followed
by groups: an operation that writes into a group matters if the group does, and then all that it looks at does too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ashore.capture.operations import Op, schema_name
from ashore.capture.tape import Tape

_SHAPE_ONLY = frozenset(
    f"aten::{name}"
    for name in (
        *("zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like"),
        *("new_zeros", "new_ones", "new_full", "new_empty", "new_empty_strided", "new_tensor"),
    )
)
"""Operations that look at the shape of a tensor, and not at what it holds."""


class Liveness:
    """The part of a tape that matters for some of its slots.

    Args:
        tape: the step.
        at_end: slots whose content after the last operation matters.
        at: (slot, position): slots whose content matters as it was after so many operations.
        known: slots that may hold what they like, and come from wherever they come from.
    """

    def __init__(
        self, tape: Tape, at_end: Iterable[int], at: Iterable[tuple[int, int]], known: Collection[int] = ()
    ) -> None:
        self.ops: set[int] = set()
        """Indices of the operations that matter."""

        self.slots: set[int] = set()
        """Slots that those operations need to be there, whatever they hold."""

        groups, later = tape.groups, list(at)
        live = {groups[slot] for slot in at_end}
        self.slots.update(at_end, (slot for slot, _ in later))
        by_position: dict[int, set[int]] = {}
        for slot, position in later:
            by_position.setdefault(position, set()).add(groups[slot])
        for index in range(len(tape.ops) - 1, -1, -1):
            live |= by_position.get(index + 1, set())
            op = tape.ops[index]
            if any(slot in known for slot in op.results):
                continue
            made = op.makes(groups.__getitem__)
            wanted = bool(made & live)
            if not wanted and not self.slots.intersection(op.results).difference(op.reads()):
                continue
            self.ops.add(index)
            self.slots.update(op.reads())
            if wanted:
                live -= (made - op.mutates) | op.overwrites
                live |= {groups[slot] for slot in looked_at(op, groups)}
        self.groups = live | by_position.get(0, set())
        """Groups whose content before the first operation matters."""


def looked_at(op: Op, groups: list[int]) -> list[int]:
    """The slots whose content an operation looks at: all it reads, but for what it only overwrites."""
    if schema_name(op) in _SHAPE_ONLY:
        return []
    slots = op.reads()
    target = next((slot for slot in slots if groups[slot] in op.overwrites), None)
    if target is not None:
        slots.remove(target)
    return slots
