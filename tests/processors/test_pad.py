from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ashore.errors import ManifestError
from ashore.spec import Stage
from processing import make, port, stage


def padded(before: Any = None, after: Any = None, **params: Any) -> Stage:
    return stage("pad", {"x": before or port("batch", 3)}, {"y": after or port("batch", 5)}, **params)


@pytest.mark.parametrize("rows", [1, 3])
def test_vectors_are_filled_up_at_the_end(rows: int) -> None:
    values = np.random.default_rng(0).normal(size=(rows, 3)).astype(np.float32)
    result = make(padded())({"x": values})["y"]
    np.testing.assert_array_equal(result, [[*row, 0, 0] for row in values])
    assert result.dtype == np.float32
    np.testing.assert_array_equal(make(padded(value=-1))({"x": values})["y"][:, 3:], -1)


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool", "float64"])
def test_every_axis_but_the_last_and_every_dtype_stay(dtype: str) -> None:
    made = padded(port("batch", 2, 3, dtype=dtype), port("batch", 2, 4, dtype=dtype), value=1)
    result = make(made)({"x": np.zeros((2, 2, 3), dtype)})["y"]
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, np.eye(4)[3] * np.ones((2, 2, 4)))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (padded(max_dim=5), "unknown field `max_dim`"),
        (padded(after=port("batch", 3)), "the last axis has 3 elements before and after, so the stage would touch"),
        (padded(after=port("batch", 2)), "2 elements do not hold 3; use slice"),
        (padded(after=port(1, 5)), r"and no other, after a batch axis; got \['batch', 3\] to \[1, 5\]"),
        (padded(port(3), port(5)), "after a batch axis"),
        (padded(port(2, "batch"), port(2, 5)), "expected to pad the last axis"),
        (padded(after=port("batch", 5, dtype="float64")), "'y' is float64 .* expected float32"),
        (padded(value=1e39), "value 1e\\+39 cannot be held by float32"),
        (padded(port(1, 1, dtype="uint8"), port(1, 2, dtype="uint8"), value=-1), "value -1.0 cannot be held by uint8"),
        (padded(port(1, 1, dtype="int8"), port(1, 2, dtype="int8"), value=0.5), "value 0.5 cannot be held by int8"),
        (padded(port(1, 1, dtype="bool"), port(1, 2, dtype="bool"), value=2), "value 2.0 cannot be held by bool"),
        (padded(assets=("x",)), "expected no assets"),
    ],
)
def test_what_does_not_fit_is_refused(made: Stage, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        make(made)
