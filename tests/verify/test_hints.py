"""A difference that has a shape is said in words; one that has none is left alone."""

from __future__ import annotations

import numpy as np
import pytest

from ashore.verify.hints import hint

RIGHT = np.array([[0.5, -1.0, 2.0, 3.5]], np.float32)
NAMES = ("hip", "knee", "ankle", "toe")


def said(got: np.ndarray, right: np.ndarray = RIGHT, names: tuple[str, ...] | None = NAMES) -> str:
    return hint(right, np.asarray(got, right.dtype), np.full(right.shape, 1e-5), names)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ([0, 2, 1, 3], "the two elements 'knee' and 'ankle' are swapped"),
        ([3, 0, 1, 2], "the same 4 values in another order: 'hip' has what belongs to 'toe'"),
        ([0, 3, 1, 2], "the same 3 values in another order: 'knee' has what belongs to 'toe'"),
    ],
)
def test_right_values_in_the_wrong_places(order: list[int], expected: str) -> None:
    assert said(RIGHT[:, order]) == expected


def test_elements_without_names_have_places() -> None:
    assert said(RIGHT[:, [1, 0, 2, 3]], names=None) == "the two elements [0, 0] and [0, 1] are swapped"


def test_the_same_factor() -> None:
    assert said(RIGHT * 1.01) == "all of them are 1.01 times what they should be"
    assert said(RIGHT * -1) == "all of them are -1 times what they should be"
    assert said(RIGHT * 0) == "all of them are 0"
    assert said(RIGHT * [1, 1.01, 1.01, 1]) == "all of them are 1.01 times what they should be"


@pytest.mark.parametrize(
    "got",
    [
        RIGHT + 0.1,
        RIGHT * [1, 1.01, 1.05, 1],
        RIGHT + np.array([[0, 0, 0, 1]]),  # one element says nothing
        np.where(RIGHT > 2, np.nan, RIGHT + 1),
        RIGHT,
    ],
)
def test_what_has_no_shape_is_left_alone(got: np.ndarray) -> None:
    assert said(got) == ""


def test_equal_values_are_not_taken_for_swapped_ones() -> None:
    right = np.array([[1.0, 1.0, 2.0, 2.0]], np.float32)
    assert said(right[:, [2, 3, 0, 1]], right) == ""


def test_truth_values_are_left_alone() -> None:
    assert hint(np.array([True, False]), np.array([False, True]), np.zeros(2), None) == ""
