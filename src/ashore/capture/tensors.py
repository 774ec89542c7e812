"""Tensors as things in memory: where they lie, what they hold, whether two hold the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import torch

Place: TypeAlias = tuple[Any, ...]
"""Where a tensor lies: memory, offset, shape, strides, dtype. What is written there is seen by all that lie there."""


def snapshot(tensor: torch.Tensor) -> torch.Tensor:
    """A plain copy of a tensor on the CPU, whatever mode the user's code runs in."""
    with torch.inference_mode(False), torch.no_grad():
        return tensor.detach().to("cpu", copy=True)


def version_of(tensor: torch.Tensor) -> int | None:
    """How often a tensor was written to, where torch counts that."""
    return None if tensor.is_inference() else tensor._version


def span_of(tensor: torch.Tensor) -> tuple[int, int]:
    """The first and the last element of the memory that a tensor lies in."""
    first = int(tensor.storage_offset())
    reach = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return first, first + max(int(reach), 0)


def same(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors hold the same, NaN for NaN."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    right = right.detach().to(left.device)
    if left.is_floating_point() or left.is_complex():
        return bool(torch.all((left == right) | (left.isnan() & right.isnan())))
    return torch.equal(left, right)


def close(expected: torch.Tensor, got: torch.Tensor) -> bool:
    """Whether two results of the same operations are the same but for the order of additions."""
    if expected.shape != got.shape or expected.dtype != got.dtype:
        return False
    if not expected.is_floating_point():
        return torch.equal(expected, got)
    coarse = torch.finfo(expected.dtype).eps * 32
    return torch.allclose(expected, got, rtol=coarse, atol=coarse, equal_nan=True)


_FOREIGN: ContextVar[frozenset[int]] = ContextVar("_FOREIGN", default=frozenset())
"""Addresses of memory that is not torch's, where a recording reads it."""


@contextmanager
def foreign_memory(addresses: Iterable[int]) -> Iterator[None]:
    """Know memory of another library, such as a simulator's, by its address: each look may show it to torch anew."""
    token = _FOREIGN.set(frozenset(addresses))
    try:
        yield
    finally:
        _FOREIGN.reset(token)


def memory_of(tensor: torch.Tensor) -> int:
    """The memory that a tensor lies in, as a number."""
    storage, foreign = tensor.untyped_storage(), _FOREIGN.get()
    if foreign and storage.data_ptr() in foreign:
        return -storage.data_ptr()
    return storage._cdata  # pyright: ignore[reportPrivateUsage]


def place_of(tensor: torch.Tensor) -> Place:
    """Where a tensor lies."""
    kind = (tensor.dtype, tensor.is_conj(), tensor.is_neg())
    return memory_of(tensor), tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), kind
