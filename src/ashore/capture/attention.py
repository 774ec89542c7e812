"""Attention with masks, as torch computes it: where everything is masked it gives zeros.

Exporters write a softmax of nothing but minus infinity there, which is NaN. So a row without any key attends to all of
them, and what comes of it is replaced by zeros.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import torch
from torch.utils._pytree import tree_flatten

from ashore.capture.operations import Op, Ref, Target, schema_name
from ashore.capture.program import Program, execute
from ashore.capture.steps import Step

aten = torch.ops.aten


def guard_attention(program: Program, step: Step) -> None:
    """Guard the masked attentions of a program.

    Args:
        program: with its initial states.
        step: the one that it was made of; it says what masks look like.
    """
    if not any(_mask_of(op) is not None for op in program.ops):
        return
    values: dict[int, torch.Tensor] = {}
    for value, source in program.sources.items():
        if source.kind == "input":
            name = next(name for name in program.inputs if "/".join(name) == source.name)
            found = step.tape.inputs[name].value
        else:
            found = program.states[source.name].start if source.kind == "state" else program.constants[source.name]
        values[value] = found.clone()
    with torch.no_grad():
        execute(program.ops, values)
    fixed = {value for value, source in program.sources.items() if source.kind == "constant"}
    made: list[Op] = []
    following = program.next_value()
    for op in program.ops:
        mask = _mask_of(op)
        if mask is None or (mask in fixed and bool(_has_keys(values[mask]).all())):
            made.append(op)
            continue
        guarded = list(_guarded(op, mask, values[mask].dtype == torch.bool, following))
        following += len(guarded) - 1  # the last one gives what the attention gave
        made += guarded
    program.ops = made


def _mask_of(op: Op) -> int | None:
    if schema_name(op) != "aten::scaled_dot_product_attention":
        return None
    mask = op.given().get("attn_mask")
    return mask.slot if isinstance(mask, Ref) else None


def _has_keys(mask: torch.Tensor) -> torch.Tensor:
    return (mask if mask.dtype == torch.bool else mask > -math.inf).any(dim=-1)


def _guarded(op: Op, mask: int, is_bool: bool, following: int) -> Iterator[Op]:
    """The operations in place of an attention; `following` is the first number that no value has."""

    def make(place: int, target: Target, *args: object) -> Op:
        leaves, structure = tree_flatten((args, {}))
        return Op(target, leaves, structure, [following + place], op.line, op.region)

    nothing, safe, attended = Ref(following + 2), following + 3, following + 4
    if is_bool:
        yield make(0, aten.alias.default, Ref(mask))
    else:
        yield make(0, aten.gt.Scalar, Ref(mask), -math.inf)
    yield make(1, aten.any.dim, Ref(following), -1, True)
    yield make(2, aten.logical_not.default, Ref(following + 1))
    if is_bool:
        yield make(3, aten.logical_or.default, Ref(mask), nothing)
    else:
        yield make(3, aten.masked_fill.Scalar, Ref(mask), nothing, 0.0)
    leaves = [Ref(safe) if isinstance(leaf, Ref) and leaf.slot == mask else leaf for leaf in op.leaves]
    yield dataclasses.replace(op, leaves=leaves, results=[attended])
    last = make(4, aten.where.ScalarSelf, nothing, 0.0, Ref(attended))  # in the layout that the attention gave
    yield dataclasses.replace(last, results=list(op.results))
