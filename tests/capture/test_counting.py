"""Numbers of Python that running code keeps.

class Gait:
    def step(self):
        self.phase += 1             named by the function, and an attribute of `self`: Gait.phase
        return self.phase % PERIOD  named by the function, and a global: PERIOD
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from ashore.capture.counting import Numbers
from ashore.capture.lines import Line

PERIOD = 4
UNNAMED = 5
CLOCK = SimpleNamespace(ticks=7, inner=SimpleNamespace(far=8))


def told(numbers: Numbers) -> dict[str, Any]:
    """What to call each number, and what it is."""
    return {name: number for number, name, _ in numbers.read().values()}


class Gait:
    """Keeps something, and names it in a step."""

    def __init__(self, phase: Any) -> None:
        self.phase = phase
        self.unnamed = 99

    def step(self, numbers: Numbers) -> Any:
        numbers.look(sys._getframe())
        return self.phase


def test_a_number_of_the_object_at_work_is_seen() -> None:
    numbers, gait = Numbers(), Gait(3)
    gait.step(numbers)
    assert told(numbers) == {"Gait.phase": 3}


def test_a_number_is_read_as_it_is_now() -> None:
    numbers, gait = Numbers(), Gait(3)
    gait.step(numbers)
    before = numbers.read()
    gait.phase = 4
    after = numbers.read()
    assert before.keys() == after.keys()
    assert [number for number, _, _ in before.values()] == [3]
    assert [number for number, _, _ in after.values()] == [4]


def test_a_global_is_seen_by_the_function_that_names_it() -> None:
    def step(numbers: Numbers) -> int:
        numbers.look(sys._getframe())
        return PERIOD

    def other(numbers: Numbers) -> None:
        numbers.look(sys._getframe())

    numbers = Numbers()
    other(numbers)
    assert told(numbers) == {}
    step(numbers)
    assert told(numbers) == {"PERIOD": 4}


@pytest.mark.parametrize(
    ("phase", "seen"),
    [
        (3, {"Gait.phase": 3}),
        (0.5, {"Gait.phase": 0.5}),
        (True, {"Gait.phase": True}),
        ([1, 2, 3], {"Gait.phase (its length)": 3}),
        (deque([1]), {"Gait.phase (its length)": 1}),
        ({"left": 1, "right": 2.5}, {"Gait.phase['left']": 1, "Gait.phase['right']": 2.5}),
        ({"left": [1], "right": {"knee": 1}, "name": "x"}, {}),
        (CLOCK, {"Gait.phase.ticks": 7}),
        ("text", {}),
        (None, {}),
        (torch.tensor(3), {}),
        (torch.nn.Linear(1, 1), {}),
        (np.float64(3), {}),
        (np.arange(3), {}),
        ((1, 2), {}),
    ],
)
def test_numbers_are_those_of_python_one_level_down(phase: Any, seen: dict[str, Any]) -> None:
    numbers = Numbers()
    Gait(phase).step(numbers)
    assert told(numbers) == seen


def test_entries_of_one_thing_are_told_apart() -> None:
    numbers = Numbers()
    Gait({"left": 1, "right": 2}).step(numbers)
    assert len(numbers.read()) == 2


def test_only_the_first_entries_of_much_are_seen() -> None:
    numbers = Numbers()
    Gait(dict.fromkeys(range(1000), 1)).step(numbers)
    assert 10 <= len(numbers.read()) < 1000


def test_the_line_is_that_of_a_function_that_names_the_number() -> None:
    numbers, lines = Numbers(), list[int]()

    def step() -> int:
        lines.append(sys._getframe().f_lineno + 1)
        numbers.look(sys._getframe())
        return PERIOD

    step()
    ((_, _, line),) = numbers.read().values()
    assert line == Line(__file__, lines[0])


def looking(source: str, **names: Any) -> Callable[[Numbers], dict[str, Any]]:
    """Run code as a script that looks, and tell what it saw."""

    def run(numbers: Numbers) -> dict[str, Any]:
        exec(compile(source, "script.py", "exec"), {"numbers": numbers, "sys": sys, **names})
        return told(numbers)

    return run


def test_what_a_script_counts_in_its_own_loop_is_not_kept_by_a_step() -> None:
    assert looking("episodes = 3\nnumbers.look(sys._getframe())\nepisodes += 1")(Numbers()) == {}


def test_a_function_of_a_script_sees_its_globals() -> None:
    source = "def step():\n    numbers.look(sys._getframe())\n    return episodes\n\nepisodes = 3\nstep()"
    assert looking(source)(Numbers()) == {"episodes": 3}


def test_what_a_layer_of_torch_keeps_is_left_out() -> None:
    def step(self: torch.nn.Module, numbers: Numbers) -> Any:
        numbers.look(sys._getframe())
        return self.in_features, self.out_features

    numbers = Numbers()
    step(torch.nn.Linear(2, 3), numbers)
    assert told(numbers) == {}


def test_an_object_without_attributes_is_left_out() -> None:
    class Slotted:
        __slots__ = ("phase",)

        def step(self, numbers: Numbers) -> Any:
            numbers.look(sys._getframe())
            return self.phase

    numbers, slotted = Numbers(), Slotted()
    slotted.phase = 3
    slotted.step(numbers)
    assert told(numbers) == {}
