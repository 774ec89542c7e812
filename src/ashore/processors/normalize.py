"""Scaling by statistics, and back.

All of it is affine, and rounds as the training side does: in the dtype of the port, operation by operation, with the
same epsilon in the same place. One stage scales one feature once; features that are scaled differently are stages of
their own.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, cast

import numpy as np

from ashore.errors import ManifestError
from ashore.package import Array, Arrays, load_arrays
from ashore.processors.contract import FLOATS, Apply, Params, Read, nothing_to_do, read_params
from ashore.spec import Port, Stage

STATISTICS = {
    "mean_std": ("mean", "std"),
    "min_max": ("min", "max"),
    "quantiles": ("q01", "q99"),
    "quantile10": ("q10", "q90"),
}
"""Mode -> the two statistics that it uses."""


class NormalizeParams(Params, frozen=True, kw_only=True):
    """How a feature is scaled; the statistics are in the asset, as ``<statistics>/mean`` and so on."""

    mode: Literal["mean_std", "min_max", "quantiles", "quantile10", "identity"]
    """``mean_std``: ``(x - mean) / (std + eps)``. The others: ``2 (x - low) / (high - low) - 1``, where an empty range
    counts as eps. ``identity`` is refused, since it would touch nothing."""

    statistics: str
    eps: float = 1e-8
    """The inverse of ``mean_std`` multiplies by ``std + eps`` too: with 0, by std alone, as LeRobot does."""

    trim: bool = False
    """Of ``denormalize`` only: drop what the last axis has beyond the statistics."""


class Scaling(NamedTuple):
    """A stage that scales."""

    params: NormalizeParams
    source: str
    target: str
    offset: Array
    scale: Array
    """What is divided by, or multiplied with: never infinite, and for ``normalize`` never zero."""

    kept: int | None
    """How many elements of the last axis are kept, where some are dropped."""


def normalize(where: str, stage: Stage, read: Read) -> Apply:
    """Raw values to what the network was trained on."""
    params, source, target, offset, scale, _ = read_scaling(where, stage, read)

    def standard(inputs: Arrays) -> Arrays:
        return {target: (inputs[source] - offset) / scale}

    def ranged(inputs: Arrays) -> Arrays:
        return {target: 2 * (inputs[source] - offset) / scale - 1}

    return standard if params.mode == "mean_std" else ranged


def denormalize(where: str, stage: Stage, read: Read) -> Apply:
    """What the network computes to raw values."""
    params, source, target, offset, scale, kept = read_scaling(where, stage, read)

    def standard(inputs: Arrays) -> Arrays:
        return {target: inputs[source][..., :kept] * scale + offset}

    def ranged(inputs: Arrays) -> Arrays:
        return {target: (inputs[source][..., :kept] + 1) / 2 * scale + offset}

    def between_quantiles(inputs: Arrays) -> Arrays:
        return {target: (inputs[source][..., :kept] + 1) * scale / 2 + offset}

    return {"mean_std": standard, "min_max": ranged}.get(params.mode, between_quantiles)


def read_scaling(where: str, stage: Stage, read: Read) -> Scaling:
    """Check a stage that is `normalize` or `denormalize`, and read its statistics."""
    processor = stage.processor
    if processor is None or len(stage.inputs) != 1 or len(stage.outputs) != 1 or len(processor.assets) != 1:
        raise ManifestError(f"{where}: expected one input, one output and one asset")
    ((source, port),) = stage.inputs.items()
    ((target, other),) = stage.outputs.items()
    if processor.params.get("trim") is not True:
        same = (port.dtype, port.shape) == (other.dtype, other.shape)
        if not same or port.dtype not in FLOATS:
            raise ManifestError(f"{where}: expected an input and an output of one shape, both float32 or both float64")
    params = read_params(where, stage, NormalizeParams)
    if params.mode == "identity":
        raise nothing_to_do(where, "the mode is 'identity'")
    kept = _kept(where, processor.type, port, other) if params.trim else None
    arrays = load_arrays(read(processor.assets[0]), processor.assets[0])
    first, second = (
        _statistic(where, arrays, f"{params.statistics}/{name}", other) for name in STATISTICS[params.mode]
    )
    with np.errstate(all="ignore"):
        eps = first.dtype.type(params.eps)
        scale = second + eps if params.mode == "mean_std" else np.where(second == first, eps, second - first)
    # A joint that never moved has a std of 0: it cannot be divided by, but leads back to the mean.
    zero = (scale == 0).all() if processor.type == "denormalize" else (scale == 0).any()
    if not np.isfinite(scale).all() or zero:
        raise ManifestError(f"{where}: its statistics and eps give a scale of 0 or infinity")
    offset, factor = (0, 1) if params.mode == "mean_std" else (-1, 2)
    if kept is None and (first == offset).all() and (scale == factor).all():
        raise nothing_to_do(where, f"its statistics are those of values that are scaled already ({params.mode})")
    return Scaling(params, source, target, first, scale, kept)


def _kept(where: str, kind: str, port: Port, other: Port) -> int:
    """How many elements of the last axis are left, where trim shortens it."""
    if kind != "denormalize":
        raise ManifestError(f"{where}: params: trim is for denormalize; before a network, use slice")
    before, after = (shape[-1] if shape else None for shape in (port.shape, other.shape))
    shorter = isinstance(before, int) and isinstance(after, int) and after < before
    if not shorter or port.shape[:-1] != other.shape[:-1] or port.dtype != other.dtype or port.dtype not in FLOATS:
        raise ManifestError(
            f"{where}: expected trim to shorten the last axis, and no other, of float32 or float64; got {port.dtype} "
            f"{list(port.shape)} to {other.dtype} {list(other.shape)}"
        )
    return cast("int", after)


def _statistic(where: str, arrays: Arrays, key: str, port: Port) -> Array:
    """A statistic, one value per element of the port's last axes, or one per channel of its images."""
    if key not in arrays:
        raise ManifestError(f"{where}: its asset holds no {key!r}, but {sorted(arrays)}")
    array = arrays[key]
    trailing = port.shape[len(port.shape) - array.ndim :] if 0 < array.ndim <= len(port.shape) else None
    per_channel = trailing is not None and array.ndim == 3 and array.shape == (trailing[0], 1, 1)
    if array.dtype != np.dtype(port.dtype) or (array.shape != trailing and not per_channel):
        raise ManifestError(
            f"{where}: {key!r} is {array.dtype} {list(array.shape)}; expected {port.dtype} and the last axes of "
            f"{list(port.shape)}, or [channels, 1, 1]"
        )
    if not np.isfinite(array).all():
        raise ManifestError(f"{where}: {key!r} holds NaN or an infinity")
    return array
