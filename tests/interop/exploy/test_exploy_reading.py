from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import ashore
import support
from ashore.environment.session import SessionWrapper
from ashore.errors import AshoreError, PackageError
from ashore.interop.exploy import from_exploy, to_exploy
from ashore.package import Package
from ashore.spec import Finding, Manifest, Timing
from interop.exploy.exploy_cases import Arrays, draw, foreign_model, write_arm, write_clashing, write_rich

# --- files that Ashore wrote -----------------------------------------------------------------------------------------


def contract(manifest: Manifest) -> Manifest:
    """A manifest without what only the files of a package mean."""
    return msgspec.structs.replace(manifest, files={}, manifest_sha256=None, verification=None)


def write_batched(out: Path) -> Package:
    return support.write_batched(out, rows=2)


@pytest.mark.parametrize(
    "make", [support.write_arm, support.write_sum, write_clashing, write_rich, write_batched], ids=lambda f: f.__name__
)
def test_a_package_comes_back_with_its_contract_and_its_results(make: Callable[..., Package], tmp_path: Path) -> None:
    package = make(tmp_path / "p")
    written = to_exploy(package, tmp_path / "policy.onnx")
    back = from_exploy(written.path, tmp_path / "back.ashore")
    assert contract(back.manifest) == contract(package.manifest)
    for name, value in package.initial_state().items():
        again = back.initial_state()[name]
        assert (again.dtype, again.shape, again.tobytes()) == (value.dtype, value.shape, value.tobytes())
    one, two = ashore.load(package), ashore.load(back)
    for tick, inputs in enumerate(draw(package.manifest, 20)):
        if tick == 9:
            one.reset()
            two.reset()
        calls = ["step"] if one.substep_inputs == () and len(package.manifest.stages) == 1 else ["step", "substep"]
        for call in calls:
            given = {name: inputs[name] for name in getattr(one, f"{call}_inputs")}
            expected, got = getattr(one, call)(given), getattr(two, call)(given)
            for name, value in expected.items():
                np.testing.assert_array_equal(got[name], value)
        assert one.state() == two.state()
    assert to_exploy(back, tmp_path / "again.onnx").path.read_bytes() == written.path.read_bytes()


def test_everything_that_the_manifest_says_comes_back(tmp_path: Path) -> None:
    manifest = support.arm_manifest()
    inputs = {**manifest.inputs, "q": msgspec.structs.replace(manifest.inputs["q"], metadata={"a": [1, None]})}
    package = write_arm(
        tmp_path / "p",
        inputs=inputs,
        version="1.2",
        description="an arm",
        findings=(Finding(name="n", severity="info", message="m"),),
        metadata={"groups": {"g": 1}, "other": {"x": 0.1}},
        timing=Timing(decimation=3),
    )
    back = from_exploy(to_exploy(package, tmp_path / "policy.onnx").path, tmp_path / "back")
    assert contract(back.manifest) == contract(package.manifest)


def test_what_the_caller_said_is_kept_for_the_way_back(tmp_path: Path) -> None:
    package = write_arm(tmp_path / "p")
    written = to_exploy(package, tmp_path / "a.onnx", metadata={"env_name": "Arm"}, model_source={"run": 7})
    back = from_exploy(written.path, tmp_path / "back")
    assert back.manifest.metadata == {"exploy": {"model_source": '{"run": 7}', "env_name": "Arm"}}
    again = onnx.load(to_exploy(back, tmp_path / "b.onnx").path)
    said = {entry.key: entry.value for entry in again.metadata_props}
    assert (said["env_name"], said["model_source"]) == ("Arm", '{"run": 7}')


def edited(path: Path, change: Callable[[onnx.ModelProto], Any]) -> Path:
    model = onnx.load(path)
    change(model)
    onnx.save(model, path)
    return path


def edit_note(change: Callable[[dict[str, Any]], Any]) -> Callable[[onnx.ModelProto], None]:
    def edit(model: onnx.ModelProto) -> None:
        entry = next(entry for entry in model.metadata_props if entry.key == "ashore")
        note = json.loads(entry.value)
        change(note)
        entry.value = json.dumps(note)

    return edit


def change_decimation(model: onnx.ModelProto) -> None:
    constant = next(c for c in model.graph.initializer if c.name.endswith("control/decimation"))
    constant.CopyFrom(numpy_helper.from_array(np.array(5, np.int32), constant.name))


def change_initial(model: onnx.ModelProto) -> None:
    constant = next(c for c in model.graph.initializer if c.name.endswith("control/initial/filter"))
    constant.CopyFrom(numpy_helper.from_array(support.f32(9, 9), constant.name))


def drop_a_node(model: onnx.ModelProto) -> None:
    branch = next(node for node in model.graph.node if node.op_type == "If").attribute[0].g
    del branch.node[5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_decimation, "its graph is not the one that its 'ashore' note tells of"),
        (change_initial, "its graph is not the one that its 'ashore' note tells of"),
        (drop_a_node, "its graph is not the one that its 'ashore' note tells of"),
        (edit_note(lambda note: note["stages"].pop("act")), "its 'ashore' note does not fit itself"),
        (edit_note(lambda note: note.update(version=2)), "has version 2, and this Ashore reads 1; update ashore"),
        (edit_note(lambda note: note.update(version="1")), "has version '1'"),
        (edit_note(lambda note: note.update(more=1)), "its 'ashore' note cannot be read"),
        (edit_note(lambda note: note["manifest"].pop("name")), "its 'ashore' note cannot be read: manifest.json"),
        (edit_note(lambda note: note["initial"].pop("filter")), "initial: expected the states"),
        (edit_note(lambda note: note["initial"]["filter"].update(data="AA=")), "initial.filter cannot be read"),
        (edit_note(lambda note: note["initial"]["filter"].update(data="AAAA")), "initial.filter cannot be read"),
        (edit_note(lambda note: note.update(held={"torque": "x"})), "its graph is not the one"),
        (edit_note(lambda note: note.update(held={"nothing": "x"})), "its graph is not the one"),
        (edit_note(lambda note: note.update(root="other:")), "its graph is not the one"),
        (edit_note(lambda note: note.update(decided="other")), "its graph is not the one"),
        (
            edit_note(lambda note: note["manifest"]["stages"]["act"].update(artifacts={"pt2": {"path": "x"}})),
            "names a stage without an ONNX artifact",
        ),
        (lambda model: model.opset_import[0].__setattr__("version", 17), "its graph is not the one"),
    ],
)
def test_a_file_that_was_changed_is_refused(
    change: Callable[[onnx.ModelProto], Any], message: str, tmp_path: Path
) -> None:
    path = edited(to_exploy(write_arm(tmp_path / "p"), tmp_path / "policy.onnx").path, change)
    with pytest.raises(PackageError) as refused:
        from_exploy(path, tmp_path / "back")
    assert message in str(refused.value)
    assert not (tmp_path / "back").exists()


def test_weights_that_were_trained_on_come_back_as_they_are(tmp_path: Path) -> None:
    path = to_exploy(write_rich(tmp_path / "p"), tmp_path / "policy.onnx").path

    def retrain(model: onnx.ModelProto) -> None:
        weight = next(c for c in model.graph.initializer if c.name.endswith("constants/rich/weight"))
        weight.CopyFrom(numpy_helper.from_array(support.f32(2, 3), weight.name))

    back = from_exploy(edited(path, retrain), tmp_path / "back")
    found = {c.name: numpy_helper.to_array(c) for c in onnx.load(tmp_path / "back" / "rich.onnx").graph.initializer}
    np.testing.assert_array_equal(found["weight"], support.f32(2, 3))
    assert ashore.load(back)


# --- files that Exploy wrote -----------------------------------------------------------------------------------------


def save(model: onnx.ModelProto, path: Path) -> Path:
    onnx.save(model, path)
    return path


def branch_of(model: onnx.ModelProto, name: str) -> onnx.GraphProto:
    return next(entry.g for entry in model.graph.node[3].attribute if entry.name == name)


def foreign_inputs(tick: int) -> Arrays:
    foo, bar = support.inputs_like((1, 2), 2, seed=tick)
    return {"foo": foo, "g.bar": bar}


def run_bare(path: Path, ticks: int, reset_at: int, initial: Arrays | None = None) -> list[Arrays]:
    session = ort.InferenceSession(path)
    names = [port.name for port in session.get_outputs()]
    start = {name: np.zeros((1, 2), np.float32) for name in ("memory.actions.in", "memory.out.in")} | (initial or {})
    memory, count, found = start, 0, []
    for tick in range(ticks):
        if tick == reset_at:
            memory, count = start, 0
        feed = {"ctx.step_count": np.array(count, np.int32), **foreign_inputs(tick), **memory}
        results = dict(zip(names, session.run(None, feed), strict=True))
        memory = {name: results[name.removesuffix("in") + "out"] for name in memory}
        found.append(results)
        count += 1
    return found


@pytest.mark.parametrize("decimation", [2, 4])
def test_steps_and_substeps_of_the_package_are_ticks_of_a_foreign_file(decimation: int, tmp_path: Path) -> None:
    path = save(foreign_model(decimation), tmp_path / "policy.onnx")
    package = from_exploy(path, tmp_path / "p")
    policy, count = ashore.load(package), 0
    assert policy.step_inputs == ("foo", "g.bar")
    assert policy.substep_inputs == ("foo",)
    for tick, expected in enumerate(run_bare(path, 50, reset_at=21)):
        if tick == 21:
            policy.reset()
            count = 0
        inputs = foreign_inputs(tick)
        got: Arrays = {}
        if count % decimation == 0:
            got |= policy.step(inputs)
        else:
            assert not expected["actions"].any()
            assert not expected["obs"].any()
        got |= policy.substep({"foo": inputs["foo"]})
        assert got.keys() == ({"actions", "obs", "out"} if count % decimation == 0 else {"out"})
        for name, value in got.items():
            np.testing.assert_array_equal(value, expected[name], err_msg=f"{tick}: {name}")
        for name in ("actions", "out"):
            np.testing.assert_array_equal(policy.state()[name], expected[f"memory.{name}.out"])
        count += 1


def test_a_foreign_file_may_become_a_file_of_ours_that_ticks_alike(tmp_path: Path) -> None:
    path = save(foreign_model(4), tmp_path / "policy.onnx")
    package = from_exploy(path, tmp_path / "p")
    written = to_exploy(package, tmp_path / "ours.onnx")
    wrapper = SessionWrapper(tmp_path, "ours.onnx", optimize=False)
    for tick, expected in enumerate(run_bare(path, 30, reset_at=14)):
        if tick == 14:
            wrapper.reset()
        got = wrapper.run(foreign_inputs(tick))
        for name, value in got.items():
            np.testing.assert_array_equal(value, expected[name], err_msg=f"{tick}: {name}")
    assert list(written.outputs)[:3] == ["actions", "obs", "out"]
    again = from_exploy(written.path, tmp_path / "again")
    assert contract(again.manifest) == contract(package.manifest)


def test_a_foreign_file_that_always_decides_is_one_stage(tmp_path: Path) -> None:
    path = save(foreign_model(1), tmp_path / "policy.onnx")
    package = from_exploy(path, tmp_path / "p")
    assert list(package.manifest.stages) == ["default"]
    assert package.manifest.states.keys() == {"actions", "out"}
    policy = ashore.load(package)
    for tick, expected in enumerate(run_bare(path, 8, reset_at=99)):
        for name, value in policy.step(foreign_inputs(tick)).items():
            np.testing.assert_array_equal(value, expected[name])


def test_what_a_foreign_file_says_is_kept(tmp_path: Path) -> None:
    said = {
        "foo": '{"description": "The foo."}',
        "g": '{"joint_names": ["a", "b"]}',
        "out": "not json",
        "exploy_version": '"0.1.0"',
        "model_source": "{}",
        "env_name": "Env",
        "decimation": "4",
        "update_rate": "200.0",
    }
    package = from_exploy(save(foreign_model(4, said), tmp_path / "my policy.onnx"), tmp_path / "p")
    manifest = package.manifest
    assert manifest.name == "my_policy"
    assert manifest.inputs["foo"].metadata == {"description": "The foo."}
    assert manifest.outputs["out"].metadata == {}
    assert manifest.metadata["groups"] == {"g": {"joint_names": ["a", "b"]}}
    assert manifest.metadata["exploy"] == {key: text for key, text in said.items() if key not in ("foo", "g")}
    assert manifest.timing == Timing(decimation=4, physics_dt_s=0.005, policy_dt_s=0.02)
    assert manifest.provenance.tools == {"exploy": "0.1.0"}
    assert {name: state.role for name, state in manifest.states.items()} == {
        "actions": "last_action",
        "out": "memory",
        "kept.out": "memory",
        "fresh": "memory",
    }
    assert [finding.name for finding in manifest.findings] == ["initial_memory_assumed"]
    assert "['actions', 'out']" in manifest.findings[0].message
    again = onnx.load(to_exploy(package, tmp_path / "again.onnx").path)
    assert {entry.key: entry.value for entry in again.metadata_props if entry.key in said} == said


def test_a_foreign_file_without_times_has_none(tmp_path: Path) -> None:
    package = from_exploy(save(foreign_model(4), tmp_path / "policy.onnx"), tmp_path / "p")
    assert package.manifest.timing == Timing(decimation=4)
    package = from_exploy(save(foreign_model(4, {"sim_dt": "0.002"}), tmp_path / "policy.onnx"), tmp_path / "p")
    assert package.manifest.timing == Timing(decimation=4, physics_dt_s=0.002, policy_dt_s=0.008)


def test_memory_that_a_foreign_file_gives_a_value_starts_from_it(tmp_path: Path) -> None:
    model = foreign_model(4)
    model.graph.initializer.append(helper.make_tensor("memory.out.in", TensorProto.FLOAT, (1, 2), [5.0, 6.0]))
    path = save(model, tmp_path / "policy.onnx")
    package = from_exploy(path, tmp_path / "p")
    np.testing.assert_array_equal(package.initial_state()["out"], support.f32(5, 6))
    assert "['actions']" in package.manifest.findings[0].message
    policy = ashore.load(package)
    for tick, expected in enumerate(run_bare(path, 8, 99, {"memory.out.in": support.f32(5, 6)})):
        inputs = foreign_inputs(tick)
        if tick % 4 == 0:
            policy.step(inputs)
        np.testing.assert_array_equal(policy.substep({"foo": inputs["foo"]})["out"], expected["out"])


def test_actions_that_are_not_zero_between_decisions_belong_to_the_substep(tmp_path: Path) -> None:
    model = foreign_model(4)
    branch = branch_of(model, "else_branch")
    next(node for node in branch.node if "actions" in node.output).CopyFrom(
        helper.make_node("Identity", ["memory.actions.in"], ["actions"])
    )
    path = save(model, tmp_path / "policy.onnx")
    policy = ashore.load(from_exploy(path, tmp_path / "p"))
    for tick, expected in enumerate(run_bare(path, 8, reset_at=99)):
        inputs = foreign_inputs(tick)
        if tick % 4 == 0:
            assert policy.step(inputs).keys() == {"obs"}
        np.testing.assert_array_equal(policy.substep({"foo": inputs["foo"]})["actions"], expected["actions"])


def test_a_foreign_file_with_a_batch_keeps_it(tmp_path: Path) -> None:
    model = foreign_model(2)
    for port in (*model.graph.input, *model.graph.output):
        if port.name not in ("ctx.step_count", "actions", "obs"):
            port.type.tensor_type.shape.dim[0].dim_param = "n"
    for attribute in model.graph.node[3].attribute:
        for port in attribute.g.output:
            port.type.tensor_type.shape.dim[0].dim_param = "n"
    package = from_exploy(save(model, tmp_path / "policy.onnx"), tmp_path / "p")
    assert package.manifest.inputs["foo"].shape == ("batch", 2)
    assert ashore.load(package, batch=1).step(foreign_inputs(0))["actions"].shape == (1, 2)


def graph_input(model: onnx.ModelProto, name: str) -> onnx.ValueInfoProto:
    return next(port for port in (*model.graph.input, *model.graph.output) if port.name == name)


def remove(repeated: Any, name: str) -> None:
    repeated.remove(next(entry for entry in repeated if entry.name == name))


def as_constant(model: onnx.ModelProto, name: str, array: np.ndarray) -> None:
    next(c for c in model.graph.initializer if c.name == name).CopyFrom(numpy_helper.from_array(array, name))


def rename_step_count(model: onnx.ModelProto) -> None:
    graph_input(model, "ctx.step_count").name = "count"
    model.graph.node[0].input[0] = "count"


def use_step_count(model: onnx.ModelProto) -> None:
    model.graph.node[2].CopyFrom(helper.make_node("Cast", ["ctx.step_count"], ["offset"], to=TensorProto.FLOAT))


def two_choices(model: onnx.ModelProto) -> None:
    again = onnx.NodeProto()
    again.CopyFrom(model.graph.node[3])
    again.output[:] = [f"{name}_" for name in again.output]
    model.graph.node.append(again)


def output_beside(model: onnx.ModelProto) -> None:
    model.graph.output.append(helper.make_tensor_value_info("offset", TensorProto.FLOAT, [1, 2]))


def default_foo(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(helper.make_tensor("foo", TensorProto.FLOAT, (1, 2), [1.0, 2.0]))


def wrong_initial(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(helper.make_tensor("memory.out.in", TensorProto.FLOAT, (2,), [1.0, 2.0]))


def use_nowhere(model: onnx.ModelProto) -> None:
    branch_of(model, "then_branch").node[0].input[0] = "nowhere"


def use_itself(model: onnx.ModelProto) -> None:
    model.graph.node[3].output.append("more")
    for attribute in model.graph.node[3].attribute:
        attribute.g.output.append(attribute.g.output[0])
    branch_of(model, "then_branch").node[1].input[0] = "more"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (rename_step_count, "it has no input 'ctx.step_count'"),
        (lambda model: model.graph.node.pop(), "expected one If node that chooses between two graphs, got 0"),
        (two_choices, "expected one If node that chooses between two graphs, got 2"),
        (lambda model: model.graph.node[3].attribute.pop(), "its If node has ['else_branch']"),
        (lambda model: branch_of(model, "else_branch").output.pop(), "its else_branch gives 4 outputs for 5"),
        (
            lambda model: branch_of(model, "then_branch").input.append(graph_input(model, "foo")),
            "its then_branch has inputs of its own",
        ),
        (lambda model: as_constant(model, "decimation", np.array(0, np.int32)), "it decides every 0 ticks"),
        (lambda model: remove(model.graph.initializer, "decimation"), "it decides every None ticks"),
        (lambda model: as_constant(model, "zero", np.array(1, np.int32)), "does not ask whether something is 0"),
        (
            lambda model: model.graph.node[1].__setattr__("op_type", "Less"),
            "expected Equal to decide which graph runs, got Less",
        ),
        (
            lambda model: model.graph.node[0].__setattr__("op_type", "Sub"),
            "expected Mod to decide which graph runs, got Sub",
        ),
        (lambda model: model.graph.node[0].input.__setitem__(0, "foo"), "does not ask for 'ctx.step_count'"),
        (lambda model: remove(model.graph.input, "memory.out.in"), "memory 'out' has no 'memory.out.in'"),
        (lambda model: remove(model.graph.output, "memory.out.out"), "memory 'out' has no 'memory.out.out'"),
        (
            lambda model: graph_input(model, "memory.out.in").type.tensor_type.shape.dim.pop(),
            "the memory 'out' is read and written with different types or shapes",
        ),
        (wrong_initial, "the initial value of the memory 'out' does not fit it"),
        (default_foo, "its input 'foo' has a value of its own"),
        (
            lambda model: graph_input(model, "foo").type.tensor_type.__setattr__("elem_type", TensorProto.BFLOAT16),
            "'foo' is bfloat16, which a package cannot hold",
        ),
        (
            lambda model: graph_input(model, "foo").type.tensor_type.__setattr__("elem_type", TensorProto.STRING),
            "'foo' is object, which a package cannot hold",
        ),
        (lambda model: graph_input(model, "foo").type.tensor_type.ClearField("shape"), "'foo' has no shape"),
        (
            lambda model: graph_input(model, "foo").type.tensor_type.shape.dim[0].ClearField("dim_value"),
            "'foo' has no length for axis 0",
        ),
        (
            lambda model: [
                graph_input(model, name).type.tensor_type.shape.dim[0].__setattr__("dim_param", name)
                for name in ("foo", "g.bar")
            ],
            "it has the symbolic lengths ['foo', 'g.bar']; a package has one, the batch",
        ),
        (output_beside, "its output 'offset' is not chosen between the two graphs"),
        (use_step_count, "its graphs use 'ctx.step_count' for more than to decide which of them runs"),
        (use_nowhere, "its graphs use 'nowhere', which is nowhere"),
        (use_itself, "its two graphs use what they themselves compute"),
        (lambda model: model.graph.sparse_initializer.add(), "it has sparse constants"),
        (lambda model: model.metadata_props.add(key="decimation", value="5"), "decimation = '5', its graph says 4"),
        (lambda model: model.metadata_props.add(key="sim_dt", value="x"), "sim_dt = 'x'; expected a number above 0"),
        (lambda model: model.metadata_props.add(key="sim_dt", value="-1"), "sim_dt = '-1'; expected a number above 0"),
        (
            lambda model: [model.metadata_props.add(key=key, value="7") for key in ("sim_dt", "update_rate")],
            "says sim_dt = 7.0 s and update_rate = 7.0 Hz",
        ),
        (
            lambda model: [model.metadata_props.add(key="k", value=value) for value in "ab"],
            "its metadata says 'k' twice",
        ),
        (lambda model: model.metadata_props.add(key="foo", value='{"a": NaN}'), "makes no package"),
    ],
)
def test_what_exploy_does_not_write_is_refused(
    change: Callable[[onnx.ModelProto], Any], message: str, tmp_path: Path
) -> None:
    model = foreign_model(4)
    change(model)
    (tmp_path / "policy.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(AshoreError) as refused:
        from_exploy(tmp_path / "policy.onnx", tmp_path / "p")
    assert message in str(refused.value)
    assert str(tmp_path / "policy.onnx") in str(refused.value)
    assert not (tmp_path / "p").exists()


def test_the_condition_may_be_spelt_otherwise(tmp_path: Path) -> None:
    model = foreign_model(4)
    for name in ("decimation", "zero"):
        remove(model.graph.initializer, name)
    del model.graph.node[:2]
    nodes = [
        helper.make_node("Unsqueeze", ["ctx.step_count", "axes"], ["count"]),
        helper.make_node("Constant", [], ["axes"], value_ints=[0]),
        helper.make_node("Cast", ["count"], ["long"], to=TensorProto.INT64),
        helper.make_node("Constant", [], ["every"], value_int=4),
        helper.make_node("Constant", [], ["nil"], value=numpy_helper.from_array(np.array([0]))),
        helper.make_node("Mod", ["long", "every"], ["rest"]),
        helper.make_node("Equal", ["nil", "rest"], ["equal"]),
        helper.make_node("Identity", ["equal"], ["cond"]),
    ]
    nodes[:2] = nodes[1::-1]
    for node in reversed(nodes):
        model.graph.node.insert(0, node)
    package = from_exploy(save(model, tmp_path / "policy.onnx"), tmp_path / "p")
    assert package.manifest.timing == Timing(decimation=4)


def test_weights_outside_the_file_are_refused(tmp_path: Path) -> None:
    model = foreign_model(4)
    as_constant(model, "base", support.f32(1, 2))
    onnx.save(model, tmp_path / "policy.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    with pytest.raises(PackageError, match="keeps weights outside the file, in 'weights.bin'"):
        from_exploy(tmp_path / "policy.onnx", tmp_path / "p")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="there is no file here; expected a policy as one .onnx file"):
        from_exploy(tmp_path, tmp_path / "p")
    (tmp_path / "policy.onnx").write_bytes(b"\x08\x01 and more")
    with pytest.raises(PackageError, match="policy.onnx: (is no ONNX file|not a readable ONNX file)"):
        from_exploy(tmp_path / "policy.onnx", tmp_path / "p")
    (tmp_path / "policy.onnx").write_bytes(b"")
    with pytest.raises(PackageError, match="it has no input 'ctx.step_count'"):
        from_exploy(tmp_path / "policy.onnx", tmp_path / "p")
    with pytest.raises(PackageError, match="there is no file here|cannot be a path"):
        from_exploy("a\0b.onnx", tmp_path / "p")


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_file_is_an_error_of_ours_or_a_package(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    if seed % 2:
        data = bytearray(foreign_model(4).SerializeToString())
    else:
        data = bytearray(to_exploy(write_arm(tmp_path / "a"), tmp_path / "a.onnx").path.read_bytes())
    for place in rng.integers(0, len(data), 4):
        data[place] ^= 1 << int(rng.integers(0, 8))
    (tmp_path / "policy.onnx").write_bytes(bytes(data))
    try:
        from_exploy(tmp_path / "policy.onnx", tmp_path / "p")
    except AshoreError:
        assert not (tmp_path / "p").exists()
