"""What callbacks computed, recognised when the code computes it once more.

callback        %1 = %0 * 2.0        learnt; declared as the input in slot 9
code            %4 = %0 * 2.0        the same formula: it is that input
code            %5 = %4 + 1.0        the same as a formula over %1, since %4 holds what %1 holds
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
import torch
from tapes import HERE, op

from ashore.capture.formulas import Formulas
from ashore.capture.operations import Op, Ref
from ashore.capture.tape import Capture, Tape
from ashore.capture.tensors import place_of

aten = torch.ops.aten
X, Y, DECLARED = Ref(0), Ref(1), 9


class Code:
    """Formulas over a tape of twenty slots, each in memory of its own."""

    def __init__(self) -> None:
        self.tape = Tape(groups=list(range(20)))
        self.formulas = Formulas()
        self._slots: Iterator[int] = count(10)

    def constant(self, slot: int, value: torch.Tensor) -> Ref:
        """A tensor that was made of numbers where it is used."""
        self.tape.captures[slot] = Capture(slot, value, value, 0, HERE, None, True, place_of(value))
        return Ref(slot)

    def learn(self, target: Any, *args: Any, declared: int | None = DECLARED, **kwargs: Any) -> Op:
        """A callback computes something, which is declared an input."""
        made = op(target, *args, gives=next(self._slots), **kwargs)
        self.formulas.learn(made, self.tape, declared)
        return made

    def recognise(self, target: Any, *args: Any, **kwargs: Any) -> int | None:
        """The code computes something."""
        return self.formulas.recognise(op(target, *args, gives=next(self._slots), **kwargs), self.tape)


@pytest.fixture
def code() -> Code:
    return Code()


def test_the_same_operation_on_the_same_tensors_is_the_input(code: Code) -> None:
    code.learn(aten.mul.Tensor, X, Y)
    assert code.recognise(aten.mul.Tensor, X, Y) == DECLARED
    assert code.recognise(aten.mul.Tensor, X, Y) == DECLARED


def test_nothing_is_recognised_before_anything_was_learnt(code: Code) -> None:
    assert code.recognise(aten.mul.Tensor, X, Y) is None


@pytest.mark.parametrize(
    "other",
    [
        (aten.div.Tensor, X, 2.0),
        (aten.mul.Scalar, X, 2.0),
        (aten.mul.Tensor, Y, 2.0),
        (aten.mul.Tensor, X, 2.5),
        (aten.mul.Tensor, X, 2),
        (aten.mul.Tensor, X, "2.0"),
        (aten.mul.Tensor, X, Y),
        (aten.mul.Tensor, X, 2.0, None),
        (aten.mul.Tensor, [X, 2.0]),
    ],
    ids=str,
)
def test_another_operation_is_not_the_input(code: Code, other: tuple[Any, ...]) -> None:
    code.learn(aten.mul.Tensor, X, 2.0)
    assert code.recognise(*other) is None


def test_arguments_in_another_order_are_another_operation(code: Code) -> None:
    code.learn(aten.sub.Tensor, X, Y)
    assert code.recognise(aten.sub.Tensor, Y, X) is None


def test_arguments_by_name_are_told_apart(code: Code) -> None:
    code.learn(aten.sum.dim_IntList, X, [0], keepdim=True)
    assert code.recognise(aten.sum.dim_IntList, X, [0], keepdim=False) is None
    assert code.recognise(aten.sum.dim_IntList, X, [0]) is None
    assert code.recognise(aten.sum.dim_IntList, X, [0], keepdim=True) == DECLARED


def test_what_is_computed_on_the_way_is_followed_but_is_no_input(code: Code) -> None:
    first = code.learn(aten.mul.Tensor, X, 2.0, declared=None)
    code.learn(aten.add.Tensor, Ref(first.results[0] or 0), 1.0)
    again = op(aten.mul.Tensor, X, 2.0, gives=18)
    assert code.formulas.recognise(again, code.tape) is None
    assert code.recognise(aten.add.Tensor, Ref(18), 1.0) == DECLARED
    assert code.recognise(aten.add.Tensor, Ref(17), 1.0) is None


def test_a_later_callback_that_computes_the_same_leaves_the_input_of_the_earlier(code: Code) -> None:
    code.learn(aten.mul.Tensor, X, 2.0, declared=8)
    code.learn(aten.mul.Tensor, X, 2.0, declared=9)
    assert code.recognise(aten.mul.Tensor, X, 2.0) == 8


def test_what_a_callback_computed_on_its_way_may_be_the_input_of_a_later_one(code: Code) -> None:
    code.learn(aten.mul.Tensor, X, 2.0, declared=None)
    code.learn(aten.mul.Tensor, X, 2.0, declared=9)
    assert code.recognise(aten.mul.Tensor, X, 2.0) == 9


def test_a_tensor_that_was_written_to_since_is_another(code: Code) -> None:
    code.learn(aten.mul.Tensor, X, Y)
    code.formulas.follow(op(aten.add_.Tensor, Y, 1.0, gives=1, writes=[1]))
    assert code.recognise(aten.mul.Tensor, X, Y) is None


def test_a_write_elsewhere_changes_nothing(code: Code) -> None:
    code.learn(aten.mul.Tensor, X, Y)
    code.formulas.follow(op(aten.add_.Tensor, Ref(2), 1.0, gives=2, writes=[2]))
    assert code.recognise(aten.mul.Tensor, X, Y) == DECLARED


def test_a_write_through_a_view_counts_for_all_that_lies_there(code: Code) -> None:
    code.tape.groups[1] = 0
    code.learn(aten.mul.Tensor, Y, 2.0)
    code.formulas.follow(op(aten.add_.Tensor, X, 1.0, gives=0, writes=[0]))
    assert code.recognise(aten.mul.Tensor, Y, 2.0) is None


@pytest.mark.parametrize("target", [aten.rand_like.default, aten.bernoulli.default])
def test_what_is_drawn_at_random_is_never_the_same(code: Code, target: Any) -> None:
    code.learn(target, X)
    assert code.recognise(target, X) is None


def test_a_write_is_never_the_input(code: Code) -> None:
    code.learn(aten.mul.Tensor, Y, 2.0)
    code.learn(aten.add_.Tensor, X, 1.0, writes=[0])
    assert code.recognise(aten.add_.Tensor, X, 1.0, writes=[0]) is None
    code.learn(aten.mul.Tensor, X, 2.0, writes=[10])
    assert code.recognise(aten.mul.Tensor, X, 2.0) is None
    assert code.recognise(aten.mul.Tensor, Y, 2.0, writes=[10]) is None


@pytest.mark.parametrize(
    ("value", "same"),
    [
        (torch.tensor([1.0, 2.0]), True),
        (torch.tensor([1.0, 2.5]), False),
        (torch.tensor([1, 2]), False),
        (torch.tensor([1.0, 2.0], dtype=torch.float64), False),
        (torch.tensor([[1.0, 2.0]]), False),
    ],
    ids=str,
)
def test_tensors_made_of_the_same_numbers_are_the_same(code: Code, value: torch.Tensor, same: bool) -> None:
    code.learn(aten.mul.Tensor, X, code.constant(2, torch.tensor([1.0, 2.0])))
    assert code.recognise(aten.mul.Tensor, X, code.constant(3, value)) == (DECLARED if same else None)


@pytest.mark.parametrize(("count", "compared"), [(4096, True), (4097, False)])
def test_many_numbers_are_not_compared(code: Code, count: int, compared: bool) -> None:
    code.learn(aten.mul.Tensor, X, code.constant(2, torch.zeros(count)))
    assert code.recognise(aten.mul.Tensor, X, code.constant(3, torch.zeros(count))) == (DECLARED if compared else None)
    assert code.recognise(aten.mul.Tensor, X, Ref(2)) == DECLARED


def test_tensors_that_the_code_keeps_are_not_the_same_because_they_hold_the_same(code: Code) -> None:
    for slot in (2, 3):
        code.constant(slot, torch.tensor([1.0, 2.0]))
        code.tape.captures[slot] = code.tape.captures[slot]._replace(created=False)
    code.learn(aten.mul.Tensor, X, Ref(2))
    assert code.recognise(aten.mul.Tensor, X, Ref(3)) is None
    assert code.recognise(aten.mul.Tensor, X, Ref(2)) == DECLARED


def test_of_several_results_each_stands_for_its_own(code: Code) -> None:
    code.formulas.learn(op(aten.max.dim, X, 0, gives=[10, 11]), code.tape, None)
    code.learn(aten.add.Tensor, Ref(11), 1)
    code.formulas.recognise(op(aten.max.dim, X, 0, gives=[12, 13]), code.tape)
    assert code.recognise(aten.add.Tensor, Ref(12), 1) is None
    assert code.recognise(aten.add.Tensor, Ref(13), 1) == DECLARED
