"""What to call captured tensors: ``self.robot.data.joint_pos`` is kept as the state ``joint_pos``."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ashore.capture.alive import alive
from ashore.capture.lines import Line
from ashore.capture.naming import owned_tensors, spoken, state_name, unique
from ashore.capture.tape import Capture
from ashore.capture.tensors import place_of


def captured(tensor: torch.Tensor, path: str | None, line: Line) -> Capture:
    return Capture(0, tensor, tensor, 0, line, path, False, place_of(tensor))


@pytest.mark.parametrize(
    ("tensor", "path", "words"),
    [
        (torch.zeros(1, 3), "self.q", "self.q (float32 1x3)"),
        (torch.zeros(7, dtype=torch.int64), "q", "q (int64 7)"),
        (torch.tensor(True), "self.on", "self.on (bool scalar)"),
        (torch.zeros(2, 0), "self.none", "self.none (float32 2x0)"),
    ],
)
def test_a_message_names_a_tensor_by_its_path_and_what_it_is(tensor: torch.Tensor, path: str, words: str) -> None:
    assert spoken(captured(tensor, path, Line("missing.py", 1))) == words


def test_a_tensor_without_a_path_is_named_by_the_line_that_reads_it(tmp_path: Path) -> None:
    (tmp_path / "walk.py").write_text("def step(x):\n    return x * gains()\n")
    line = Line(str(tmp_path / "walk.py"), 2)
    assert spoken(captured(torch.zeros(3), None, line)) == "a tensor in `return x * gains()` (float32 3)"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("self.robot.data.joint_pos", "joint_pos"),
        ("hidden", "hidden"),
        ("self._last_action", "last_action"),
        ("self.__smooth__", "smooth"),
        ("self.frames[1]", "frames_1"),
        ("self.frames[1][0]", "frames_1_0"),
        ("self.buffers['left']", "buffers_left"),
        ("self.buffers['left'].data", "data"),
        ("self.buffers['left'][3]", "buffers_left_3"),
        ("['left']", "left"),
        ("self._", "state"),
        ("", "state"),
        (None, "state"),
    ],
)
def test_a_state_is_called_by_the_last_part_of_its_path(path: str | None, name: str) -> None:
    assert state_name(path, ()) == name


def test_a_state_whose_name_is_taken_has_a_number() -> None:
    assert state_name("self.left.q", ["q"]) == "q_2"
    assert state_name(None, ["state", "state_2"]) == "state_3"


@pytest.mark.parametrize(
    ("taken", "name"), [((), "q"), (("p",), "q"), (("q",), "q_2"), (("q", "q_2", "q_4"), "q_3"), (("q_2",), "q")]
)
def test_a_name_is_unique_by_the_lowest_number_that_is_free(taken: tuple[str, ...], name: str) -> None:
    assert unique("q", taken) == name
    assert unique("q", iter(taken)) == name


class Policy(torch.nn.Module):
    """A module within which there are others."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 3, bias=False), torch.nn.BatchNorm1d(3))
        self.std = torch.nn.Parameter(torch.ones(3))
        self.shared = self.net[0].weight
        self.register_buffer("nothing", None)
        self.plain = [torch.zeros(2)]


def test_parameters_and_buffers_are_owned_by_the_outermost_module() -> None:
    policy = Policy()
    owned = owned_tensors(alive(torch.nn.Module))
    assert owned[id(policy.std)] == "Policy.std"
    assert owned[id(policy.net[1].running_mean)] == "Policy.net.1.running_mean"
    assert owned[id(policy.net[1].weight)] == "Policy.net.1.weight"
    assert id(policy.plain[0]) not in owned


def test_a_parameter_that_is_shared_has_its_first_name() -> None:
    policy = Policy()
    assert owned_tensors(alive(torch.nn.Module))[id(policy.net[0].weight)] == "Policy.shared"


def test_a_module_of_its_own_is_an_owner() -> None:
    net = torch.nn.Linear(2, 3)
    owned = owned_tensors(alive(torch.nn.Module))
    assert owned[id(net.weight)] == "Linear.weight"
    assert owned[id(net.bias)] == "Linear.bias"


def test_a_module_that_was_never_finished_owns_nothing() -> None:
    unfinished = torch.nn.Linear.__new__(torch.nn.Linear)
    finished = torch.nn.Linear(2, 3)
    assert "_modules" not in vars(unfinished)
    assert owned_tensors(alive(torch.nn.Module))[id(finished.weight)] == "Linear.weight"
