"""What builders ask of a stage before it runs: its ports, its parameters, its files.

A processor knows its ports by their names, or has one on each side. Everything is checked when a package is opened, so
that a step computes and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

import msgspec
import numpy as np

from ashore.errors import ManifestError
from ashore.package import Arrays
from ashore.spec import Dim, DType, Port, Processor, Stage

Apply: TypeAlias = Callable[[Arrays], Arrays]
"""Named inputs to named outputs, of exactly the dtypes and shapes of the stage's ports; the inputs are not written."""

Read: TypeAlias = Callable[[str], bytes]
"""The bytes of a file of the package."""

Builder: TypeAlias = Callable[[str, Stage, Read], Apply]
"""What to call the stage in an error, the stage, and what reads its assets -> the function that it is."""

FLOATS: tuple[DType, ...] = ("float32", "float64")


class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The parameters of a processor: closed to unknown keys, and none unless a subclass has some."""


P = TypeVar("P", bound=Params)


def processor_of(where: str, stage: Stage, assets: int = 0) -> Processor:
    """The processor of a stage, which must have so many assets."""
    processor = stage.processor
    if processor is None:
        raise ManifestError(f"{where}: expected a stage with a processor")
    if len(processor.assets) != assets:
        raise ManifestError(
            f"{where}: expected {assets or 'no'} asset{'s' * (assets != 1)}, got {list(processor.assets)}"
        )
    return processor


def read_params(where: str, stage: Stage, kind: type[P]) -> P:
    """The parameters of a stage's processor as a struct."""
    try:
        return msgspec.convert(stage.processor.params if stage.processor else {}, kind)
    except msgspec.ValidationError as error:
        raise ManifestError(f"{where}: params: {error}") from None


def one_each(where: str, stage: Stage) -> tuple[str, Port, str, Port]:
    """Name and port of the only input, and of the only output."""
    if len(stage.inputs) != 1 or len(stage.outputs) != 1:
        raise ManifestError(
            f"{where}: expected one input and one output, got {sorted(stage.inputs)} and {sorted(stage.outputs)}"
        )
    ((source, port),) = stage.inputs.items()
    ((target, other),) = stage.outputs.items()
    return source, port, target, other


def named(where: str, stage: Stage, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Mapping[str, Port]:
    """The ports of a stage, which must be exactly those, by name."""
    sides = (("inputs", inputs, stage.inputs), ("outputs", outputs, stage.outputs))
    for side, expected, got in sides:
        if set(expected) != got.keys():
            raise ManifestError(f"{where}: expected the {side} {sorted(expected)}, got {sorted(got)}")
    return {**stage.inputs, **stage.outputs}


def expect(where: str, name: str, port: Port, dtypes: tuple[DType, ...], *shapes: tuple[Dim, ...]) -> None:
    """Raise unless a port has one of the dtypes, and one of the shapes where any are given."""
    if port.dtype not in dtypes or (shapes and port.shape not in shapes):
        what = " or ".join(dtypes)
        forms = " or ".join(str(list(shape)) for shape in shapes) or str(list(port.shape))
        raise ManifestError(f"{where}: {name!r} is {port.dtype} {list(port.shape)}; expected {what} {forms}")


def expect_axes(where: str, name: str, port: Port, axes: tuple[str, ...]) -> None:
    """Raise unless a port has that many axes; `axes` are what they are called."""
    if len(port.shape) != len(axes):
        raise ManifestError(f"{where}: {name!r} has the shape {list(port.shape)}; expected [{', '.join(axes)}]")


def length(where: str, name: str, port: Port, axis: int) -> int:
    """The length of an axis that is not that of the rows."""
    dim = port.shape[axis]
    if dim == "batch":
        raise ManifestError(f"{where}: {name!r} has the shape {list(port.shape)}; expected the batch axis first")
    return dim


def check_value(where: str, name: str, value: float, dtype: DType) -> None:
    """Raise unless a dtype can hold a parameter; it would become another value, or an infinity."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        held = math.isfinite(value) and abs(value) <= float(np.finfo(kind).max)
    elif kind.kind == "b":
        held = value in (0, 1)
    else:
        held = value == int(value) and np.iinfo(kind).min <= value <= np.iinfo(kind).max
    if not held:
        raise ManifestError(f"{where}: params: {name} {value} cannot be held by {dtype}")


def nothing_to_do(where: str, why: str) -> ManifestError:
    """The error for a processor that would give what it gets."""
    return ManifestError(f"{where}: {why}, so the stage would touch nothing; leave it out")
