from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ashore.errors import BackendError, ManifestError
from ashore.runtime import load
from ashore.spec import Stage
from processing import LEROBOT, Arrays, count, make, port, run, stage, write_stage

CHUNKS = LEROBOT["ensemble/chunks"]
ROLES = {"average": "memory", "decided": "counter"}


def ensemble(rows: Any = "batch", horizon: int = 6, dim: int = 2, **changes: Any) -> Stage:
    average, counter = port(rows, horizon - 1, dim), count(changes.pop("counted", rows))
    inputs = {"chunk": port(rows, horizon, dim), "average": average, "decided": counter}
    outputs = {"action": port(rows, dim), "average_next": average, "decided_next": counter}
    params = {"coefficient": 0.01} | changes.pop("params", {})
    inputs, outputs = inputs | changes.pop("inputs", {}), outputs | changes.pop("outputs", {})
    return stage("temporal_ensemble", inputs, outputs, **params)


def empty(rows: int = 3, counters: int = 3) -> Arrays:
    return {"average": np.full((rows, 5, 2), 7, np.float32), "decided": np.zeros(counters, np.int64)}


def averaged(chunks: np.ndarray, coefficient: float, start: int) -> np.ndarray:
    """The average said again in Python: of all that was predicted for a tick since the start, the oldest weighs 1."""
    result = []
    for tick in range(start, len(chunks)):
        said = [chunks[past][tick - past] for past in range(max(start, tick - len(chunks[0]) + 1), tick + 1)]
        weights = [math.exp(-coefficient * index) for index in range(len(said))]
        result.append(sum(w * a.astype(np.float64) for w, a in zip(weights, said, strict=True)) / sum(weights))
    return np.stack(result)


@pytest.mark.parametrize("coefficient", [0.01, -0.3, 0.0])
@pytest.mark.parametrize("counters", [1, 3])
def test_it_is_what_lerobot_computes_to_the_last_bits(coefficient: float, counters: int) -> None:
    made = make(ensemble(counted=1 if counters == 1 else "batch", params={"coefficient": coefficient}))
    seen = run(made, empty(3, counters), [{"chunk": chunk} for chunk in CHUNKS])
    actions = np.stack([result["action"] for result in seen])
    np.testing.assert_allclose(actions, LEROBOT[f"ensemble/{coefficient}"], rtol=0, atol=2.5e-7)


@pytest.mark.parametrize("rows", [1, 3])
def test_every_action_is_the_weighted_average_of_all_that_was_predicted_for_it(rows: int) -> None:
    seen = run(make(ensemble()), empty(rows, rows), [{"chunk": c[:rows]} for c in CHUNKS], {9: slice(None)})
    actions = np.stack([result["action"] for result in seen])
    for row in range(rows):
        np.testing.assert_allclose(actions[:9, row], averaged(CHUNKS[:9, row], 0.01, 0), atol=1e-6)
        np.testing.assert_allclose(actions[9:, row], averaged(CHUNKS[:, row], 0.01, 9), atol=1e-6)


def test_a_row_that_is_reset_alone_starts_alone(tmp_path: Path) -> None:
    policy = load(write_stage(tmp_path / "p", ensemble(), ROLES), batch=3)
    actions = []
    for tick, chunk in enumerate(CHUNKS):
        if tick == 8:
            policy.reset(np.array([False, True, False]))
        actions.append(policy.step({"chunk": chunk})["action"])
    for row, start in ((0, 0), (1, 8), (2, 0)):
        np.testing.assert_allclose(np.stack(actions)[start:, row], averaged(CHUNKS[:, row], 0.01, start), atol=1e-6)


def test_what_lies_in_the_average_after_a_reset_is_not_looked_at() -> None:
    states = empty() | {"average": np.full((3, 5, 2), np.nan, np.float32)}
    (result,) = run(make(ensemble()), states, [{"chunk": CHUNKS[0]}])
    np.testing.assert_array_equal(result["action"], CHUNKS[0][:, 0])
    np.testing.assert_array_equal(result["average_next"], CHUNKS[0][:, 1:])


def test_a_counter_that_no_run_can_have_left_is_told(tmp_path: Path) -> None:
    policy = load(write_stage(tmp_path / "p", ensemble(), ROLES))
    policy.restore({**policy.state(), "decided": np.array([-1])})
    with pytest.raises(BackendError, match=r"decided is \[-1\]; expected 0 to 5"):
        policy.step({"chunk": CHUNKS[0, :1]})


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (ensemble(params={"m": 1}), "unknown field `m`"),
        (ensemble(params={"coefficient": "fast"}), "Expected `float`, got `str` - at `\\$.coefficient`"),
        (ensemble(params={"coefficient": -1e30}), "coefficient -1e\\+30 gives weights that are not finite"),
        (
            ensemble(inputs={"chunk": port("batch", 6)}),
            r"'chunk' has the shape \['batch', 6\]; expected \[batch, H, D\]",
        ),
        (ensemble(inputs={"chunk": port("batch", 1, 2)}), "chunks of one action leave nothing to average"),
        (ensemble(inputs={"chunk": port(2, "batch", 2)}), "expected the batch axis first"),
        (ensemble(inputs={"chunk": port("batch", 6, 2, dtype="float64")}), "'chunk' is float64 .* expected float32"),
        (ensemble(outputs={"action": port("batch", 3)}), r"'action' is float32 \['batch', 3\]; .* \['batch', 2\]"),
        (ensemble(inputs={"average": port("batch", 6, 2)}), r"'average' is .* expected float32 \['batch', 5, 2\]"),
        (ensemble(outputs={"average_next": port(1, 5, 2)}), r"'average_next' is .* expected float32 \['batch', 5, 2\]"),
        (ensemble(counted=6), r"'decided' is int64 \[6\]; expected int64 \['batch'\] or \[1\]"),
        (ensemble(outputs={"more": port(1)}), r"expected the outputs \['action', 'average_next', 'decided_next'\]"),
    ],
)
def test_what_does_not_fit_is_refused(made: Stage, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        make(made)
