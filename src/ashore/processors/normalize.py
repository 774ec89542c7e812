"""Scaling by statistics, and back.

Both are affine, and both round as the training side does: in the dtype of the port, operation by operation, with the
same epsilon in the same place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec
import numpy as np

from ashore.errors import ManifestError
from ashore.package import Array, Arrays
from ashore.spec import Port, Processor


class NormalizeParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``mean_std``: ``(x - mean) / (std + eps)``. ``min_max``: ``2 (x - min) / (max - min) - 1``, an empty range
    counting as eps. The statistics are in the artifact, as ``<port>/mean`` and so on.
    """

    mode: Literal["mean_std", "min_max"]
    eps: float = 1e-8


def normalize(processor: Processor, port: Port, arrays: Arrays) -> Callable[[Array], Array]:
    """Raw values to what the network was trained on."""
    params, first, second = _read(processor, port, arrays)
    if params.mode == "mean_std":
        scale = second + second.dtype.type(params.eps)
        return lambda value: (value - first) / scale
    span = _span(first, second, params.eps)
    return lambda value: 2 * (value - first) / span - 1


def denormalize(processor: Processor, port: Port, arrays: Arrays) -> Callable[[Array], Array]:
    """What the network computes to raw values."""
    params, first, second = _read(processor, port, arrays)
    if params.mode == "mean_std":
        scale = second + second.dtype.type(params.eps)
        return lambda value: value * scale + first
    span = _span(first, second, params.eps)
    return lambda value: (value + 1) / 2 * span + first


def _span(low: Array, high: Array, eps: float) -> Array:
    span = high - low
    return np.where(span == 0, span.dtype.type(eps), span)


def _read(processor: Processor, port: Port, arrays: Arrays) -> tuple[NormalizeParams, Array, Array]:
    where = f"processor {processor.type!r} of port {processor.port!r}"
    try:
        params = msgspec.convert(processor.params, NormalizeParams)
    except msgspec.ValidationError as error:
        raise ManifestError(f"{where}: params: {error}") from None
    if port.dtype not in ("float32", "float64"):
        raise ManifestError(f"{where}: works on float32 and float64, the port is {port.dtype}")
    names = ("mean", "std") if params.mode == "mean_std" else ("min", "max")
    statistics = [_statistic(where, arrays, f"{processor.port}/{name}", port) for name in names]
    return params, statistics[0], statistics[1]


def _statistic(where: str, arrays: Arrays, key: str, port: Port) -> Array:
    if key not in arrays:
        raise ManifestError(f"{where}: its artifact holds no {key!r}")
    array = arrays[key]
    trailing = port.shape[len(port.shape) - array.ndim :] if 0 < array.ndim <= len(port.shape) else None
    if array.dtype != np.dtype(port.dtype) or array.shape != trailing:
        raise ManifestError(
            f"{where}: {key!r} is {array.dtype} {list(array.shape)}; expected {port.dtype} and the last axes of "
            f"{list(port.shape)}"
        )
    if not np.isfinite(array).all():
        raise ManifestError(f"{where}: {key!r} holds NaN or an infinity")
    return array
