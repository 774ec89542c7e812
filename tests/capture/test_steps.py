"""How recorded steps fit together.

index      0      1      2      3      4
rate       policy sub    policy sub    policy
episode    |---- first -------------|  |-- second
before(3)  2, 1, 0: of both rates, the latest first
after(0)   2: of its own rate
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from tapes import NODE, declared, op

from ashore.capture.operations import Op, Ref
from ashore.capture.steps import Step, Steps
from ashore.capture.tape import Tape
from ashore.spec import Rate

aten = torch.ops.aten
OUTPUT = (NODE, "y")


def tape_of(*ops: Op) -> Tape:
    """A step whose output is what its last operation gives, in slot 9."""
    return Tape(ops=list(ops), groups=list(range(10)), outputs={OUTPUT: declared(9, len(ops))})


def plain(factor: float = 2.0) -> Tape:
    return tape_of(op(aten.mul.Tensor, Ref(0), factor, gives=9))


def timeline_of(*tapes: Tape, resets: Sequence[int] = (0,), rates: str = "") -> list[Step]:
    """A recording.

    Args:
        *tapes: what its steps did.
        resets: the steps that start an episode.
        rates: for each step, ``p`` for the policy rate or ``s`` for the substep rate.
    """
    steps: list[Step] = []
    opened: set[Rate] = set()
    for index, tape in enumerate(tapes):
        rate: Rate = "substep" if rates[index : index + 1] == "s" else "policy"
        opened = set() if index in resets else opened
        steps.append(Step(index, tape, index in resets, Tape() if index in resets else None, rate, rate not in opened))
        opened.add(rate)
    return steps


def indices(steps: object) -> list[int]:
    assert not isinstance(steps, Step)
    return [step.index for step in steps]  # type: ignore[attr-defined]


# --- episodes --------------------------------------------------------------------------------------------------------


def test_a_step_that_starts_an_episode_in_all_rows_is_separate() -> None:
    assert Step(3, Tape(), reset=True).separate
    assert not Step(3, Tape(), reset=True, rows=(True, False)).separate
    assert not Step(3, Tape(), reset=False).separate


def test_steps_before_are_those_of_the_same_episode_the_latest_first() -> None:
    timeline = timeline_of(*[plain()] * 6, resets=(0, 3))
    steps = Steps(timeline)
    assert [indices(steps.before(step)) for step in timeline] == [[], [0], [1, 0], [], [3], [4, 3]]


def test_steps_after_are_those_of_the_same_episode() -> None:
    timeline = timeline_of(*[plain()] * 6, resets=(0, 3))
    steps = Steps(timeline)
    assert [indices(steps.after(step)) for step in timeline] == [[1, 2], [2], [], [4, 5], [5], []]


def test_a_reset_of_some_rows_ends_no_episode() -> None:
    timeline = [Step(0, plain(), True), Step(1, plain(), True, rows=(True, False)), Step(2, plain(), False)]
    steps = Steps(timeline)
    assert indices(steps.before(timeline[2])) == [1, 0]
    assert indices(steps.after(timeline[0])) == [1, 2]


def test_steps_before_are_of_both_rates_and_steps_after_of_one() -> None:
    timeline = timeline_of(*[plain()] * 5, resets=(0, 4), rates="pspsp")
    policy, acting = Steps(timeline), Steps(timeline, "substep")
    assert indices(policy.all) == [0, 2, 4]
    assert indices(acting.all) == [1, 3]
    assert indices(policy.before(timeline[3])) == [2, 1, 0]
    assert indices(policy.after(timeline[0])) == [2]
    assert indices(policy.after(timeline[0], "substep")) == [1, 3]
    assert indices(acting.after(timeline[0])) == [1, 3]
    assert indices(acting.after(timeline[0], "policy")) == [2]


def test_what_started_an_episode_is_found_from_each_of_its_steps() -> None:
    timeline = timeline_of(*[plain()] * 5, resets=(0, 3))
    steps = Steps(timeline)
    resets = [steps.reset_before(step) for step in timeline]
    expected = [timeline[start].resetting for start in (0, 0, 0, 3, 3)]
    assert all(found is wanted for found, wanted in zip(resets, expected, strict=True))


def test_the_latest_of_several_resets_is_the_one() -> None:
    timeline = [
        Step(0, plain(), True, Tape()),
        Step(1, plain(), True, Tape(), rows=(True, False)),
        Step(2, plain(), False),
    ]
    assert Steps(timeline).reset_before(timeline[2]) is timeline[1].resetting


def test_where_no_reset_was_recorded_there_is_none() -> None:
    timeline = [Step(0, plain(), False), Step(1, plain(), False)]
    steps = Steps(timeline)
    assert steps.reset_before(timeline[1]) is None
    assert [indices(steps.before(step)) for step in timeline] == [[], [0]]


# --- the reference ---------------------------------------------------------------------------------------------------


def test_the_reference_is_the_step_after_which_the_episode_goes_on_longest() -> None:
    assert Steps(timeline_of(*[plain()] * 5)).reference.index == 1
    assert Steps(timeline_of(*[plain()] * 6, resets=(0, 2))).reference.index == 3


def test_the_first_step_of_an_episode_is_the_reference_only_if_there_is_no_other() -> None:
    assert Steps(timeline_of(plain())).reference.index == 0
    assert Steps(timeline_of(*[plain()] * 3, resets=(0, 1, 2))).reference.index == 0
    assert Steps(timeline_of(*[plain()] * 3, resets=(0, 1))).reference.index == 2


def test_the_reference_does_what_the_last_step_does() -> None:
    first = tape_of(op(aten.tanh.default, Ref(0), gives=9))
    assert Steps(timeline_of(first, first, plain(), plain(), plain())).reference.index == 2
    assert Steps(timeline_of(plain(3.0), plain(3.0), plain(2.0), plain(2.0))).reference.index == 2


def test_what_does_not_matter_for_the_outputs_may_differ_from_the_last_step() -> None:
    logging = tape_of(op(aten.sum.default, Ref(0), gives=5), op(aten.mul.Tensor, Ref(0), 2.0, gives=9))
    assert Steps(timeline_of(plain(), logging, plain(), plain())).reference.index == 1


def test_each_rate_has_a_reference_of_its_own() -> None:
    timeline = timeline_of(*[plain()] * 6, rates="pspsps")
    assert Steps(timeline).reference.index == 2
    assert Steps(timeline, "substep").reference.index == 3


# --- what corresponds to what ----------------------------------------------------------------------------------------


def longer() -> Tape:
    """The same step, which also makes something before, so that its slots have other numbers."""
    return Tape(
        ops=[op(aten.zeros.default, [3], gives=3), op(aten.mul.Tensor, Ref(1), 2.0, gives=7)],
        groups=list(range(10)),
        outputs={OUTPUT: declared(7, 2)},
    )


def test_slots_correspond_where_the_same_operation_gave_them() -> None:
    timeline = timeline_of(longer(), plain(), plain(), plain())
    steps = Steps(timeline)
    assert steps.reference.index == 1
    assert steps.match(timeline[0]) == {0: 1}
    assert steps.counterparts(timeline[0]) == {9: {7}}
    assert steps.counterparts(timeline[1]) == {9: {9}}


@pytest.mark.parametrize(
    ("results", "expected"), [([None, 4], {8: {4}}), ([3, None], {9: {3}}), ([3, 4], {9: {3}, 8: {4}})]
)
def test_results_that_are_no_tensors_have_no_counterpart(results: list[int | None], expected: dict) -> None:
    def maximum(*gives: int | None) -> Tape:
        return Tape(ops=[op(aten.max.dim, Ref(0), 1, gives=list(gives))], groups=list(range(10)), outputs={})

    timeline = timeline_of(maximum(*results), maximum(9, 8), maximum(9, 8))
    assert Steps(timeline).counterparts(timeline[0]) == expected


def test_a_slot_that_two_operations_gave_has_all_their_counterparts() -> None:
    """An operation in place gives the slot that it was given."""
    reference = Tape(
        ops=[op(aten.zeros.default, [3], gives=5), op(aten.add_.Tensor, Ref(5), 1.0, gives=5, writes=[5])],
        groups=list(range(10)),
    )
    other = Tape(
        ops=[op(aten.zeros.default, [3], gives=6), op(aten.add_.Tensor, Ref(7), 1.0, gives=7, writes=[7])],
        groups=list(range(10)),
    )
    timeline = timeline_of(other, reference, reference)
    assert Steps(timeline).counterparts(timeline[0]) == {5: {6, 7}}
