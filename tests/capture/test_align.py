"""Which operation of one step is which operation of another.

reference     mul add tanh            a first step that also fills a buffer
other         mul zeros fill add tanh
found         0->0, 1->3, 2->4
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tapes import op

from ashore.capture.align import align, different_leaf
from ashore.capture.lines import Line
from ashore.capture.operations import Op, Ref

aten = torch.ops.aten
X = Ref(0)


def line(number: int) -> Line:
    return Line("walk.py", number)


def mul(number: int = 1, factor: float = 2.0) -> Op:
    return op(aten.mul.Tensor, X, factor, gives=1, line=line(number))


def add(number: int = 2) -> Op:
    return op(aten.add.Tensor, X, 1.0, gives=1, line=line(number))


def tanh(number: int = 3) -> Op:
    return op(aten.tanh.default, X, gives=1, line=line(number))


def zeros(number: int = 4) -> Op:
    return op(aten.zeros.default, [3], gives=1, line=line(number))


@pytest.mark.parametrize(
    ("reference", "other", "found"),
    [
        ([], [], {}),
        ([mul()], [], {}),
        ([], [mul()], {}),
        ([mul(), add(), tanh()], [mul(), add(), tanh()], {0: 0, 1: 1, 2: 2}),
        ([mul(), add(), tanh()], [mul(), zeros(), add(), tanh()], {0: 0, 1: 2, 2: 3}),
        ([mul(), zeros(), add(), tanh()], [mul(), add(), tanh()], {0: 0, 2: 1, 3: 2}),
        ([mul(), add()], [zeros(), mul(), add()], {0: 1, 1: 2}),
        ([mul(), add()], [mul(), add(), zeros()], {0: 0, 1: 1}),
        ([mul(), add(), tanh()], [mul(), zeros(), tanh()], {0: 0, 2: 2}),
        ([mul()], [tanh()], {}),
    ],
)
def test_operations_that_both_steps_have_are_paired(
    reference: list[Op], other: list[Op], found: dict[int, int]
) -> None:
    assert align(reference, other) == found


def test_pairs_come_in_the_order_of_the_operations() -> None:
    pairs = align([mul(), add(), tanh()], [mul(), zeros(), add(), zeros(), tanh()])
    assert list(pairs.items()) == [(0, 0), (1, 2), (2, 4)]


def test_numbers_may_differ_between_operations_that_are_the_same() -> None:
    assert align([mul(factor=2.0)], [mul(factor=3.0)]) == {0: 0}
    assert align([mul(factor=2.0), add()], [zeros(), mul(factor=3.0), add()]) == {0: 1, 1: 2}


def test_a_tensor_in_place_of_a_number_is_another_operation() -> None:
    of_tensors = op(aten.mul.Tensor, X, Ref(1), gives=1, line=line(1))
    assert align([mul()], [of_tensors]) == {}
    assert align([mul(), add()], [of_tensors, add()]) == {1: 1}


def test_arguments_in_another_structure_are_another_operation() -> None:
    by_name = op(aten.mul.Tensor, X, other=2.0, gives=1, line=line(1))
    assert align([mul()], [by_name]) == {}


def test_of_operations_that_look_the_same_those_of_the_same_line_are_paired() -> None:
    reference = [mul(10), mul(20)]
    assert align(reference, [mul(20)]) == {1: 0}
    assert align(reference, [mul(10)]) == {0: 0}
    assert align(reference, [mul(5), mul(20)])[1] == 1


def test_an_operation_that_is_done_at_another_line_is_paired_between_its_neighbours() -> None:
    """A branch may say the same in two places."""
    assert align([mul(), add(21), tanh()], [mul(), add(31), tanh()]) == {0: 0, 1: 1, 2: 2}
    assert align([mul(), add(21), tanh()], [tanh(40), mul(), add(31), tanh()]) == {0: 1, 1: 2, 2: 3}


def test_turns_of_a_loop_are_paired_one_by_one() -> None:
    turn = [mul(), add()]
    assert align(turn * 3, turn * 3) == {index: index for index in range(6)}
    pairs = align(turn * 3, turn * 2)
    assert len(pairs) == 4
    assert sorted(pairs.values()) == [0, 1, 2, 3]


def test_pairs_never_cross() -> None:
    pairs = list(align([mul(), add(), tanh(), mul(7)], [tanh(), mul(7), mul(), add()]).items())
    assert pairs == sorted(pairs)
    assert [other for _, other in pairs] == sorted(other for _, other in pairs)


# --- arguments that differ -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "different"),
    [
        (2.0, 2.0, False),
        (2.0, 3.0, True),
        (2.0, 2, True),
        (1, True, True),
        (None, None, False),
        (None, 0, True),
        (float("nan"), float("nan"), False),
        (float("nan"), 2.0, True),
        (2.0, float("nan"), True),
        (float("inf"), float("-inf"), True),
        (torch.float32, torch.float64, True),
        (torch.float32, torch.float32, False),
        ("floor", "trunc", True),
        (Ref(1), Ref(2), False),
        (torch.ones(2), torch.ones(2), False),
        (torch.ones(2), torch.zeros(2), True),
        (torch.ones(2), 1.0, True),
        (1.0, torch.ones(2), True),
    ],
    ids=str,
)
def test_a_number_that_is_not_the_same_in_both_is_told(left: Any, right: Any, different: bool) -> None:
    ours, theirs = (op(aten.add.Tensor, X, leaf, gives=1) for leaf in (left, right))
    assert different_leaf(ours, theirs) == (1 if different else None)


def test_generators_of_random_numbers_are_all_alike() -> None:
    seeded, unseeded = (op(aten.rand.generator, [3], generator=leaf, gives=1) for leaf in (torch.Generator(), None))
    assert different_leaf(seeded, op(aten.rand.generator, [3], generator=torch.Generator(), gives=1)) is None
    assert different_leaf(seeded, unseeded) == 1


def test_the_first_of_several_numbers_that_differ_is_told() -> None:
    ours = op(aten.clamp.default, X, -1.0, 1.0, gives=1)
    assert different_leaf(ours, op(aten.clamp.default, X, -2.0, 2.0, gives=1)) == 1
    assert different_leaf(ours, op(aten.clamp.default, X, -1.0, 2.0, gives=1)) == 2
    assert different_leaf(op(aten.zeros.default, [3, 4], gives=1), op(aten.zeros.default, [3, 5], gives=1)) == 1
