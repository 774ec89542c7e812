"""Operations as they were executed: what was called, on what, with what result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from ashore.capture.lines import Line

Target: TypeAlias = Callable[..., Any]

RECURRENT = ("aten::lstm", "aten::gru")
"""Layers that are kept whole, and that torch says draw random numbers, which they do in training only."""


class Ref:
    """A slot, where an argument of an operation was a tensor."""

    __slots__ = ("slot",)

    def __init__(self, slot: int) -> None:
        self.slot = slot

    def __repr__(self) -> str:
        return f"%{self.slot}"


@dataclass(slots=True)
class Op:
    """One operation as it was executed."""

    target: Target
    leaves: list[Any]
    """The arguments, flattened; tensors are `Ref`s."""

    structure: Any
    """How `leaves` become ``(args, kwargs)`` again."""

    results: list[int | None]
    """The slots of its results, flattened; None for what is no tensor."""

    line: Line
    region: str | None
    """The node that was open."""

    mutates: frozenset[int] = frozenset()
    """Groups that it writes into."""

    overwrites: frozenset[int] = frozenset()
    """Groups that it writes whole, whatever was in them."""

    def reads(self) -> list[int]:
        """The slots among its arguments."""
        return [leaf.slot for leaf in self.leaves if isinstance(leaf, Ref)]

    def makes(self, groups: Callable[[int], int]) -> set[int]:
        """The groups that it fills: what it writes into, and what it gives that is no view of an argument."""
        read = {groups(slot) for slot in self.reads()}
        return set(self.mutates) | {groups(slot) for slot in self.results if slot is not None} - read

    def call(self, leaves: list[Any]) -> list[Any]:
        """Run it on other leaves; its results, flattened."""
        args, kwargs = tree_unflatten(leaves, self.structure)
        return tree_flatten(self.target(*args, **kwargs))[0]

    def given(self) -> dict[str, Any]:
        """Its arguments by the names of its schema, where it has one."""
        args, kwargs = tree_unflatten(self.leaves, self.structure)
        schema = getattr(self.target, "_schema", None)
        names = [argument.name for argument in schema.arguments] if schema is not None else []
        return dict(zip(names, args, strict=False)) | kwargs


def forgets(target: Target) -> bool:
    """Whether an operation that writes into a tensor does so without looking at what it held."""
    name = str(target)
    return name.startswith(("aten.copy_.", "aten.fill_.", "aten.zero_.")) or name.endswith((".out", "_out"))


def schema_name(op: Op) -> str:
    """The name of an operation, such as ``aten::add``."""
    schema = getattr(op.target, "_schema", None)
    return schema.name if schema is not None else str(op.target)


def is_seeded(op: Op) -> bool:
    """Whether an operation can draw random numbers."""
    return torch.Tag.nondeterministic_seeded in getattr(op.target, "tags", ())


def is_random(op: Op) -> bool:
    """Whether an operation draws random numbers. Layers with a dropout that is off do not, nor do recurrent ones."""
    name = schema_name(op)
    if not is_seeded(op) or name in RECURRENT:
        return False
    off = 0.0 if "attention" in name else 1.0
    return "dropout" not in name and op.given().get("dropout_p", off) != 0.0
