"""Chunks that are executed action by action, while observations are remembered all the time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import ashore
from ashore.building import apply
from ashore.errors import InputError, ManifestError, NonFiniteError
from ashore.package import write
from ashore.runtime import Policy
from ashore.spec import ACTION_QUEUE, Runner
from runtime.chunks import DIM, HORIZON, QUEUED, Chunks, pipeline, write_chunks

TICKS = 20


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    return ashore.load(write_chunks(tmp_path / "chunks"))


def ticks(count: int = TICKS, seed: int = 3) -> list[dict[str, np.ndarray]]:
    chance = np.random.default_rng(seed)
    return [
        {
            "state": chance.standard_normal((1, DIM), np.float32),
            "noise": chance.standard_normal((1, HORIZON, DIM), np.float32),
        }
        for _ in range(count)
    ]


def test_actions_come_from_the_queue_and_observations_are_remembered(policy: Policy) -> None:
    reference = Chunks()
    for index, inputs in enumerate(ticks()):
        if index == 7:  # in the middle of a queue
            policy.reset()
            reference.reset()
        np.testing.assert_allclose(policy.step(inputs)["action"], reference.step(**inputs), rtol=1e-6)
    assert reference.decided == 5  # of 13 ticks


def test_what_decides_is_not_run_while_actions_are_left(policy: Policy) -> None:
    first, *others = ticks(QUEUED + 1)
    policy.step(first)
    for inputs in others[:-1]:
        policy.step({**inputs, "noise": np.full((1, HORIZON, DIM), np.nan, np.float32)})  # would be refused
    with pytest.raises(InputError, match=r"step: input 'noise'\[0, 0, 0\] is nan"):
        policy.step({**others[-1], "noise": np.full((1, HORIZON, DIM), np.nan, np.float32)})


def test_a_bad_observation_is_refused_while_actions_are_left_and_changes_nothing(policy: Policy) -> None:
    first, second, *_ = ticks()
    policy.step(first)
    before = policy.state()
    with pytest.raises(InputError, match=r"input 'state'\[0, 0\] is nan"):
        policy.step({**second, "state": np.full((1, DIM), np.nan, np.float32)})
    with pytest.raises(InputError, match="input 'state' is missing"):
        policy.step({"noise": second["noise"]})
    assert policy.state() == before


def test_the_queue_is_a_state_that_can_be_saved_and_restored(policy: Policy) -> None:
    inputs = ticks()
    for one in inputs[:4]:
        policy.step(one)
    saved = policy.state()
    assert int(saved["action_queue.action.left"][0]) == 2
    expected = [policy.step(one)["action"] for one in inputs[4:]]
    policy.restore(saved)
    assert policy.state() == saved
    found = [policy.step(one)["action"] for one in inputs[4:]]
    np.testing.assert_array_equal(found, expected)


def test_a_queue_that_is_longer_than_itself_is_refused(policy: Policy) -> None:
    before = policy.state()
    with pytest.raises(InputError, match=r"'action_queue\.action\.left' is 9; the queue holds 0 to 3 actions"):
        policy.restore({**before, "action_queue.action.left": np.array([9], np.int64)})
    assert policy.state() == before


def test_an_action_is_the_callers_own(policy: Policy) -> None:
    first, second, *_ = ticks()
    policy.step(first)["action"][...] = 1e9
    assert np.abs(policy.step(second)["action"]).max() < 1e3


def test_a_decision_that_fails_leaves_no_action_behind(policy: Policy) -> None:
    huge = {"state": np.full((1, DIM), 3e38, np.float32), "noise": np.zeros((1, HORIZON, DIM), np.float32)}
    before = policy.state()
    with pytest.raises(NonFiniteError):
        policy.step(huge)
    assert policy.state() == before


def test_a_chunk_can_be_had_without_touching_the_queue(policy: Policy) -> None:
    first, second, third, *_ = ticks()
    one = policy.step(first)["action"]
    chunk = policy.predict_action_chunk({"state": second["state"]}, noise=second["noise"])
    assert chunk.shape == (1, HORIZON, DIM)
    seen = 10.0 * (first["state"] + second["state"])
    np.testing.assert_allclose(chunk, seen[:, None] + second["noise"], rtol=1e-5)
    np.testing.assert_allclose(
        policy.step(third)["action"] - one, (first["noise"][:, 1] - first["noise"][:, 0]), atol=1e-4
    )


def test_rows_of_a_queue_cannot_be_reset_one_by_one(policy: Policy) -> None:
    with pytest.raises(InputError, match="has no batch axis, so its rows cannot be reset one by one"):
        policy.reset(rows=np.array([True]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"runner": Runner(type="action_queue", params={"n": 3})},
            "needs one stage that is such a processor, no params",
        ),
        ({"runner": Runner(type="replan")}, "has no runner 'replan', only 'single_pass' and 'action_queue'"),
    ],
)
def test_a_runner_that_does_not_fit_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    package = write_chunks(tmp_path / "chunks")
    manifest = msgspec.structs.replace(package.manifest, **change)
    files = {path: package.read(path) for path in manifest.files if path.endswith(".onnx")}
    other = write(tmp_path / "other", manifest, files=files, initial=package.initial_state())
    with pytest.raises(ManifestError, match=message):
        ashore.load(other)


def test_a_queue_without_its_runner_computes_the_same(tmp_path: Path) -> None:
    """The stage says all of it; the runner only leaves out what nobody looks at."""
    package = write_chunks(tmp_path / "chunks")
    manifest = msgspec.structs.replace(package.manifest, runner=Runner())
    files = {path: package.read(path) for path in manifest.files if path.endswith(".onnx")}
    plain = ashore.load(write(tmp_path / "plain", manifest, files=files, initial=package.initial_state()))
    queued = ashore.load(package)
    for index, inputs in enumerate(ticks()):
        if index == 8:
            plain.reset()
            queued.reset()
        np.testing.assert_array_equal(plain.step(inputs)["action"], queued.step(inputs)["action"])
        for name, value in plain.state().items():
            np.testing.assert_array_equal(queued.state()[name], value)


def test_other_outputs_beside_a_queue_are_refused(tmp_path: Path) -> None:
    made = pipeline()
    made.add_output("chunk", "action")
    apply(made, {"type": "action_queue", "features": ["action"], "n_action_steps": QUEUED})
    made.add_output("action", "action")
    manifest = made.manifest("two", Runner(type=ACTION_QUEUE))
    package = write(tmp_path / "two", manifest, files=made.files, initial=made.initial)
    with pytest.raises(ManifestError, match=r"all outputs come from the queue, got \['action', 'chunk'\]"):
        ashore.load(package)
