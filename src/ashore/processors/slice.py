"""Taking a part of an array: the actions of a chunk that are executed, the elements that the robot has.

How much is taken is the shape of the output; from where on is a parameter. Rows of the batch are never dropped.
"""

from __future__ import annotations

from typing import NamedTuple

from ashore.errors import ManifestError
from ashore.package import Arrays
from ashore.processors.contract import Apply, Params, Read, expect, nothing_to_do, one_each, processor_of, read_params
from ashore.spec import Stage


class SliceParams(Params, frozen=True, kw_only=True):
    """Where the part starts."""

    start: tuple[int, ...]
    """One for each axis; 0 for that of the batch, the first."""


class Part(NamedTuple):
    """A stage that takes a part."""

    source: str
    target: str
    cut: tuple[slice, ...]


def slice_array(where: str, stage: Stage, read: Read) -> Apply:
    """Elements start to start + length of each axis, where length is that of the output's."""
    source, target, cut = read_part(where, stage)

    def apply(inputs: Arrays) -> Arrays:
        return {target: inputs[source][cut]}

    return apply


def read_part(where: str, stage: Stage) -> Part:
    """Check a stage that is `slice`."""
    processor_of(where, stage)
    params = read_params(where, stage, SliceParams)
    source, port, target, other = one_each(where, stage)
    expect(where, target, other, (port.dtype,))
    if not len(params.start) == len(port.shape) == len(other.shape):
        raise ManifestError(
            f"{where}: params: start has {len(params.start)} entries; expected one for each axis of "
            f"{list(port.shape)} and of {list(other.shape)}"
        )
    if not port.shape or params.start[0] != 0 or port.shape[0] != other.shape[0]:
        raise ManifestError(
            f"{where}: expected the first axis, that of the batch, to be kept whole; got {list(port.shape)} to "
            f"{list(other.shape)} from {list(params.start)}"
        )
    if port.shape == other.shape and not any(params.start):
        raise nothing_to_do(where, f"it takes all of {list(port.shape)}")
    index = [slice(None)]
    for axis, (start, before, after) in enumerate(zip(params.start, port.shape, other.shape, strict=True)):
        if axis == 0:
            continue
        if not isinstance(before, int) or not isinstance(after, int):
            raise ManifestError(f"{where}: {source!r} has the shape {list(port.shape)}; expected the batch axis first")
        if start < 0 or start + after > before:
            raise ManifestError(
                f"{where}: axis {axis} has {before} elements; expected {after} from {start} on to lie in it"
            )
        index.append(slice(start, start + after))
    return Part(source, target, tuple(index))
