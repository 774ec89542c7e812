"""Where values are in the generated code: stretches of memory, and strided views of them.

Moving data about is mostly a matter of looking at it differently. A view is an offset and strides into a root; what a
slice, a transposition or a broadcast does to them, numpy says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from ashore.backends.c.graph import prod
from ashore.package import Array

RootKind: TypeAlias = Literal["scratch", "constant", "input", "state"]


@dataclass(eq=False)
class Root:
    """A stretch of memory that holds one array, row-major."""

    kind: RootKind
    dtype: np.dtype[Any]
    count: int
    home: str = ""
    """The C expression that points to it, for what the caller owns."""

    data: Array | None = None
    """What a constant holds."""

    offset: int = -1
    """Where scratch lies in its arena; decided last."""


@dataclass(frozen=True)
class View:
    """An array in a root: offset and strides count elements."""

    root: Root
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its elements."""
        return self.root.dtype

    @property
    def count(self) -> int:
        """How many elements it has."""
        return prod(self.shape)

    @property
    def contiguous(self) -> bool:
        """Whether its elements lie one after the other, row-major."""
        return self.count == 0 or _squeezed(self) == _squeezed(whole(self.root, self.shape, self.offset))

    def same(self, other: View) -> bool:
        """Whether it goes over the same elements in the same order."""
        return (
            self.root is other.root
            and self.offset == other.offset
            and self.count == other.count
            and (_squeezed(self) == _squeezed(other) or (self.contiguous and other.contiguous))
        )


def _squeezed(view: View) -> tuple[tuple[int, int], ...]:
    return tuple((size, stride) for size, stride in zip(view.shape, view.strides, strict=True) if size != 1)


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of an array whose elements lie one after the other."""
    strides, step = list[int](), 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def whole(root: Root, shape: tuple[int, ...], offset: int = 0) -> View:
    """An array that lies row-major in a root."""
    return View(root, offset, shape, row_major(shape))


def look(view: View, function: Callable[[Array], Array]) -> View | None:
    """What a numpy function that moves nothing makes of a view; None if it would have to copy.

    The function sees an array of the view's shape and strides, one byte an element, so that where its result starts and
    how it strides count elements.
    """
    if view.count == 0:
        return whole(view.root, function(np.zeros(view.shape, np.int8)).shape, view.offset)
    reach = sum((size - 1) * stride for size, stride in zip(view.shape, view.strides, strict=True) if stride > 0)
    below = -sum((size - 1) * stride for size, stride in zip(view.shape, view.strides, strict=True) if stride < 0)
    room = np.zeros(below + reach + 1, np.int8)
    seen = function(np.lib.stride_tricks.as_strided(room[below:], view.shape, view.strides))
    if seen.size and not np.may_share_memory(seen, room):
        return None
    start = seen.__array_interface__["data"][0] - room.__array_interface__["data"][0] - below
    return View(view.root, view.offset + (start if seen.size else 0), tuple(seen.shape), tuple(seen.strides))
