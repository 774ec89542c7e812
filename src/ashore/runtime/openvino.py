"""Stages in OpenVINO, over buffers bound once.

This is the only module of the runtime that knows OpenVINO. Left alone, OpenVINO computes in bfloat16 where the
processor can, which moves a policy's outputs by a hundredth. Here it computes in float32, and what it would still
compute in less than the file says is refused: float64, and whole numbers beyond 32 bits.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ashore.errors import BackendError
from ashore.package import Array
from ashore.runtime.backend import Options
from ashore.runtime.ports import FoundPort, check_ports
from ashore.runtime.protobuf import input_names, refuse_external_data
from ashore.spec import Artifact, Port, Stage

_OLDEST = (2025, 4)
"""Before, an output that is an input passed on was never written to the array bound to it."""

_DTYPES = {
    "boolean": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
}
_CARRIERS = {"Constant", "Convert"}
"""Operations that compute nothing, and may have float64 to begin with or in passing."""

_UNFUSED = {"Mish"}
"""Operations that OpenVINO fuses with others on the CPU, and then refuses, since it has no fused form of them."""

_WIDE = {"int64", "uint32", "uint64"}
_LARGEST = np.iinfo(np.int32)
_PLACE = re.compile(r"^(Exception from \S+:|Check '.*' failed at \S+:)$")
"""Lines in which OpenVINO says where in itself something went wrong."""


class OpenvinoBackend:
    """Opens OpenVINO's own IR, and ONNX."""

    def __init__(self) -> None:
        self._ov, self._core = _openvino()

    def open(
        self, where: str, artifact: Artifact, files: Sequence[bytes], stage: Stage, options: Options
    ) -> OpenvinoSession:
        """Open an artifact after checking that its ports are those of the stage."""
        device = _device(self._core, options.device, where)
        expected = dict(stage.inputs)
        try:
            if artifact == stage.artifacts.get("openvino"):
                model = _read_ir(self._core, files, where)
            else:
                model = _read_onnx(self._core, files, where)
                for name in input_names(files[0]) & expected.keys():
                    if not any(name in port.get_names() for port in model.inputs):
                        del expected[name]  # nothing reads it, and OpenVINO has dropped it
            inputs, outputs = _found(model.inputs, expected), _found(model.outputs, stage.outputs)
            narrowed = _computed_in_float64(model)
        except UnicodeDecodeError as error:
            raise BackendError(f"{where}: holds a name that is no text: {error}") from error
        except RuntimeError as error:
            raise BackendError(f"{where}: OpenVINO refuses it: {_reason(error)}") from error
        check_ports(f"{where}: input", inputs, expected)
        check_ports(f"{where}: output", outputs, stage.outputs)
        if narrowed:
            raise BackendError(
                f"{where}: {narrowed} is float64, which OpenVINO computes as float32; run it on another backend"
            )
        kinds = {op.get_type_name() for op in operations(model)}
        return OpenvinoSession(
            self._ov, self._core, where, model, device, _properties(device, options, kinds), list(expected)
        )


class OpenvinoSession:
    """A stage that OpenVINO has read."""

    errors: tuple[type[Exception], ...] = (RuntimeError, ValueError, TypeError, OverflowError)

    def __init__(
        self,
        ov: Any,
        core: Any,
        where: str,
        model: Any,
        device: str,
        properties: Mapping[str, Any],
        inputs: Sequence[str],
    ) -> None:
        self._ov, self._core, self._where, self._model = ov, core, where, model
        self._device, self._properties = device, properties
        self._inputs = inputs
        """Those that the model has left."""

        self._compiled: dict[tuple[tuple[int, ...], ...], Any] = {}
        """Shapes of the inputs -> the model compiled for them."""

    def bind(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Callable[[], object]:
        """Fix the buffers of one call; see `ashore.runtime.backend.Session`."""
        given = {name: inputs[name] for name in self._inputs}
        try:
            compiled = self._compile({name: array.shape for name, array in given.items()})
            request = compiled.create_infer_request()
            copied = {
                name: array for name, array in outputs.items() if not self._is_fixed(compiled.output(name), name, array)
            }
            for name, array in (*given.items(), *outputs.items()):
                if name not in copied:
                    request.set_tensor(name, self._ov.Tensor(array, shared_memory=True))
        except RuntimeError as error:
            raise BackendError(f"{self._where}: OpenVINO refuses it: {_reason(error)}") from error
        wide = {name: array for name, array in given.items() if array.dtype.name in _WIDE}
        call = _infer(request) if not wide and not copied else partial(_infer_guarded, request, wide, copied)
        # OpenVINO knows addresses only: what lies there must live as long as the call.
        call.buffers = (compiled, request, dict(inputs), dict(outputs))  # type: ignore[attr-defined]
        return call

    def _compile(self, shapes: Mapping[str, tuple[int, ...]]) -> Any:
        key = tuple(shapes.values())
        if key not in self._compiled:
            model = self._model
            if model.is_dynamic():
                model = model.clone()
                model.reshape({name: list(shape) for name, shape in shapes.items()})
            self._compiled[key] = self._core.compile_model(model, self._device, dict(self._properties))
        return self._compiled[key]

    def _is_fixed(self, port: Any, name: str, array: Array) -> bool:
        """Whether an output has the shape of its array for certain. If not, OpenVINO makes room, and it is copied."""
        shape = _shape(port)
        if shape is None or None in shape:
            return False
        if tuple(shape) != array.shape:
            raise BackendError(
                f"{self._where}: output {name!r}: with these inputs the artifact gives shape {shape}, "
                f"expected {list(array.shape)}"
            )
        return True


@functools.cache
def _openvino() -> tuple[Any, Any]:
    """The module and a core, one for the whole process: it holds plugins, and nothing of a policy."""
    ov: Any = importlib.import_module("openvino")
    version: str = ov.__version__
    if tuple(map(int, version.split("-")[0].split(".")[:2])) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise BackendError(
            f"OpenVINO {version} leaves outputs unwritten that are inputs passed on; "
            f"use pip install 'openvino>={oldest}'"
        )
    return ov, ov.Core()


def _device(core: Any, asked: str | None, where: str) -> str:
    """What OpenVINO calls a device. None that chooses for itself, such as AUTO: it would fall back in silence."""
    wanted = "CPU" if asked is None else asked.upper()
    there: list[str] = core.available_devices
    if wanted not in {*there, *(name.partition(".")[0] for name in there)}:
        raise BackendError(f"{where}: device {asked!r} is not there; OpenVINO has {there} here")
    return wanted


def _properties(device: str, options: Options, kinds: Collection[str] = ()) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "INFERENCE_PRECISION_HINT": "f32",
        "EXECUTION_MODE_HINT": "ACCURACY",  # nor quantise on the way
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": "1",
    }
    if device == "CPU":
        chosen |= {"INFERENCE_NUM_THREADS": options.threads, "ENABLE_CPU_PINNING": False}
        if not _UNFUSED.isdisjoint(kinds):
            chosen["SNIPPETS_MODE"] = "DISABLE"
    return chosen | dict(options.properties or {})


def _read_ir(core: Any, files: Sequence[bytes], where: str) -> Any:
    if len(files) > 2 or not files[0].lstrip().startswith(b"<"):
        raise BackendError(f"{where}: expected OpenVINO's IR, one .xml and at most one .bin")
    model = core.read_model(files[0], files[1] if len(files) == 2 else b"")
    if any(name.startswith("decompression") for op in operations(model) for name in op.get_rt_info()):
        raise BackendError(
            f"{where}: its weights were rounded to float16; save it again, "
            f"with ov.save_model(…, compress_to_fp16=False)"
        )
    return model


def _read_onnx(core: Any, files: Sequence[bytes], where: str) -> Any:
    if len(files) != 1:
        raise BackendError(f"{where}: an ONNX artifact is one file, with its weights inside; got {len(files)} files")
    refuse_external_data(files[0], where)
    return core.read_model(files[0], b"")


def operations(model: Any) -> Iterator[Any]:
    """Every operation of a model, also those in the bodies of loops and conditions."""
    for op in model.get_ordered_ops():
        yield op
        for body in ("get_then_body", "get_else_body") if op.get_type_name() == "If" else ("get_function",):
            if hasattr(op, body):
                yield from operations(getattr(op, body)())


def _computed_in_float64(model: Any) -> str | None:
    """The first operation or port that is float64."""
    for op in operations(model):
        kind: str = op.get_type_name()
        if kind not in _CARRIERS and any(end.get_element_type().get_type_name() == "f64" for end in op.outputs()):
            return f"{kind} {op.get_friendly_name()!r}"
    return None


def _found(ports: Iterable[Any], expected: Mapping[str, Port]) -> list[FoundPort]:
    found: list[FoundPort] = []
    for port in ports:
        names: set[str] = port.get_names()
        ours = sorted(names & expected.keys())
        kind: str = port.get_element_type().get_type_name()
        name = ours[0] if len(ours) == 1 else "/".join(sorted(names))  # a tensor may have several names
        found.append(FoundPort(name, kind, _DTYPES.get(kind), _shape(port)))
    return found


def _shape(port: Any) -> list[int | None] | None:
    shape = port.partial_shape
    if shape.rank.is_dynamic:
        return None
    return [length.get_length() if length.is_static else None for length in shape]


def _infer(request: Any) -> partial[object]:
    return partial(request.infer, share_outputs=True)  # without it the results are copied once more, for nobody


def _infer_guarded(request: Any, wide: Mapping[str, Array], copied: Mapping[str, Array]) -> None:
    for name, array in wide.items():
        if array.size and not (_LARGEST.min <= array.min() and array.max() <= _LARGEST.max):
            raise OverflowError(f"{name!r} holds a number beyond 32 bits, with which OpenVINO computes")
    request.infer(share_outputs=True)
    for name, array in copied.items():
        value: Array = request.get_tensor(name).data
        if value.shape != array.shape:
            raise ValueError(f"gave shape {list(value.shape)} for {name!r}, expected {list(array.shape)}")
        array[...] = value


def _reason(error: RuntimeError) -> str:
    """What OpenVINO says, without where in its own sources."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if line and not _PLACE.match(line)]
    return "; ".join(told) or "; ".join(lines)
