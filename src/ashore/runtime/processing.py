"""Stages that are processors, behind the same seam as every other stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ashore.package import Array
from ashore.processors import Apply


class ProcessorSession:
    """A processor, bound to buffers like any session."""

    errors: tuple[type[Exception], ...] = (ValueError, TypeError, ArithmeticError, LookupError)

    def __init__(self, apply: Apply) -> None:
        self._apply = apply

    def bind(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Callable[[], object]:
        """Fix the buffers of one call; see `ashore.runtime.backend.Session`."""
        apply = self._apply

        def call() -> None:
            with np.errstate(all="ignore"):  # what is not finite is found by the runtime's checks
                results = apply(inputs)
            for name, place in outputs.items():
                value = results[name]
                if value.shape != place.shape or value.dtype != place.dtype:
                    raise ValueError(f"a processor gave {value.dtype} {list(value.shape)} for {name!r}")
                place[...] = value

        return call
