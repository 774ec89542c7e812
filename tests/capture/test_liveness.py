"""Which recorded operations matter for what comes out of a step.

    frame = torch.cat((q, command))    op 0   reads 0 1, gives 2
    reward = frame.square()            op 1   reads 2, gives 3
    history[:, -1] = frame             op 2   reads 4 2, writes into 4
    target = net(history)              op 3   reads 4, gives 5

Backwards from `target`: op 3 is needed, then op 2 (what was in `history` before is needed too), then op 0. Nobody asks
for the reward.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
import torch
from tapes import op

from ashore.capture.liveness import Liveness, looked_at
from ashore.capture.operations import Op, Ref
from ashore.capture.tape import Tape

aten = torch.ops.aten


def tape_of(*ops: Op, groups: dict[int, int] | None = None) -> Tape:
    """A tape of operations; slots that share no memory are groups of their own."""
    return Tape(ops=list(ops), groups=[(groups or {}).get(slot, slot) for slot in range(12)])


def reads(*slots: int, gives: int, **more: Any) -> Op:
    """An operation that computes a new tensor from others."""
    return op(aten.cat.default, [Ref(slot) for slot in slots], gives=gives, **more)


def adds_to(slot: int, *slots: int, group: int | None = None) -> Op:
    """An operation that changes a tensor in place, and looks at what was in it."""
    group = slot if group is None else group
    return op(aten.add_.Tensor, Ref(slot), *map(Ref, slots), gives=slot, writes=[group])


def overwrites(slot: int, source: int) -> Op:
    """An operation that writes a tensor whole."""
    return op(aten.copy_.default, Ref(slot), Ref(source), gives=slot, writes=[slot], overwrites=[slot])


STEP = tape_of(reads(0, 1, gives=2), reads(2, gives=3), adds_to(4, 2), reads(4, gives=5))


def test_what_nobody_asks_for_is_left_out() -> None:
    live = Liveness(STEP, [5], ())
    assert live.ops == {0, 2, 3}
    assert live.groups == {0, 1, 4}
    assert live.slots == {0, 1, 2, 4, 5}


def test_of_nothing_nothing_is_needed() -> None:
    live = Liveness(STEP, (), ())
    assert (live.ops, live.groups, live.slots) == (set(), set(), set())
    assert Liveness(tape_of(), [3], ()).groups == {3}


def test_what_is_captured_and_handed_out_is_needed_from_before_the_step() -> None:
    live = Liveness(STEP, [1], ())
    assert (live.ops, live.groups) == (set(), {1})


# --- writes ----------------------------------------------------------------------------------------------------------


def test_what_was_in_a_tensor_before_a_write_into_a_part_of_it_is_needed() -> None:
    part = op(aten.slice.Tensor, Ref(0), 1, 2, 3, gives=2)
    write = op(aten.copy_.default, Ref(2), Ref(1), gives=2, writes=[0])
    live = Liveness(tape_of(part, write, groups={2: 0}), [0], ())
    assert (live.ops, live.groups) == ({0, 1}, {0, 1})


def test_what_was_in_a_tensor_before_it_was_written_whole_is_not_needed() -> None:
    live = Liveness(tape_of(adds_to(0, 2), overwrites(0, 1)), [0], ())
    assert (live.ops, live.groups) == ({1}, {1})
    assert 0 in live.slots, "there must be something to write into"


def test_a_tensor_that_is_overwritten_with_itself_needs_what_it_held() -> None:
    view = op(aten.slice.Tensor, Ref(0), 1, 0, 3, gives=2)
    write = op(aten.copy_.default, Ref(0), Ref(2), gives=0, writes=[0], overwrites=[0])
    assert Liveness(tape_of(view, write, groups={2: 0}), [0], ()).groups == {0}


def test_a_write_after_the_last_read_matters_only_at_the_end() -> None:
    tape = tape_of(reads(0, gives=2), adds_to(0, 1))
    assert Liveness(tape, [2], ()).ops == {0}
    assert Liveness(tape, [0], ()).ops == {1}
    assert Liveness(tape, [0, 2], ()).ops == {0, 1}


def test_a_write_through_a_view_counts_for_the_whole_and_needs_the_view() -> None:
    view = op(aten.select.int, Ref(0), 0, 0, gives=2)
    live = Liveness(tape_of(view, adds_to(2, 1, group=0), groups={2: 0}), [0], ())
    assert (live.ops, live.groups) == ({0, 1}, {0, 1})


def test_a_view_needs_what_it_is_a_view_of() -> None:
    view = op(aten.select.int, Ref(0), 0, 0, gives=2)
    live = Liveness(tape_of(adds_to(0, 1), view, groups={2: 0}), [2], ())
    assert (live.ops, live.groups) == ({0, 1}, {0, 1})


# --- moments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "ops", "groups"), [(0, set(), {0}), (1, {0}, {0, 1}), (2, {0}, {0, 1}), (3, {0, 2}, {0, 1, 3})]
)
def test_what_a_tensor_held_at_a_moment_depends_on_the_writes_before_it(
    at: int, ops: set[int], groups: set[int]
) -> None:
    tape = tape_of(adds_to(0, 1), reads(2, gives=4), adds_to(0, 3))
    live = Liveness(tape, (), [(0, at)])
    assert (live.ops, live.groups) == (ops, groups)
    assert 0 in live.slots


def test_several_moments_are_all_met() -> None:
    tape = tape_of(adds_to(0, 1), adds_to(0, 2), reads(3, gives=4))
    assert Liveness(tape, (), [(0, 1), (4, 3)]).ops == {0, 2}
    assert Liveness(tape, [4], [(0, 1)]).ops == {0, 2}
    assert Liveness(tape, (), [(0, 0), (3, 0)]).groups == {0, 3}


# --- what is known ---------------------------------------------------------------------------------------------------


def test_behind_what_is_known_nothing_is_looked_for() -> None:
    live = Liveness(STEP, [5], (), known=[2])
    assert live.ops == {2, 3}
    assert 0 not in live.groups
    beside = tape_of(reads(0, gives=2), reads(1, gives=3), reads(2, 3, gives=4))
    assert Liveness(beside, [4], (), known=[3]).ops == {0, 2}


@pytest.mark.parametrize("target", [aten.zeros_like.default, aten.new_zeros.default, aten.empty_like.default])
def test_of_what_only_gives_its_shape_the_content_is_not_needed(target: Any) -> None:
    shaped = op(target, Ref(2), gives=3)
    live = Liveness(tape_of(reads(0, gives=2), shaped, reads(1, 3, gives=4)), [4], ())
    assert live.groups == {1}
    assert live.ops == {0, 1, 2}, "the tensor must be there all the same"
    assert 2 in live.slots


def test_an_operation_that_gives_several_results_matters_for_each() -> None:
    tape = tape_of(op(aten.max.dim, Ref(0), 1, gives=[2, 3]), reads(1, gives=4))
    assert Liveness(tape, [2], ()).ops == Liveness(tape, [3], ()).ops == {0}


def test_an_operation_without_a_tensor_as_a_result_does_not_matter() -> None:
    assert Liveness(tape_of(op(aten.equal.default, Ref(0), Ref(1), gives=[None])), [0], ()).ops == set()


# --- what an operation looks at --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "slots"),
    [
        (reads(0, 1, gives=2), [0, 1]),
        (op(aten.mul.Tensor, Ref(0), Ref(0), gives=2), [0, 0]),
        (adds_to(0, 1), [0, 1]),
        (overwrites(0, 1), [1]),
        (op(aten.copy_.default, Ref(0), Ref(0), gives=0, writes=[0], overwrites=[0]), [0]),
        (op(aten.zeros_like.default, Ref(0), gives=2), []),
        (op(aten.zero_.default, Ref(0), gives=0, writes=[0], overwrites=[0]), []),
        (op(aten.zeros.default, [3], gives=2), []),
    ],
)
def test_an_operation_looks_at_all_it_reads_but_for_what_it_only_overwrites(operation: Op, slots: Collection) -> None:
    assert looked_at(operation, list(range(12))) == slots
