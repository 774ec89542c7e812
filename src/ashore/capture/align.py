"""Which operation of one step is which operation of another.

Steps of the same code mostly have the same operations one for one. A first step that creates things, or a simulator
that is recorded along, makes them differ; the common operations are then found as in a comparison of texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from typing import Any

import torch

from ashore.capture.operations import Op, Ref


def align(reference: Sequence[Op], other: Sequence[Op]) -> dict[int, int]:
    """Index of an operation in `reference` -> its index in `other`, for those that both have."""
    head = _common_head(reference, other)
    if head == len(reference) == len(other):
        return {index: index for index in range(head)}
    tail = _common_head(reference[head:][::-1], other[head:][::-1])
    inner = _align(reference[head : len(reference) - tail], other[head : len(other) - tail])
    found = {index: index for index in range(head)}
    found |= {head + ours: head + theirs for ours, theirs in inner.items()}
    found |= {len(reference) - 1 - step: len(other) - 1 - step for step in reversed(range(tail))}
    return found


def _common_head(reference: Sequence[Op], other: Sequence[Op]) -> int:
    """How many operations two steps begin with in common."""
    count = 0
    for ours, theirs in zip(reference, other, strict=False):
        if ours.line != theirs.line or _key(ours) != _key(theirs):
            break
        count += 1
    return count


def _align(reference: Sequence[Op], other: Sequence[Op]) -> dict[int, int]:
    found: dict[int, int] = {}
    start_a = start_b = 0
    # The same line first; what is left between is compared without it.
    for block in _blocks(reference, other, lambda op: (*_key(op), op.line)):
        for inner in _blocks(reference[start_a : block.a], other[start_b : block.b], _key):
            found |= {start_a + inner.a + step: start_b + inner.b + step for step in range(inner.size)}
        found |= {block.a + step: block.b + step for step in range(block.size)}
        start_a, start_b = block.a + block.size, block.b + block.size
    return found


def _blocks(reference: Sequence[Op], other: Sequence[Op], key: Callable[[Op], Any]) -> list[Any]:
    ours, theirs = [key(op) for op in reference], [key(op) for op in other]
    return SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()


def _key(op: Op) -> tuple[Any, ...]:
    """What makes two operations the same but for their numbers and their tensors."""
    return op.target, op.structure, tuple(isinstance(leaf, Ref) for leaf in op.leaves)


def different_leaf(ours: Op, theirs: Op) -> int | None:
    """The first argument that is no tensor and differs between two aligned operations, or None."""
    for index, (left, right) in enumerate(zip(ours.leaves, theirs.leaves, strict=True)):
        if not isinstance(left, Ref) and not _same(left, right):
            return index
    return None


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor) or isinstance(right, torch.Tensor):
        return isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor) and torch.equal(left, right)
    if isinstance(left, torch.Generator):
        return isinstance(right, torch.Generator)
    return type(left) is type(right) and (left == right or (left != left and right != right))
