"""Observations as robots have them: without a batch axis, with texts, without noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ashore
from ashore.errors import InputError
from ashore.package import Package, write
from ashore.runtime import Policy
from ashore.spec import Runner
from runtime.chunks import DIM, HORIZON, pipeline, write_chunks, write_text


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    return ashore.load(write_chunks(tmp_path / "chunks"))


@pytest.fixture
def reader(tmp_path: Path) -> Policy:
    return ashore.load(write_text(tmp_path / "text"))


STATE = np.array([0.5, -1.0], np.float32)
NOISE = np.arange(HORIZON * DIM, dtype=np.float32).reshape(1, HORIZON, DIM)


def test_an_observation_without_a_batch_axis_gives_actions_without_one(policy: Policy) -> None:
    with_axis = policy.predict_action_chunk({"state": STATE[None]}, noise=NOISE)
    policy.reset()
    without = policy.predict_action_chunk({"state": STATE}, noise=NOISE)
    assert (with_axis.shape, without.shape) == ((1, HORIZON, DIM), (HORIZON, DIM))
    np.testing.assert_array_equal(with_axis[0], without)
    policy.reset()
    actions = [policy.select_action({"state": STATE}, noise=NOISE) for _ in range(3)]
    np.testing.assert_array_equal(actions, without[:3])


def test_a_seed_gives_the_same_actions_and_no_seed_gives_others(policy: Policy) -> None:
    def act(seed: int | None) -> np.ndarray:
        policy.reset()
        return policy.select_action({"state": STATE}, seed=seed)

    np.testing.assert_array_equal(act(4), act(4))
    assert np.abs(act(4) - act(5)).max() > 1e-3
    assert np.abs(act(None) - act(None)).max() > 1e-3


def test_noise_is_standard_normal(policy: Policy) -> None:
    chunks = [policy.predict_action_chunk({"state": np.zeros(DIM, np.float32)}, seed=seed) for seed in range(500)]
    assert np.mean(chunks) == pytest.approx(0.0, abs=0.06)
    assert np.std(chunks) == pytest.approx(1.0, abs=0.05)


def test_noise_and_a_seed_are_one_too_many(policy: Policy) -> None:
    with pytest.raises(InputError, match="select_action: give noise or a seed, not both"):
        policy.select_action({"state": STATE}, noise=NOISE, seed=1)


def test_noise_of_another_shape_is_refused(policy: Policy) -> None:
    with pytest.raises(InputError, match=r"input 'noise': expected shape \[1, 4, 2\], got \[1, 3, 2\]"):
        policy.select_action({"state": STATE}, noise=NOISE[:, :3])


def test_noise_that_nothing_takes_is_refused(sum_package: Package) -> None:
    with pytest.raises(InputError, match="expected no noise, since nothing takes it"):
        ashore.load(sum_package).select_action({"x": np.zeros((1, 3), np.float32)}, noise=NOISE)


def test_steps_that_nothing_takes_are_refused(sum_package: Package) -> None:
    with pytest.raises(InputError, match="num_steps: this policy generates nothing in steps"):
        ashore.load(sum_package).predict_action_chunk({"x": np.zeros((1, 3), np.float32)}, num_steps=3)


@pytest.mark.parametrize("name", ["stat", "action"])
def test_names_are_checked_as_in_a_step(policy: Policy, name: str) -> None:
    with pytest.raises(InputError, match=f"input '{name}' is unknown"):
        policy.select_action({"state": STATE[None], name: STATE[None]}, noise=NOISE)


def test_several_outputs_have_to_be_asked_for_by_name(tmp_path: Path) -> None:
    made = pipeline()
    made.add_output("chunk", "action")
    made.add_output("again", "action")
    package = write(tmp_path / "two", made.manifest("two", Runner()), files=made.files, initial=made.initial)
    with pytest.raises(InputError, match=r"has the outputs \['again', 'chunk'\]; use step, which gives them by name"):
        ashore.load(package).select_action({"state": STATE}, seed=1)


def test_texts_are_taken_row_by_row(reader: Policy) -> None:
    state = np.zeros((2, 2), np.float32)
    action = reader.select_action({"task": ["ab", "é"], "state": state})
    assert action[:, 0].tolist() == [sum(b"ab"), sum("é".encode())]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("one", r"select_action: 'task': expected 2 texts, got 1"),
        (["a", "b" * 17], r"'task'\[1\]: expected at most 16 bytes of UTF-8, got 17"),
        (["a", "b\0c"], r"'task'\[1\]: expected text without the character 0"),
    ],
)
def test_texts_that_do_not_fit_are_refused(reader: Policy, task: str | list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        reader.select_action({"task": task, "state": np.zeros((2, 2), np.float32)})


def test_rows_are_never_made_up(reader: Policy) -> None:
    with pytest.raises(InputError, match=r"'state' has no batch axis; expected \[2, 2\]"):
        reader.select_action({"task": ["a", "b"], "state": np.zeros(2, np.float32)})
