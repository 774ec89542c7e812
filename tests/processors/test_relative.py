from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ashore.errors import ManifestError
from ashore.spec import Stage
from processing import make, port, stage

MASK = [True, False, True]


def moved(
    kind: str = "relative_actions", *, actions: Any = None, state: Any = None, out: Any = None, **params: Any
) -> Stage:
    actions = actions or port("batch", 4, 3)
    inputs = {"actions": actions, "state": state or port("batch", 3)}
    return stage(kind, inputs, {kind.removesuffix("_actions"): out or actions}, **{"mask": MASK} | params)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("horizon", [(), (4,)])
def test_the_state_is_taken_off_the_whole_chunk_where_the_mask_says_so(rows: int, horizon: tuple[int, ...]) -> None:
    generator = np.random.default_rng(0)
    actions = generator.normal(size=(rows, *horizon, 3)).astype(np.float32)
    state = generator.normal(size=(rows, 3)).astype(np.float32)
    made = moved(actions=port("batch", *horizon, 3))
    relative = make(made)({"actions": actions, "state": state})["relative"]
    for index in np.ndindex(actions.shape):
        row, element = index[0], index[-1]
        offset = state[row, element] if MASK[element] else np.float32(0)
        assert relative[index] == actions[index] - offset
    made = moved("absolute_actions", actions=port("batch", *horizon, 3))
    absolute = make(made)({"actions": relative, "state": state})["absolute"]
    np.testing.assert_allclose(absolute, actions, atol=1e-6)
    np.testing.assert_array_equal(absolute[..., 1], actions[..., 1])


@pytest.mark.parametrize("kind", ["relative_actions", "absolute_actions"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mask": [False] * 3}, "the mask is false everywhere, so the stage would touch nothing"),
        ({"mask": [True]}, "mask has 1 entries; expected one for each of the 3 elements of an action"),
        ({"mask": [1, 0, 1]}, "Expected `bool`, got `int`"),
        ({"enabled": True}, "unknown field `enabled`"),
        ({"state": port("batch", 4)}, r"'state' is float32 \['batch', 4\]; expected float32 \['batch', 3\]"),
        ({"state": port(1, 3)}, r"'state' is float32 \[1, 3\]"),
        ({"state": port("batch", 3, dtype="float64")}, "'state' is float64 .* expected float32"),
        ({"actions": port(3)}, r"'actions' has the shape \[3\]; expected \[batch, D\] or \[batch, H, D\]"),
        ({"actions": port("batch", 3, dtype="int8")}, "'actions' is int8 .* expected float32 or float64"),
        ({"out": port("batch", 3)}, r"' is float32 \['batch', 3\]; expected float32 \['batch', 4, 3\]"),
        ({"assets": ("x",)}, "expected no assets"),
    ],
)
def test_what_does_not_fit_is_refused(kind: str, changes: Any, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        make(moved(kind, **changes))
