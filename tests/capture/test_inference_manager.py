"""InferenceManager: a package under the names that scripts written for LEAPP use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from doors import DeclaredStates, Shared, draw, export_annotated

from ashore import (
    InferenceManager,
)
from ashore.errors import InputError, PackageError

pytestmark = pytest.mark.usefixtures("session_closed")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_annotated(Shared, tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_annotated(DeclaredStates, tmp_path_factory.mktemp("filtered"))


@pytest.mark.parametrize("spelling", ["made", "made/made.yaml", "made/other.yml"])
def test_the_manager_opens_a_folder_or_the_yaml_that_would_be_in_it(filtered: Path, spelling: str) -> None:
    manager = InferenceManager(filtered.parent / spelling)
    assert manager.inputs == ["policy/x"]
    assert manager.outputs == ["policy/y"]
    assert sorted(manager.feedback_inputs) == ["policy/count", "policy/filtered"]


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("key", ["policy/x", "x"])
@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_the_manager_gives_what_the_code_gives(filtered: Path, key: str, kind: str, as_text: bool) -> None:
    manager = InferenceManager(str(filtered) if as_text else filtered)
    code, generator = DeclaredStates(), torch.Generator().manual_seed(3)
    for step in range(20):
        if step == 8:
            manager.reset()
            code.reset()
        given = draw(DeclaredStates, generator)
        before = given["x"].clone()
        got = manager({key: given["x"]}) if kind == "torch" else manager.run_policy({key: given["x"].numpy()})
        assert list(got) == ["policy/y"]
        assert isinstance(got["policy/y"], torch.Tensor if kind == "torch" else np.ndarray)
        np.testing.assert_allclose(np.asarray(got["policy/y"]), code.step(given)["y"].numpy(), atol=1e-6)
        assert torch.equal(given["x"], before)


def test_an_input_that_was_set_is_used_once(filtered: Path) -> None:
    manager, direct = InferenceManager(filtered), InferenceManager(filtered)
    manager.set_input_value("policy", "x", torch.full((1, 4), 2.0))
    got = manager({})["policy/y"]
    wanted = direct({"x": np.full((1, 4), 2.0, np.float32)})["policy/y"]
    np.testing.assert_array_equal(np.asarray(got), wanted)
    with pytest.raises(InputError, match="'x' is missing"):
        manager({})


def test_a_state_that_was_set_is_what_the_next_step_starts_with(filtered: Path) -> None:
    manager = InferenceManager(filtered)
    manager.set_input_value("policy", "filtered", torch.full((1, 4), 10.0))
    got = manager({"policy/x": torch.zeros(1, 4)})["policy/y"]
    torch.testing.assert_close(got, torch.full((1, 4), 9.0))
    manager.reset()
    got = manager({"policy/x": torch.zeros(1, 4)})["policy/y"]
    torch.testing.assert_close(got, torch.full((1, 4), 0.45))


def test_mock_inputs_can_be_run(filtered: Path, shared: Path) -> None:
    for path in (filtered, shared):
        manager = InferenceManager(path)
        mock = manager.get_mock_input()
        assert list(mock) == manager.inputs
        assert all(isinstance(value, torch.Tensor) for value in mock.values())
        assert list(manager(mock)) == manager.outputs


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "'x' is missing"),
        ({"policy/z": torch.zeros(1, 4)}, "'policy/z' is unknown; did you mean 'policy/x'"),
        ({"x": torch.zeros(4)}, r"expected shape \[1, 4\], got \[4\]"),
        ({"x": torch.zeros(1, 4, dtype=torch.float64)}, "expected dtype float32, got float64"),
        ({"x": torch.full((1, 4), float("nan"))}, "is nan; expected finite"),
        ({"x": [[0.0] * 4]}, "expected a numpy array"),
        ({"x": torch.zeros(1, 4), "policy/x": torch.zeros(1, 4)}, "twice"),
    ],
)
def test_the_manager_refuses_what_does_not_fit_and_keeps_its_state(filtered: Path, given: Any, message: str) -> None:
    manager = InferenceManager(filtered)
    manager({"x": torch.ones(1, 4)})
    before = manager.policy.state()
    with pytest.raises(InputError, match=message):
        manager(given)
    assert manager.policy.state() == before


def test_the_manager_refuses_to_set_what_there_is_not(filtered: Path) -> None:
    manager = InferenceManager(filtered)
    with pytest.raises(InputError, match="'policy/z' is unknown"):
        manager.set_input_value("policy", "z", torch.zeros(1))
    with pytest.raises(InputError, match="shape"):
        manager.set_input_value("policy", "filtered", torch.zeros(1))


def test_the_manager_takes_shared_ports_by_node(shared: Path) -> None:
    manager = InferenceManager(shared)
    assert manager.inputs == ["left/x", "left/gain", "right/x"]
    x = torch.ones(1, 4)
    got = manager({"left/x": x, "right/x": x * 2.0, "left/gain": torch.full((1, 1), 3.0)})
    torch.testing.assert_close(got["left/y"], torch.sin(x) * 3.0)
    torch.testing.assert_close(got["right/y"], torch.cos(x * 2.0))


def test_the_manager_says_what_is_wrong_with_a_path(tmp_path: Path) -> None:
    with pytest.raises(PackageError):
        InferenceManager(tmp_path / "missing")
    with pytest.raises(PackageError, match="there is no package"):
        InferenceManager(tmp_path / "missing.yaml")
    (tmp_path / "theirs.yaml").write_text("models: {}\n")
    with pytest.raises(PackageError, match="written by LEAPP; use ashore convert --from leapp"):
        InferenceManager(tmp_path / "theirs.yaml")
