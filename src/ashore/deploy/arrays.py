"""Arrays of simulators as tensors of torch, without a copy: torch's own, ``ProxyArray`` of Isaac Lab, and Warp's."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ashore.errors import InputError

if TYPE_CHECKING:
    import torch


def follow(owner: Any, path: Sequence[str]) -> Any:
    """What a path leads to: attributes, and keys of dicts, as ``("data", "output", "rgb")`` of a camera.

    Raises:
        AttributeError: it leads nowhere.
    """
    for part in path:
        if not isinstance(owner, Mapping):
            owner = getattr(owner, part)
        elif part in owner:
            owner = owner[part]
        else:
            raise AttributeError(f"there is no {part!r} among {sorted(map(str, owner))}")
    return owner


def is_proxy(value: object) -> bool:
    """Whether something is a ``ProxyArray``, by what it offers: the same memory for Warp and for torch."""
    return all(isinstance(getattr(type(value), name, None), property) for name in ("torch", "warp"))


def is_warp_array(value: object) -> bool:
    """Whether something is an array of Warp. Where nobody imported Warp, nothing is."""
    warp = sys.modules.get("warp")
    return warp is not None and isinstance(value, warp.array)


def shared_tensor(value: Any) -> torch.Tensor | None:
    """A tensor that shares the memory of an array, or None for what is no array.

    Raises:
        InputError: torch cannot show the array. It is never handed on as it is.
    """
    import torch

    if isinstance(value, torch.Tensor):
        return value
    if not is_proxy(value) and not is_warp_array(value):
        return None
    try:
        found = value.torch if is_proxy(value) else sys.modules["warp"].to_torch(value)
    except (RuntimeError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{_described(value)} cannot be shown to torch: {error}") from error
    if not isinstance(found, torch.Tensor):
        raise InputError(f"{_described(value)} cannot be shown to torch: it became {type(found).__name__}")
    return found


def _described(value: Any) -> str:
    dtype = getattr(value.dtype, "__name__", value.dtype)
    return f"a {type(value).__name__} of {dtype}, shape {list(value.shape)},"
