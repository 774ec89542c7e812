"""Real-time chunking: a chunk of actions that is being made is drawn towards what is left of the chunk before it.

The robot goes on executing the old chunk while the new one is computed, so the first actions of the new chunk, those of
the delay, must be what the robot does anyway; after them the new chunk may part from the old one, more and more until
the horizon. At each evaluation of a flow the sample where it would end, ``x + (t_end - t) v``, is compared with the old
chunk, and the velocity is corrected. As in LeRobot the velocity counts as constant when the estimate is differentiated,
which makes the correction a product and needs no autograd.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import numpy as np

from ashore.errors import InputError, ManifestError
from ashore.package import Array
from ashore.runtime.loops.spacing import evenly
from ashore.runtime.memory import aligned_zeros
from ashore.spec import Dim, Port

Schedule: TypeAlias = Literal["linear", "exp", "ones", "zeros"]
Correct: TypeAlias = Callable[[Any, Any], object]
"""Corrects the velocity, given what is left of the flow and the gain, float32."""


class GuidanceParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a flow is drawn towards the chunk before; the last three are names of ports."""

    horizon: Annotated[int, msgspec.Meta(ge=1)]
    """The row from which on the old chunk counts for nothing."""

    schedule: Schedule
    max_weight: Annotated[float, msgspec.Meta(gt=0)]
    prev_chunk: str = "prev_chunk"
    delay: str = "delay"
    prev_length: str = "prev_length"


class Guidance:
    """The guidance of one stage."""

    def __init__(self, where: str, params: GuidanceParams, shape: tuple[Dim, ...]) -> None:
        names = (params.prev_chunk, params.delay, params.prev_length)
        if len(set(names)) < len(names):
            raise ManifestError(f"{where}: runner.params.guidance: expected three different names, got {list(names)}")
        if len(shape) != 3 or not isinstance(shape[1], int):
            raise ManifestError(
                f"{where}: runner.params.guidance: expected samples with the axes batch, row and element, "
                f"got shape {list(shape)}"
            )
        self._where = where
        self._params = params
        self.max_weight = params.max_weight
        self.ports = {
            params.prev_chunk: Port(dtype="float32", shape=shape),
            params.delay: Port(dtype="int64", shape=(1,)),
            params.prev_length: Port(dtype="int64", shape=(1,)),
        }
        """The inputs that the stage with the runner needs for it."""

    def bind(self, sample: Array, velocity: Array, inputs: Mapping[str, Array]) -> Guide:
        """Fix the buffers: the sample and the velocity of an evaluation, and the inputs of the stage."""
        return Guide(self._where, self._params, sample, velocity, inputs)


class Guide:
    """The guidance of one call after the other, on fixed buffers."""

    def __init__(
        self, where: str, params: GuidanceParams, sample: Array, velocity: Array, inputs: Mapping[str, Array]
    ) -> None:
        self._where = where
        self._params = params
        self._delay = inputs[params.delay]
        self._length = inputs[params.prev_length]
        self._rows = sample.shape[1]
        self._by_row = np.zeros(self._rows, np.float32)
        # Written out for every element: a product with an array that must be broadcast takes twice the time.
        self._weights = aligned_zeros("float32", sample.shape)
        self._made_for: tuple[int, int] | None = None
        self._correct = _correction(sample, velocity, inputs[params.prev_chunk], self._weights)

    def begin(self) -> Correct | None:
        """Weigh the rows for one call. None if there is no chunk before, and so no guidance."""
        delay, length = self._delay.item(), self._length.item()
        if delay < 0:
            raise InputError(f"{self._where}: input {self._params.delay!r}: expected 0 or more rows, got {delay}")
        if not 0 <= length <= self._rows:
            raise InputError(
                f"{self._where}: input {self._params.prev_length!r}: expected 0 to {self._rows} rows, got {length}"
            )
        if length == 0:
            return None
        end = min(self._params.horizon, length)
        extent = min(delay, end), end
        if extent != self._made_for:
            self._made_for = None  # whatever interrupts it
            weigh(self._by_row, self._params.schedule, *extent)
            self._weights[...] = self._by_row[:, None]
            self._made_for = extent
        return self._correct


def weigh(weights: Array, schedule: Schedule, start: int, end: int) -> None:
    """Say how much the old chunk counts in each row.

    Args:
        weights: shape (rows,), float32, zeros before the first time; written.
        schedule: what happens between `start` and `end`: a ramp (``linear``, ``exp``), all (``ones``) or nothing.
        start: the row of the first action that the robot will not have executed; before it the old chunk counts fully.
        end: the row from which on it counts for nothing.
    """
    weights[start:] = 0
    weights[:start] = 1
    if schedule == "ones":
        weights[start:end] = 1
    elif schedule != "zeros" and end > start:
        ramp = evenly(1, 0, end - start + 2)[1:-1]
        weights[start:end] = ramp if schedule == "linear" else ramp * np.expm1(ramp) / np.float32(math.e - 1)


def gains(done: Sequence[float], max_weight: float) -> Array:
    """How strongly the velocity is corrected when the shares `done` of the flow are behind; float32.

    ``((1 - d) / d) * ((1 - d)**2 + d**2) / (1 - d)**2``, at most `max_weight`: that at the start, where the formula is
    infinite, and 0 at the end, where it has no value.
    """
    share = np.array(done, np.float32)
    most = float(np.float32(max_weight))
    with np.errstate(all="ignore"):
        left = (1 - share) ** 2
        spread: Array = (left + share**2) / left
        ratio: Array = np.nan_to_num((1 - share) / share, posinf=most)
        return np.minimum(np.nan_to_num(ratio * spread, posinf=most), np.float32(most))


def _correction(sample: Array, velocity: Array, chunk: Array, weights: Array) -> Correct:
    error = aligned_zeros("float32", sample.shape)
    multiply, add, subtract = np.multiply, np.add, np.subtract

    def correct(ahead: Any, gain: Any) -> None:
        multiply(velocity, ahead, out=error)
        add(sample, error, out=error)
        subtract(chunk, error, out=error)
        multiply(error, weights, out=error)
        multiply(error, gain, out=error)
        add(velocity, error, out=velocity)

    return correct
