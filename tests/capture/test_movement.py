"""What in a step can be different another time, and from which operation on.

height = rec.input("height", ...)      moves from the start
scaled = height * gain                 moves when the operation is done; `gain` never does
smooth = smooth * 0.9 + scaled         a state: moves from the start
table = torch.arange(3.0)              never moves
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import torch
from tapes import Door, analysed, numbered, record

from ashore.capture.movement import Movement
from ashore.capture.steps import Step

aten = torch.ops.aten


class Observed:
    """Steps that were recorded, and which of their tensors move."""

    def __init__(self, step: Callable[[Door, dict[str, torch.Tensor], torch.Tensor], None], count: int = 4) -> None:
        self._tensors: list[dict[str, torch.Tensor]] = []
        inputs = iter(numbered(count))

        def run(door: Door) -> None:
            self._tensors.append({})
            x = door.input("x", next(inputs))
            step(door, self._tensors[-1], x)
            self._tensors[-1]["x"] = x

        self.steps: list[Step] = record(run, count)
        self._movement = Movement(analysed(self.steps)["policy"])

    def began(self, name: str, index: int = -1) -> int | None:
        """After how many operations of a step a tensor of it moves; None if it never does."""
        step, tensor = self.steps[index], self._tensors[index][name]
        slot = step.tape.find(tensor)
        assert slot is not None
        moments = range(len(step.tape.ops) + 1)
        moving = [moment for moment in moments if self._movement.moves(step, slot, moment)]
        assert moving == list(moments[len(moments) - len(moving) :]), "what moves does not stop moving"
        return moving[0] if moving else None

    def done(self, target: object, index: int = -1) -> int:
        """How many operations a step had done after an operation."""
        return 1 + next(number for number, op in enumerate(self.steps[index].tape.ops) if op.target is target)


def test_an_input_moves_from_the_start_and_a_constant_never() -> None:
    gain = torch.full((1, 3), 2.0)

    def step(door: Door, kept: dict[str, torch.Tensor], x: torch.Tensor) -> None:
        kept["gain"] = gain
        door.output("y", x * gain)

    seen = Observed(step)
    assert seen.began("x") == 0
    assert seen.began("gain") is None


def test_what_is_computed_from_an_input_moves_when_it_is_computed() -> None:
    def step(door: Door, kept: dict[str, torch.Tensor], x: torch.Tensor) -> None:
        kept["table"] = torch.arange(3.0)
        kept["scaled"] = x * kept["table"]
        door.output("y", kept["scaled"])

    seen = Observed(step)
    assert seen.began("table") is None
    assert seen.began("scaled") == seen.done(aten.mul.Tensor)


def test_a_tensor_moves_from_the_moment_something_that_moves_is_written_into_it() -> None:
    def step(door: Door, kept: dict[str, torch.Tensor], x: torch.Tensor) -> None:
        kept["buffer"] = torch.zeros(1, 4)
        kept["last"] = kept["buffer"][:, 3]
        kept["buffer"][:, :3] = x
        door.output("y", kept["buffer"] + 1)

    seen = Observed(step)
    assert seen.began("buffer") == seen.done(aten.copy_.default)
    assert seen.began("last") == seen.began("buffer")


def test_a_write_of_what_does_not_move_moves_nothing() -> None:
    def step(door: Door, kept: dict[str, torch.Tensor], x: torch.Tensor) -> None:
        kept["buffer"] = torch.zeros(1, 3)
        kept["buffer"][:, 0] = torch.ones(1)
        door.output("y", kept["buffer"] + x)

    assert Observed(step).began("buffer") is None


class Filter:
    """A state that is bound anew, one that is written in place, and one that is put into a list."""

    def __init__(self) -> None:
        self.smooth = torch.zeros(1, 3)
        self.count = torch.zeros(1)
        self.frames = [torch.zeros(1, 3), torch.zeros(1, 3)]

    def step(self, door: Door, kept: dict[str, torch.Tensor], x: torch.Tensor) -> None:
        kept |= {"smooth": self.smooth, "count": self.count, "frame": self.frames[0]}
        self.count += 1
        self.smooth = self.smooth * 0.9
        self.frames = [self.frames[1], self.smooth + 1]
        door.output("y", self.smooth + self.count + kept["frame"] + x)


def test_states_move_from_the_start() -> None:
    seen = Observed(Filter().step, 6)
    assert seen.began("smooth") == 0
    assert seen.began("count") == 0
    assert seen.began("frame") == 0


class MadeByTheFirstStep:
    """A state that the first step makes of numbers."""

    smooth: torch.Tensor | None = None

    def step(self, door: Door, kept: dict[str, torch.Tensor], x: torch.Tensor) -> None:
        if self.smooth is None:
            self.smooth = torch.zeros(1, 3) + 0.5
        kept["smooth"] = self.smooth
        self.smooth = self.smooth * 0.9 + x
        door.output("y", self.smooth + 0.0)


def test_a_state_moves_in_the_step_that_makes_it_too() -> None:
    seen = Observed(MadeByTheFirstStep().step)
    assert [seen.began("smooth", index) for index in range(4)] == [0, 0, 0, 0]


def test_what_nobody_declared_and_changes_moves_in_all_steps() -> None:
    command = torch.zeros(1, 3)

    def step(door: Door, kept: dict[str, torch.Tensor], x: torch.Tensor) -> None:
        kept["command"] = command
        door.output("y", x + command)
        door.session.pause()
        command.add_(1.0)
        door.session.resume()

    seen = Observed(step)
    assert [seen.began("command", index) for index in range(4)] == [0, 0, 0, 0]


class Hidden:
    """Keeps a tensor where no path leads to."""

    __slots__ = ("command",)


HIDDEN = Hidden()


def test_what_changes_moves_though_nobody_can_name_it() -> None:
    HIDDEN.command = torch.zeros(1, 3)

    def step(door: Door, kept: dict[str, torch.Tensor], x: torch.Tensor) -> None:
        door.output("y", x + HIDDEN.command)
        door.session.pause()
        kept["command"] = HIDDEN.command
        HIDDEN.command.add_(1.0)
        door.session.resume()

    seen = Observed(step)
    assert [seen.began("command", index) for index in range(4)] == [0, 0, 0, 0]


def test_what_is_another_tensor_in_another_step_moves_under_its_name() -> None:
    robot = SimpleNamespace(command=torch.zeros(1, 3))

    def step(door: Door, kept: dict[str, torch.Tensor], x: torch.Tensor) -> None:
        door.output("y", x + robot.command)
        door.session.pause()
        kept["command"] = robot.command
        robot.command = robot.command + 1.0
        door.session.resume()

    seen = Observed(step)
    assert [seen.began("command", index) for index in range(4)] == [0, 0, 0, 0]


def test_what_a_step_writes_the_same_into_moves_where_torch_counts_no_writes() -> None:
    with torch.inference_mode():
        buffer = torch.ones(1, 3)

        def step(door: Door, kept: dict[str, torch.Tensor], x: torch.Tensor) -> None:
            kept["buffer"] = buffer
            buffer.fill_(1.0)
            door.output("y", x * 2)

        seen = Observed(step)
    assert seen.began("buffer") == 0


def test_what_an_output_does_not_need_moves_all_the_same() -> None:
    reward = torch.zeros(1)

    def step(door: Door, kept: dict[str, torch.Tensor], x: torch.Tensor) -> None:
        kept["reward"] = reward
        reward.add_(1.0)
        door.output("y", x * 2)

    assert Observed(step).began("reward") == 0


def test_a_number_that_is_the_same_in_all_steps_does_not_move() -> None:
    def step(door: Door, kept: dict[str, torch.Tensor], x: torch.Tensor) -> None:
        kept["gain"] = torch.tensor([2.0])
        door.output("y", x * kept["gain"])

    assert Observed(step).began("gain") is None
