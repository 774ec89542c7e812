"""Where the arrays of a running policy live.

Everything a rate writes is there twice: a run reads one side and writes the other, and committing is flipping a bit. So
feedback costs no copy, and a failed run leaves the state as it was. The inputs of a rate lie between the two sides,

    | side 0 | inputs | side 1 |

so that whichever side is written, inputs and results are one stretch of memory, and one pass over it finds every NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ashore.package import Array, Arrays
from ashore.spec import DType, Endpoint, Port, State, concrete

_ALIGNMENT = 64


class Slot(NamedTuple):
    """An array to make room for."""

    dtype: DType
    shape: tuple[int, ...]
    finite: bool


def slot_of(array: Port | State, batch: int) -> Slot:
    """The room that a port or a state takes, its batch axis given a length."""
    return Slot(array.dtype, concrete(array.shape, batch), array.finite)


class FiniteCheck(NamedTuple):
    """One pass that finds a NaN or an infinity in many arrays.

    Use it as ``isfinite(values, mask); find(0)``: -1 if all is well. That takes a third of the time of
    ``isfinite(values).all()``, and allocates nothing.
    """

    values: Array
    mask: Array
    find: Callable[[int], int]
    arrays: tuple[tuple[Endpoint, Array], ...]
    """What lies in `values`."""


NO_CHECK = FiniteCheck(np.zeros(0, np.float32), np.zeros(0, np.bool_), bytearray().find, ())
"""A check of nothing, which passes."""


class Bad(NamedTuple):
    """A value that is not finite."""

    where: Endpoint
    element: tuple[int, ...]
    value: float


def first_bad(checks: Iterable[FiniteCheck]) -> Bad | None:
    """The first value that is not finite, inputs before results, since a bad result mostly has a bad input."""
    arrays = [entry for check in checks for entry in check.arrays]
    for where, array in sorted(arrays, key=lambda entry: entry[0].group != "inputs"):
        finite = np.isfinite(array)
        if not finite.all():
            index = tuple(int(part) for part in np.argwhere(~finite)[0])
            return Bad(where, index, float(array[index]))
    return None


class _Span(NamedTuple):
    part: int
    key: Endpoint
    start: int
    stop: int


class Layout:
    """Arrays in parts, part after part. Those that must be finite share one stretch of memory per dtype."""

    def __init__(self, parts: Sequence[Mapping[Endpoint, Slot]], *, check_finite: bool) -> None:
        self.views: tuple[dict[Endpoint, Array], ...] = tuple({} for _ in parts)
        """Part -> where each of its arrays is."""

        self._stretches: list[tuple[Array, list[_Span]]] = []
        spans: dict[DType, list[_Span]] = {}
        for part, slots in enumerate(parts):
            for key, slot in slots.items():
                if check_finite and slot.finite and slot.dtype.startswith("float"):
                    run = spans.setdefault(slot.dtype, [])
                    start = _next_line(run[-1].stop, slot.dtype) if run else 0
                    run.append(_Span(part, key, start, start + math.prod(slot.shape)))
                else:
                    self.views[part][key] = aligned_zeros(slot.dtype, slot.shape)
        for dtype, run in spans.items():
            stretch = aligned_zeros(dtype, (run[-1].stop,))
            for part, key, start, stop in run:
                self.views[part][key] = stretch[start:stop].reshape(parts[part][key].shape)
            self._stretches.append((stretch, run))

    def checks(self, *parts: int) -> tuple[FiniteCheck, ...]:
        """A check per dtype over parts that lie side by side."""
        made: list[FiniteCheck] = []
        for stretch, run in self._stretches:
            spans = [span for span in run if span.part in parts]
            if spans:
                values = stretch[spans[0].start : spans[-1].stop]
                found = bytearray(values.size)
                arrays = tuple((span.key, self.views[span.part][span.key]) for span in spans)
                made.append(FiniteCheck(values, np.frombuffer(found, np.bool_), found.find, arrays))
        return tuple(made)


def _next_line(position: int, dtype: DType) -> int:
    """The first element from `position` on that starts a cache line; what is skipped stays zero."""
    elements = _ALIGNMENT // np.dtype(dtype).itemsize
    return -(-position // elements) * elements


def aligned_zeros(dtype: DType, shape: tuple[int, ...]) -> Array:
    """Zeros that start at a cache line."""
    wanted = math.prod(shape) * np.dtype(dtype).itemsize
    raw = np.zeros(wanted + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + wanted].view(dtype).reshape(shape)


class Bank(NamedTuple):
    """What is written together: where it is read, and where a run writes it, by the bank's bit in the parity."""

    sides: tuple[Mapping[Endpoint, Array], Mapping[Endpoint, Array]]
    checks: tuple[tuple[FiniteCheck, ...], tuple[FiniteCheck, ...]]
    """Side -> the checks to make after writing it; for the bank of one rate they cover that rate's inputs too."""


class Memory:
    """The states of a policy.

    A bit of `parity` per bank says which side is current, and one more whether something has been decided since the
    last reset. All of it is one number, so that a step, a reset or a restore takes effect at once or not at all,
    whatever interrupts it.
    """

    DECIDED = 8

    def __init__(self, banks: Mapping[int, Bank], places: Mapping[str, int]) -> None:
        self.banks = banks
        self.parity = 0
        self._places = places

    def read_from(self, state: str, parity: int) -> Array:
        """Where a state is read under a parity."""
        bit = self._places[state]
        return self.banks[bit].sides[bool(parity & bit)][Endpoint("states", state)]

    def write_to(self, bit: int, key: Endpoint, parity: int) -> Array:
        """Where a run under a parity writes an array of a bank."""
        return self.banks[bit].sides[not parity & bit][key]

    def checks(self, bits: Iterable[int], parity: int) -> tuple[FiniteCheck, ...]:
        """What to look at after a run under a parity that writes the banks `bits`."""
        return tuple(check for bit in sorted(bits) for check in self.banks[bit].checks[not parity & bit])

    def current(self) -> dict[str, Array]:
        """Every state as it is now; the arrays themselves, not copies."""
        return {state: self.read_from(state, self.parity) for state in self._places}

    @property
    def decided(self) -> bool:
        """Whether something has been decided since the last reset."""
        return bool(self.parity & self.DECIDED)

    def replace(self, values: Arrays, *, decided: bool) -> None:
        """Give every state a new value."""
        parity, flip = self.parity, 0
        for state, bit in self._places.items():
            self.write_to(bit, Endpoint("states", state), parity)[...] = values[state]
            flip |= bit
        self.parity = (parity ^ flip) | self.DECIDED if decided else (parity ^ flip) & ~self.DECIDED
