"""What the recording saw of each port: the range a robot should stay in, element by element."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ashore.package import Array, Golden
from ashore.spec import Endpoint
from ashore.view import words


@dataclass(frozen=True)
class Observed:
    """The least and the largest value of each element, over a recording."""

    lowest: Array
    highest: Array
    """Both float64, in the shape of the port; NaN where an element was NaN all the time."""

    finite: bool
    """Whether there was no NaN and no infinity."""

    def whole(self) -> str:
        """The range over all elements."""
        if not self.finite:
            return f"{self._of(self.lowest, self.highest)}, and values that are not finite"
        return self._of(self.lowest, self.highest)

    def element(self, place: int) -> tuple[str, str]:
        """Least and largest value of one element, counted through the port row by row."""
        return words.number(float(self.lowest.flat[place])), words.number(float(self.highest.flat[place]))

    @staticmethod
    def _of(lowest: Array, highest: Array) -> str:
        return words.span(
            words.number(float(np.fmin.reduce(lowest, axis=None))),
            words.number(float(np.fmax.reduce(highest, axis=None))),
        )


def observe(golden: Golden | None) -> Mapping[Endpoint, Observed]:
    """The ranges of all inputs, outputs and states in a recording."""
    found: dict[Endpoint, Observed] = {}
    for tick in golden.ticks if golden else ():
        for group, arrays in (("inputs", tick.inputs), ("outputs", tick.outputs), ("states", tick.states)):
            for name, array in arrays.items():
                end, value = Endpoint(group, name), array.astype(np.float64)
                before = found.get(end)
                finite = bool(np.isfinite(value).all())
                if before is None:
                    found[end] = Observed(value, value, finite)
                else:
                    lowest, highest = np.fmin(before.lowest, value), np.fmax(before.highest, value)
                    found[end] = Observed(lowest, highest, before.finite and finite)
    return found
