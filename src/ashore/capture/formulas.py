"""What callbacks computed, so that the same computation is recognised when the code does it again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ashore.capture.operations import Op, Ref, is_random

if TYPE_CHECKING:
    from ashore.capture.tape import Tape

_FEW_NUMBERS = 4096


class Formulas:
    """The operations of callbacks, by what they are."""

    def __init__(self) -> None:
        self._known: dict[Any, tuple[list[int | None], int | None]] = {}
        """Formula -> what it gave, and the input that was declared as it."""

        self._same: dict[int, int] = {}
        """Slot -> the slot of the callback that holds the same."""

        self._writes: Counter[int] = Counter()

    def learn(self, op: Op, tape: Tape, declared: int | None) -> None:
        """Remember an operation of a callback."""
        if not op.mutates and not is_random(op):
            formula = self._formula(op, tape)
            results, before = self._known.get(formula, (op.results, None))  # an earlier callback may have done the same
            self._known[formula] = results, before if before is not None else declared

    def recognise(self, op: Op, tape: Tape) -> int | None:
        """The slot of the input that an operation computes once more, or None."""
        if not self._known or op.mutates or is_random(op):
            return None
        known = self._known.get(self._formula(op, tape))
        if known is None:
            return None
        pairs = zip(op.results, known[0], strict=True)
        self._same |= {slot: same for slot, same in pairs if slot is not None and same is not None}
        return known[1]

    def follow(self, op: Op) -> None:
        """Take notice of what an operation writes into."""
        self._writes.update(op.mutates)

    def _formula(self, op: Op, tape: Tape) -> Any:
        leaves = [
            self._argument(leaf.slot, tape) if isinstance(leaf, Ref) else (type(leaf), repr(leaf)) for leaf in op.leaves
        ]
        return op.target, str(op.structure), tuple(leaves)

    def _argument(self, slot: int, tape: Tape) -> Any:
        """A tensor among the arguments: the same slot, unwritten since; or the same numbers, if it was made of them."""
        slot, capture = self._same.get(slot, slot), tape.captures.get(slot)
        if capture is not None and capture.created and capture.value.numel() <= _FEW_NUMBERS:
            return capture.value.dtype, tuple(capture.value.shape), tuple(capture.value.flatten().tolist())
        return "slot", slot, self._writes[tape.groups[slot]]
