"""Computing beforehand what depends on constants only, where a graph could not compute it: elements chosen by a mask.

``x[:, mask]`` with a mask that never changes always chooses the same elements. As a graph it would have a shape that
depends on data; with the chosen places written out it has not.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from ashore.capture.naming import unique
from ashore.capture.operations import Op, Ref, is_seeded, schema_name
from ashore.capture.program import Program, Source, execute

_INDEXING = ("aten::index", "aten::index_put_", "aten::index_put", "aten::_index_put_impl_")


def fold_masks(program: Program) -> None:
    """Replace constant masks among the indices of a program by the places they choose."""
    known = _known(program)
    program.ops = [_folded(program, op, known) for op in program.ops]


def _known(program: Program) -> dict[int, torch.Tensor]:
    """Values that depend on constants only, and that nothing writes into."""
    written = {group for op in program.ops for group in op.mutates}
    values = {
        value: program.constants[source.name]
        for value, source in program.sources.items()
        if source.kind == "constant" and program.group(value) not in written
    }
    for op in program.ops:
        known = all(value in values for value in op.reads())
        if known and not is_seeded(op) and not op.mutates and not _touches(program, op, written):
            with torch.no_grad():
                execute([op], values)
    return values


def _touches(program: Program, op: Op, written: set[int]) -> bool:
    return any(value is not None and program.group(value) in written for value in op.results)


def _folded(program: Program, op: Op, known: dict[int, torch.Tensor]) -> Op:
    if schema_name(op) not in _INDEXING:
        return op
    args, kwargs = tree_unflatten(op.leaves, op.structure)
    places: list[Any] = []
    for index in args[1]:
        mask = known.get(index.slot) if isinstance(index, Ref) else None
        if mask is None or mask.dtype not in (torch.bool, torch.uint8):
            places.append(index)
            continue
        places += [Ref(_constant(program, axis)) for axis in mask.nonzero(as_tuple=True)]
    leaves, structure = tree_flatten(((args[0], places, *args[2:]), kwargs))
    return dataclasses.replace(op, leaves=leaves, structure=structure)


def _constant(program: Program, tensor: torch.Tensor) -> int:
    name, value = unique("places", program.constants), program.next_value()
    program.constants[name] = tensor
    program.sources[value] = Source("constant", name)
    return value
