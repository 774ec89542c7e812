"""Named arrays in safetensors files, with every failure a `PackageError`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from ashore.errors import PackageError

Array = NDArray[Any]
Arrays = Mapping[str, Array]


def load_arrays(data: bytes, where: str) -> dict[str, Array]:
    """Read every array of a safetensors file.

    Args:
        data: the whole file.
        where: what to call it in an error.
    """
    try:
        arrays = dict(sorted(safetensors.numpy.load(data).items()))
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise PackageError(f"{where}: not a readable safetensors file: {error}") from error
    return arrays


def load_notes(data: bytes) -> dict[str, str]:
    """The notes beside the arrays of a safetensors file that `load_arrays` could read."""
    length = int.from_bytes(data[:8], "little")
    notes: dict[str, str] = json.loads(data[8 : 8 + length]).get("__metadata__") or {}
    return notes


def save_arrays(arrays: Arrays, notes: Mapping[str, str] | None = None) -> bytes:
    """Write arrays as a safetensors file; the same arrays give the same bytes, if there is at most one note."""
    contiguous = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in sorted(arrays.items())}
    return safetensors.numpy.save(contiguous, metadata=dict(notes) if notes else None)


def check_array(where: str, array: Array, dtype: str, shape: tuple[int, ...], finite: bool) -> None:
    """Raise `PackageError` unless an array has exactly this dtype and shape, and finite values where asked."""
    plain = isinstance(array, np.ndarray)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not plain or isinstance(array, np.ma.MaskedArray):
        raise PackageError(f"{where}: expected a plain numpy array, got {type(array).__name__}")
    if array.dtype != np.dtype(dtype):
        raise PackageError(f"{where}: expected dtype {dtype}, got {array.dtype}")
    if array.shape != shape:
        raise PackageError(f"{where}: expected shape {list(shape)}, got {list(array.shape)}")
    if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
        raise PackageError(f"{where}: holds NaN or an infinity")
