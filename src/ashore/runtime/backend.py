"""The seam between the runtime and whatever executes a stage.

A backend opens an artifact as a session; a session is bound to buffers once and then only called. Everything that
costs time (names, shapes, allocation) happens before the first step.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from ashore.errors import BackendError, suggestion
from ashore.package import Array
from ashore.spec import Stage

Provider: TypeAlias = str | tuple[str, dict[str, Any]]


class Options(NamedTuple):
    """How sessions are opened."""

    threads: int = 1
    """Threads within one operation. One is fastest for policies of usual size, and the calmest under load."""

    providers: Sequence[Provider] | None = None
    """Execution providers, most wanted first; None is the CPU. One that is missing is an error."""


class Session(Protocol):
    """An opened stage."""

    errors: tuple[type[Exception], ...]
    """What a bound call may raise; the runtime turns it into a `BackendError`."""

    def bind(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Callable[[], object]:
        """Fix the buffers of one call.

        Args:
            inputs: port name -> C-contiguous array the call reads.
            outputs: port name -> C-contiguous array the call writes.

        Returns:
            A function that runs the stage on those buffers, as often as it is called.
        """
        ...


class Backend(Protocol):
    """Opens artifacts."""

    def open(self, where: str, files: Sequence[bytes], stage: Stage, options: Options) -> Session:
        """Open an artifact after checking that its ports are those of the stage.

        Args:
            where: what to call the artifact in an error.
            files: the artifact's file, and the further files it needs.
            stage: whose ports it must have; the batch axis is still symbolic.
            options: how to open it.
        """
        ...


BACKENDS: Mapping[str, str] = {"onnx": "ashore.runtime.onnx:OnnxBackend"}
"""Backend name -> where its class is. Imported only when asked for."""


def find_backend(name: str) -> Backend:
    """The backend of that name."""
    place = BACKENDS.get(name)
    if place is None:
        hint = suggestion(name, BACKENDS, f"; this Ashore has {sorted(BACKENDS)}")
        raise BackendError(f"unknown backend {name!r}{hint}")
    module, _, attribute = place.partition(":")
    return getattr(importlib.import_module(module), attribute)()
