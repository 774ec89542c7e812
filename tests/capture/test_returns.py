"""What a function calls the things it returns.

    def act(observation):
        return action, net(observation)

names the first of two results ``action`` and, since the second has no name, that one ``output2``.
"""

from __future__ import annotations

import asyncio
import collections
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch

from ashore.capture.returns import return_names

action, value, hidden = 1, 2, 3


def one() -> Any:
    return action


def several() -> Any:
    return action, value


def in_brackets() -> Any:
    return (
        action,
        value,
    )


def nameless() -> Any:
    return action + 1


def partly_named() -> Any:
    return action + 1, value


def of_an_object() -> Any:
    return torch.pi, value


def later_return_wins(early: bool = False) -> Any:
    if early:
        return hidden, hidden
    return action, value


def return_in_the_last_branch(early: bool = False) -> Any:
    if not early:
        return hidden, hidden
    else:  # noqa: RET505 - the last return is not on the outer level
        return action, value


def with_inner_functions() -> Any:
    class Inner:
        def step(self) -> Any:
            return hidden, hidden

    async def wait() -> Any:
        return hidden, hidden

    def inner() -> Any:
        return hidden, hidden

    outer = (Inner, wait, inner, lambda: (hidden, hidden))
    assert outer
    return action, value


def return_before_inner_function() -> Any:
    def step() -> Any:
        return action, value

    return step()


def nothing() -> None:
    return


def no_return() -> None:
    pass


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*given: Any) -> Any:
        hidden: Any = function(*given)
        return hidden

    return wrapper


@decorated
def with_a_decorator() -> Any:
    return action, value


async def awaited() -> Any:
    return action, value


class Policy:
    """A method that is indented."""

    def act(self) -> Any:
        return action, value

    @staticmethod
    def decide() -> Any:
        return action, value


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (several, ["action", "value"]),
        (in_brackets, ["action", "value"]),
        (partly_named, ["output1", "value"]),
        (of_an_object, ["output1", "value"]),
        (later_return_wins, ["action", "value"]),
        (return_in_the_last_branch, ["action", "value"]),
        (with_inner_functions, ["action", "value"]),
        (return_before_inner_function, ["output1", "output2"]),
        (with_a_decorator, ["action", "value"]),
        (awaited, ["action", "value"]),
        (Policy().act, ["action", "value"]),
        (Policy.decide, ["action", "value"]),
        (nothing, ["output1", "output2"]),
        (no_return, ["output1", "output2"]),
        (max, ["output1", "output2"]),
        (functools.partial(several), ["output1", "output2"]),
    ],
)
def test_results_are_named_as_the_last_return_statement_names_them(function: Any, names: list[str]) -> None:
    name = return_names(function)
    assert list(name((10, 20)).items()) == list(zip(names, (10, 20), strict=True))
    assert name([10, 20]) == name((10, 20))


@pytest.mark.parametrize(
    ("function", "name"),
    [(one, "action"), (nameless, "output"), (several, "output"), (nothing, "output"), (no_return, "output")],
)
def test_a_single_result_has_its_own_name_or_is_the_output(function: Any, name: str) -> None:
    assert return_names(function)(10) == {name: 10}


def test_a_tensor_is_one_result_and_is_not_taken_apart() -> None:
    tensor = torch.zeros(2, 3)
    assert return_names(one)(tensor) == {"action": tensor}


def test_results_of_another_number_than_the_statement_names_are_counted() -> None:
    assert return_names(one)((10, 20)) == {"output1": 10, "output2": 20}
    assert return_names(several)((10, 20, 30)) == {"output1": 10, "output2": 20, "output3": 30}
    assert return_names(several)(()) == {}


def test_a_mapping_has_its_own_names() -> None:
    assert return_names(one)({"kp": 10, 3: 20}) == {"kp": 10, "3": 20}
    assert return_names(several)(collections.OrderedDict(kp=10)) == {"kp": 10}


def test_a_named_tuple_has_its_own_names() -> None:
    class Decision(NamedTuple):
        target: int
        gain: int

    assert return_names(several)(Decision(10, 20)) == {"target": 10, "gain": 20}


def test_a_function_without_source_has_no_names() -> None:
    namespace: dict[str, Any] = {}
    exec("def act():\n    return action", namespace)
    assert return_names(namespace["act"])(10) == {"output": 10}


def test_the_functions_that_are_asked_about_run() -> None:
    """What is said about their source is said about real code."""
    assert one() == action
    assert asyncio.run(awaited()) == several() == Policy().act() == with_a_decorator() == (action, value)
