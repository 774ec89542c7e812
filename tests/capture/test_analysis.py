"""Lists of the process are looked into without asking anything of them that a class of the user's may answer."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
import torch

from ashore.capture.analysis import _tensors_in
from ashore.capture.tape import Held

X, Y = torch.zeros(1), torch.ones(1)


class Named(list[Any]):
    """It is asked by names alone, and has no truth."""

    def __getitem__(self, key: Any) -> Any:
        raise KeyError(key)

    def __bool__(self) -> bool:
        raise ValueError("neither true nor false")

    def __len__(self) -> int:
        raise ValueError("of no length")

    def __iter__(self) -> Any:
        raise ValueError("in no order")


class Pretender:
    """Whoever asks what it is fails."""

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("outside of its context")


@pytest.mark.parametrize("kind", [list, deque])
def test_what_begins_with_a_tensor_is_given_whole(kind: Any) -> None:
    assert [id(thing) for thing in _tensors_in(kind([X, Y]))] == [id(X), id(Y)]
    assert len(_tensors_in(kind([X, "text"]))) == 2
    assert _tensors_in(kind([])) == _tensors_in(kind(["text", X])) == []


def test_a_list_of_the_users_that_answers_otherwise_is_no_obstacle() -> None:
    assert len(_tensors_in(Named([X, Y]))) == 2


def test_what_lies_first_is_not_asked_what_it_is() -> None:
    assert _tensors_in([Pretender()]) == []


def test_the_tapes_own_lists_are_left_out() -> None:
    assert _tensors_in(Held([X])) == []
