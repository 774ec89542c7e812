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
from ashore.spec import Artifact, Stage

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

    def open(self, where: str, artifact: Artifact, files: Sequence[bytes], stage: Stage, options: Options) -> Session:
        """Open an artifact after checking that its ports are those of the stage.

        Args:
            where: what to call the artifact in an error.
            artifact: what the manifest says of it.
            files: its file, and the further files it needs.
            stage: whose ports it must have; the batch axis is still symbolic.
            options: how to open it.
        """
        ...


BACKENDS: Mapping[str, str] = {
    "onnx": "ashore.runtime.onnx:OnnxBackend",
    "torchscript": "ashore.backends.torchscript:TorchScriptBackend",
    "pt2": "ashore.backends.pt2:Pt2Backend",
}
"""Backend name -> where its class is. Imported only when asked for. If nobody asks, the first safe one that a
stage has an artifact for runs it."""

BY_POSITION = frozenset({"torchscript", "pt2"})
"""Backends whose files do not name their ports, so that the manifest has to say their order."""

UNSAFE = frozenset({"pt2"})
"""Backends that unpickle their files."""

ALIASES: Mapping[str, str] = {
    "onnx-dynamo": "onnx",
    "onnx-torchscript": "onnx",
    "jit": "torchscript",
    "jit-script": "torchscript",
    "jit-trace": "torchscript",
    "exported-program": "pt2",
}
"""What else a backend may be called: by the exporter that wrote its file."""


def backend_name(name: str) -> str:
    """The name that a backend goes by in a manifest."""
    return ALIASES.get(name, name)


def default_backend(where: str, stage: Stage) -> str:
    """The backend that a stage runs on if nobody says: ONNX Runtime, else what it has an artifact for.

    Never one whose files can run any code when they are opened: a person has to choose that.
    """
    for name in BACKENDS:
        if name in stage.artifacts and name not in UNSAFE:
            return name
    if unsafe := sorted(UNSAFE & stage.artifacts.keys()):
        raise BackendError(
            f"{where} has only artifacts that can run any code when they are opened: {unsafe}; "
            f"if you trust the package, load it with backend={unsafe[0]!r}"
        )
    raise BackendError(
        f"{where} has artifacts only for {sorted(stage.artifacts)}, and this Ashore runs {sorted(BACKENDS)}"
    )


def check_backend(name: str) -> None:
    """Raise `BackendError` if there is no backend of that name. Nothing is imported."""
    if name not in BACKENDS:
        hint = suggestion(name, BACKENDS, f"; this Ashore has {sorted(BACKENDS)}")
        raise BackendError(f"unknown backend {name!r}{hint}")


def find_backend(name: str) -> Backend:
    """The backend of that name, as it stands in a manifest."""
    check_backend(name)
    module, _, attribute = BACKENDS[name].partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "ashore":
            raise  # a fault of Ashore's own, which installing something would not mend
        raise BackendError(
            f"the backend {name!r} needs {error.name}, which is not installed; use pip install 'ashore[export]'"
        ) from error
