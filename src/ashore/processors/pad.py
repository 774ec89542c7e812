"""Making vectors as long as the network wants them."""

from __future__ import annotations

from typing import NamedTuple

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


class PadParams(Params, frozen=True, kw_only=True):
    """What is added."""

    value: float = 0.0


class Padding(NamedTuple):
    """A stage that pads the end of the last axis."""

    source: str
    target: str
    missing: int
    value: float


def pad(where: str, stage: Stage, read: Read) -> Apply:
    """[…, d] to [..., D], filled up at the end."""
    source, target, missing, value = read_padding(where, stage)

    def apply(inputs: Arrays) -> Arrays:
        array = inputs[source]
        filling = np.full((*array.shape[:-1], missing), value, array.dtype)
        return {target: np.concatenate((array, filling), axis=-1)}

    return apply


def read_padding(where: str, stage: Stage) -> Padding:
    """Check a stage that is `pad`."""
    processor_of(where, stage)
    params = read_params(where, stage, PadParams)
    source, port, target, other = one_each(where, stage)
    before, after = (shape[-1] if len(shape) > 1 else None for shape in (port.shape, other.shape))
    if not isinstance(before, int) or not isinstance(after, int) or port.shape[:-1] != other.shape[:-1]:
        raise ManifestError(
            f"{where}: expected to pad the last axis and no other, after a batch axis; got {list(port.shape)} to "
            f"{list(other.shape)}"
        )
    expect(where, target, other, (port.dtype,))
    if after == before:
        raise nothing_to_do(where, f"the last axis has {after} elements before and after")
    if after < before:
        raise ManifestError(f"{where}: {after} elements do not hold {before}; use slice")
    check_value(where, "value", params.value, port.dtype)
    return Padding(source, target, after - before, params.value)
