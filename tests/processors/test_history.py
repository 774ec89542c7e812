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
from processing import count, make, port, run, stage, write_stage


def stacked(
    rows: Any = "batch", frame: tuple[int, ...] = (2,), n: int = 3, dtype: str = "float32", **changes: Any
) -> Stage:
    window = port(rows, n, *frame, dtype=dtype)
    counter = count(changes.pop("counted", rows))
    ports = {"frame": port(rows, *frame, dtype=dtype), "window": window, "filled": counter}
    return stage(
        "history", ports | changes.pop("inputs", {}), {"window_next": window, "filled_next": counter}, **changes
    )


def frames(rows: int, ticks: int, *shape: int) -> list[dict[str, np.ndarray]]:
    generator = np.random.default_rng(3)
    return [{"frame": generator.normal(size=(rows, *shape)).astype(np.float32)} for _ in range(ticks)]


def expected(inputs: list[dict[str, np.ndarray]], row: int, resets: list[int], n: int) -> list[np.ndarray]:
    """Per tick the last n frames of an episode of one row, the first of them repeated where there are fewer."""
    windows: list[np.ndarray] = []
    for tick in range(len(inputs)):
        start = max([reset for reset in resets if reset <= tick], default=0)
        windows.append(np.stack([inputs[max(start, tick - back)]["frame"][row] for back in range(n - 1, -1, -1)]))
    return windows


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("shape", [(), (2,), (3, 4, 5)])
def test_the_window_starts_with_copies_of_the_first_frame_also_after_a_reset(rows: int, shape: tuple[int, ...]) -> None:
    inputs = frames(rows, 8, *shape)
    states = {"window": np.full((rows, 3, *shape), 9, np.float32), "filled": np.zeros(rows, np.int64)}
    seen = run(make(stacked(frame=shape)), states, inputs, {5: slice(None)})
    for row in range(rows):
        for window, result in zip(expected(inputs, row, [0, 5], 3), seen, strict=True):
            np.testing.assert_array_equal(result["window_next"][row], window)
    assert [result["filled_next"][0] for result in seen] == [1, 2, 3, 3, 3, 1, 2, 3]


def test_rows_that_are_reset_alone_are_filled_alone() -> None:
    inputs, resets = frames(3, 9, 2), {4: [1], 6: [0, 2]}
    states = {"window": np.zeros((3, 4, 2), np.float32), "filled": np.zeros(3, np.int64)}
    seen = run(make(stacked(n=4)), states, inputs, resets)
    for row, starts in ((0, [6]), (1, [4]), (2, [6])):
        for window, result in zip(expected(inputs, row, starts, 4), seen, strict=True):
            np.testing.assert_array_equal(result["window_next"][row], window)


def test_one_counter_may_serve_all_rows() -> None:
    inputs = frames(3, 4, 2)
    states = {"window": np.zeros((3, 2, 2), np.float32), "filled": np.zeros(1, np.int64)}
    seen = run(make(stacked(n=2, counted=1)), states, inputs)
    for row in range(3):
        for window, result in zip(expected(inputs, row, [], 2), seen, strict=True):
            np.testing.assert_array_equal(result["window_next"][row], window)


@given(st.integers(1, 5), st.sets(st.integers(0, 9)), st.integers(1, 3))
def test_a_window_holds_the_last_frames_of_its_episode(n: int, resets: set[int], rows: int) -> None:
    inputs = frames(rows, 10)
    states = {"window": np.zeros((rows, n), np.float32), "filled": np.zeros(rows, np.int64)}
    seen = run(make(stacked(frame=(), n=n)), states, inputs, dict.fromkeys(resets, slice(None)))
    for window, result in zip(expected(inputs, 0, sorted(resets), n), seen, strict=True):
        np.testing.assert_array_equal(result["window_next"][0], window)


def test_the_runtime_keeps_the_window_and_resets_rows(tmp_path: Path) -> None:
    policy = load(write_stage(tmp_path / "p", stacked(), {"window": "history", "filled": "counter"}), batch=3)
    inputs = frames(3, 6, 2)
    for tick, given_now in enumerate(inputs):
        if tick == 4:
            policy.reset(np.array([False, True, False]))
        result = policy.step(given_now)
        for row, starts in ((0, [0]), (1, [4]), (2, [0])):
            np.testing.assert_array_equal(result["window_next"][row], expected(inputs, row, starts, 3)[tick])


def test_a_counter_that_no_run_can_have_left_is_told_and_changes_nothing(tmp_path: Path) -> None:
    policy = load(write_stage(tmp_path / "p", stacked(), {"window": "history", "filled": "counter"}))
    policy.restore({**policy.state(), "filled": np.array([7])})
    with pytest.raises(BackendError, match=r"filled is \[7\]; expected 0 to 3"):
        policy.step(frames(1, 1, 2)[0])
    assert policy.state()["filled"] == 7


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (stacked(colour=1), "here: params: Object contains unknown field `colour`"),
        (stacked(assets=("a",)), r"here: expected no assets, got \['a'\]"),
        (stacked(inputs={"frames": port(1)}), r"expected the inputs \['filled', 'frame', 'window'\], got .*'frames'"),
        (stacked(inputs={"frame": port()}), r"'frame' has the shape \[\]; expected \[batch\]"),
        (
            stacked(inputs={"window": port("batch", 3)}),
            r"'window' has the shape \['batch', 3\]; .*\[batch, n, frame\[1\]",
        ),
        (stacked(inputs={"window": port(3, "batch", 2)}), r"\[3, 'batch', 2\]; expected the batch axis first"),
        (
            stacked(inputs={"window": port(1, 3, 2)}),
            r"'window' is float32 \[1, 3, 2\]; expected float32 \['batch', 3, 2\]",
        ),
        (stacked(inputs={"window": port("batch", 4, 2)}), r"'window_next' is .* expected float32 \['batch', 4, 2\]"),
        (stacked(inputs={"frame": port("batch", 2, dtype="uint8")}), "'window' is float32 .* expected uint8"),
        (stacked(counted=2), r"'filled' is int64 \[2\]; expected int64 \['batch'\] or \[1\]"),
        (stacked(inputs={"filled": port("batch")}), "'filled' is float32 .* expected int64"),
        (stacked(inputs={"filled": count(1)}), r"'filled_next' is int64 \['batch'\]; expected int64 \[1\]"),
    ],
)
def test_ports_that_do_not_fit_are_refused(made: Stage, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        make(made)
