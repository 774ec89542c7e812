"""The model files of such a directory: what they take and give, with every length known.

The format has no specification of ports, and its exporter leaves the batch open in every file. A length that is still
open when the inputs are known is found by running the file once, on zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from ashore.errors import BackendError, PackageError
from ashore.interop.folders import read_inside
from ashore.runtime import Options
from ashore.runtime.onnx import describe, found_ports, open_session, runtime_errors
from ashore.runtime.ports import FoundPort
from ashore.spec import Artifact, Dim, DType, Port, Rate, Stage, path_problem

FOLDER = "artifacts"
MAX_MODEL_BYTES = (1 << 31) - 1
"""What one ONNX file can have."""


class Model(NamedTuple):
    """A model file, opened."""

    where: str
    path: str
    """In the directory, and in the package."""

    data: bytes
    session: Any
    inputs: dict[str, FoundPort]
    outputs: dict[str, FoundPort]

    def dtype(self, port: str) -> DType:
        """The dtype of an input or an output."""
        found = (self.inputs if port in self.inputs else self.outputs)[port]
        if found.dtype is None:
            raise PackageError(f"{self.where}: {port!r} is {found.type}, which a package cannot hold")
        return cast("DType", found.dtype)

    def shape(self, port: str, known: tuple[Dim, ...] | None = None) -> tuple[int, ...]:
        """The shape of an input for one robot.

        Args:
            port: the input.
            known: what the rest of the directory says of it; decides where the file leaves a length open.
        """
        said = list(self.inputs[port].shape or ())
        if known is not None and len(known) != len(said):
            raise PackageError(f"{self.where}: {port!r} has the shape {_plain(said)}; it is fed {list(known)}")
        shape: list[int] = []
        for axis, dim in enumerate(said):
            length = dim if isinstance(dim, int) and dim > 0 else None
            if length is None and known is not None:
                length = int(known[axis])
            elif length is None and axis == 0:
                length = 1
            if length is None:
                raise PackageError(
                    f"{self.where}: {port!r} has the shape {_plain(said)}, and nothing says how long axis {axis} is; "
                    f"expected it in hardware"
                )
            if known is not None and known[axis] != length:
                raise PackageError(f"{self.where}: {port!r} has the shape {_plain(said)}; it is fed {list(known)}")
            shape.append(length)
        return tuple(shape)

    def stage(self, inputs: Mapping[str, Port], rate: Rate = "policy") -> Stage:
        """The stage that it is.

        Args:
            inputs: all its inputs, with every length known.
            rate: when it is run.
        """
        shapes = {name: _fixed(port) for name, port in self.outputs.items()}
        if None in shapes.values():
            shapes = self._run(inputs)
        outputs = {
            name: Port(dtype=self.dtype(name), shape=cast("tuple[Dim, ...]", shape)) for name, shape in shapes.items()
        }
        artifact = Artifact(path=self.path)
        return Stage(rate=rate, inputs=dict(inputs), outputs=outputs, artifacts={"onnx": artifact})

    def _run(self, inputs: Mapping[str, Port]) -> dict[str, tuple[int, ...] | None]:
        zeros = {name: np.zeros([int(dim) for dim in port.shape], port.dtype) for name, port in inputs.items()}
        try:
            with np.errstate(all="ignore"):
                results = self.session.run(list(self.outputs), zeros)
        except runtime_errors() as error:
            shapes = {name: list(port.shape) for name, port in inputs.items()}
            raise PackageError(f"{self.where}: cannot be run on inputs of the shapes {shapes}: {error}") from error
        return {name: tuple(result.shape) for name, result in zip(self.outputs, results, strict=True)}


def open_model(folder: Path, role: str, path: str, where: str) -> Model:
    """Open the model file of a role.

    Args:
        folder: the directory with the manifest.
        role: what the runner calls it.
        path: what the manifest says, relative to ``artifacts/``.
        where: what to call the manifest in an error.
    """
    place = f"{where}: model.artifacts.{role}"
    if problem := path_problem(path):
        raise PackageError(f"{place}: {path!r}: {problem}")
    if not path.endswith(".onnx"):
        raise PackageError(f"{place}: {path!r}: expected an .onnx file")
    full = f"{FOLDER}/{path}"
    data = read_inside(folder, full, place, MAX_MODEL_BYTES + 1)
    if len(data) > MAX_MODEL_BYTES:
        raise PackageError(f"{place}: {full!r} is longer than {MAX_MODEL_BYTES} bytes")
    try:
        session = open_session(data, Options(), full)
        described = describe(session, full)
    except BackendError as error:
        raise PackageError(f"{place}: {error}") from error
    inputs, outputs = (
        {port.name: port for port in found_ports(ports)} for ports in (described.inputs, described.outputs)
    )
    return Model(f"{folder}: {full}", full, data, session, inputs, outputs)


def _fixed(port: FoundPort) -> tuple[int, ...] | None:
    shape = port.shape
    if shape is None or any(not isinstance(dim, int) or dim < 1 for dim in shape):
        return None
    return tuple(cast("int", dim) for dim in shape)


def _plain(shape: list[int | str | None]) -> str:
    return str(["?" if not isinstance(dim, int) else dim for dim in shape])
