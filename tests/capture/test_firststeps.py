"""Whether a first step that does something else still does the same.

    if self.s is None:                 the first step starts with 0.5, by operations that later steps do not have
        self.s = torch.zeros(1, 3) + 0.5
    self.s = self.s * 0.5 + x

Started with 0.5, the program of the later steps gives what the first step gives, whatever the input: it is explained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace

import pytest
import torch
from tapes import Door, analysed, numbered, record

from ashore.capture.build import build
from ashore.capture.firststeps import is_explained
from ashore.capture.steps import Step

Make = Callable[[torch.Tensor], torch.Tensor]
Use = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Policy:
    """Code whose first step makes the state, and whose output and next state depend on it.

    Args:
        make: what the state is made of: the input of the first step.
        first: what the first step gives, of the state and the input; as every other if left out.
    """

    def __init__(self, make: Make, first: Use | None = None) -> None:
        self._make, self._first = make, first
        self._inputs: Iterator[torch.Tensor] = iter(numbered(6))
        self.s: torch.Tensor | None = None

    def step(self, door: Door) -> None:
        x = door.input("x", next(self._inputs))
        opening = self.s is None
        s = self._make(x) if self.s is None else self.s
        self.s = s * 0.5 + x
        y = s + 2.0 * x
        if opening and self._first is not None:
            y = self._first(s, x)
        door.output("y", y)


def explained(policy: Policy, start: torch.Tensor) -> bool:
    """Whether a start explains the first step of some code."""
    steps = record(policy.step, 6)
    return of_steps(steps, {"s": start})


def of_steps(steps: list[Step], start: Mapping[str, torch.Tensor]) -> bool:
    analysis = analysed(steps)["policy"]
    (program,) = build({"policy": analysis}, {}).values()
    assert set(program.states) == set(start)
    return is_explained(analysis, program, steps[0], start, ())


def half(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(1, 3) + 0.5


HALF, ZERO = torch.full((1, 3), 0.5), torch.zeros(1, 3)


def test_a_first_step_that_makes_the_state_it_starts_with_is_explained_by_it() -> None:
    assert explained(Policy(half), HALF)


def test_another_start_does_not_explain_it() -> None:
    assert not explained(Policy(half), ZERO)
    assert not explained(Policy(half), HALF + 1e-3)


def test_a_state_that_is_made_of_the_input_is_explained_by_no_start() -> None:
    assert not explained(Policy(lambda x: x * 1.0), numbered(1)[0])
    assert not explained(Policy(lambda x: x * 1.0), ZERO)


@pytest.mark.parametrize(
    ("first", "same"),
    [
        (lambda s, x: s + x + x, True),
        (lambda s, x: 2.0 * x + HALF, True),
        (lambda s, x: s + 2.0 * x + 0.1, False),
        (lambda s, x: s + 2.1 * x, False),
        (lambda s, x: (s + 2.0 * x).clamp(-30.0, 30.0), False),
        (lambda s, x: torch.where(x > 5.0, x, s + 2.0 * x), False),
    ],
)
def test_a_first_step_that_computes_otherwise_must_give_the_same_for_other_inputs(first: Use, same: bool) -> None:
    """A limit that no recorded input reached is reached by those that are tried."""
    assert explained(Policy(half, first), HALF) is same


def test_what_a_first_step_leaves_must_be_the_same_too() -> None:
    class Leaves(Policy):
        def step(self, door: Door) -> None:
            opening = self.s is None
            super().step(door)
            if opening and self.s is not None:
                self.s = self.s * 2.0

    assert not explained(Leaves(half), HALF)


def test_a_first_step_that_is_the_only_one_of_its_episode_is_judged_by_what_it_gives() -> None:
    policy = Policy(half)
    steps = record(policy.step, 6, resets={1: lambda: setattr(policy, "s", None)})
    assert of_steps(steps, {"s": HALF})
    assert not of_steps(steps, {"s": ZERO})


def test_a_value_that_waits_for_several_steps_is_judged_by_what_it_becomes() -> None:
    class Delayed(Policy):
        """The output is two steps old; the first step begins with two zeros."""

        frames: list[torch.Tensor] | None = None

        def step(self, door: Door) -> None:
            x = door.input("x", next(self._inputs))
            if self.frames is None:
                self.frames = [torch.zeros(1, 3) + 0.5, torch.zeros(1, 3)]
            door.output("y", self.frames[0] + x)
            self.frames = [self.frames[1], x]

    steps = record(Delayed(half).step, 6)
    waiting, read = sorted(build(analysed(steps), {})["policy"].states, key=len)
    assert of_steps(steps, {waiting: ZERO, read: HALF})
    assert not of_steps(steps, {waiting: ZERO, read: ZERO})


def test_a_first_step_like_any_other_is_explained_by_what_it_found() -> None:
    policy = Policy(half)
    policy.s = torch.full((1, 3), 0.25)
    assert explained(policy, torch.full((1, 3), 0.25))


def test_weights_that_a_first_step_draws_stay_as_they_were_drawn() -> None:
    class Lazy(Policy):
        weight: torch.Tensor | None = None

        def step(self, door: Door) -> None:
            if self.weight is None:
                self.weight = torch.randn(1, 3)
            super().step(door)

    torch.manual_seed(0)
    policy = Lazy(half, lambda s, x: s + 2.0 * x + 0.0 * (policy.weight if policy.weight is not None else ZERO))
    assert explained(policy, HALF)


def test_inputs_that_the_code_cannot_work_with_are_left_out() -> None:
    table = torch.arange(3.0)

    class Looking(Policy):
        def step(self, door: Door) -> None:
            index = door.input("index", torch.tensor([1]))
            assert index.dtype == torch.int64
            super().step(door)
            door.output("z", table.index_select(0, index))

    assert explained(Looking(half), HALF)


@pytest.mark.parametrize(("start", "wanted"), [(HALF, True), (ZERO, False)])
def test_what_a_decision_has_written_is_as_good_as_an_input_to_a_first_substep(
    start: torch.Tensor, wanted: bool
) -> None:
    """The first substep finds what the decision left; its start has to explain the rest only."""
    inputs = iter(numbered(40))
    robot = SimpleNamespace(held=ZERO, smooth=None)

    def decide(door: Door) -> None:
        robot.held = door.input("x", next(inputs)) * 2
        door.output("action", robot.held + 0.0)

    def act(door: Door) -> None:
        v = door.input("v", next(inputs))
        if robot.smooth is None:
            robot.smooth = torch.zeros(1, 3) + 0.5
        effort = robot.smooth + v
        robot.smooth = robot.smooth * 0.5 + robot.held
        door.output("effort", effort)

    steps = record(decide, 4, substeps=act)
    analyses = analysed(steps)
    program = build(analyses, {})["substep"]
    states = {"smooth": start, "held": ZERO}
    assert is_explained(analyses["substep"], program, steps[1], states, {"held"}) is wanted
