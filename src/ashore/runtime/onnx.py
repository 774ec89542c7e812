"""Stages in ONNX Runtime, over buffers bound once.

This is the only module that knows ONNX Runtime. It is imported when a session is opened, not before, and it never
imports the ``onnx`` package: what it must know of a file, it asks the session.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ashore.errors import BackendError
from ashore.package import Array
from ashore.runtime.backend import Options, Provider
from ashore.runtime.ports import FoundPort, check_ports
from ashore.runtime.protobuf import refuse_external_data
from ashore.spec import Artifact, Stage

_DTYPES = {
    "tensor(bool)": "bool",
    "tensor(int8)": "int8",
    "tensor(int16)": "int16",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
    "tensor(uint8)": "uint8",
    "tensor(uint16)": "uint16",
    "tensor(uint32)": "uint32",
    "tensor(uint64)": "uint64",
    "tensor(float16)": "float16",
    "tensor(float)": "float32",
    "tensor(double)": "float64",
}
_DEVICES = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
_FATAL_ONLY = 4


class OnnxBackend:
    """Opens ``.onnx`` artifacts."""

    def open(
        self,
        where: str,
        artifact: Artifact,  # noqa: ARG002 - a file that names its ports needs no order of them
        files: Sequence[bytes],
        stage: Stage,
        options: Options,
    ) -> OnnxSession:
        """Open an artifact after checking that its ports are those of the stage."""
        if len(files) != 1:
            raise BackendError(
                f"{where}: an ONNX artifact is one file, with its weights inside; got {len(files)} files"
            )
        session = open_session(files[0], options, where)
        described = describe(session, where)
        check_ports(f"{where}: input", found_ports(described.inputs), stage.inputs)
        check_ports(f"{where}: output", found_ports(described.outputs), stage.outputs)
        return OnnxSession(session)


class OnnxSession:
    """A stage that ONNX Runtime has opened."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._options: Any = importlib.import_module("onnxruntime").RunOptions()
        self.errors = runtime_errors()

    def bind(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Callable[[], object]:
        """Fix the buffers of one call; see `ashore.runtime.backend.Session`."""
        binding = self._session.io_binding()
        for name, array in inputs.items():
            binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        for name, array in outputs.items():
            binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        # The public method only unwraps its arguments, and without options a run makes its own: together they take a
        # tenth of the time of a small policy.
        inner, bound = getattr(self._session, "_sess", None), getattr(binding, "_iobinding", None)
        if inner is None or bound is None:
            call = partial(self._session.run_with_iobinding, binding, self._options)
        else:
            call = partial(inner.run_with_iobinding, bound, self._options)
        # The binding knows addresses only: what lies there must live as long as the call.
        call.buffers = (self._session, binding, dict(inputs), dict(outputs))  # type: ignore[attr-defined]
        return call


@dataclass(frozen=True)
class OnnxPort:
    """An input or output as an ONNX file has it; an open dimension is a name or None."""

    name: str
    type: str
    shape: list[int | str | None]


@dataclass(frozen=True)
class Description:
    """What an ONNX file says about itself."""

    inputs: list[OnnxPort]
    outputs: list[OnnxPort]
    metadata: dict[str, str]


def describe(session: Any, where: str) -> Description:
    """Ask a session for its ports and metadata."""
    try:
        inputs, outputs = (
            [OnnxPort(port.name, port.type, list(port.shape)) for port in ports]
            for ports in (session.get_inputs(), session.get_outputs())
        )
        return Description(inputs, outputs, dict(session.get_modelmeta().custom_metadata_map))
    except UnicodeDecodeError as error:
        raise BackendError(f"{where}: holds a name that is no text: {error}") from error


def open_session(model: bytes | Path, options: Options, where: str) -> Any:
    """Open a bare ``onnxruntime.InferenceSession`` with the options every policy runs with.

    Args:
        model: a whole ONNX file, weights inside; or the path of one that may have weights beside it.
        options: threads, providers and device.
        where: what to call the artifact in an error.
    """
    ort: Any = importlib.import_module("onnxruntime")
    if isinstance(model, bytes):
        refuse_external_data(model, where)
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = options.threads
    settings.inter_op_num_threads = 1
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    settings.log_severity_level = _FATAL_ONLY
    if not options.optimise:
        settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if isinstance(model, bytes):  # a second fence: recent versions then look nowhere else for weights
        settings.add_session_config_entry("session.model_external_initializers_file_folder_path", os.devnull)
    providers = _providers(ort, options)
    try:
        session = ort.InferenceSession(model, settings, providers=providers, enable_fallback=0)
    except runtime_errors() as error:
        raise BackendError(f"{where}: ONNX Runtime refuses it: {error}") from error
    missing = [_name(provider) for provider in providers if _name(provider) not in session.get_providers()]
    if missing:
        raise BackendError(f"{where}: provider {missing[0]!r} is installed but could not be started")
    return session


def runtime_errors() -> tuple[type[Exception], ...]:
    """Everything ONNX Runtime raises."""
    raised = vars(importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")).values()
    own = [kind for kind in raised if isinstance(kind, type) and issubclass(kind, Exception)]
    return (RuntimeError, ValueError, *own)


def _providers(ort: Any, options: Options) -> list[Provider]:
    wanted: Provider = "CPUExecutionProvider" if options.device is None else _provider_of(ort, options.device)
    if options.providers is None:
        return [wanted]
    available: list[str] = ort.get_available_providers()
    for provider in options.providers:
        if _name(provider) not in available:
            raise BackendError(f"provider {_name(provider)!r} is not installed; there are {available}")
    first = options.providers[0]
    if options.device is not None and (_name(first) != _name(wanted) or not _numbers(wanted) <= _numbers(first)):
        raise BackendError(
            f"device {options.device!r} means the provider {wanted!r}, and the first of the providers is {first!r}; "
            f"give one of the two"
        )
    return list(options.providers)


def _provider_of(ort: Any, device: str) -> Provider:
    """The provider that a device means: ``cpu``, ``cuda``, or one of several as ``cuda:1``."""
    kind, colon, index = device.lower().partition(":")
    available: list[str] = ort.get_available_providers()
    there = [name for name, provider in _DEVICES.items() if provider in available]
    if kind not in there or (colon and (kind == "cpu" or not index.isdecimal())):
        raise BackendError(
            f"device {device!r} is not there; ONNX Runtime has {there} here, and the providers {available}"
        )
    return (_DEVICES[kind], {"device_id": index}) if colon else _DEVICES[kind]


def _name(provider: Provider) -> str:
    return provider if isinstance(provider, str) else provider[0]


def _numbers(provider: Provider) -> set[str]:
    """Which of several devices a provider is told to use, where it is."""
    return set() if isinstance(provider, str) or "device_id" not in provider[1] else {str(provider[1]["device_id"])}


def found_ports(ports: Sequence[OnnxPort]) -> list[FoundPort]:
    """Ports with their dtypes as Ashore calls them."""
    return [FoundPort(port.name, port.type, _DTYPES.get(port.type), port.shape) for port in ports]
