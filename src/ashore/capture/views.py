"""How one tensor that shares memory with another is made from it, in ordinary view operations.

User code holds views of its own (``self.q = self.state[:, :3]``) and reads them without an operation that a recorder
could see. Said again as slices, selections and permutations they can be replayed, and written through.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

aten = torch.ops.aten

Step: TypeAlias = "tuple[Callable[..., Any], tuple[Any, ...]]"
"""An operation and its arguments after the tensor."""


def express(base: torch.Tensor, view: torch.Tensor) -> list[Step] | None:
    """The operations that turn `base` into `view`, or None if `view` reaches beyond it.

    Args:
        base: a tensor.
        view: another that shares its memory.
    """
    if base.dtype != view.dtype or view.numel() == 0 or base.numel() == 0:
        return None
    where = _positions(base, view)
    if where is None:
        return None
    steps = _by_axes(list(base.shape), where) or _by_range(base, where)
    return steps if steps is not None else _by_index(where)


def _positions(base: torch.Tensor, view: torch.Tensor) -> torch.Tensor | None:
    """For each element of `view`, its position in `base` counted row by row, or None if one is not there."""
    inside, wanted = _offsets(base), _offsets(view)
    low, high = int(inside.min()), int(inside.max())
    if int(wanted.min()) < low or int(wanted.max()) > high:
        return None
    table = torch.full((high - low + 1,), -1, dtype=torch.int64)
    table[(inside - low).flatten()] = torch.arange(base.numel())
    found = table[wanted - low]
    return None if bool((found < 0).any()) else found


def _offsets(tensor: torch.Tensor) -> torch.Tensor:
    """Where each element lies in memory."""
    total = torch.full(tensor.shape, int(tensor.storage_offset()), dtype=torch.int64)
    for axis, (length, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        shape = [1] * tensor.dim()
        shape[axis] = length
        total = total + (torch.arange(length) * stride).reshape(shape)
    return total


def _by_axes(shape: list[int], where: torch.Tensor) -> list[Step] | None:
    """Slices and selections of single axes, then a permutation; None if that is not how it is made."""
    steps: list[Step] = []
    order: list[int] = []
    axis = 0
    for dim, length in enumerate(shape):
        inner = 1
        for other in shape[dim + 1 :]:
            inner *= other
        index = (where // inner) % length
        moving = [a for a in range(where.dim()) if where.shape[a] > 1 and bool((index.diff(dim=a) != 0).any())]
        if len(moving) > 1 or (moving and moving[0] in order):
            return None
        start = int(index.flatten()[0])
        if not moving:
            steps.append((aten.select.int, (axis, start)))
            continue
        count = where.shape[moving[0]]
        step = int(index.select(moving[0], 1).flatten()[0]) - start
        if step < 1:
            return None
        if (start, step, count) != (0, 1, length):
            steps.append((aten.slice.Tensor, (axis, start, start + step * (count - 1) + 1, step)))
        order.append(moving[0])
        axis += 1
    steps += _rearrange(order, list(where.shape))
    made = torch.arange(_product(shape)).reshape(shape)
    for target, arguments in steps:
        made = target(made, *arguments)
    return steps if made.shape == where.shape and bool((made == where).all()) else None


def _rearrange(order: list[int], shape: list[int]) -> list[Step]:
    """From axes in the order of the base to those of the view, with new ones where the view repeats elements."""
    steps: list[Step] = []
    if order != sorted(order):
        steps.append((aten.permute.default, ([order.index(axis) for axis in sorted(order)],)))
    steps += [(aten.unsqueeze.default, (axis,)) for axis in range(len(shape)) if axis not in order]
    if any(axis not in order and length > 1 for axis, length in enumerate(shape)):
        steps.append((aten.expand.default, (shape,)))
    return steps


def _by_range(base: torch.Tensor, where: torch.Tensor) -> list[Step] | None:
    """A stretch of a contiguous tensor in another shape."""
    flat = where.flatten()
    start, count = int(flat[0]), flat.numel()
    if not base.is_contiguous() or not bool((flat == torch.arange(start, start + count)).all()):
        return None
    return [
        (aten.view.default, ([base.numel()],)),
        (aten.slice.Tensor, (0, start, start + count)),
        (aten.view.default, (list(where.shape),)),
    ]


def _by_index(where: torch.Tensor) -> list[Step]:
    """Any elements in any order. What is made this way is a copy, and cannot be written through."""
    return [
        (aten.reshape.default, ([-1],)),
        (aten.index_select.default, (0, where.flatten())),
        (aten.view.default, (list(where.shape),)),
    ]


def _product(shape: list[int]) -> int:
    total = 1
    for length in shape:
        total *= length
    return total
