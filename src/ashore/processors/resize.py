"""Images of another size: bilinear, as torch's `interpolate` with ``align_corners=False``.

Each axis is resampled by itself: an output pixel is a mixture of two input pixels, whose places and weights depend on
the sizes only and are computed once. They are computed in float32, as torch does: at the far end of an image that is
640 wide, float64 would give weights that differ by 3e-5.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from ashore.errors import ManifestError
from ashore.package import Array, Arrays
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
from ashore.spec import Port, Stage


class ResizeWithPadParams(Params, frozen=True, kw_only=True):
    """Where the image comes to lie in its frame, and what fills the rest."""

    value: float
    """What fills the rest, in the range of the image."""

    align: Literal["bottom_right", "center"] = "bottom_right"
    """``bottom_right``: the rest is above and on the left, as in SmolVLA and X-VLA. ``center``: it is on all sides, and
    an odd pixel more below and on the right, as in pi0, pi0-FAST and pi0.5."""

    clip: tuple[float, float] | None = None
    """The range that the image is cut to before the rest is filled, as in pi0.5."""


class Mixture(NamedTuple):
    """One axis: output pixel i is ``(1 - weight[i]) x[lower[i]] + weight[i] x[upper[i]]``."""

    lower: Array
    upper: Array
    rest: Array
    """1 - weight, float32."""

    weight: Array


class Resizing(NamedTuple):
    """A stage that resizes."""

    source: str
    target: str
    height: Mixture | None
    """None where that axis stays."""

    width: Mixture | None
    top: int
    left: int
    size: tuple[int, int]
    """Of the image within its frame."""

    frame: tuple[int, int]
    value: float
    clip: tuple[float, float] | None


def resize(where: str, stage: Stage, read: Read) -> Apply:
    """[…, C, H, W] to the size of the output, whatever that does to the aspect ratio."""
    return _apply(read_resize(where, stage))


def resize_with_pad(where: str, stage: Stage, read: Read) -> Apply:
    """[…, C, H, W] into a frame of the size of the output, keeping the aspect ratio."""
    return _apply(read_resize_with_pad(where, stage))


def _apply(resizing: Resizing) -> Apply:
    source, target, height, width, top, left, size, frame, value, clip = resizing
    image = slice(top, top + size[0]), slice(left, left + size[1])

    def apply(inputs: Arrays) -> Arrays:
        pixels = inputs[source]
        if height is not None:  # first, since whole rows are copied faster
            rest, weight = height.rest[:, None], height.weight[:, None]
            pixels = pixels[..., height.lower, :] * rest + pixels[..., height.upper, :] * weight
        if width is not None:
            pixels = pixels[..., width.lower] * width.rest + pixels[..., width.upper] * width.weight
        if clip is not None:
            pixels = pixels.clip(*clip)
        if size == frame:
            return {target: pixels}
        framed = np.full((*pixels.shape[:-2], *frame), value, np.float32)
        framed[..., image[0], image[1]] = pixels
        return {target: framed}

    return apply


def read_resize(where: str, stage: Stage) -> Resizing:
    """Check a stage that is `resize`."""
    processor_of(where, stage)
    read_params(where, stage, Params)
    source, target, before, after = _sizes(where, stage)
    if before == after:
        raise nothing_to_do(where, f"images are {_of(before)} before and after")
    return Resizing(source, target, *_mixtures(before, after), 0, 0, after, after, 0.0, None)


def read_resize_with_pad(where: str, stage: Stage) -> Resizing:
    """Check a stage that is `resize_with_pad`."""
    processor_of(where, stage)
    params = read_params(where, stage, ResizeWithPadParams)
    source, target, before, after = _sizes(where, stage)
    if before == after:
        raise nothing_to_do(where, f"images are {_of(before)} before and after")
    ratio = max(before[1] / after[1], before[0] / after[0])
    size = int(before[0] / ratio), int(before[1] / ratio)
    if 0 in size:
        raise ManifestError(f"{where}: images of {_of(before)} would vanish in frames of {_of(after)}")
    check_value(where, "value", params.value, "float32")
    if params.clip is not None and not params.clip[0] < params.clip[1]:
        raise ManifestError(f"{where}: params: clip {list(params.clip)} is no range")
    top, left = after[0] - size[0], after[1] - size[1]
    if params.align == "center":
        top, left = top // 2, left // 2
    return Resizing(source, target, *_mixtures(before, size), top, left, size, after, params.value, params.clip)


def _mixtures(before: tuple[int, int], after: tuple[int, int]) -> tuple[Mixture | None, Mixture | None]:
    height, width = (None if old == new else mixture(old, new) for old, new in zip(before, after, strict=True))
    return height, width


def mixture(before: int, after: int) -> Mixture:
    """How the pixels of one axis are mixed."""
    scale = np.float64(np.float32(before) / np.float32(after))
    # Rounded once, as by the fused multiply-add that torch's build uses: in float64 the product is exact.
    place = (scale * (np.arange(after) + 0.5) - 0.5).astype(np.float32)
    place = np.maximum(place, np.float32(0))
    lower = np.minimum(place.astype(np.int64), before - 1)
    weight = np.clip(place - lower.astype(np.float32), np.float32(0), np.float32(1))
    return Mixture(lower, np.minimum(lower + 1, before - 1), np.float32(1) - weight, weight)


def _sizes(where: str, stage: Stage) -> tuple[str, str, tuple[int, int], tuple[int, int]]:
    """The names of the ports, and the height and width of their images."""
    source, port, target, other = one_each(where, stage)
    expect(where, source, port, ("float32",))
    expect(where, target, other, ("float32",))
    before, after = _size(port), _size(other)
    if before is None or after is None or port.shape[:-2] != other.shape[:-2]:
        raise ManifestError(
            f"{where}: expected […, C, H, W] to change in H and W only, got {list(port.shape)} to {list(other.shape)}"
        )
    return source, target, before, after


def _size(port: Port) -> tuple[int, int] | None:
    if len(port.shape) < 3:
        return None
    height, width = port.shape[-2:]
    return (height, width) if isinstance(height, int) and isinstance(width, int) else None


def _of(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]}"
