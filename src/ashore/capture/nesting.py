"""Nested dicts and lists of tensors, flattened to names joined with ``_``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def each(name: str, value: Any, declare: Callable[[str, Any], Any]) -> Any:
    """Call `declare` for every leaf of a nested structure; the same structure, with what it gave.

    Args:
        name: of the whole.
        value: a tensor, or a mapping, list or tuple of such things.
        declare: takes the name and the value of a leaf.
    """
    if isinstance(value, Mapping):
        children = {key: each(f"{name}_{key}" if name else str(key), child, declare) for key, child in value.items()}
        return children if type(value) is dict else _like(value, children)
    if isinstance(value, list | tuple):
        items = [each(f"{name}_{index}" if name else str(index), child, declare) for index, child in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return declare(name, value)


def _like(value: Mapping[Any, Any], children: dict[Any, Any]) -> Any:
    """A mapping of the same class, where it can be made from a dict."""
    try:
        return type(value)(children)  # type: ignore[call-arg]
    except TypeError:
        return children
