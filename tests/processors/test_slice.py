from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ashore.errors import ManifestError
from ashore.spec import Stage
from processing import make, port, stage


def cut(before: Any = None, after: Any = None, start: Any = (0, 1, 0), **params: Any) -> Stage:
    ports = before or port("batch", 8, 6), after or port("batch", 4, 2)
    return stage("slice", {"x": ports[0]}, {"y": ports[1]}, start=list(start), **params)


@pytest.mark.parametrize("rows", [1, 3])
def test_it_takes_the_actions_that_are_executed(rows: int) -> None:
    chunk = np.random.default_rng(0).normal(size=(rows, 8, 6)).astype(np.float32)
    np.testing.assert_array_equal(make(cut())({"x": chunk})["y"], chunk[:, 1:5, :2])


@given(st.data())
def test_any_part_that_lies_within_is_taken(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    starts = [data.draw(st.integers(0, length - 1)) for length in shape]
    lengths = [data.draw(st.integers(1, length - start)) for length, start in zip(shape, starts, strict=True)]
    made = cut(port("batch", *shape, dtype="int64"), port("batch", *lengths, dtype="int64"), [0, *starts])
    array = np.arange(2 * np.prod(shape)).reshape(2, *shape)
    if lengths == shape:
        with pytest.raises(ManifestError, match=r"it takes all of \['batch', .* touch nothing"):
            make(made)
        return
    result = make(made)({"x": array})["y"]
    for index in np.ndindex(2, *lengths):
        assert result[index] == array[tuple(np.add(index, [0, *starts]))]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (stage("slice", {"x": port(1)}, {"y": port(1)}), "missing required field `start`"),
        (cut(stop=3), "unknown field `stop`"),
        (cut(start=(0, 1)), r"start has 2 entries; expected one for each axis of \['batch', 8, 6\] and of"),
        (cut(after=port("batch", 2)), "expected one for each axis"),
        (cut(port(3, 8, 6), port(2, 4, 2)), r"first axis, that of the batch, to be kept whole; got \[3, 8, 6\]"),
        (cut(port(3, 8, 6), port(3, 4, 2), (1, 0, 0)), r"from \[1, 0, 0\]"),
        (cut(port(3), port(3), (1,)), "to be kept whole"),
        (cut(port(2, "batch", 6), port(2, 4, 2)), "expected the batch axis first"),
        (cut(start=(0, 5, 0)), "axis 1 has 8 elements; expected 4 from 5 on to lie in it"),
        (cut(start=(0, -1, 0)), "expected 4 from -1 on"),
        (cut(after=port("batch", 4, 2, dtype="float64")), "'y' is float64 .* expected float32"),
        (cut(assets=("x",)), "expected no assets"),
    ],
)
def test_what_does_not_fit_is_refused(made: Stage, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        make(made)
