"""What a state is for, told from the operations that make its next value."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ashore.capture.operations import Op, schema_name
from ashore.capture.program import Program, ProgramState
from ashore.spec.manifest import Role

_COPIES = ("clone", "detach", "alias", "copy", "_to_copy", "view", "reshape", "unsqueeze", "squeeze")
_SHIFTS = ("cat", "roll", "stack", "slice", "select", "index_put", "scatter", "index_copy")
_SCALING = ("add", "sub", "mul", "div", "clamp", "clip", "tanh", "detach", "clone", "index", "index_select", "alias")
_ARITHMETIC = ("add", "sub", "mul", "div", "lerp", "addcmul", "addcdiv", "where", "addmm")


def role_of(program: Program, state: ProgramState) -> Role:
    """The role of a state that a program writes."""
    following = program.next[state.name]
    makers = list(_makers(program, following))
    names = [_name(op) for op in makers]
    if any(name in ("lstm", "gru") or name.endswith("_cell") for name in names):
        return "recurrent"
    if state.initial is not None and not state.initial.is_floating_point() and state.initial.dtype != torch.bool:
        return "counter"
    if any(name.startswith(_SHIFTS) for name in names) or _written_in_parts(program, makers):
        return "history"
    if _moves_from_itself(program, state.name, following):
        return "filter"
    copied = {following, *(value for op in makers if _name(op) in _COPIES for value in op.reads())}
    if _scaled(program, copied) & set(program.outputs.values()):
        return "last_action"
    return "memory"


def _moves_from_itself(program: Program, name: str, following: int) -> bool:
    """Whether a state is computed from what it was, by arithmetic alone."""
    own = {value for value, source in program.sources.items() if source.is_state(name)}
    groups, calculated = {program.group(following)}, False
    for op in reversed(program.ops):
        if not groups & op.makes(program.group) or not _name(op).startswith((*_ARITHMETIC, *_COPIES, "clamp", "clip")):
            continue
        calculated = calculated or _name(op).startswith(_ARITHMETIC)
        if calculated and own.intersection(op.reads()):
            return True
        groups |= {program.group(read) for read in op.reads()}
    return False


def _scaled(program: Program, values: set[int]) -> set[int]:
    """What is made of some values by scaling, clipping and the like."""
    found = set(values)
    for op in program.ops:
        if _name(op) in _SCALING and not op.mutates and found.intersection(op.reads()):
            found.update(value for value in op.results if value is not None)
    return found


def _written_in_parts(program: Program, makers: list[Op]) -> bool:
    """Whether something is written through a slice or a row."""
    parts = {value for op in program.ops if _name(op) in ("slice", "select") for value in op.results}
    return any(op.mutates and op.reads()[0] in parts for op in makers if op.reads())


def _makers(program: Program, value: int) -> Iterator[Op]:
    """The operations that give a value its content, through those that only copy or choose."""
    groups = {program.group(value)}
    for op in reversed(program.ops):
        if groups & op.makes(program.group):
            yield op
            if _name(op) in (*_COPIES, "where"):
                groups |= {program.group(read) for read in op.reads()}


def _name(op: Op) -> str:
    return schema_name(op).removeprefix("aten::").rstrip("_")
