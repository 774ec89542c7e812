"""What changed between two packages is named: contract, weights, graphs, states, outputs; and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from planting import change_contract, change_model, change_state, change_weight, reader_of, walker

import support
from ashore.package import Package, read, write
from ashore.spec import Artifact, Port, single_stage
from ashore.verify import Difference, compare


@pytest.fixture
def before(tmp_path: Path) -> Package:
    return walker(tmp_path / "before")


@pytest.fixture
def after(tmp_path: Path) -> Package:
    return walker(tmp_path / "after")


def messages(found: Difference) -> list[str]:
    return [
        *(change.message for change in found.contract),
        *(change.message for change in found.weights),
        *found.graphs,
        *(change.message for change in found.states),
        *(change.message for change in found.files),
    ]


def test_a_package_is_the_same_as_itself(before: Package, after: Package) -> None:
    found = compare(before, after)
    assert found.same
    assert messages(found) == []
    (output,) = found.outputs
    assert (output.recorded_by, output.port, output.max_abs_difference, output.first) == (
        "both",
        "outputs/joint_target",
        0.0,
        "",
    )


def test_every_part_of_the_contract_is_named_by_its_path(before: Package, after: Package) -> None:
    def change(document: dict[str, Any]) -> None:
        document["joints"][2]["kp"] = 99.0
        document["timing"]["policy_dt_s"] = 0.01
        document["inputs"]["command"]["kind"] = "custom/wish"
        names = document["outputs"]["joint_target"]["element_names"][-1]
        names[0], names[3] = names[3], names[0]
        document["states"]["history"]["reset"] = "keep"

    found = compare(before, change_contract(after, change))
    assert not found.same
    swapped = "outputs/joint_target/element_names: axis 1: element 0 was 'FL_hip', is 'FR_hip'; "
    swapped += "element 3 was 'FR_hip', is 'FL_hip'"
    assert messages(found)[:5] == [
        "inputs/command/kind: was 'command/body/velocity', is 'custom/wish'",
        swapped,
        "joints/FL_calf/kp: was 27.0, is 99.0",
        "timing/policy_dt_s: was 0.02, is 0.01",
        "states/history/reset: was 'initial', is 'keep'",
    ]
    assert {change.what for change in found.contract} == {"changed"}


def test_joints_that_come_and_go_and_change_places(before: Package, after: Package) -> None:
    joints = after.manifest.joints
    extra = msgspec.structs.replace(joints[0], name="tail")
    moved = msgspec.to_builtins((joints[1], joints[0], *joints[2:], extra))
    found = compare(before, change_contract(after, lambda document: document.update(joints=moved)))
    assert messages(found) == [
        "joints/tail: added",
        "joints: element 0 was 'FL_hip', is 'FL_thigh'; element 1 was 'FL_thigh', is 'FL_hip'",
    ]
    assert compare(after, before).contract == []  # `after` was opened before it changed
    back = compare(read(after.path), before)
    assert [change.what for change in back.contract] == ["removed", "changed"]


def test_what_is_only_said_makes_no_difference(before: Package, after: Package) -> None:
    found = compare(before, change_contract(after, lambda document: document.update(description="new")))
    assert found.same
    assert [change.where for change in found.about] == ["description"]


def test_weights_are_named_with_what_was_done_to_them(before: Package, after: Package) -> None:
    changed = change_weight(after, "constant_6", np.transpose)
    changed = change_weight(changed, "constant_11", lambda scale: scale * np.float32(1.01))
    changed = change_weight(changed, "constant_4", lambda weight: weight.astype(np.float16).astype(np.float32))
    changed = change_weight(changed, "constant_9", lambda bias: bias + np.float32(0.5))
    found = compare(before, changed)
    assert not found.same
    by_name = {change.where: change for change in found.weights}
    assert by_name["stages/policy/constant_6"].detail == "transposed"
    assert by_name["stages/policy/constant_11"].detail == "all of them are 1.01 times what they were"
    assert by_name["stages/policy/constant_4"].detail == "rounded to float16"
    assert by_name["stages/policy/constant_9"].message.startswith(
        "stages/policy/constant_9: float32 [6], largest difference 0.5"
    )
    assert len(found.weights) == 4
    assert found.graphs == []
    assert "step 0: [0, 0] (FL_hip) of stage 'policy' was" in found.outputs[0].first


def test_a_tolerance_lets_small_differences_pass(before: Package, after: Package) -> None:
    changed = change_weight(after, "constant_9", lambda bias: bias + np.float32(1e-6))
    assert not compare(before, changed).same
    assert compare(before, changed, atol=1e-4).same


def test_weights_of_another_shape_or_type(before: Package, after: Package) -> None:
    def change(model: onnx.ModelProto) -> None:
        (wide,) = (one for one in model.graph.initializer if one.name == "val_34")
        wide.CopyFrom(numpy_helper.from_array(np.array([1, -1], np.int64), "val_34"))
        model.graph.initializer.append(helper.make_tensor("extra", onnx.TensorProto.FLOAT, [2], [1.0, 2.0]))
        model.graph.initializer.append(helper.make_tensor("coarse", onnx.TensorProto.BFLOAT16, [1], [1.0]))

    found = compare(before, change_model(after, change))
    assert messages(found) == [
        "stages/policy/extra: added (float32 [2])",
        "stages/policy/val_34: int64 [2], largest difference 82",
    ]
    assert found.not_compared == ["stages/policy: weights of types that numpy does not have: coarse"]
    assert found.outputs[0].max_abs_difference == 0


def test_weights_that_only_have_another_name_are_the_same(before: Package, after: Package) -> None:
    def rename(model: onnx.ModelProto) -> None:
        for weight in model.graph.initializer:
            for node in model.graph.node:
                node.input[:] = [f"new_{name}" if name == weight.name else name for name in node.input]
            weight.name = f"new_{weight.name}"

    found = compare(before, change_model(after, rename))
    assert found.same
    assert found.weights == []
    assert found.graphs == []


def test_other_operations_another_opset_and_other_wires(before: Package, after: Package, tmp_path: Path) -> None:
    def add(model: onnx.ModelProto) -> None:
        model.opset_import[0].version = 17
        model.graph.node[-1].output[0] = "raw"
        model.graph.node.append(helper.make_node("Identity", ["raw"], ["joint_target"]))

    found = compare(before, change_model(after, add))
    assert found.graphs == [
        "stages/policy: was written in opset 18, is written in 17",
        "stages/policy: other operations: +1 Identity",
    ]

    def reverse(model: onnx.ModelProto) -> None:
        reader_of(model, "Concat", "unsqueeze").input.reverse()

    found = compare(before, change_model(walker(tmp_path / "third"), reverse))
    said = "stages/policy: Concat is wired in another way: slice_1, unsqueeze -> history_next became "
    assert found.graphs == [said + "unsqueeze, slice_1 -> history_next"]

    def turn(model: onnx.ModelProto) -> None:
        flatten = reader_of(model, "Transpose", "sub")
        flatten.attribute[0].ints[:] = [0, 1]

    found = compare(before, change_model(walker(tmp_path / "fourth"), turn))
    assert found.graphs == ["stages/policy: Transpose that gives 'val_0' has other attributes"]
    assert any("outputs on the inputs of both" in message for message in found.not_compared)


def test_initial_states(before: Package, after: Package) -> None:
    found = compare(before, change_state(after, "filtered", np.zeros_like))
    assert not found.same
    assert messages(found) == ["states/filtered: float32 [1, 6], largest difference 1.5 (all of them are 0)"]


def test_files_that_cannot_be_looked_into(tmp_path: Path) -> None:
    port = Port(dtype="float32", shape=(1, 1))
    artifacts = {"onnx": Artifact(path="a.onnx"), "other": Artifact(path="a.bin", data=("more.bin",))}
    manifest = single_stage("p", inputs={"x": port}, outputs={"y": port}, artifacts=artifacts)
    model = support.model("p (float[1,1] x) => (float[1,1] y) { y = Identity(x) }")
    packages = [
        write(tmp_path / name, manifest, files={"a.onnx": model, "a.bin": b"1", "more.bin": data})
        for name, data in (("a", b"1"), ("b", b"2"))
    ]
    found = compare(*packages)
    assert not found.same
    assert messages(found) == ["stages/policy/other/data[0]: more.bin is not the same file"]
    assert found.not_compared == [
        "outputs on the inputs of A: it holds no golden rollout",
        "outputs on the inputs of B: it holds no golden rollout",
    ]


def test_packages_that_have_little_in_common(before: Package, tmp_path: Path) -> None:
    found = compare(before, support.write_arm(tmp_path / "arm"))
    assert not found.same
    assert any(change.where == "stages/policy" and change.what == "removed" for change in found.contract)
    assert "outputs on the inputs of A: step: input" in found.not_compared[0]
    assert len(found.not_compared) == 2


def test_outputs_on_the_inputs_of_each(tmp_path: Path) -> None:
    contents = support.sum_contents()
    one = write(tmp_path / "one", support.sum_manifest(), **contents)
    contents["golden"] = msgspec.structs.replace(contents["golden"], ticks=contents["golden"].ticks[:5])
    contents["files"] = {
        "artifacts/policy.onnx": support.model(support.SUM_MODEL.replace("Mul(h_out, x)", "Add(h_out, x)"))
    }
    two = write(tmp_path / "two", support.sum_manifest(), **contents)
    found = compare(one, two)
    assert [(output.recorded_by, output.port) for output in found.outputs] == [("A", "outputs/y"), ("B", "outputs/y")]
    assert all("step 0: [0, 0] (a) of stage 'policy' was" in output.first for output in found.outputs)
