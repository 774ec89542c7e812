"""The seam between the runtime and whatever executes a stage.

A backend opens an artifact as a session; a session is bound to buffers once and then only called. Everything that
costs time (names, shapes, allocation) happens before the first step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from ashore.errors import BackendError
from ashore.package import Array
from ashore.plugins import Plugins, load_object
from ashore.spec import Artifact, Stage

Provider: TypeAlias = str | tuple[str, dict[str, Any]]


class Options(NamedTuple):
    """How sessions are opened."""

    threads: int = 1
    """Threads within one operation. One is fastest for policies of usual size, and the calmest under load."""

    providers: Sequence[Provider] | None = None
    """Execution providers of ONNX Runtime, most wanted first; None is what `device` says. One that is missing is an
    error."""

    device: str | None = None
    """Where stages run, such as ``"cpu"``, ``"cuda"`` or ``"GPU.1"``, in any case; None is the CPU, or what `providers`
    says. One that is not there is an error."""

    properties: Mapping[str, Any] | None = None
    """Properties of OpenVINO, or what a plugin takes; they override what Ashore would set."""

    optimise: bool = True
    """Whether ONNX Runtime may rewrite the graph before it runs it; to see what its rewriting does, False."""


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
    """Opens artifacts.

    One that is a plugin is made without arguments, and may say with a sequence `also_opens` whose artifacts it opens
    where a stage has none of its own; see `ALSO_OPENS`.
    """

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
    "openvino": "ashore.runtime.openvino:OpenvinoBackend",
    "torchscript": "ashore.backends.torchscript:TorchScriptBackend",
    "pt2": "ashore.backends.pt2:Pt2Backend",
}
"""Backend name -> where its class is. Imported only when asked for. If nobody asks, the first safe one that a
stage has an artifact for runs it."""

WHOLE: Mapping[str, str] = {"c": "ashore.backends.c.loading:open_package"}
"""Name of a backend that makes one thing of a whole package -> the function that opens one; see
`ashore.runtime.whole`. Imported only when asked for."""

PLUGINS = Plugins("ashore.backends", "backend", BackendError)
"""Backends of other packages. They run only if they are named."""

EXTRAS: Mapping[str, str] = {"openvino": "openvino", "torchscript": "export", "pt2": "export"}
"""Backend name -> the extra that installs what it needs."""

ALSO_OPENS: Mapping[str, tuple[str, ...]] = {"openvino": ("onnx",)}
"""Backend name -> whose artifacts it opens where a stage has none of its own, most wanted first."""

READS: Mapping[str, str] = {"providers": "onnx", "properties": "openvino"}
"""Option -> the only built-in backend that reads it."""

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
        f"{where} has artifacts only for {sorted(stage.artifacts)}, and this Ashore runs {sorted(BACKENDS)}; "
        f"a backend of another package has to be named"
    )


def artifact_of(where: str, stage: Stage, backend: str) -> Artifact:
    """The artifact that a backend opens: its own, else one of another backend that it can open too."""
    if backend in BACKENDS:
        others = ALSO_OPENS.get(backend, ())
    else:
        check_backend(backend)
        others = () if backend in stage.artifacts else tuple(getattr(find_backend(backend), "also_opens", ()))
    for name in (backend, *others):
        if name in stage.artifacts:
            return stage.artifacts[name]
    also = f", nor for {' or '.join(map(repr, others))}, which it opens too" if others else ""
    raise BackendError(f"{where} has no artifact for {backend!r}{also}; it has {sorted(stage.artifacts)}")


def check_options(options: Options, backends: Sequence[str]) -> None:
    """Refuse an option that none of the backends would look at. Those of other packages may look at any."""
    if any(backend not in BACKENDS for backend in backends):
        return
    for option, reader in READS.items():
        if getattr(options, option) is not None and reader not in backends:
            raise BackendError(f"{option} are for the backend {reader!r}, and no stage runs on it")


def check_backend(name: str) -> None:
    """Raise `BackendError` if there is no backend of that name. Nothing of it is imported."""
    if name in WHOLE:
        raise BackendError(
            f"the backend {name!r} runs whole packages, not stages; use ashore.load with backend={name!r}"
        )
    if name not in BACKENDS:
        PLUGINS.find(name, {**BACKENDS, **WHOLE}, ALIASES)


def find_backend(name: str) -> Backend:
    """The backend of that name, as it stands in a manifest."""
    if name not in BACKENDS:
        return _plugin(name)
    try:
        return load_object(BACKENDS[name])()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "ashore":
            raise  # a fault of Ashore's own, which installing something would not mend
        raise BackendError(
            f"the backend {name!r} needs {error.name}, which is not installed; "
            f"use pip install 'ashore[{EXTRAS.get(name, 'export')}]'"
        ) from error


def _plugin(name: str) -> Backend:
    made = PLUGINS.load(name, {**BACKENDS, **WHOLE}, ALIASES)
    try:
        backend = made()
    except Exception as error:  # it is somebody else's, and may raise anything at all
        raise BackendError(f"the backend {name!r} ({made!r}) cannot be made: {error}") from error
    if not callable(getattr(backend, "open", None)):
        raise BackendError(f"the backend {name!r} ({made!r}) has no method open; see ashore.runtime.Backend")
    return backend
