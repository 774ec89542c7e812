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
from ashore.package import Array, Arrays, load_arrays
from ashore.spec import Port, Stage


class NormalizeParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``mean_std``: ``(x - mean) / (std + eps)``. ``min_max``: ``2 (x - min) / (max - min) - 1``, an empty range
    counting as eps. The statistics are in the asset, as ``<statistics>/mean`` and so on.
    """

    mode: Literal["mean_std", "min_max"]
    statistics: str
    eps: float = 1e-8


def normalize(where: str, stage: Stage, read: Callable[[str], bytes]) -> Callable[[Arrays], Arrays]:
    """Raw values to what the network was trained on."""
    mode, source, target, first, second = _prepare(where, stage, read)
    if mode == "mean_std":
        return lambda inputs: {target: (inputs[source] - first) / second}
    return lambda inputs: {target: 2 * (inputs[source] - first) / second - 1}


def denormalize(where: str, stage: Stage, read: Callable[[str], bytes]) -> Callable[[Arrays], Arrays]:
    """What the network computes to raw values."""
    mode, source, target, first, second = _prepare(where, stage, read)
    if mode == "mean_std":
        return lambda inputs: {target: inputs[source] * second + first}
    return lambda inputs: {target: (inputs[source] + 1) / 2 * second + first}


def _prepare(where: str, stage: Stage, read: Callable[[str], bytes]) -> tuple[str, str, str, Array, Array]:
    """The mode, the names of the ports, and offset and scale of the affine map."""
    processor = stage.processor
    if processor is None or len(stage.inputs) != 1 or len(stage.outputs) != 1 or len(processor.assets) != 1:
        raise ManifestError(f"{where}: expected one input, one output and one asset")
    ((source, port),) = stage.inputs.items()
    ((target, other),) = stage.outputs.items()
    if (port.dtype, port.shape) != (other.dtype, other.shape) or port.dtype not in ("float32", "float64"):
        raise ManifestError(f"{where}: expected an input and an output of one shape, both float32 or both float64")
    try:
        params = msgspec.convert(processor.params, NormalizeParams)
    except msgspec.ValidationError as error:
        raise ManifestError(f"{where}: params: {error}") from None
    arrays = load_arrays(read(processor.assets[0]), processor.assets[0])
    names = ("mean", "std") if params.mode == "mean_std" else ("min", "max")
    first, second = (_statistic(where, arrays, f"{params.statistics}/{name}", port) for name in names)
    with np.errstate(all="ignore"):
        eps = first.dtype.type(params.eps)
        scale = second + eps if params.mode == "mean_std" else np.where(second == first, eps, second - first)
    if not np.isfinite(scale).all() or (scale == 0).any():
        raise ManifestError(f"{where}: its statistics and eps give a scale of 0 or infinity")
    return params.mode, source, target, first, scale


def _statistic(where: str, arrays: Arrays, key: str, port: Port) -> Array:
    if key not in arrays:
        raise ManifestError(f"{where}: its asset holds no {key!r}, but {sorted(arrays)}")
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
