from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ashore.errors import ManifestError
from ashore.spec import Stage
from processing import make, port, stage


def camera(before: Any = None, after: Any = None, **params: Any) -> Stage:
    before = before or port("batch", 2, 5, 3, dtype="uint8")
    return stage("image", {"pixels": before}, {"y": after or port("batch", 3, 2, 5)}, **params)


def pixels(rows: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (rows, 2, 5, 3), np.uint8)


@pytest.mark.parametrize("rows", [1, 3])
def test_bytes_become_zero_to_one_with_the_channels_first(rows: int) -> None:
    values = pixels(rows)
    result = make(camera())({"pixels": values})["y"]
    for index in np.ndindex(rows, 2, 5, 3):
        row, height, width, channel = index
        assert result[row, channel, height, width] == np.float32(values[index] / 255)


@given(st.integers(0, 255))
def test_every_byte_is_divided_and_not_multiplied_by_a_rounded_reciprocal(byte: int) -> None:
    apply = make(camera(port(1, 1, 1, 1, dtype="uint8"), port(1, 1, 1, 1)))
    result = apply({"pixels": np.full((1, 1, 1, 1), byte, np.uint8)})["y"]
    assert result.dtype == np.float32
    assert result.item() == np.float32(byte / 255)


def test_the_range_is_reached_as_x_times_two_less_one() -> None:
    values = pixels(3)
    plain, wide = make(camera())({"pixels": values})["y"], make(camera(range=[-1, 1]))({"pixels": values})["y"]
    np.testing.assert_array_equal(wide, plain * 2 - 1)


def test_float_images_only_change_range_or_layout() -> None:
    values = pixels(2).astype(np.float32) / 255
    moved = make(camera(port("batch", 2, 5, 3)))({"pixels": values})["y"]
    np.testing.assert_array_equal(moved, values.transpose(0, 3, 1, 2))
    first = port("batch", 3, 2, 5)
    np.testing.assert_array_equal(
        make(camera(first, layout="chw", range=[-1, 1]))({"pixels": moved})["y"], moved * 2 - 1
    )


def test_windows_and_single_images_have_the_axes_in_the_same_place() -> None:
    values = pixels(4)
    window = make(camera(port("batch", 2, 2, 5, 3, dtype="uint8"), port("batch", 2, 3, 2, 5)))
    np.testing.assert_array_equal(
        window({"pixels": values.reshape(2, 2, 2, 5, 3)})["y"].reshape(4, 3, 2, 5),
        make(camera())({"pixels": values})["y"],
    )


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (camera(scale=1), "unknown field `scale`"),
        (camera(layout="nhwc"), "Invalid enum value 'nhwc'"),
        (camera(range=[0, 1, 2]), "Expected `array` of length 2, got 3"),
        (camera(range=[1, 1]), r"range \[1.0, 1.0\] is no range"),
        (camera(range=[0, 1e39]), "range 1e\\+39 cannot be held by float32"),
        (camera(port(2, 3, dtype="uint8")), r"'pixels' has the shape \[2, 3\]; expected \[…, H, W, C\]"),
        (camera(port("batch", 3, 4, dtype="uint8"), layout="chw"), r"\['batch', 3, 4\]; expected \[…, C, H, W\]"),
        (camera(port("batch", 2, 5, 3, dtype="int8")), "'pixels' is int8 .* expected uint8 or float32"),
        (camera(after=port("batch", 2, 5, 3)), r"'y' is float32 \['batch', 2, 5, 3\]; .* \['batch', 3, 2, 5\]"),
        (camera(after=port(1, 3, 2, 5)), r"'y' is float32 \[1, 3, 2, 5\]; .* \['batch', 3, 2, 5\]"),
        (camera(after=port("batch", 3, 2, 5, dtype="float64")), "'y' is float64 .* expected float32"),
        (
            camera(port("batch", 3, 2, 5), layout="chw"),
            r"have the range \[0, 1\] already, so the stage would touch nothing",
        ),
        (
            stage("image", {"a": port(1), "b": port(1)}, {"y": port(1)}),
            r"expected one input and one output, got \['a', 'b'\]",
        ),
        (camera(assets=("x",)), "expected no assets"),
    ],
)
def test_what_does_not_fit_is_refused(made: Stage, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        make(made)
