"""The annotate door: several nodes in one step."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from doors import Script, Shared, draw, export_annotated, names_of, worst_error

import ashore
from ashore import (
    InferenceManager,
    annotate,
)
from ashore.errors import ExportError, InputError
from ashore.package import read

pytestmark = pytest.mark.usefixtures("session_closed")


class Direct(Script):
    def __init__(self) -> None:
        self.net = torch.nn.Linear(4, 2)

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x = annotate.input_tensors("perception", {"x": given["x"]})
        features = torch.relu(x) * 2.0
        annotate.output_tensors("perception", {"features": features})
        features = annotate.input_tensors("policy", {"features": features})
        action = self.net(features)
        annotate.output_tensors("policy", {"action": action})
        return {"action": action}


def test_nodes_that_are_joined_directly_make_stages_joined_by_a_wire(tmp_path: Path) -> None:
    path = export_annotated(Direct, tmp_path)
    manifest = read(path).manifest
    assert list(manifest.stages) == ["perception", "policy"]
    assert names_of(path) == (["x"], ["action"])
    joined = [wire for wire in manifest.wires if wire.source.startswith("perception/")]
    assert [wire.target.split("/")[0] for wire in joined] == ["policy"]
    assert worst_error(Direct, path) <= 1e-6


class Between(Script):
    """Operations between nodes, with a captured constant and a state among them."""

    def __init__(self) -> None:
        self.scale = torch.tensor([0.5, 1.0, 2.0, 4.0])
        self.reset()

    def reset(self) -> None:
        self.smooth = torch.zeros(1, 4)

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x = annotate.input_tensors("first", {"x": given["x"]})
        features = torch.sin(x)
        annotate.output_tensors("first", {"features": features})
        self.smooth = self.smooth * 0.5 + features * self.scale
        command = annotate.input_tensors("second", {"command": self.smooth.clamp(-1.0, 1.0)})
        action = command * 3.0
        annotate.output_tensors("second", {"action": action})
        return {"action": action}


def test_operations_between_nodes_are_part_of_a_stage(tmp_path: Path) -> None:
    path = export_annotated(Between, tmp_path)
    assert list(read(path).manifest.stages) == ["first", "second"]
    assert names_of(path)[0] == ["x"]
    assert worst_error_of_outputs(Between, path, ["action"]) <= 1e-6


def worst_error_of_outputs(made: type[Script], path: Path, names: list[str]) -> float:
    """As `worst_error`, where the package may have further outputs."""
    policy = ashore.load(path)
    generator = torch.Generator().manual_seed(2)
    torch.manual_seed(0)
    code, worst = made(), 0.0
    for step in range(30):
        if step in (6, 7, 19):
            code.reset()
            policy.reset()
        given = draw(made, generator)
        got = policy.step({name: tensor.numpy() for name, tensor in given.items()})
        wanted = code.step(given)
        for name in names:
            worst = max(worst, float(np.abs(got[name] - wanted[name].numpy()).max()))
    return worst


class Three(Script):
    """Three nodes; the last takes from both others, and from outside."""

    inputs: ClassVar = {"image": (1, 6), "q": (1, 4), "command": (1, 4)}

    def __init__(self) -> None:
        self.encode, self.fuse = torch.nn.Linear(6, 4), torch.nn.Linear(8, 4)

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        image = annotate.input_tensors("vision", {"image": given["image"]})
        features = torch.relu(self.encode(image))
        annotate.output_tensors("vision", {"features": features})
        q, seen = annotate.input_tensors("estimate", {"q": given["q"], "features": features})
        state = self.fuse(torch.cat((q, seen), dim=-1))
        annotate.output_tensors("estimate", {"state": state})
        seen, state, command = annotate.input_tensors(
            "control", {"features": features, "state": state, "command": given["command"]}
        )
        torque = state * command + seen
        annotate.output_tensors("control", {"torque": torque})
        return {"torque": torque}


def test_three_nodes_with_one_output_used_twice(tmp_path: Path) -> None:
    path = export_annotated(Three, tmp_path)
    assert list(read(path).manifest.stages) == ["vision", "estimate", "control"]
    assert names_of(path) == (["image", "q", "command"], ["torque"])
    assert worst_error(Three, path) <= 1e-6


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_annotated(Shared, tmp_path_factory.mktemp("shared"))


def test_ports_that_share_a_name_are_called_node_and_port(shared: Path) -> None:
    assert names_of(shared) == (["left/x", "gain", "right/x"], ["left/y", "right/y"])
    assert worst_error(Shared, shared) <= 1e-6


def test_step_accepts_both_spellings_and_returns_the_names_of_the_manifest(shared: Path, tmp_path: Path) -> None:
    policy = ashore.load(shared)
    x, gain = np.ones((1, 4), np.float32), np.full((1, 1), 2.0, np.float32)
    one = policy.step({"left/x": x, "right/x": x, "gain": gain})
    two = policy.step({"left/x": x, "right/x": x, "left/gain": gain})
    assert list(one) == list(two) == ["left/y", "right/y"]
    np.testing.assert_array_equal(one["left/y"], two["left/y"])
    with pytest.raises(InputError, match="'gain' is given twice"):
        policy.step({"left/x": x, "right/x": x, "gain": gain, "left/gain": gain})
    with pytest.raises(InputError, match="'x' is unknown"):
        policy.step({"x": x, "right/x": x, "gain": gain})


class SharedSensor(Script):
    """Two policies in one step that take the same tensor."""

    def __init__(self) -> None:
        self.walk, self.stand = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x = annotate.input_tensors("walk", {"x": given["x"]})
        walk = self.walk(x)
        annotate.output_tensors("walk", {"action": walk})
        return {"walk/action": walk, "stand/action": self.run_stand(given["x"])}

    def run_stand(self, x: torch.Tensor) -> torch.Tensor:
        x = annotate.input_tensors("stand", {"x": x})
        action = self.stand(x)
        annotate.output_tensors("stand", {"action": action})
        return action


def test_two_policies_that_take_the_same_tensor_are_exact(tmp_path: Path) -> None:
    path = export_annotated(SharedSensor, tmp_path)
    assert list(read(path).manifest.stages) == ["walk", "stand"]
    names, outputs = names_of(path)
    assert outputs == ["walk/action", "stand/action"]
    policy = ashore.load(path)
    torch.manual_seed(0)
    code, generator = SharedSensor(), torch.Generator().manual_seed(2)
    for _ in range(10):
        given = draw(SharedSensor, generator)
        got, wanted = policy.step(dict.fromkeys(names, given["x"].numpy())), code.step(given)
        for name, tensor in wanted.items():
            np.testing.assert_allclose(got[name], tensor.detach().numpy(), atol=1e-6)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("robot.arm", "robot.leg"),
        ("robot/arm", "robot/leg"),
        ("a.b", "a/b"),
        ("my arm", "dein Bein ä"),
        ("inputs", "outputs"),
        ("states", "policy"),
        ("-arm", ".leg"),
        ("con", "a" * 150),
        ("Arm", "arm"),
    ],
)
def test_any_name_will_do_for_a_node(tmp_path: Path, first: str, second: str) -> None:
    class Named(Script):
        def __init__(self) -> None:
            self.reset()

        def reset(self) -> None:
            self.last = torch.zeros(1, 4)

        def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            x = annotate.input_tensors(first, {"x": given["x"]})
            features = torch.sin(x) + self.last
            annotate.output_tensors(first, {"features": features})
            features = annotate.input_tensors(second, {"features": features})
            self.last = features * 0.5
            annotate.output_tensors(second, {"y": self.last})
            return {"y": self.last}

    path = export_annotated(Named, tmp_path, backend="onnx-torchscript")
    assert len(read(path).manifest.stages) == 2
    assert names_of(path) == (["x"], ["y"])
    assert worst_error(Named, path) <= 1e-6
    manager = InferenceManager(path)
    (key,), (result,) = manager.inputs, manager.outputs
    assert key.endswith("/x")
    assert result.endswith("/y")
    torch.testing.assert_close(manager({key: torch.ones(1, 4)})[result], torch.sin(torch.ones(1, 4)) * 0.5)


@pytest.mark.parametrize("name", ["joint.pos", "joint/pos", "joint pos", "inputs", "outputs", "states", "self", "1"])
def test_any_name_will_do_for_a_port(tmp_path: Path, name: str) -> None:
    class Named(Script):
        inputs: ClassVar = {name: (1, 4)}

        def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            x = annotate.input_tensors("policy", {name: given[name]})
            y = torch.sin(x)
            annotate.output_tensors("policy", {f"{name} out": y})
            return {f"{name} out": y}

    path = export_annotated(Named, tmp_path, backend="onnx-torchscript")
    assert worst_error(Named, path) <= 1e-6
    assert list(InferenceManager(path).get_mock_input()) == [f"policy/{name}"]


class SameName(Script):
    """An input and an output of one node with the same name."""

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x = annotate.input_tensors("policy", {"x": given["x"]})
        x = x * 2.0
        annotate.output_tensors("policy", {"x": x})
        return {"x": x}


def test_an_input_and_an_output_may_share_their_name(tmp_path: Path) -> None:
    path = export_annotated(SameName, tmp_path)
    assert names_of(path) == (["x"], ["x"])
    assert worst_error(SameName, path) <= 1e-6
    assert list(InferenceManager(path)({"policy/x": torch.ones(1, 4)})) == ["policy/x"]


class PassedOn(Script):
    """An output that is an input, as it is."""

    inputs: ClassVar = {"x": (1, 4), "kp": (1, 4)}

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x, kp = annotate.input_tensors("policy", {"x": given["x"], "kp": given["kp"]})
        annotate.output_tensors("policy", {"y": x + 1.0, "gain": kp})
        return {"y": x + 1.0, "gain": kp}


def test_an_input_may_be_passed_on_as_an_output(tmp_path: Path) -> None:
    path = export_annotated(PassedOn, tmp_path)
    assert names_of(path) == (["x", "kp"], ["y", "gain"])
    assert worst_error(PassedOn, path) <= 1e-6


class Nest(Script):
    """A node inside a node."""

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x = annotate.input_tensors("outer", {"x": given["x"]})
        scaled = x * 2.0
        inner = annotate.input_tensors("inner", {"scaled": scaled})
        turned = torch.sin(inner)
        annotate.output_tensors("inner", {"turned": turned})
        y = turned + 1.0
        annotate.output_tensors("outer", {"y": y})
        return {"y": y}


def test_a_node_inside_a_node_is_exact_or_refused(tmp_path: Path) -> None:
    try:
        path = export_annotated(Nest, tmp_path)
    except ExportError as error:
        assert {finding.name for finding in error.findings} == {"entangled_nodes"}
        assert list(tmp_path.iterdir()) == []
    else:
        assert worst_error_of_outputs(Nest, path, ["y"]) <= 1e-6


class InTwoCalls(Script):
    """Inputs that are declared in several calls, where they are read."""

    inputs: ClassVar = {"q": (1, 4), "v": (1, 4)}

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        q = annotate.input_tensors("policy", {"q": given["q"]})
        q = q - 0.5
        v = annotate.input_tensors("policy", {"v": given["v"]})
        y = q + v * 0.1
        annotate.output_tensors("policy", {"y": y})
        return {"y": y}


def test_inputs_may_be_declared_in_several_calls(tmp_path: Path) -> None:
    path = export_annotated(InTwoCalls, tmp_path)
    assert len(read(path).golden().ticks) == 6
    assert worst_error(InTwoCalls, path) <= 1e-6


def test_steps_are_found_without_marks(tmp_path: Path) -> None:
    path = export_annotated(Three, tmp_path, steps=5, resets=(2,), backend="onnx-torchscript")
    golden = read(path).golden()
    assert [tick.reset for tick in golden.ticks] == [True, False, True, False, False]
