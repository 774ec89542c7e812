"""The ports of an opened ONNX file: what each takes, and a quick way to see that a value is finite."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from ashore.errors import BackendError
from ashore.package import Array, Arrays
from ashore.runtime.memory import Slot
from ashore.spec import DTYPE_BYTES, DType

_NAMES = {"float": "float32", "double": "float64"}
"""What ONNX Runtime calls two dtypes otherwise than numpy."""


class Dim(NamedTuple):
    """An axis whose length the caller chooses: the same one wherever the file gives it the same name."""

    name: str


@dataclass(frozen=True)
class FilePort:
    """One input or output."""

    name: str
    dtype: DType
    shape: tuple[int | Dim, ...]
    finite: bool

    @property
    def fixed(self) -> bool:
        """Whether every length is known."""
        return all(isinstance(dim, int) for dim in self.shape)

    @property
    def checked(self) -> bool:
        """Whether it could hold what is not finite, and may not."""
        return self.finite and self.dtype.startswith("float")

    def slot(self, sizes: Mapping[Dim, int]) -> Slot:
        """What must be given. A length that nobody has chosen yet counts as one."""
        shape = tuple(sizes.get(dim, 1) if isinstance(dim, Dim) else dim for dim in self.shape)
        return Slot(self.dtype, shape, self.finite)

    def unknown(self, sizes: Mapping[Dim, int]) -> list[str]:
        """The names of lengths that nobody has chosen yet."""
        return [dim.name for dim in self.shape if isinstance(dim, Dim) and dim not in sizes]


def file_port(declared: Any, where: str, *, finite: bool) -> FilePort:
    """A port as ONNX Runtime lists it.

    Args:
        declared: has `name`, `type` and `shape`.
        where: what to call the file in an error.
        finite: whether NaN and infinities are refused.
    """
    inner = declared.type.removeprefix("tensor(").removesuffix(")")
    dtype = _NAMES.get(inner, inner)
    if dtype not in DTYPE_BYTES or not declared.type.startswith("tensor("):
        raise BackendError(f"{where}: {declared.name!r} is {declared.type}, which cannot be given as an array")
    shape = tuple(
        dim if isinstance(dim, int) else Dim(dim if isinstance(dim, str) else f"{declared.name}[{axis}]")
        for axis, dim in enumerate(declared.shape)
    )
    return FilePort(declared.name, cast("DType", dtype), shape, finite)


def sizes_of(ports: Iterable[FilePort], given: Arrays) -> dict[Dim, int]:
    """The lengths that given arrays choose; what does not fit them is found when they are checked."""
    sizes: dict[Dim, int] = {}
    for port in ports:
        value = given.get(port.name)
        if isinstance(value, np.ndarray) and value.ndim == len(port.shape):
            for dim, length in zip(port.shape, value.shape, strict=True):
                if isinstance(dim, Dim):
                    sizes.setdefault(dim, length)
    return sizes


def finite_check(port: FilePort) -> Callable[[Array], bool]:
    """What tells whether an array of a port is finite, without making another array where the shape is fixed."""
    isfinite = np.isfinite
    if not port.fixed:
        return lambda value: bool(isfinite(value).all())
    shape = port.slot({}).shape
    found = bytearray(math.prod(shape))
    mask, find = np.frombuffer(found, np.bool_).reshape(shape), found.find

    def check(value: Array) -> bool:
        if value.shape != shape:  # ONNX Runtime lets results differ from what the file declares
            return bool(isfinite(value).all())
        isfinite(value, mask)
        return find(0) < 0

    return check


def worst(name: str, value: Array) -> str:
    """The first element that is not finite, for an error."""
    index = [int(part) for part in np.argwhere(~np.isfinite(value))[0]]
    return f"{name!r}{index} is {value[tuple(index)]}; expected finite values"
