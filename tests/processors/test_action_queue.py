from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ashore.errors import BackendError, ManifestError
from ashore.runtime import load
from ashore.spec import Stage
from processing import Arrays, count, make, port, run, stage, write_stage

ROLES = {"queue": "memory", "left": "counter"}
CHUNKS = np.random.default_rng(5).normal(size=(12, 3, 5, 2)).astype(np.float32)


def queued(rows: Any = "batch", n: int = 3, **changes: Any) -> Stage:
    queue, counter = port(rows, n, 2), count(changes.pop("counted", rows))
    inputs = {"chunk": port(rows, 5, 2), "queue": queue, "left": counter} | changes.pop("inputs", {})
    outputs = {"action": port(rows, 2), "queue_next": queue, "left_next": counter} | changes.pop("outputs", {})
    return stage("action_queue", inputs, outputs, **changes)


def empty(rows: int = 3, n: int = 3, counters: int = 3) -> Arrays:
    return {"queue": np.zeros((rows, n, 2), np.float32), "left": np.zeros(counters, np.int64)}


def executed(row: int, resets: list[int], n: int) -> list[np.ndarray]:
    """What a queue of Python gives: it takes n actions whenever it is empty, and is emptied by a reset."""
    waiting: list[np.ndarray] = []
    actions = []
    for tick, chunk in enumerate(CHUNKS):
        if tick in resets or not waiting:
            waiting = list(chunk[row][:n])
        actions.append(waiting.pop(0))
    return actions


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("n", [1, 3, 5])
@pytest.mark.parametrize("shared", [True, False])
def test_a_chunk_is_executed_before_the_next_is_looked_at(rows: int, n: int, shared: bool) -> None:
    made = make(queued(n=n, counted=1 if shared else "batch"))
    inputs = [{"chunk": chunk[:rows]} for chunk in CHUNKS]
    seen = run(made, empty(rows, n, 1 if shared else rows), inputs, {7: slice(None)})
    for row in range(rows):
        np.testing.assert_array_equal([result["action"][row] for result in seen], executed(row, [7], n))
    assert [int(result["left_next"][0]) for result in seen[:4]] == [(n - 1 - tick) % n for tick in range(4)]


@given(st.integers(1, 5), st.lists(st.sets(st.integers(0, 11)), min_size=3, max_size=3))
def test_rows_run_out_by_themselves(n: int, resets: list[set[int]]) -> None:
    rows = {tick: [row for row in range(3) if tick in resets[row]] for tick in range(12)}
    seen = run(make(queued(n=n)), empty(n=n), [{"chunk": chunk} for chunk in CHUNKS], rows)
    for row in range(3):
        np.testing.assert_array_equal([r["action"][row] for r in seen], executed(row, sorted(resets[row]), n))


def test_while_something_is_left_the_chunk_may_be_anything() -> None:
    chunks = [CHUNKS[0], *(np.full_like(CHUNKS[0], np.nan),) * 2]
    seen = run(make(queued()), empty(), [{"chunk": chunk} for chunk in chunks])
    np.testing.assert_array_equal(np.stack([r["action"] for r in seen], axis=1), CHUNKS[0][:, :3])


def test_the_runtime_keeps_the_queue_and_resets_rows(tmp_path: Path) -> None:
    policy = load(write_stage(tmp_path / "p", queued(), ROLES), batch=3)
    actions = []
    for tick, chunk in enumerate(CHUNKS):
        if tick == 4:
            policy.reset(np.array([True, False, False]))
        actions.append(policy.step({"chunk": chunk})["action"])
    for row, resets in ((0, [4]), (1, []), (2, [])):
        np.testing.assert_array_equal([action[row] for action in actions], executed(row, resets, 3))


def test_a_counter_that_no_run_can_have_left_is_told(tmp_path: Path) -> None:
    policy = load(write_stage(tmp_path / "p", queued(), ROLES))
    policy.restore({**policy.state(), "left": np.array([4])})
    with pytest.raises(BackendError, match=r"left is \[4\]; expected 0 to 3"):
        policy.step({"chunk": CHUNKS[0, :1]})


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (queued(steps=3), "unknown field `steps`"),
        (queued(n=6), "'queue' holds 6 actions; expected at most the 5 of 'chunk'"),
        (queued(inputs={"chunk": port("batch", 2)}), r"'chunk' has the shape \['batch', 2\]; expected \[batch, H, D\]"),
        (queued(inputs={"queue": port("batch", 2)}), r"'queue' has the shape \['batch', 2\]; expected \[batch, n, D\]"),
        (
            queued(inputs={"chunk": port("batch", 5, 2, dtype="int32")}),
            "'chunk' is int32 .* expected float32 or float64",
        ),
        (queued(inputs={"chunk": port("batch", 5, 3)}), r"'queue' is .* expected float32 \['batch', 3, 3\]"),
        (queued(inputs={"queue": port(1, 3, 2)}), r"'queue' is .* expected float32 \['batch', 3, 2\]"),
        (queued(outputs={"queue_next": port("batch", 2, 2)}), r"'queue_next' is .* expected float32 \['batch', 3, 2\]"),
        (queued(outputs={"action": port("batch", 1, 2)}), r"'action' is .* expected float32 \['batch', 2\]"),
        (queued(counted=3), r"'left' is int64 \[3\]; expected int64 \['batch'\] or \[1\]"),
        (queued(inputs={"queue": port(5, "batch", 2)}), "expected the batch axis first"),
        (queued(assets=("x",)), "expected no assets"),
    ],
)
def test_what_does_not_fit_is_refused(made: Stage, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        make(made)
