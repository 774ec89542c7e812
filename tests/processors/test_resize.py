from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ashore.errors import ManifestError
from ashore.spec import Stage
from processing import LEROBOT, make, port, stage

CASES = ["down", "up", "wide", "same"]


def resizing(kind: str, before: Any, after: Any, **params: Any) -> Stage:
    return stage(kind, {"x": port("batch", *before)}, {"y": port("batch", *after)}, **params)


def differs(case: str, kind: str, form: str, **params: Any) -> float:
    images, wanted = LEROBOT[f"resize/{case}/x"], LEROBOT[f"resize/{case}/{form}"]
    result = make(resizing(kind, images.shape[1:], wanted.shape[1:], **params))({"x": images})["y"]
    assert result.dtype == np.float32
    assert result.shape == wanted.shape
    return float(np.abs(result - wanted).max())


@pytest.mark.parametrize("case", CASES[:3])
def test_it_is_what_torch_computes(case: str) -> None:
    assert differs(case, "resize", "plain") <= 1e-6


@pytest.mark.parametrize("case", CASES[:3])
def test_with_padding_it_is_what_smolvla_and_pi05_compute(case: str) -> None:
    assert differs(case, "resize_with_pad", "left_top", value=0) <= 1e-6
    assert differs(case, "resize_with_pad", "centre", value=-1, align="center", clip=[-1, 1]) <= 1e-6


def tents(line: list[float], length: int) -> list[float]:
    """Linear interpolation between the middles of pixels, said again in Python; beyond the ends, the last pixel."""
    result = []
    for index in range(length):
        place = min(max((index + 0.5) * len(line) / length - 0.5, 0), len(line) - 1)
        lower = int(place)
        upper = min(lower + 1, len(line) - 1)
        result.append(line[lower] + (place - lower) * (line[upper] - line[lower]))
    return result


@given(
    st.lists(st.floats(0, 1, width=32), min_size=1, max_size=9),
    st.integers(1, 9),
    st.lists(st.floats(0, 1, width=32), min_size=1, max_size=9),
    st.integers(1, 9),
)
def test_each_axis_is_interpolated_between_the_middles_of_pixels(
    down: list[float], height: int, across: list[float], width: int
) -> None:
    if (height, width) == (len(down), len(across)):
        return
    image = np.float32(down)[:, None] * np.float32(across)
    made = make(resizing("resize", (1, *image.shape), (1, height, width)))
    wanted = np.outer(tents(down, height), tents(across, width))
    np.testing.assert_allclose(made({"x": image[None, None]})["y"][0, 0], wanted, atol=1e-6)


@pytest.mark.parametrize("align", ["bottom_right", "center"])
def test_rows_are_resized_by_themselves(align: str) -> None:
    images = LEROBOT["resize/down/x"]
    made = make(resizing("resize_with_pad", images.shape[1:], (3, 7, 10), value=0.25, align=align))
    together = made({"x": images})["y"]
    for row in range(len(images)):
        np.testing.assert_array_equal(together[row], made({"x": images[row : row + 1]})["y"][0])


def test_the_rest_of_the_frame_is_filled() -> None:
    made = resizing("resize_with_pad", (1, 2, 4), (1, 5, 4), value=0.5)
    result = make(made)({"x": np.ones((1, 1, 2, 4), np.float32)})["y"][0, 0]
    np.testing.assert_array_equal(result, [[0.5] * 4] * 3 + [[1] * 4] * 2)
    made = resizing("resize_with_pad", (1, 2, 4), (1, 5, 4), value=0.5, align="center", clip=[0, 0.75])
    result = make(made)({"x": np.ones((1, 1, 2, 4), np.float32)})["y"][0, 0]
    np.testing.assert_array_equal(result, [[0.5] * 4, [0.75] * 4, [0.75] * 4, [0.5] * 4, [0.5] * 4])


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            resizing("resize", (3, 4, 5), (3, 4, 5)),
            "images are 4 x 5 before and after, so the stage would touch nothing",
        ),
        (resizing("resize_with_pad", (3, 4, 5), (3, 4, 5), value=0), "images are 4 x 5 before and after"),
        (resizing("resize_with_pad", (3, 4, 5), (3, 8, 8)), "missing required field `value`"),
        (resizing("resize_with_pad", (3, 4, 5), (3, 8, 8), value=1e39), "value 1e\\+39 cannot be held by float32"),
        (resizing("resize_with_pad", (3, 4, 5), (3, 8, 8), value=0, clip=[1, 0]), r"clip \[1.0, 0.0\] is no range"),
        (resizing("resize_with_pad", (3, 4, 5), (3, 8, 8), value=0, align="top"), "Invalid enum value 'top'"),
        (
            resizing("resize_with_pad", (1, 1, 900), (1, 8, 8), value=0),
            "images of 1 x 900 would vanish in frames of 8 x 8",
        ),
        (resizing("resize", (3, 4, 5), (3, 8, 8), mode="area"), "unknown field `mode`"),
        (
            resizing("resize", (3, 4, 5), (1, 8, 8)),
            r"in H and W only, got \['batch', 3, 4, 5\] to \['batch', 1, 8, 8\]",
        ),
        (resizing("resize", (4,), (8,)), "to change in H and W only"),
        (stage("resize", {"x": port(3, "batch", 4)}, {"y": port(3, 8, 4)}), "to change in H and W only"),
        (
            stage("resize", {"x": port(3, 4, 4, dtype="uint8")}, {"y": port(3, 8, 4)}),
            "'x' is uint8 .* expected float32",
        ),
        (resizing("resize", (3, 4, 5), (3, 8, 8), assets=("x",)), "expected no assets"),
    ],
)
def test_what_does_not_fit_is_refused(made: Stage, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        make(made)
