"""What is alive is found by its class, whatever its class is like."""

from __future__ import annotations

import gc
from collections import deque
from typing import Any

import torch

from ashore.capture.alive import alive


class Leg(torch.nn.Linear):
    """A module of a module."""


class Unhashable(type):
    """Classes of this kind are neither hashed nor compared."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(cls, other: object) -> bool:
        raise AssertionError("nobody has to compare classes")


class Odd(metaclass=Unhashable):
    def __init__(self) -> None:
        self.inside = []


class Pretender:
    """It says that it is a module, and is none."""

    __class__ = torch.nn.Module  # type: ignore[assignment]

    def __init__(self) -> None:
        self.inside: list[Any] = []


def found(thing: object, *classes: type) -> bool:
    return any(other is thing for other in alive(*classes))


def test_instances_and_those_of_subclasses_are_found() -> None:
    module, leg, things, queue = torch.nn.Linear(1, 1), Leg(1, 1), [torch.zeros(1)], deque([1])
    assert found(module, torch.nn.Module)
    assert found(leg, torch.nn.Module)
    assert found(things, list, deque)
    assert found(queue, list, deque)
    assert not found(queue, list)
    assert not found(module, list, deque)


def test_it_finds_just_what_asking_every_object_finds() -> None:
    slow = {id(thing) for thing in gc.get_objects() if issubclass(type(thing), torch.nn.Module)}
    assert {id(thing) for thing in alive(torch.nn.Module)} == slow


def test_what_only_says_that_it_is_one_is_none() -> None:
    pretender = Pretender()
    assert isinstance(pretender, torch.nn.Module)
    assert not found(pretender, torch.nn.Module)


def test_classes_that_cannot_be_hashed_or_compared_are_no_obstacle() -> None:
    odd = Odd()
    assert found(odd, Odd)
    assert not found(odd, torch.nn.Module)


def test_what_is_gone_is_not_found() -> None:
    before = len(alive(Leg))
    leg = Leg(1, 1)
    assert len(alive(Leg)) == before + 1
    del leg
    gc.collect()
    assert len(alive(Leg)) == before
