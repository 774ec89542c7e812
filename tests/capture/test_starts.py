"""What the states were when a step began, as far as the recording shows it.

step                 0        1         reset    2
self.smooth          0.25     0.25+x0   0.25     0.25
Starts.at(step)      0.25     0.25+x0            0.25
what the reset did                               restored
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tapes import NODE, Door, analysed, numbered, record

from ashore.capture.starts import Starts, decided_slots
from ashore.capture.steps import Step

INPUTS = numbered(8)


class Policy:
    """Code with one state, and how an episode of it starts."""

    def __init__(self) -> None:
        self.s = torch.full((1, 3), 0.25)
        self.inputs = iter(INPUTS)

    def step(self, door: Door) -> None:
        x = door.input("x", next(self.inputs))
        self.s = self.s + x
        door.output("y", self.s * 2)

    def reset(self) -> None:
        self.s = torch.full((1, 3), 0.25)


def starts_of(steps: list[Step]) -> Starts:
    return Starts(analysed(steps))


def seen(policy: Policy, count: int = 6, *resets: int) -> tuple[Starts, list[Step]]:
    steps = record(policy.step, count, resets=dict.fromkeys(resets, policy.reset))
    return starts_of(steps), steps


# --- what steps show -------------------------------------------------------------------------------------------------


def test_a_step_that_finds_a_state_shows_its_value() -> None:
    starts, steps = seen(Policy())
    expected = torch.full((1, 3), 0.25)
    for step, x in zip(steps, INPUTS, strict=False):
        torch.testing.assert_close(starts.at(step), {"s": expected})
        expected = expected + x


def test_after_a_reset_a_step_shows_what_that_left() -> None:
    starts, steps = seen(Policy(), 6, 3)
    assert torch.equal(starts.at(steps[3])["s"], torch.full((1, 3), 0.25))
    assert torch.equal(starts.opening(steps[3])["s"], torch.full((1, 3), 0.25))


class InPlace(Policy):
    """The same, written in place."""

    def step(self, door: Door) -> None:
        x = door.input("x", next(self.inputs))
        self.s.add_(x)
        door.output("y", self.s * 2)

    def reset(self) -> None:
        self.s.fill_(0.25)


def test_a_state_that_is_written_in_place_is_as_it_was_before_the_write() -> None:
    starts, steps = seen(InPlace())
    assert torch.equal(starts.at(steps[0])["s"], torch.full((1, 3), 0.25))
    torch.testing.assert_close(starts.at(steps[1])["s"], 0.25 + INPUTS[0])


class Declared(Policy):
    """The same, declared."""

    def step(self, door: Door) -> None:
        x = door.input("x", next(self.inputs))
        s = door.state("kept", self.s)
        self.s = s + x
        door.update("kept", self.s)
        door.output("y", self.s * 2)


def test_a_declared_state_is_as_it_was_declared() -> None:
    starts, steps = seen(Declared(), 4, 2)
    torch.testing.assert_close(starts.at(steps[1]), {"policy/kept": 0.25 + INPUTS[0]})
    torch.testing.assert_close(starts.at(steps[2]), {"policy/kept": torch.full((1, 3), 0.25)})


class MadeByTheFirstStep(Policy):
    """A state that the first step of an episode makes, of numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.reset()

    def step(self, door: Door) -> None:
        x = door.input("x", next(self.inputs))
        if self.s is None:
            self.s = torch.zeros(1, 3) + 0.5
        self.s = self.s * 0.5 + x
        door.output("y", self.s * 2)

    def reset(self) -> None:
        self.s: Any = None


def test_a_state_that_a_first_step_makes_is_computed() -> None:
    starts, steps = seen(MadeByTheFirstStep(), 6, 3)
    assert torch.equal(starts.at(steps[0])["s"], torch.full((1, 3), 0.5))
    assert torch.equal(starts.at(steps[3])["s"], torch.full((1, 3), 0.5))
    assert starts.from_inputs == set()


class MadeFromInputs(MadeByTheFirstStep):
    """A state that the first step makes of its input."""

    def step(self, door: Door) -> None:
        x = door.input("x", next(self.inputs))
        if self.s is None:
            self.s = x * 2
        self.s = self.s * 0.5 + x
        door.output("y", self.s * 2)


def test_a_state_that_a_first_step_makes_of_its_inputs_is_told() -> None:
    starts, steps = seen(MadeFromInputs())
    assert starts.at(steps[0]) == {}
    assert starts.from_inputs == {"s"}
    torch.testing.assert_close(starts.at(steps[1])["s"], INPUTS[0] * 2)


class MadeAtRandom(MadeByTheFirstStep):
    """A state that the first step draws."""

    def step(self, door: Door) -> None:
        x = door.input("x", next(self.inputs))
        if self.s is None:
            self.s = torch.rand(1, 3)
        self.s = self.s * 0.5 + x
        door.output("y", self.s * 2)


def test_a_state_that_a_first_step_draws_at_random_is_not_shown() -> None:
    starts, steps = seen(MadeAtRandom())
    assert starts.at(steps[0]) == {}
    assert starts.from_inputs == set()


class Delay(Policy):
    """Keeps the last two inputs, and gives the older one."""

    def __init__(self) -> None:
        super().__init__()
        self.frames = [torch.full((1, 3), 7.0), torch.full((1, 3), 8.0)]

    def step(self, door: Door) -> None:
        x = door.input("x", next(self.inputs))
        old = self.frames[0]
        self.frames = [self.frames[1], x]
        door.output("y", old * 2)


def test_a_state_that_waits_is_shown_by_the_step_that_reads_it() -> None:
    starts, steps = seen(Delay())
    waiting, read = sorted(starts.at(steps[0]), key=len)
    assert read == f"{waiting}_lag2"
    first = starts.at(steps[0])
    assert torch.equal(first[read], torch.full((1, 3), 7.0))
    assert torch.equal(first[waiting], torch.full((1, 3), 8.0))
    assert torch.equal(starts.at(steps[2])[read], INPUTS[0])
    assert waiting not in starts.at(steps[-1]), "no step reads it any more"


# --- resets ----------------------------------------------------------------------------------------------------------


def limited(policy: Policy) -> None:
    policy.s = policy.s.clamp(-0.1, 0.1)


def doubled(policy: Policy) -> None:
    policy.s = policy.s * 2


def in_part(policy: Policy) -> None:
    policy.s[:, 0] = 0.25


def kept(policy: Policy) -> None:
    pass


def restored(policy: Policy) -> None:
    policy.reset()


def copied(policy: Policy) -> None:
    policy.s.copy_(torch.full((1, 3), 0.25))


def by_a_mask_of_none(policy: Policy) -> None:
    policy.s[torch.zeros(1, dtype=torch.bool)] = 0.25


def of_an_input(policy: Policy) -> None:
    policy.s = INPUTS[0] * 2


DEFAULT = torch.full((1, 3), 0.125)


def of_a_default(policy: Policy) -> None:
    policy.s = DEFAULT * 2


@pytest.mark.parametrize(
    ("reset", "effect"),
    [
        (restored, "restored"),
        (copied, "restored"),
        (kept, "kept"),
        (by_a_mask_of_none, "kept"),
        (limited, "unclear"),
        (doubled, "unclear"),
        (in_part, "unclear"),
        (of_an_input, "from_inputs"),
        (of_a_default, "restored"),
    ],
)
def test_what_a_reset_did_is_told_by_doing_it_to_other_values(reset: Callable[[Policy], None], effect: str) -> None:
    policy = InPlace()
    steps = record(policy.step, 6, resets={3: lambda: reset(policy)})
    assert starts_of(steps).what_reset_did(steps[3]) == {"s": effect}


def test_a_reset_that_nobody_recorded_may_have_restored_the_state() -> None:
    starts, steps = seen(Policy())
    assert starts.what_reset_did(steps[0]) == {"s": "restored"}


# --- writes by others ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("write", "touched"), [(lambda s: s.mul_(1.0), ["s"]), (lambda s: s * 1.0, [])])
def test_a_state_that_is_written_to_between_steps_is_touched(
    write: Callable[[torch.Tensor], object], touched: list[str]
) -> None:
    policy = InPlace()

    def step(door: Door) -> None:
        policy.step(door)
        door.session.end_step()
        write(policy.s)

    steps = record(step, 5)
    assert starts_of(steps).touched(steps[2]) == touched


def settle(door: Door, write: Callable[[], object]) -> None:
    """Do something between steps that may be a reset, so that it is listened to."""
    door.session.watch()
    write()


@pytest.mark.parametrize(
    ("write", "touched"),
    [
        (by_a_mask_of_none, []),
        (lambda policy: policy.s.mul_(1.0), []),
        (lambda policy: policy.s.clamp_(-100.0, 100.0), ["s"]),
    ],
)
def test_a_write_that_was_listened_to_and_leaves_every_value_alone_touches_nothing(
    write: Callable[[Policy], object], touched: list[str]
) -> None:
    policy = InPlace()

    def step(door: Door) -> None:
        policy.step(door)
        settle(door, lambda: write(policy))

    steps = record(step, 5)
    assert starts_of(steps).touched(steps[2]) == touched


def test_a_write_that_was_not_listened_to_touches_though_something_else_was() -> None:
    policy = InPlace()

    def step(door: Door) -> None:
        policy.step(door)
        door.session.end_step()
        policy.s.mul_(1.0)
        settle(door, lambda: DEFAULT * 2)

    steps = record(step, 5)
    assert starts_of(steps).touched(steps[2]) == ["s"]


def test_a_state_that_a_step_makes_itself_is_not_touched() -> None:
    starts, steps = seen(MadeByTheFirstStep())
    assert starts.touched(steps[0]) == []


# --- two rates -------------------------------------------------------------------------------------------------------


def two_rates() -> list[Step]:
    """A decision that is held, and substeps that follow it by a filter."""
    kept = SimpleNamespace(held=torch.full((1, 3), 0.5), smooth=torch.full((1, 3), 0.25))
    inputs = iter(numbered(40))

    def decide(door: Door) -> None:
        kept.held = door.input("x", next(inputs)) * 2
        door.output("action", kept.held + 0.0)

    def act(door: Door) -> None:
        v = door.input("v", next(inputs))
        kept.smooth = kept.smooth * 0.5 + kept.held
        door.output("effort", kept.smooth + v)

    return record(decide, 4, substeps=act)


def test_what_decisions_write_before_a_substep_finds_it_is_told() -> None:
    assert starts_of(two_rates()).decided == {"held"}


def test_what_a_decision_has_written_is_found_in_the_substeps_after_it() -> None:
    steps = two_rates()
    analyses = analysed(steps)
    (slot,) = decided_slots(analyses["substep"], steps[1], {"held"}).values()
    assert torch.equal(steps[1].tape.captures[slot].value, steps[0].tape.outputs[NODE, "action"].value)
    assert decided_slots(analyses["substep"], steps[1], ()) == {}
    assert set(decided_slots(analyses["substep"], steps[1], {"held", "smooth", "other"})) == {"held", "smooth"}
    assert decided_slots(analyses["policy"], steps[0], {"held"}) == {}


def test_an_episode_opens_with_what_its_first_substep_finds() -> None:
    steps = two_rates()
    starts = starts_of(steps)
    assert starts.at(steps[0]) == {}
    torch.testing.assert_close(starts.opening(steps[0]), {"smooth": torch.full((1, 3), 0.25)})
    assert set(starts.at(steps[1])) == {"held", "smooth"}
