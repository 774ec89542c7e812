"""A loop as a session: its sampler says what a step does, and callers may choose how many there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

import numpy as np

from ashore.errors import InputError
from ashore.package import Array
from ashore.runtime.loops.body import Body, Denoiser, Ties

MAX_STEPS = 10_000
"""No policy takes more; a number beyond it is a mistake, or an attack."""


@runtime_checkable
class Stepped(Protocol):
    """A session whose number of steps callers may choose for a decision."""

    num_steps: int
    """How many steps the next calls take."""

    def check_steps(self, num_steps: int) -> None:
        """Raise `InputError` if so many steps cannot be taken."""
        ...


class Sampler(Protocol):
    """What the steps of a loop do."""

    def problem(self, num_steps: int) -> str | None:
        """Why so many steps cannot be taken, or None."""
        ...

    def prepare(self, num_steps: int) -> None:
        """Compute what the steps need, for the calls that come."""
        ...

    def bind(
        self, sample: Array, denoiser: Callable[[Array], Denoiser], inputs: Mapping[str, Array]
    ) -> Callable[[], object]:
        """Fix the buffers of one call.

        Args:
            sample: float32; the noise before a call, the last sample after it.
            denoiser: binds the body to the array that it shall take its samples from.
            inputs: those of the stage with the runner.
        """
        ...


class LoopSession:
    """A stage that runs another one, several times a call."""

    def __init__(self, where: str, body: Body, ties: Ties, sampler: Sampler, num_steps: int) -> None:
        self.errors = body.session.errors
        self._where = where
        self._ties = ties
        self._sampler = sampler
        self._num_steps = num_steps
        sampler.prepare(num_steps)

    @property
    def num_steps(self) -> int:
        """How many steps the next calls take."""
        return self._num_steps

    @num_steps.setter
    def num_steps(self, num_steps: int) -> None:
        if type(num_steps) is int and num_steps == self._num_steps:
            return
        self.check_steps(num_steps)
        self._sampler.prepare(num_steps)
        self._num_steps = num_steps

    def check_steps(self, num_steps: int) -> None:
        """Raise `InputError` if so many steps cannot be taken."""
        if type(num_steps) is not int or not 1 <= num_steps <= MAX_STEPS:
            raise InputError(
                f"{self._where}: num_steps: expected a whole number from 1 to {MAX_STEPS}, got {num_steps!r}"
            )
        if problem := self._sampler.problem(num_steps):
            raise InputError(f"{self._where}: num_steps: {problem}")

    def bind(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Callable[[], object]:
        """Fix the buffers of one call; see `ashore.runtime.backend.Session`."""
        sample, noise = outputs[self._ties.output], inputs[self._ties.names.noise]
        steps = self._sampler.bind(sample, lambda array: self._ties.denoiser(array, inputs), inputs)

        def call() -> None:
            with np.errstate(all="ignore"):  # what is not finite is found by the runtime's checks
                np.copyto(sample, noise)
                steps()

        return call
