"""The annotate door: nested structures, meaning, and functions that are nodes."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
import torch
from doors import Script, export_annotated, names_of, run_annotated, worst_error

import ashore
from ashore import (
    GraphConfigs,
    InputKindEnum,
    OutputKindEnum,
    TemporalAxis,
    TensorSemantics,
    annotate,
)
from ashore.errors import AshoreError, ExportError, InputError
from ashore.package import read

pytestmark = pytest.mark.usefixtures("session_closed")


JOINTS = ("hip", "thigh", "calf", "foot")


# --- nested structures -----------------------------------------------------------------------------------------------


class Nested(Script):
    inputs: ClassVar = {"obs_imu_gyro": (1, 3), "obs_imu_accel": (1, 3), "obs_legs_0": (1, 2), "obs_legs_1": (1, 2)}

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        obs = {
            "imu": {"gyro": given["obs_imu_gyro"], "accel": given["obs_imu_accel"]},
            "legs": [given["obs_legs_0"], given["obs_legs_1"]],
        }
        obs = annotate.input_tensors("policy", {"obs": obs})
        torque = {"left": [obs["legs"][0] * 2.0, obs["imu"]["gyro"] + 1.0], "right": obs["legs"][1] - 1.0}
        annotate.output_tensors("policy", {"torque": torque, "norm": obs["imu"]["accel"].norm(dim=-1)})
        return {
            "torque_left_0": torque["left"][0],
            "torque_left_1": torque["left"][1],
            "torque_right": torque["right"],
            "norm": obs["imu"]["accel"].norm(dim=-1),
        }


def test_nested_dicts_and_lists_flatten_to_names_joined_with_underscores(tmp_path: Path) -> None:
    path = export_annotated(Nested, tmp_path)
    assert names_of(path) == (list(Nested.inputs), ["torque_left_0", "torque_left_1", "torque_right", "norm"])
    assert worst_error(Nested, path) <= 1e-6


def test_names_that_flatten_to_the_same_are_refused(tmp_path: Path) -> None:
    ashore.start("made", save_path=tmp_path)
    with pytest.raises(InputError, match="'a_b' was declared already"):
        annotate.input_tensors("policy", {"a": {"b": torch.zeros(1)}, "a_b": torch.zeros(1)})


# --- meaning ---------------------------------------------------------------------------------------------------------


class Meaningful(Script):
    inputs: ClassVar = {"q": (1, 4), "w": (1, 3), "past": (5, 4)}

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        q, w, past = annotate.input_tensors(
            "policy",
            [
                TensorSemantics(
                    "q",
                    given["q"],
                    InputKindEnum.JOINT_POSITION,
                    list(JOINTS),
                    extra={"isaaclab_connection": "state:robot:joint_pos", "unit": "rad", "note": [1, "two"]},
                ),
                TensorSemantics(
                    "w", given["w"], "state/body/angular_velocity", [None, ["x", "y", "z"]], extra={"frame": "base"}
                ),
                TensorSemantics("past", given["past"], element_names=[TemporalAxis(20.0), list(JOINTS)]),
            ],
        )
        target = q * 0.5 + past.mean(dim=0, keepdim=True) + w.sum(dim=-1, keepdim=True)
        annotate.output_tensors(
            "policy",
            TensorSemantics("target", target, OutputKindEnum.JOINT_POSITION, JOINTS),
            static_outputs=[TensorSemantics("kp", torch.full((1, 4), 40.0), OutputKindEnum.KP, list(JOINTS))],
        )
        return {"target": target, "kp": torch.full((1, 4), 40.0)}


@pytest.fixture(scope="module")
def meaningful(tmp_path_factory: pytest.TempPathFactory) -> Path:
    configs = GraphConfigs(frequency=50.0, extra={"task": "walk", "robot": {"legs": 4}})
    return export_annotated(Meaningful, tmp_path_factory.mktemp("meaningful"), graph_configs=configs)


def test_semantics_are_in_the_manifest(meaningful: Path) -> None:
    manifest = read(meaningful).manifest
    q, w, past = (manifest.inputs[name] for name in ("q", "w", "past"))
    assert (q.kind, q.element_names, q.unit) == ("state/joint/position", (None, JOINTS), "rad")
    assert q.connection == "state:robot:joint_pos"
    assert q.metadata["note"] == [1, "two"]
    assert (w.kind, w.element_names, w.frame) == ("state/body/angular_velocity", (None, ("x", "y", "z")), "base")
    assert past.element_names == (None, JOINTS)
    assert past.metadata == {"temporal_period_ms": 20.0}
    assert past.kind is None
    target, kp = manifest.outputs["target"], manifest.outputs["kp"]
    assert (target.kind, target.element_names) == ("target/joint/position", (None, JOINTS))
    assert (kp.kind, kp.element_names) == ("kp", (None, JOINTS))


def test_frequency_and_extra_are_in_the_manifest(meaningful: Path) -> None:
    manifest = read(meaningful).manifest
    assert manifest.timing is not None
    assert manifest.timing.policy_dt_s == pytest.approx(0.02)
    assert manifest.metadata == {"task": "walk", "robot": {"legs": 4}}


def test_static_outputs_are_outputs(meaningful: Path) -> None:
    assert worst_error(Meaningful, meaningful) <= 1e-6


def test_kinds_are_those_of_leapp() -> None:
    from leapp import InputKindEnum as TheirInputs
    from leapp import OutputKindEnum as TheirOutputs

    assert {one.name: one.value for one in InputKindEnum} == {one.name: one.value for one in TheirInputs}
    assert {one.name: one.value for one in OutputKindEnum} == {one.name: one.value for one in TheirOutputs}


def test_an_output_that_is_constant_is_a_finding_unless_it_is_static(tmp_path: Path) -> None:
    class Constant(Script):
        def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            x = annotate.input_tensors("policy", {"x": given["x"]})
            annotate.output_tensors("policy", {"y": x * 2.0, "kp": torch.full((1, 4), 40.0)})
            return {}

    with pytest.raises(ExportError, match=r"test_annotate_ports.py:\d+.*kp.*\[constant_output\]"):
        export_annotated(Constant, tmp_path)


@pytest.mark.parametrize("frequency", [0.0, -1.0, float("nan")])
def test_a_frequency_is_positive(frequency: float) -> None:
    with pytest.raises(InputError, match="frequency must be positive"):
        GraphConfigs(frequency=frequency)


def test_a_temporal_axis_has_a_positive_period_and_stands_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="period_ms must be positive"):
        TemporalAxis(0.0)
    ashore.start("made", save_path=tmp_path)
    with pytest.raises(InputError, match="'x'.*2 temporal axes"):
        annotate.input_tensors(
            "policy", TensorSemantics("x", torch.zeros(2, 2), element_names=[TemporalAxis(1), TemporalAxis(2)])
        )


def test_element_names_that_do_not_fit_are_an_ashore_error_and_nothing_is_written(tmp_path: Path) -> None:
    class Misnamed(Script):
        def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            x = annotate.input_tensors(
                "policy", TensorSemantics("x", given["x"], element_names=["only", "three", "here"])
            )
            annotate.output_tensors("policy", {"y": x * 2.0})
            return {}

    with pytest.raises(AshoreError, match="x"):
        export_annotated(Misnamed, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_graph_configs_of_another_class_are_refused(tmp_path: Path) -> None:
    ashore.start("made", save_path=tmp_path)
    run_annotated(Meaningful)
    ashore.stop()
    with pytest.raises(InputError, match="expected GraphConfigs, got dict"):
        ashore.compile_graph(graph_configs={"frequency": 50})  # type: ignore[arg-type]


# --- method ----------------------------------------------------------------------------------------------------------


class Controller:
    """A class whose methods are nodes."""

    def __init__(self) -> None:
        self.net = torch.nn.Linear(4, 4)

    @annotate.method(node_name="estimator")
    def estimate(
        self, q: torch.Tensor, v: torch.Tensor, scale: float = 0.5, bias: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        position = q * scale
        velocity = v + 1.0
        return position, velocity

    @annotate.method()
    def act(self, position: torch.Tensor, *, velocity: torch.Tensor) -> dict[str, torch.Tensor]:
        """Give a target and its size."""
        target = self.net(position + velocity)
        return {"target": target, "size": target.norm(dim=-1)}


class Methods(Script):
    inputs: ClassVar = {"q": (1, 4), "v": (1, 4)}

    def __init__(self) -> None:
        self.controller = Controller()

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        position, velocity = self.controller.estimate(given["q"], v=given["v"])
        return self.controller.act(position, velocity=velocity)


def test_methods_are_nodes(tmp_path: Path) -> None:
    path = export_annotated(Methods, tmp_path)
    manifest = read(path).manifest
    assert list(manifest.stages) == ["estimator", "act"]
    assert names_of(path) == (["q", "v"], ["target", "size"])
    assert list(manifest.stages["estimator"].outputs) == ["position", "velocity"]
    assert worst_error(Methods, path) <= 1e-6


@annotate.method("blend", export_with="onnx-torchscript")
def blend(*parts: torch.Tensor, weight: float = 0.25, **named: torch.Tensor) -> torch.Tensor:
    return parts[0] * weight + parts[1] * (1.0 - weight) + named["offset"]


class Functions(Script):
    inputs: ClassVar = {"arg_0": (1, 4), "arg_1": (1, 4), "offset": (1, 4)}

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"output": blend(given["arg_0"], given["arg_1"], offset=given["offset"])}


def test_a_function_is_a_node(tmp_path: Path) -> None:
    path = export_annotated(Functions, tmp_path)
    assert names_of(path) == (["arg_0", "arg_1", "offset"], ["output"])
    artifact = read(path).manifest.stages["blend"].artifacts["onnx"]
    assert artifact.exporter is not None
    assert artifact.exporter.endswith("onnx-torchscript")
    assert worst_error(Functions, path) <= 1e-6


@annotate.method()
def split(obs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    return obs["a"] + 1.0, obs["b"] * 2.0


class NestedArguments(Script):
    inputs: ClassVar = {"obs_a": (1, 4), "obs_b": (1, 4)}

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        one, two = split({"a": given["obs_a"], "b": given["obs_b"]})
        return {"output1": one, "output2": two}


def test_arguments_of_a_method_may_be_nested_and_results_without_a_name_are_numbered(tmp_path: Path) -> None:
    path = export_annotated(NestedArguments, tmp_path)
    assert names_of(path) == (["obs_a", "obs_b"], ["output1", "output2"])
    assert worst_error(NestedArguments, path) <= 1e-6


def test_outside_a_session_a_method_is_the_function_itself() -> None:
    controller, x = Controller(), torch.ones(1, 4)
    assert controller.act.__name__ == "act"
    assert controller.act.__doc__ == "Give a target and its size."
    position, velocity = controller.estimate(x, x, 2.0)
    torch.testing.assert_close(position, x * 2.0)
    torch.testing.assert_close(velocity, x + 1.0)
    assert annotate.method()(lambda: 7)() == 7


def test_a_method_without_a_tensor_is_refused(tmp_path: Path) -> None:
    ashore.start("made", save_path=tmp_path)
    with pytest.raises(InputError, match="annotate.method: double was called without a tensor"):
        annotate.method("double")(lambda number: number * 2)(3)


def test_an_exception_in_a_method_is_the_users_own(tmp_path: Path) -> None:
    @annotate.method()
    def fails(x: torch.Tensor) -> torch.Tensor:
        raise ZeroDivisionError("mine")

    ashore.start("made", save_path=tmp_path)
    with pytest.raises(ZeroDivisionError, match="mine"):
        fails(torch.ones(1))
    ashore.stop()
