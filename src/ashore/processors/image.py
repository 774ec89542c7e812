"""Camera images in the layout and the range that networks want.

Cameras give bytes, row by row, with the channels last; networks take float32 with the channels first. The bytes 0 to
255 become 0 to 1, as everywhere in this field, and then the range that is asked for.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from ashore.errors import ManifestError
from ashore.package import Arrays
from ashore.processors.contract import (
    Apply,
    Params,
    Read,
    check_value,
    expect,
    nothing_to_do,
    one_each,
    processor_of,
    read_params,
)
from ashore.spec import Stage


class ImageParams(Params, frozen=True, kw_only=True):
    """What an image is, and what range it shall have. What is given is always float32, channels first."""

    layout: Literal["hwc", "chw"] = "hwc"
    """The layout of the input."""

    range: tuple[float, float] = (0.0, 1.0)
    """What black and white become. Before, they are 0 and 255 in uint8, and 0 and 1 in float32."""


class Conversion(NamedTuple):
    """A stage that converts images."""

    source: str
    target: str
    transposed: bool
    bytes: bool
    low: float
    span: float


def image(where: str, stage: Stage, read: Read) -> Apply:
    """[…, H, W, C] or [..., C, H, W], uint8 or float32, to [..., C, H, W], float32."""
    source, target, transposed, scaled, low, span = read_conversion(where, stage)

    def apply(inputs: Arrays) -> Arrays:
        value = inputs[source]
        if transposed:
            value = np.moveaxis(value, -1, -3)
        if scaled:
            value = value.astype(np.float32) / np.float32(255)
        if (low, span) != (0.0, 1.0):
            value = value * np.float32(span) + np.float32(low)
        return {target: value}

    return apply


def read_conversion(where: str, stage: Stage) -> Conversion:
    """Check a stage that is `image`."""
    processor_of(where, stage)
    params = read_params(where, stage, ImageParams)
    source, port, target, other = one_each(where, stage)
    expect(where, source, port, ("uint8", "float32"))
    if len(port.shape) < 3 or "batch" in port.shape[-3:]:
        form = "H, W, C" if params.layout == "hwc" else "C, H, W"
        raise ManifestError(f"{where}: {source!r} has the shape {list(port.shape)}; expected […, {form}]")
    *rows, first, second, third = port.shape
    shape = (*rows, third, first, second) if params.layout == "hwc" else port.shape
    expect(where, target, other, ("float32",), shape)
    low, high = params.range
    span = high - low
    for bound in (low, high, span):
        check_value(where, "range", bound, "float32")
    if span == 0:
        raise ManifestError(f"{where}: params: range {list(params.range)} is no range")
    if (port.dtype, params.layout, low, high) == ("float32", "chw", 0.0, 1.0):
        raise nothing_to_do(where, "float32 images with the channels first have the range [0, 1] already")
    return Conversion(source, target, params.layout == "hwc", port.dtype == "uint8", low, span)
