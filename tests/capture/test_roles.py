"""What a state is for, told from the operations that make its next value.

smooth' = smooth * 0.9 + x * 0.1      filter: arithmetic on what it was
frames' = cat(frames[1:], x)          history
action' = net(...), output 0.5 * it   last action
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tapes import NODE, op

from ashore.capture.operations import Op, Ref
from ashore.capture.program import Program, ProgramState, Source
from ashore.capture.roles import role_of
from ashore.spec.manifest import Role

aten = torch.ops.aten
STATE, X, WEIGHT = Ref(0), Ref(1), Ref(2)


def role(
    *ops: Op,
    following: int,
    output: int | None = None,
    initial: torch.Tensor | None = None,
    groups: dict[int, int] | None = None,
) -> Role:
    """The role of a state that is value 0, of a program whose values 1 and 2 are an input and a constant.

    Args:
        *ops: what the program does.
        following: the value that the state becomes.
        output: the value of the output.
        initial: what the state is at first.
        groups: value -> the value whose memory it shares.
    """
    program = Program(ops=list(ops), groups=[(groups or {}).get(value, value) for value in range(12)])
    program.sources = {0: Source("state", "s"), 1: Source("input", f"{NODE}/x"), 2: Source("constant", "w")}
    program.next = {"s": following}
    program.outputs = {} if output is None else {(NODE, "y"): output}
    state = ProgramState("s", initial=torch.zeros(1, 3) if initial is None else initial)
    program.states = {"s": state}
    return role_of(program, state)


def linear(gives: int) -> Op:
    return op(aten.linear.default, X, WEIGHT, gives=gives)


# --- recurrent and counters ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [aten.lstm.input, aten.gru.input, aten.gru_cell.default, aten.lstm_cell.default])
def test_what_a_recurrent_layer_gives_is_recurrent(target: Any) -> None:
    assert role(op(target, X, [STATE], gives=[3, 4]), following=4) == "recurrent"


def test_a_recurrent_state_that_is_copied_is_recurrent() -> None:
    layer = op(aten.lstm.input, X, [STATE], gives=[3, 4])
    assert role(layer, op(aten.clone.default, Ref(4), gives=5), following=5) == "recurrent"


def test_a_state_of_whole_numbers_is_a_counter() -> None:
    add = op(aten.add.Tensor, STATE, 1, gives=3)
    assert role(add, following=3, initial=torch.zeros(1, dtype=torch.int64)) == "counter"
    assert role(add, following=3, initial=torch.zeros(1, dtype=torch.uint8)) == "counter"


def test_a_flag_is_no_counter() -> None:
    assert role(op(aten.lt.Scalar, X, 0.5, gives=3), following=3, initial=torch.tensor([False])) == "memory"


# --- histories -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target",
    [aten.cat.default, aten.stack.default, aten.roll.default, aten.scatter.src, aten.index_put.default],
)
def test_a_state_that_is_shifted_is_a_history(target: Any) -> None:
    assert role(op(target, [STATE, X], gives=3), following=3) == "history"


def test_a_state_that_is_written_through_a_row_is_a_history() -> None:
    row = op(aten.select.int, STATE, 0, -1, gives=3)
    write = op(aten.copy_.default, Ref(3), X, gives=3, writes=[0])
    assert role(row, write, following=0, groups={3: 0}) == "history"


def test_a_state_that_is_written_whole_is_no_history() -> None:
    other_row = op(aten.select.int, X, 0, -1, gives=3)
    write = op(aten.copy_.default, STATE, Ref(3), gives=0, writes=[0], overwrites=[0])
    assert role(other_row, write, following=0, groups={3: 1}) == "memory"


def test_what_a_network_makes_of_things_that_are_joined_is_no_history() -> None:
    joined = op(aten.cat.default, [X, X], gives=3)
    assert role(joined, op(aten.linear.default, Ref(3), WEIGHT, gives=4), following=4) == "memory"


def test_a_history_that_is_kept_where_a_mask_says_so_is_a_history() -> None:
    shifted = op(aten.roll.default, STATE, [1], gives=3)
    assert role(shifted, op(aten.where.self, X, Ref(3), STATE, gives=4), following=4) == "history"


# --- filters ---------------------------------------------------------------------------------------------------------


def decayed(gives: int) -> Op:
    return op(aten.mul.Tensor, STATE, 0.9, gives=gives)


def test_a_state_that_moves_from_itself_is_a_filter() -> None:
    assert role(decayed(3), op(aten.add.Tensor, Ref(3), X, gives=4), following=4) == "filter"
    assert role(op(aten.lerp.Scalar, STATE, X, 0.1, gives=3), following=3) == "filter"
    assert role(op(aten.sub.Tensor, X, STATE, gives=3), following=3) == "filter"


def test_a_filter_in_place_is_a_filter() -> None:
    decay = op(aten.mul_.Tensor, STATE, 0.9, gives=0, writes=[0])
    assert role(decay, op(aten.add_.Tensor, STATE, X, gives=0, writes=[0]), following=0) == "filter"


def test_a_filter_with_limits_is_a_filter() -> None:
    assert role(decayed(3), op(aten.clamp.default, Ref(3), -1.0, 1.0, gives=4), following=4) == "filter"


def test_a_state_that_goes_through_a_network_is_no_filter() -> None:
    ops = (decayed(3), op(aten.tanh.default, Ref(3), gives=4), op(aten.add.Tensor, Ref(4), X, gives=5))
    assert role(*ops, following=5) == "memory"


def test_a_state_that_is_only_copied_is_no_filter() -> None:
    assert role(op(aten.clone.default, STATE, gives=3), following=3) == "memory"


def test_arithmetic_on_inputs_is_no_filter() -> None:
    assert role(op(aten.add.Tensor, X, X, gives=3), decayed(4), following=3) == "memory"


# --- last actions ----------------------------------------------------------------------------------------------------


def test_a_state_that_is_the_output_is_the_last_action() -> None:
    assert role(linear(3), following=3, output=3) == "last_action"


def test_a_state_whose_scaled_value_is_the_output_is_the_last_action() -> None:
    scaled = op(aten.mul.Tensor, Ref(3), 0.25, gives=4)
    offset = op(aten.add.Tensor, Ref(4), WEIGHT, gives=5)
    clipped = op(aten.clamp.default, Ref(5), -1.0, 1.0, gives=6)
    assert role(linear(3), scaled, offset, clipped, following=3, output=6) == "last_action"


def test_a_state_that_is_a_copy_of_what_becomes_the_output_is_the_last_action() -> None:
    copy = op(aten.clone.default, Ref(3), gives=4)
    scaled = op(aten.mul.Tensor, Ref(3), 0.25, gives=5)
    assert role(linear(3), copy, scaled, following=4, output=5) == "last_action"


def test_a_state_whose_output_is_made_by_a_network_is_no_last_action() -> None:
    second = op(aten.linear.default, Ref(3), WEIGHT, gives=4)
    assert role(linear(3), second, following=3, output=4) == "memory"


def test_a_state_that_has_nothing_to_do_with_the_output_is_memory() -> None:
    assert role(linear(3), op(aten.tanh.default, X, gives=4), following=3, output=4) == "memory"
    assert role(linear(3), following=3) == "memory"


def test_a_state_that_becomes_an_input_is_memory() -> None:
    assert role(following=1) == "memory"
