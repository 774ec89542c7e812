"""The graph that is compiled: values of known dtype and shape, and the nodes between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ashore.errors import BackendError
from ashore.package import Array


@dataclass(eq=False)
class Value:
    """A tensor. Its batch axis has a length, as every other axis has."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    data: Array | None = None
    """What it holds, if that is known when compiling."""

    home: str | None = None
    """Where it is in C, for what the caller owns: inputs and states."""

    @property
    def count(self) -> int:
        """How many elements it has."""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(eq=False)
class Node:
    """An operation."""

    op: str
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value | None, ...]
    attributes: Mapping[str, Any]
    where: str
    """What to call it in an error: stage, name, operator and line of code."""

    label: str = ""
    """What the generated code calls it."""

    def value(self, index: int) -> Value:
        """An input that the operator must have."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            raise BackendError(f"{self.where}: input {index} is missing")
        return value

    def optional(self, index: int) -> Value | None:
        """An input that may be left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def constant(self, index: int) -> Array | None:
        """What an input holds, which must be known when compiling; None if it is left out."""
        value = self.optional(index)
        if value is None:
            return None
        if value.data is None:
            raise BackendError(
                f"{self.where}: input {index} ({value.name!r}) is computed at run time, and decides a shape or a "
                f"parameter that compiled code needs beforehand; the backend 'c' refuses it"
            )
        return value.data

    def ints(self, attribute: str, index: int) -> list[int] | None:
        """Whole numbers that are an attribute in old opsets, and an input in newer ones."""
        if attribute in self.attributes:
            return [int(entry) for entry in self.attributes[attribute]]
        data = self.constant(index)
        return None if data is None else [int(entry) for entry in data.reshape(-1)]

    def get(self, attribute: str, default: Any) -> Any:
        """An attribute, or what it is where the node does not say."""
        found = self.attributes.get(attribute)
        return default if found is None else found


@dataclass
class Graph:
    """The nodes of one rate, in an order in which they can run."""

    nodes: list[Node] = field(default_factory=list[Node])
    results: list[Value] = field(default_factory=list[Value])
    """What is read when everything has run."""


def constant(name: str, data: Array) -> Value:
    """A value that is known when compiling."""
    return Value(name, data.dtype, data.shape, data)


def axis_of(node: Node, axis: int, rank: int) -> int:
    """An axis counted from the front."""
    if not -rank <= axis < max(rank, 1):
        raise BackendError(f"{node.where}: there is no axis {axis} in a tensor of {rank} axes")
    return axis % max(rank, 1)


def prod(shape: Sequence[int]) -> int:
    """The number of elements of a shape."""
    return int(np.prod(shape, dtype=np.int64))
