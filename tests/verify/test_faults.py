"""Faults planted one at a time in a good package, sealed again so that no digest gives them away: verify finds each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from planting import (
    change_contract,
    change_model,
    change_state,
    change_weight,
    forget_contract,
    model_of,
    reader_of,
    told,
    walker,
)

import support
from ashore.package import Package, Recording, read, save_arrays, write
from ashore.spec import Artifact, Port, Processor, Stage, Wire

MEAN, STD, HIDDEN, SCALE = "constant_2", "add", "constant_6", "constant_11"


@pytest.fixture
def good(tmp_path: Path) -> Package:
    return walker(tmp_path / "walker")


def test_the_good_package_passes_and_nothing_is_said(good: Package) -> None:
    found, messages = told(good)
    assert found.passed
    assert messages == ""
    assert found.sensitivity.by == dict.fromkeys(good.manifest.inputs, "element")


def test_the_names_in_these_tests_are_those_in_the_file(good: Package) -> None:
    model = model_of(good)
    assert reader_of(model, "Sub", MEAN).input[0] == reader_of(model, "Concat", "gravity").output[0]
    assert reader_of(model, "Div", STD)
    assert reader_of(model, "Gemm", HIDDEN)
    assert reader_of(model, "Mul", SCALE)


# --- a swapped pair of joints ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("group", "port"), [("outputs", "joint_target"), ("inputs", "joint_pos")])
def test_two_swapped_names_of_a_port(good: Package, group: str, port: str) -> None:
    def swap(document: dict[str, Any]) -> None:
        names = document[group][port]["element_names"][-1]
        names[1], names[4] = names[4], names[1]

    found, messages = told(change_contract(good, swap))
    assert not found.passed
    assert all(one.replay.passed for one in found.backends)  # what is replayed knows no names
    assert f"{group}/{port}/element_names: axis 1: element 1 was 'FL_thigh', is 'FR_thigh'" in messages
    assert "element 4 was 'FR_thigh', is 'FL_thigh'; the rollout was recorded with the former" in messages


def test_two_swapped_joints(good: Package) -> None:
    def swap(document: dict[str, Any]) -> None:
        joints = document["joints"]
        joints[0]["name"], joints[3]["name"] = joints[3]["name"], joints[0]["name"]

    found, messages = told(change_contract(good, swap))
    assert not found.passed
    assert "joints/FL_hip/kp: was 25.0, is 28.0" in messages
    assert "joints: element 0 was 'FL_hip', is 'FR_hip'; element 3 was 'FR_hip', is 'FL_hip'" in messages


def test_two_swapped_elements_of_the_outputs(good: Package) -> None:
    """As a tool that reorders joints might: the file gives two of them in each other's place."""

    def swap(model: onnx.ModelProto) -> None:
        last = model.graph.node[-1]
        assert list(last.output) == ["joint_target"]
        last.output[0] = "ordered"
        order = helper.make_tensor("order", onnx.TensorProto.INT64, [6], [0, 2, 1, 3, 4, 5])
        model.graph.initializer.append(order)
        model.graph.node.append(helper.make_node("Gather", ["ordered", "order"], ["joint_target"], axis=1))

    found, messages = told(change_model(good, swap))
    assert not found.passed
    assert "step 0: outputs/joint_target[0, 1] (FL_thigh): expected" in messages
    assert "2 of 6 elements differ: the two elements 'FL_thigh' and 'FL_calf' are swapped" in messages


def test_two_swapped_elements_of_an_input(good: Package) -> None:
    """The order that the network was trained on, with two joints in each other's place."""
    found, messages = told(change_weight(good, "val_6", lambda order: order[[0, 2, 1, 3, 4, 5]]))
    assert not found.passed
    assert "step 0: states/history[0, 2, 10]: expected" in messages
    assert "stages/policy/onnx: artifacts/policy.onnx is not the same file" in messages


def test_two_swapped_wires(good: Package) -> None:
    def swap(document: dict[str, Any]) -> None:
        names = {"policy/joint_pos": "policy/joint_vel", "policy/joint_vel": "policy/joint_pos"}
        for wire in document["wires"]:
            wire["target"] = names.get(wire["target"], wire["target"])

    found, messages = told(change_contract(good, swap))
    assert not found.passed
    assert "step 0: outputs/joint_target[0, 0] (FL_hip): expected" in messages
    assert "wires to policy/joint_pos: was fed by inputs/joint_pos, is fed by inputs/joint_vel" in messages


# --- a normaliser removed --------------------------------------------------------------------------------------------


def test_a_normaliser_that_was_removed_from_the_graph(good: Package) -> None:
    def remove(model: onnx.ModelProto) -> None:
        subtract, divide = reader_of(model, "Sub", MEAN), reader_of(model, "Div", STD)
        after = reader_of(model, "Unsqueeze", divide.output[0])
        after.input[0] = subtract.input[0]
        for node in (subtract, divide):
            model.graph.node.remove(node)

    found, messages = told(change_model(good, remove))
    assert not found.passed
    first = found.backends[0].replay.mismatches[0]
    assert (first.tick, first.stage) == (0, "policy")
    assert "step 0: states/history[0, 2, 0]: expected" in messages


def test_a_normaliser_that_was_removed_as_a_stage(tmp_path: Path) -> None:
    package = write_normalised(tmp_path / "p")
    assert told(package)[1] == ""

    def remove(document: dict[str, Any]) -> None:
        del document["stages"]["normalise"]
        kept = [wire for wire in document["wires"] if "normalise" not in wire["source"] + wire["target"]]
        document["wires"] = [*kept, {"source": "inputs/x", "target": "policy/x"}]

    found, messages = told(change_contract(package, remove))
    assert not found.passed
    assert "step 0: outputs/y[0, 0]: expected" in messages
    assert "error: stages/normalise: removed; the rollout was recorded with the former" in messages
    assert "error: wires to policy/x: was fed by normalise/z, is fed by inputs/x" in messages


def test_statistics_of_a_normaliser_that_changed_are_named_by_their_file(tmp_path: Path) -> None:
    package = write_normalised(tmp_path / "p")
    support.change_file(package.path, "stats.safetensors", statistics(1.01))
    found, messages = told(read(package.path))
    assert not found.passed
    assert "note: stages/normalise/stats.safetensors: stats.safetensors is not the same file" in messages


def statistics(scale: float) -> bytes:
    mean, std = np.array([1.0, -2.0], np.float32), np.array([0.5, 2.0], np.float32)
    return save_arrays({"x/mean": mean, "x/std": std * np.float32(scale)})


def write_normalised(out: Path) -> Package:
    """Two stages: a normaliser, and a graph that doubles."""
    port = Port(dtype="float32", shape=(1, 2))
    manifest = support.arm_manifest()
    normaliser = Processor(
        type="normalize", params={"mode": "mean_std", "statistics": "x"}, assets=("stats.safetensors",)
    )
    stages = {
        "normalise": Stage(rate="policy", inputs={"x": port}, outputs={"z": port}, processor=normaliser),
        "policy": Stage(
            rate="policy", inputs={"x": port}, outputs={"y": port}, artifacts={"onnx": Artifact(path="a.onnx")}
        ),
    }
    wires = (Wire("inputs/x", "normalise/x"), Wire("normalise/z", "policy/x"), Wire("policy/y", "outputs/y"))
    changed = {"inputs": {"x": port}, "outputs": {"y": port}, "stages": stages, "wires": wires}
    manifest = type(manifest)(name="normalised", **changed)
    files = {
        "a.onnx": support.model("p (float[1,2] x) => (float[1,2] y) { y = Add(x, x) }"),
        "stats.safetensors": statistics(1.0),
    }
    draft, recording = write(out, manifest, files=files), Recording()
    import ashore

    policy = ashore.load(draft)
    for x in support.inputs_like((1, 2), 6, seed=5):
        recording.step({"x": x}, policy.step({"x": x}))
    return write(out, manifest, files=files, golden=recording.golden())


# --- a history reversed ----------------------------------------------------------------------------------------------


def test_a_history_that_is_kept_newest_first(good: Package) -> None:
    def reverse(model: onnx.ModelProto) -> None:
        reader_of(model, "Concat", "unsqueeze").input.reverse()

    found, messages = told(change_model(good, reverse))
    assert not found.passed
    assert "step 0: states/history[0, 0, 0]: expected" in messages


def test_a_history_that_is_read_newest_first(good: Package) -> None:
    def reverse(model: onnx.ModelProto) -> None:
        flatten = reader_of(model, "Reshape", "history_next")
        for name, value in (("begin", [2]), ("end", [-9]), ("axis", [1]), ("back", [-1])):
            model.graph.initializer.append(helper.make_tensor(name, onnx.TensorProto.INT64, [1], value))
        node = helper.make_node("Slice", ["history_next", "begin", "end", "axis", "back"], ["newest_first"])
        model.graph.node.insert(list(model.graph.node).index(flatten), node)
        flatten.input[0] = "newest_first"

    found, messages = told(change_model(good, reverse))
    assert not found.passed
    assert "outputs/joint_target[0, 0] (FL_hip): expected" in messages
    assert "step 0: states/last_action[0, 0]: expected" in messages
    assert found.backends[0].replay.max_abs_error["stepwise"]["states/history"] < 1e-6  # it is kept as it was


# --- a gain zeroed ---------------------------------------------------------------------------------------------------


def zero_gain(document: dict[str, Any]) -> None:
    document["joints"][1]["kp"] = 0.0


def test_a_gain_of_zero(good: Package) -> None:
    found, messages = told(change_contract(good, zero_gain))
    assert not found.passed
    assert "error: joints/FL_thigh/kp: was 26.0, is 0.0; the rollout was recorded with the former" in messages
    assert "error: joints/FL_thigh/kp: is 0, so the target/joint/position in output 'joint_target' moves" in messages


def test_a_gain_of_zero_where_nobody_knows_the_recorded_contract(good: Package) -> None:
    found, messages = told(change_contract(forget_contract(good), zero_gain))
    assert not found.passed
    assert [problem.part for problem in found.problems if problem.severity == "error"] == ["gains"]
    assert "note: the rollout says nothing of the contract it was recorded with" in messages


def test_a_gain_that_was_zero_in_the_environment_is_only_a_warning(good: Package, tmp_path: Path) -> None:
    package = change_contract(good, zero_gain)
    golden = package.golden()
    assert golden is not None
    recording = Recording()
    for tick in golden.ticks:
        if tick.reset:
            recording.reset()
        recording.step(tick.inputs, tick.outputs, tick.states)
    files = {"artifacts/policy.onnx": package.read("artifacts/policy.onnx")}
    again = write(
        tmp_path / "again",
        package.manifest,
        files=files,
        initial=package.initial_state(),
        golden=recording.golden(),
    )
    found, messages = told(again)
    assert found.passed
    assert "warning: joints/FL_thigh/kp: is 0" in messages
    assert "and so it was in the environment" in messages


def test_another_gain_and_another_rate_are_named(good: Package) -> None:
    def change(document: dict[str, Any]) -> None:
        document["joints"][5]["kd"] = 5.0
        document["timing"]["policy_dt_s"] = 0.025

    found, messages = told(change_contract(good, change))
    assert not found.passed
    assert "error: joints/FR_calf/kd: was 0.5, is 5.0" in messages
    assert "error: timing/policy_dt_s: was 0.02, is 0.025" in messages


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_a_state_that_is_initialised_wrongly(good: Package) -> None:
    found, messages = told(change_state(good, "filtered", np.zeros_like))
    assert not found.passed
    assert {(one.call, one.port) for one in found.backends[0].replay.mismatches} == {
        ("step 0", "outputs/joint_target"),
        ("step 0", "states/filtered"),
    }
    assert "step 0: states/filtered[0, 0] (FL_hip): expected" in messages


def test_a_state_that_is_kept_over_a_reset(good: Package) -> None:
    found, messages = told(change_contract(good, lambda document: document["states"]["filtered"].update(reset="keep")))
    assert not found.passed
    assert "step 15: outputs/joint_target[0, 0] (FL_hip): expected" in messages
    assert "error: states/filtered/reset: was 'initial', is 'keep'" in messages


def test_weights_in_float16(good: Package) -> None:
    def half(model: onnx.ModelProto) -> None:
        for weight in model.graph.initializer:
            value = onnx.numpy_helper.to_array(weight)
            if value.dtype == np.float32:
                rounded = value.astype(np.float16).astype(np.float32)
                weight.CopyFrom(onnx.numpy_helper.from_array(rounded, weight.name))

    found, messages = told(change_model(good, half))
    assert not found.passed
    assert "step 0: outputs/joint_target[0, " in messages
    assert "weights of artifacts/policy.onnx are float16 numbers; they were rounded" in messages


def test_another_opset_that_rounds_differently(good: Package) -> None:
    """GELU by the formula with tanh, as converters to opsets without it have it."""

    def convert(model: onnx.ModelProto) -> None:
        model.opset_import[0].version = 17
        nodes = list(model.graph.node)
        for name, value in (("cubic", 0.044715 * 2.0), ("slope", 2 / np.sqrt(np.pi))):
            model.graph.initializer.append(helper.make_tensor(name, onnx.TensorProto.FLOAT, [], [value]))
        for node in nodes:
            if node.op_type == "Erf":
                x, y = node.input[0], node.output[0]  # x is the input by the root of two
                parts = [
                    helper.make_node("Mul", [x, x], [f"{y}_2"]),
                    helper.make_node("Mul", [f"{y}_2", x], [f"{y}_3"]),
                    helper.make_node("Mul", [f"{y}_3", "cubic"], [f"{y}_c"]),
                    helper.make_node("Add", [x, f"{y}_c"], [f"{y}_s"]),
                    helper.make_node("Mul", [f"{y}_s", "slope"], [f"{y}_t"]),
                    helper.make_node("Tanh", [f"{y}_t"], [y]),
                ]
                place = list(model.graph.node).index(node)
                model.graph.node.remove(node)
                for part in reversed(parts):
                    model.graph.node.insert(place, part)

    package = change_model(good, convert)
    found, messages = told(package)
    assert not found.passed
    assert "step 0: states/last_action[0, 2]: expected 0.205" in messages
    assert found.backends[0].replay.worst("stepwise") < 1e-3  # it is nearly right
    assert "stages/policy/onnx: the manifest says opset 18, artifacts/policy.onnx is written in 17" in messages

    def say(document: dict[str, Any]) -> None:
        document["stages"]["policy"]["artifacts"]["onnx"]["opset"] = 17

    found, messages = told(change_contract(package, say))  # a tool that says so does not make it right
    assert not found.passed
    assert "note: stages/policy/artifacts/onnx/opset: was 18, is 17" in messages


def test_a_transposed_weight(good: Package) -> None:
    found, messages = told(change_weight(good, HIDDEN, np.transpose))
    assert not found.passed
    assert "step 0: outputs/joint_target[0, 0] (FL_hip): expected" in messages
    assert "stages/policy/onnx: artifacts/policy.onnx is not the same file" in messages


def test_an_action_scale_off_by_one_percent(good: Package) -> None:
    found, messages = told(change_weight(good, SCALE, lambda scale: scale * np.float32(1.01)))
    assert not found.passed
    ports = {one.port for one in found.backends[0].replay.mismatches if one.mode == "stepwise"}
    assert ports == {"outputs/joint_target", "states/filtered"}
    assert "(FL_thigh): expected" in messages or "(FL_hip): expected" in messages
