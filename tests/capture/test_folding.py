"""Masks that never change, replaced by the places that they choose.

x[:, mask]        index(x, [None, mask])         a shape that depends on data
folded            index(x, [None, [0, 2]])       the same elements, and a shape that does not
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tapes import NODE, op

from ashore.capture.folding import fold_masks
from ashore.capture.operations import Op, Ref
from ashore.capture.program import Program, ProgramState, Source

aten = torch.ops.aten
X, MASK = Ref(0), Ref(1)
INPUT, OUTPUT = (NODE, "x"), (NODE, "y")
ODD = torch.tensor([True, False, True, False])


def program_of(*ops: Op, output: int, groups: dict[int, int] | None = None, **constants: torch.Tensor) -> Program:
    """A program of one input, which is value 0, and constants, which are the values from 1 on."""
    program = Program(ops=list(ops), groups=[(groups or {}).get(value, value) for value in range(12)])
    program.constants = dict(constants)
    program.sources = {0: Source("input", "/".join(INPUT))}
    program.sources |= {value: Source("constant", name) for value, name in enumerate(constants, start=1)}
    program.inputs, program.outputs = {INPUT: 0}, {OUTPUT: output}
    return program


def indices(program: Program) -> list[torch.Tensor | None]:
    """What the last operation of a program indexes with, where that is constant."""
    last = program.ops[-1]
    found: list[torch.Tensor | None] = []
    for leaf in last.leaves[1:]:
        source = program.sources.get(leaf.slot) if isinstance(leaf, Ref) else None
        found.append(program.constants[source.name] if source is not None and source.kind == "constant" else None)
    return found


def result(program: Program, x: torch.Tensor) -> torch.Tensor:
    outputs, _ = program.run({INPUT: x}, {})
    return outputs[OUTPUT]


@pytest.mark.parametrize(
    ("shape", "index", "places"),
    [
        ((4,), [ODD], [[0, 2]]),
        ((2, 4), [None, ODD], [[0, 2]]),
        ((4, 2), [ODD], [[0, 2]]),
        ((4,), [ODD.to(torch.uint8)], [[0, 2]]),
        ((4,), [torch.zeros(4, dtype=torch.bool)], [[]]),
        ((4,), [torch.ones(4, dtype=torch.bool)], [[0, 1, 2, 3]]),
        ((2, 4), [torch.stack((ODD, ~ODD))], [[0, 0, 1, 1], [0, 2, 1, 3]]),
        ((3, 2, 4), [None, torch.stack((ODD, ~ODD))], [[0, 0, 1, 1], [0, 2, 1, 3]]),
    ],
)
@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
def test_a_constant_mask_becomes_the_places_that_it_chooses(
    shape: tuple[int, ...], index: list[Any], places: list[list[int]]
) -> None:
    (mask,) = (part for part in index if part is not None)
    leaves = [None if part is None else MASK for part in index]
    program = program_of(op(aten.index.Tensor, X, leaves, gives=2), output=2, mask=mask)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    before = result(program, x)
    fold_masks(program)
    assert [part.tolist() for part in indices(program) if part is not None] == places
    assert torch.equal(result(program, x), before)
    assert program.ops[0].results == [2]


@pytest.mark.parametrize("target", [aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default])
@pytest.mark.parametrize("accumulate", [False, True])
def test_a_write_through_a_constant_mask_goes_to_its_places(target: Any, accumulate: bool) -> None:
    in_place = target is not aten.index_put.default
    copy = op(aten.clone.default, X, gives=3)
    write = op(target, Ref(3), [MASK], Ref(2), accumulate, gives=3 if in_place else 4, writes=[3] if in_place else [])
    values = torch.tensor([10.0, 20.0])
    program = program_of(copy, write, output=3 if in_place else 4, mask=ODD, values=values)
    fold_masks(program)
    places = indices(program)[0]
    assert places is not None
    assert places.tolist() == [0, 2]
    expected = torch.ones(4)
    expected[ODD] = values + accumulate
    assert torch.equal(result(program, torch.ones(4)), expected)


def test_a_mask_that_is_computed_of_constants_is_folded() -> None:
    high = op(aten.gt.Scalar, Ref(1), 1.5, gives=2)
    index = op(aten.index.Tensor, X, [Ref(2)], gives=3)
    program = program_of(high, index, output=3, limits=torch.tensor([1.0, 2.0, 3.0]))
    fold_masks(program)
    assert result(program, torch.tensor([7.0, 8.0, 9.0])).tolist() == [8.0, 9.0]
    assert [part.tolist() for part in indices(program) if part is not None] == [[1, 2]]


def unfolded(program: Program) -> bool:
    """Whether folding leaves a program as it was."""
    ops, constants = list(program.ops), dict(program.constants)
    fold_masks(program)
    return program.ops == ops and program.constants == constants


def test_a_mask_that_depends_on_an_input_stays() -> None:
    high = op(aten.gt.Scalar, X, 1.5, gives=2)
    assert unfolded(program_of(high, op(aten.index.Tensor, X, [Ref(2)], gives=3), output=3))


def test_a_mask_that_depends_on_a_state_stays() -> None:
    program = program_of(op(aten.index.Tensor, X, [MASK], gives=2), output=2)
    program.sources[1] = Source("state", "mask")
    program.states = {"mask": ProgramState("mask", initial=ODD)}
    assert unfolded(program)


def test_a_mask_that_is_written_to_stays() -> None:
    write = op(aten.logical_not_.default, MASK, gives=1, writes=[1])
    assert unfolded(program_of(op(aten.index.Tensor, X, [MASK], gives=3), write, output=3, mask=ODD))


def test_a_mask_that_is_a_view_of_what_is_written_to_stays() -> None:
    view = op(aten.slice.Tensor, MASK, 0, 0, 4, gives=2)
    write = op(aten.logical_not_.default, Ref(2), gives=2, writes=[1])
    index = op(aten.index.Tensor, X, [Ref(2)], gives=3)
    assert unfolded(program_of(view, write, index, output=3, groups={2: 1}, mask=torch.cat((ODD, ODD))))


def test_a_mask_that_is_made_and_then_written_to_stays() -> None:
    made = op(aten.zeros.default, [4], dtype=torch.bool, gives=1)
    write = op(aten.logical_not_.default, Ref(1), gives=1, writes=[1])
    assert unfolded(program_of(made, write, op(aten.index.Tensor, X, [Ref(1)], gives=2), output=2))


def test_a_mask_that_is_drawn_at_random_stays() -> None:
    drawn = op(aten.rand.default, [4], gives=1)
    high = op(aten.gt.Scalar, Ref(1), 0.5, gives=2)
    assert unfolded(program_of(drawn, high, op(aten.index.Tensor, X, [Ref(2)], gives=3), output=3))


def test_indices_that_are_places_already_stay() -> None:
    index = op(aten.index.Tensor, X, [MASK], gives=2)
    assert unfolded(program_of(index, output=2, places=torch.tensor([0, 2])))


def test_a_mask_that_is_no_index_stays() -> None:
    assert unfolded(program_of(op(aten.where.ScalarOther, MASK, X, 0.0, gives=2), output=2, mask=ODD))


def test_every_mask_of_a_program_is_folded_by_itself() -> None:
    first = op(aten.index.Tensor, X, [MASK], gives=3)
    second = op(aten.index.Tensor, Ref(3), [Ref(2)], gives=4)
    program = program_of(first, second, output=4, mask=ODD, other=torch.tensor([False, True]))
    fold_masks(program)
    assert set(program.constants) == {"mask", "other", "places", "places_2"}
    assert result(program, torch.arange(4.0)).tolist() == [2.0]


def test_what_is_folded_is_where_it_was() -> None:
    index = op(aten.index.Tensor, X, [MASK], gives=2, region="left")
    program = program_of(index, output=2, mask=ODD)
    fold_masks(program)
    (folded,) = program.ops
    assert (folded.line, folded.region, folded.target) == (index.line, "left", index.target)
