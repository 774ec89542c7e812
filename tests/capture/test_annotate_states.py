"""The annotate door: declared and found states, and outputs that are fed back."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from doors import DeclaredStates, Script, export_annotated, names_of, worst_error

import ashore
from ashore import (
    InferenceManager,
    annotate,
)
from ashore.errors import InputError
from ashore.package import read

pytestmark = pytest.mark.usefixtures("session_closed")


def test_declared_states_are_states_with_their_values_at_the_start(tmp_path: Path) -> None:
    path = export_annotated(DeclaredStates, tmp_path)
    policy = ashore.load(path)
    assert {name: state.dtype for name, state in policy.states.items()} == {"filtered": "float32", "count": "int64"}
    assert all(state.reset == "initial" for state in policy.states.values())
    np.testing.assert_array_equal(policy.state()["filtered"], np.full((1, 4), 0.5, np.float32))
    assert worst_error(DeclaredStates, path) <= 1e-6


def test_declared_states_are_exact_without_a_recorded_reset(tmp_path: Path) -> None:
    path = export_annotated(DeclaredStates, tmp_path, steps=4, resets=())
    assert worst_error(DeclaredStates, path) <= 1e-6


def test_declared_states_are_exact_from_a_single_step(tmp_path: Path) -> None:
    path = export_annotated(DeclaredStates, tmp_path, steps=1, resets=())
    assert worst_error(DeclaredStates, path) <= 1e-6


class WrittenInPlace(Script):
    """A declared state that the step writes, without update_state."""

    def __init__(self) -> None:
        self.history = torch.zeros(1, 3, 4)

    def reset(self) -> None:
        self.history.zero_()

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x = annotate.input_tensors("policy", {"x": given["x"]})
        history = annotate.state_tensors("policy", {"history": self.history})
        history[:, :-1] = history[:, 1:].clone()
        history[:, -1] = x
        y = history.sum(dim=1)
        annotate.output_tensors("policy", {"y": y})
        return {"y": y}


def test_a_declared_state_that_is_written_in_place_needs_no_update(tmp_path: Path) -> None:
    path = export_annotated(WrittenInPlace, tmp_path)
    assert list(ashore.load(path).states) == ["history"]
    assert worst_error(WrittenInPlace, path) <= 1e-6


class Buffers(Script):
    """Named buffers: one is a constant, one becomes a state."""

    def __init__(self) -> None:
        self.offset = torch.arange(4.0)
        self.last = torch.zeros(1, 4)

    def reset(self) -> None:
        self.last.zero_()

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x = annotate.input_tensors("policy", {"x": given["x"]})
        annotate.register_buffer("policy", {"pose_offset": self.offset, "last_target": self.last})
        y = x + self.offset + 0.5 * self.last
        self.last[:] = y
        annotate.output_tensors("policy", {"y": y})
        return {"y": y}


def test_registered_buffers_become_what_the_code_does_with_them(tmp_path: Path) -> None:
    path = export_annotated(Buffers, tmp_path)
    manifest = read(path).manifest
    assert list(manifest.states) == ["last_target"]
    assert worst_error(Buffers, path) <= 1e-6


class Normaliser(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(1, 4))
        self.register_buffer("scale", torch.full((1, 4), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean.mul_(0.9).add_(x, alpha=0.1)  # a statistic that lives on
        return (x - self.mean) * self.scale


class WithModule(Script):
    def __init__(self) -> None:
        self.model = Normaliser().eval()

    def reset(self) -> None:
        self.model.mean.zero_()

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x = annotate.input_tensors("policy", {"x": given["x"]})
        annotate.module("policy", self.model, buffer_names=["mean"])
        y = self.model(x)
        annotate.output_tensors("policy", {"y": y})
        return {"y": y}


def test_a_buffer_of_a_module_that_changes_is_a_state(tmp_path: Path) -> None:
    path = export_annotated(WithModule, tmp_path)
    assert list(ashore.load(path).states) == ["mean"]
    assert worst_error(WithModule, path) <= 1e-6


def test_a_buffer_that_a_module_does_not_have_is_refused(tmp_path: Path) -> None:
    ashore.start("made", save_path=tmp_path)
    annotate.input_tensors("policy", {"x": torch.zeros(1, 4)})
    with pytest.raises(InputError, match="there is no buffer 'meen'; did you mean 'mean'"):
        annotate.module("policy", Normaliser(), ["meen"])


# --- feedback --------------------------------------------------------------------------------------------------------


class Feedback(Script):
    """What a node gave is passed to it again in the next step."""

    def __init__(self) -> None:
        self.net = torch.nn.Linear(6, 2)
        self.reset()

    def reset(self) -> None:
        self.action = torch.zeros(1, 2)

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x, last = annotate.input_tensors("policy", {"x": given["x"], "last_action": self.action})
        self.action = torch.tanh(self.net(torch.cat((x, last), dim=-1)))
        annotate.output_tensors("policy", {"action": self.action})
        return {"action": self.action}


def test_an_output_that_is_fed_back_is_a_state_and_stays_an_output(tmp_path: Path) -> None:
    path = export_annotated(Feedback, tmp_path)
    assert names_of(path) == (["x"], ["action"])
    manager = InferenceManager(path)
    assert manager.feedback_inputs == ["policy/last_action"]
    assert worst_error(Feedback, path) <= 1e-6


class FeedbackAcross(Script):
    """What the second node gave is passed to the first in the next step."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.action = torch.ones(1, 4)

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x, last = annotate.input_tensors("observe", {"x": given["x"], "last": self.action})
        obs = x + last * 0.5
        annotate.output_tensors("observe", {"obs": obs})
        obs = annotate.input_tensors("act", {"obs": obs})
        self.action = torch.sin(obs)
        annotate.output_tensors("act", {"action": self.action})
        return {"action": self.action}


def test_feedback_across_nodes_is_a_state(tmp_path: Path) -> None:
    path = export_annotated(FeedbackAcross, tmp_path)
    assert names_of(path) == (["x"], ["action"])
    assert InferenceManager(path).feedback_inputs == ["observe/last"]
    assert worst_error(FeedbackAcross, path) <= 1e-6


class Simulated(Script):
    """What happens to an output between two steps is the world's doing, even where torch computes it."""

    inputs: ClassVar = {"x": (1, 4), "q": (1, 4)}

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x, q = annotate.input_tensors("policy", {"x": given["x"], "q": given["q"]})
        action = torch.tanh(x - q)
        annotate.output_tensors("policy", {"action": action})
        return {"action": action}


def test_an_input_that_is_computed_from_an_output_between_steps_stays_an_input(tmp_path: Path) -> None:
    ashore.start("made", save_path=tmp_path)
    code, generator, q = Simulated(), torch.Generator().manual_seed(1), torch.zeros(1, 4)
    for step in range(6):
        if step == 3:
            annotate.reset()
            q = torch.zeros(1, 4)
        action = code.step({"x": torch.randn(1, 4, generator=generator), "q": q})["action"]
        q = q + action * 0.02
    ashore.stop()
    ashore.compile_graph(visualize=False, summary=False)
    assert names_of(tmp_path / "made") == (["x", "q"], ["action"])
    assert read(tmp_path / "made").manifest.states == {}
    assert worst_error(Simulated, tmp_path / "made") <= 1e-6


# --- lazy ------------------------------------------------------------------------------------------------------------


class Lazy(Script):
    """A hidden state that begins with the first step."""

    def __init__(self) -> None:
        self.cell = torch.nn.GRUCell(4, 4)
        self.hidden: torch.Tensor | None = None

    def reset(self) -> None:
        self.hidden = None

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x = annotate.input_tensors("policy", {"x": given["x"]})
        self.hidden = self.cell(x, self.hidden)
        annotate.output_tensors("policy", {"y": self.hidden})
        return {"y": self.hidden}


def test_a_hidden_state_that_is_created_lazily_is_a_state(tmp_path: Path) -> None:
    path = export_annotated(Lazy, tmp_path)
    assert len(ashore.load(path).states) == 1
    assert worst_error(Lazy, path) <= 1e-6
