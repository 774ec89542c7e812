from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import onnxruntime as ort
import pytest

import support
from ashore.errors import AshoreError, ExportError, PackageError
from ashore.interop.exploy import to_exploy
from ashore.interop.exploy import writing as exploy_writing
from ashore.package import Package, Recording, write
from ashore.spec import Artifact, Manifest, Port, Processor, Stage, State, Timing, Wire, single_stage
from interop.exploy.exploy_cases import Arrays, PackageTicks, draw, write_arm, write_clashing, write_rich
from runtime.test_random_wiring import World

TICKS, RESETS = 50, (7, 8, 22, 37)
PORT = Port(dtype="float32", shape=(1, 2))


class Controller:
    """What a controller does: it feeds memory back, and on a reset fills it with zeros."""

    def __init__(self, path: Path, batch: int = 1) -> None:
        self.session = ort.InferenceSession(path)
        self.outputs = [port.name for port in self.session.get_outputs()]
        self.batch = batch
        self.reset()

    def reset(self) -> None:
        self.memory = {
            port.name: np.zeros(
                [dim if isinstance(dim, int) else self.batch for dim in port.shape],
                {"float": "float32", "double": "float64"}.get(port.type[7:-1], port.type[7:-1]),
            )
            for port in self.session.get_inputs()
            if port.name.startswith("memory.")
        }

    def tick(self, count: int, inputs: Arrays) -> Arrays:
        feed = {"ctx.step_count": np.array(count, np.int32), **inputs, **self.memory}
        results = dict(zip(self.outputs, self.session.run(None, feed), strict=True))
        self.memory = {name: results[name.removesuffix("in") + "out"] for name in self.memory}
        return results


def check_ticks(package: Package, path: Path, *, restart_count: bool, batch: int = 1, start: int = 0) -> None:
    """The file gives exactly what the package gives, and its memory holds what the states hold."""
    controller, reference, count = Controller(path, batch), PackageTicks(package, batch), start
    distinct: set[bytes] = set()
    for tick, inputs in enumerate(draw(package.manifest, TICKS, batch=batch)):
        if tick in RESETS:
            controller.reset()
            reference.reset()
            count = 0 if restart_count else count
        got, expected = controller.tick(count, inputs), reference.tick(count, inputs)
        for name, value in expected.items():
            np.testing.assert_array_equal(got[name], value, err_msg=f"{tick}: {name}")
            distinct.add(value.tobytes())
        for name, value in reference.policy.state().items():
            np.testing.assert_array_equal(got[f"memory.{name}.out"], value, err_msg=f"{tick}: {name}")
        count += 1
    assert len(distinct) > TICKS / 2, "outputs that never change prove nothing"


@pytest.mark.parametrize("restart_count", [True, False])
@pytest.mark.parametrize("make", [write_arm, write_clashing, write_rich], ids=["arm", "clashing", "rich"])
def test_ticks_of_the_file_are_steps_and_substeps_of_the_package(
    make: Any, restart_count: bool, tmp_path: Path
) -> None:
    package = make(tmp_path / "package")
    written = to_exploy(package, tmp_path / "policy.onnx")
    check_ticks(package, written.path, restart_count=restart_count)
    check_ticks(package, written.path, restart_count=restart_count, start=3)


@pytest.mark.parametrize("seed", range(12))
def test_a_random_package_ticks_as_its_wires_say(seed: int, tmp_path: Path) -> None:
    world = World(seed)
    states = {name: msgspec.structs.replace(state, reset="initial") for name, state in world.manifest.states.items()}
    manifest = msgspec.structs.replace(world.manifest, states=states)
    package = write(tmp_path / "p", manifest, files=world.files(), initial=world.initial)
    check_ticks(package, to_exploy(package, tmp_path / "policy.onnx").path, restart_count=False)


def test_one_rate_is_one_step_a_tick(sum_package: Package, tmp_path: Path) -> None:
    written = to_exploy(sum_package, tmp_path / "policy.onnx")
    assert written.decimation == 1
    assert written.replayed_ticks == 8
    check_ticks(sum_package, written.path, restart_count=True)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_symbolic_batch_stays_symbolic(rows: int, tmp_path: Path) -> None:
    package = support.write_batched(tmp_path / "p", rows=rows)
    written = to_exploy(package, tmp_path / "policy.onnx")
    assert written.replayed_ticks == 5
    check_ticks(package, written.path, restart_count=True, batch=rows)
    assert ort.InferenceSession(written.path).get_inputs()[1].shape == ["batch", 2]


# --- the ports -------------------------------------------------------------------------------------------------------


def test_ports_are_called_as_a_controller_expects(tmp_path: Path) -> None:
    written = to_exploy(write_clashing(tmp_path / "p"), tmp_path / "policy.onnx")
    assert written.inputs == (
        "ctx.step_count",
        *("cond", "zero", "control/nodes", "ashore:default/default/x"),
        *("memory.decided.in", "memory.in/x.in", "memory.decided_.in"),
    )
    assert written.outputs == (
        *("actions", "obs", "decimation", "is_event", "If_0"),
        *("memory.decided.out", "memory.in/x.out", "memory.decided_.out"),
    )
    assert written.memory["decided"] == ("memory.decided.in", "memory.decided.out")
    session = ort.InferenceSession(written.path)
    assert [port.name for port in session.get_inputs()] == list(written.inputs)
    assert [port.name for port in session.get_outputs()] == list(written.outputs)
    count, flag = session.get_inputs()[0], session.get_inputs()[-1]
    assert (count.type, count.shape) == ("tensor(int32)", [])
    assert (flag.type, flag.shape) == ("tensor(bool)", [1])


def test_no_two_values_have_one_name(tmp_path: Path) -> None:
    to_exploy(write_clashing(tmp_path / "p"), tmp_path / "policy.onnx")
    seen: list[str] = []

    def collect(graph: onnx.GraphProto) -> None:
        seen.extend(port.name for port in graph.input)
        seen.extend(constant.name for constant in graph.initializer)
        for node in graph.node:
            seen.extend(node.output)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    collect(attribute.g)

    collect(onnx.load(tmp_path / "policy.onnx").graph)
    assert len(seen) == len(set(seen)) > 40


def between(package: Package, path: Path) -> tuple[Arrays, Arrays]:
    controller = Controller(path)
    first, second = draw(package.manifest, 2)
    return controller.tick(0, first), controller.tick(1, second)


def test_outputs_of_the_policy_rate_are_zero_between_decisions(tmp_path: Path) -> None:
    package = write_clashing(tmp_path / "p")
    first, second = between(package, to_exploy(package, tmp_path / "policy.onnx").path)
    for name in ("actions", "decimation", "If_0"):
        assert first[name].all()
        assert not second[name].any()
        assert second[name].shape == (1, 2)


def rename_output(manifest: Manifest, old: str, new: str) -> Manifest:
    outputs = {new if name == old else name: port for name, port in manifest.outputs.items()}
    wires = tuple(
        Wire(wire.source, f"outputs/{new}") if wire.target == f"outputs/{old}" else wire for wire in manifest.wires
    )
    return msgspec.structs.replace(manifest, outputs=outputs, wires=wires)


def test_a_command_of_the_policy_rate_is_held_between_decisions(tmp_path: Path) -> None:
    manifest = rename_output(support.arm_manifest(), "action", "output.joint_targets.arm.pos")
    contents = {**support.arm_contents(), "golden": None}
    package = write(tmp_path / "p", manifest, **contents)
    written = to_exploy(package, tmp_path / "policy.onnx")
    assert "memory.held.output.joint_targets.arm.pos.in" in written.inputs
    first, second = between(package, written.path)
    assert first["output.joint_targets.arm.pos"].all()
    np.testing.assert_array_equal(second["output.joint_targets.arm.pos"], first["output.joint_targets.arm.pos"])


@pytest.mark.parametrize("batched", [False, True])
def test_where_nothing_runs_between_decisions_every_output_is_held(batched: bool, tmp_path: Path) -> None:
    make = support.write_batched if batched else support.write_sum
    manifest = make(tmp_path / "p").manifest
    timing = Timing(policy_dt_s=0.02, physics_dt_s=0.005, decimation=4)
    first = make(tmp_path / "p")
    contents = {path: first.read(path) for path in manifest.files if path.endswith(".onnx")}
    package = write(
        tmp_path / "p",
        msgspec.structs.replace(manifest, timing=timing),
        files=contents,
        initial=first.initial_state(),
    )
    written = to_exploy(package, tmp_path / "policy.onnx")
    controller, policy = Controller(written.path), PackageTicks(package).policy
    held: Arrays = {}
    for tick, inputs in enumerate(draw(manifest, 20)):
        if tick % 4 == 0:
            held = policy.step(inputs)
        np.testing.assert_array_equal(controller.tick(tick, inputs)["y"], held["y"])
        np.testing.assert_array_equal(controller.memory["memory.h.in"], policy.state()["h"])


def test_zeros_of_a_symbolic_batch_have_as_many_rows_as_the_inputs(tmp_path: Path) -> None:
    rows = Port(dtype="int32", shape=(3, "batch"))
    decide = "g (int32[3,batch] x) => (int32[3,batch] a) {a = Add(x, x)}"
    act = "g (int32[3,batch] a) => (int32[3,batch] b) {b = Add(a, a)}"
    manifest = Manifest(
        name="rows",
        timing=Timing(decimation=2),
        inputs={"x": rows},
        outputs={"a": rows, "b": rows},
        stages={
            "d": Stage(rate="policy", inputs={"x": rows}, outputs={"a": rows}, artifacts={"onnx": Artifact(path="d")}),
            "s": Stage(rate="substep", inputs={"a": rows}, outputs={"b": rows}, artifacts={"onnx": Artifact(path="s")}),
        },
        wires=(
            Wire("inputs/x", "d/x"),
            Wire("d/a", "states/a"),
            Wire("d/a", "outputs/a"),
            Wire("states/a", "s/a"),
            Wire("s/b", "outputs/b"),
        ),
        states={"a": State(dtype="int32", shape=(3, "batch"), role="last_action")},
    )
    files, initial = {"d": support.model(decide), "s": support.model(act)}, {"a": np.zeros((3, 1), np.int32)}
    written = to_exploy(write(tmp_path / "p", manifest, files=files, initial=initial), tmp_path / "policy.onnx")
    controller, x = Controller(written.path, batch=5), np.ones((3, 5), np.int32)
    assert controller.tick(0, {"x": x})["a"].all()
    got = controller.tick(1, {"x": x})
    np.testing.assert_array_equal(got["a"], np.zeros((3, 5), np.int32))
    np.testing.assert_array_equal(got["b"], np.full((3, 5), 4))


@pytest.mark.parametrize("as_node", [False, True])
def test_weights_are_in_the_file_once(as_node: bool, tmp_path: Path) -> None:
    weights = f"{{{', '.join(map(str, range(3000)))}}}"
    constant = "{" if as_node else f"<float[1,3000] big = {weights}> {{"
    node = f"big = Constant<value = float[1,3000] {weights}>()" if as_node else ""
    act = support.ACT_MODEL.replace("{", f"{constant}\n{node}\nmuch = ReduceSum<keepdims = 0>(big)\n", 1)
    contents = support.arm_contents()
    contents["files"]["artifacts/act.onnx"] = support.model(act)
    package = write(tmp_path / "p", support.arm_manifest(), **contents)
    written = to_exploy(package, tmp_path / "policy.onnx")
    assert 12_000 < written.size < 12_000 + 16_000
    assert written.replayed_ticks == 22


# --- what the file says of itself ------------------------------------------------------------------------------------


def said(path: Path) -> dict[str, str]:
    return {entry.key: entry.value for entry in onnx.load(path).metadata_props}


def test_the_same_package_gives_the_same_bytes(tmp_path: Path) -> None:
    package = write_arm(tmp_path / "p")
    first = to_exploy(package, tmp_path / "a.onnx", metadata={"k": [1, 2]}, debug=True)
    second = to_exploy(package, tmp_path / "b.onnx", metadata={"k": [1, 2]}, debug=True)
    assert first.path.read_bytes() == second.path.read_bytes()
    for one, two in zip(first.debug, second.debug, strict=True):
        assert one.read_bytes() == two.read_bytes()
    assert "date_exported (YYMMDD.HHMMSS)" not in said(first.path)


def test_metadata_is_written_as_a_controller_reads_it(tmp_path: Path) -> None:
    manifest = support.arm_manifest()
    inputs = {
        **manifest.inputs,
        "q": msgspec.structs.replace(manifest.inputs["q"], metadata={"joint_names": ["shoulder", "elbow"]}),
    }
    package = write_arm(tmp_path / "p", inputs=inputs, metadata={"groups": {"obj.arm": {"a": 1}}})
    to_exploy(
        package,
        tmp_path / "policy.onnx",
        metadata={"env_name": "Arm", "obs_term_names": ["q", "last"], "version": 2, "sim_dt": "0.005"},
        model_source={"run": "a/b"},
        date=datetime(2026, 1, 2, 3, 4, 5),
    )
    found = said(tmp_path / "policy.onnx")
    note = json.loads(found.pop("ashore"))
    assert found == {
        "model_source": '{"run": "a/b"}',
        "date_exported (YYMMDD.HHMMSS)": "260102.030405",
        "exploy_version": '"0.1.0"',
        "decimation": "4",
        "sim_dt": "0.005",
        "update_rate": "200.0",
        "env_name": "Arm",
        "obs_term_names": '["q", "last"]',
        "version": "2",
        "q": '{"joint_names": ["shoulder", "elbow"]}',
        "obj.arm": '{"a": 1}',
    }
    assert note["manifest"]["files"] == {}
    assert note["manifest"]["manifest_sha256"] is None
    assert note["initial"]["ticks"] == {"dtype": "int64", "shape": [1], "data": "AAAAAAAAAAA="}
    to_exploy(package, tmp_path / "policy.onnx", groups={"obj.leg": None}, exploy_version="0.2.0")
    found = said(tmp_path / "policy.onnx")
    assert found["obj.leg"] == "null"
    assert "obj.arm" not in found
    assert (found["model_source"], found["exploy_version"]) == ("{}", '"0.2.0"')


def test_a_time_that_is_not_known_is_not_said(tmp_path: Path) -> None:
    to_exploy(write_arm(tmp_path / "p", timing=Timing(decimation=4)), tmp_path / "policy.onnx")
    assert said(tmp_path / "policy.onnx").keys() & {"decimation", "sim_dt", "update_rate"} == {"decimation"}
    to_exploy(write_arm(tmp_path / "q", timing=Timing(decimation=4, policy_dt_s=0.08)), tmp_path / "policy.onnx")
    assert said(tmp_path / "policy.onnx")["sim_dt"] == "0.02"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metadata": {"k": np.float32(1)}}, "metadata.k: cannot be written as JSON"),
        ({"metadata": {"k": {"a": [1, float("nan")]}}}, "metadata.k.a[1]: nan is no JSON number"),
        ({"metadata": {"k": {1: 2}}}, "metadata.k: the key 1 is no text"),
        ({"metadata": {3: "x"}}, "metadata: the key 3 is no text"),
        ({"metadata": {"k": "\ud800"}}, "metadata.'k': is no text"),
        ({"metadata": {"ashore": "x"}}, "metadata: 'ashore' is said twice"),
        ({"metadata": {"exploy_version": "x"}}, "metadata: 'exploy_version' is said twice"),
        ({"metadata": {"model_source": "x"}, "model_source": {}}, "metadata: 'model_source' is said twice"),
        ({"metadata": {"decimation": 5}}, "metadata.decimation: '5', but the package says 4"),
        ({"metadata": {"update_rate": "50"}}, "metadata.update_rate: '50', but the package says 200.0"),
        ({"metadata": {"sim_dt": "fast"}}, "metadata.sim_dt: 'fast', but the package says 0.005"),
        ({"metadata": {"g": "x"}, "groups": {"g": 1}}, "'g' is said twice"),
        ({"groups": {"q": 1}}, "groups: 'q' is a port, and no group"),
        ({"groups": {"g": {1, 2}}}, "groups.g: cannot be written as JSON"),
        ({"groups": {1: {}}}, "groups: the key 1 is no text"),
        ({"model_source": object()}, "model_source: cannot be written as JSON"),
    ],
)
def test_what_json_does_not_have_leaves_nothing(arguments: Any, message: str, tmp_path: Path) -> None:
    package = write_arm(tmp_path / "p")
    with pytest.raises(ExportError) as refused:
        to_exploy(package, tmp_path / "out" / "policy.onnx", **arguments)
    assert message in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_groups_that_are_no_mapping_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"metadata.groups: expected a mapping"):
        to_exploy(write_arm(tmp_path / "p", metadata={"groups": [1]}), tmp_path / "policy.onnx")


def test_what_a_controller_does_otherwise_is_said(arm_package: Package, tmp_path: Path) -> None:
    written = to_exploy(arm_package, tmp_path / "policy.onnx")
    kept, dtype = written.warnings
    assert kept.startswith("state 'ticks' is kept on a reset of the package; a controller forgets")
    assert dtype == "state 'ticks' is int64; Exploy's controller takes float32, int32, bool only"
    assert (written.replayed_ticks, written.max_abs_error) == (22, 0.0)


# --- the debug copies ------------------------------------------------------------------------------------------------


def test_the_two_graphs_run_by_themselves(tmp_path: Path) -> None:
    package = write_arm(tmp_path / "p")
    written = to_exploy(package, tmp_path / "out" / "policy.onnx", debug=True)
    names = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*"))
    default, process = "debug/policy_default.onnx", "debug/policy_process_actions.onnx"
    assert names == ["debug", default, process, "policy.onnx"]
    assert written.debug == (tmp_path / "out" / default, tmp_path / "out" / process)
    controller = Controller(written.path)
    for count, path in ((0, written.debug[0]), (1, written.debug[1])):
        session = ort.InferenceSession(path)
        assert {port.name for port in session.get_inputs()} <= set(written.inputs) - {"ctx.step_count"}
        controller.reset()
        controller.tick(0, draw(package.manifest, 1)[0])
        feed = {**draw(package.manifest, 1, seed=5)[0], **controller.memory}
        got = session.run(None, {port.name: feed[port.name] for port in session.get_inputs()})
        expected = controller.tick(count, draw(package.manifest, 1, seed=5)[0])
        for port, value in zip(session.get_outputs(), got, strict=True):
            np.testing.assert_array_equal(value, expected[port.name])


# --- what is refused -------------------------------------------------------------------------------------------------


def stage(rate: Any = "policy", **changes: Any) -> Stage:
    parts = {"inputs": {"x": PORT}, "outputs": {"y": PORT}, "artifacts": {"onnx": Artifact(path="a.onnx")}}
    return Stage(rate=rate, **{**parts, **changes})


def one_stage(out: Path, model: str, *, header: str = support.HEADER, **ports: str) -> Package:
    """A package of one stage, whose input x and output y may be called otherwise."""
    outer_x, outer_y = ports.get("x", "x"), ports.get("y", "y")
    manifest = Manifest(
        name="one",
        inputs={outer_x: PORT},
        outputs={outer_y: PORT},
        stages={"one": stage()},
        wires=(Wire(f"inputs/{outer_x}", "one/x"), Wire("one/y", f"outputs/{outer_y}")),
    )
    return write(out, manifest, files={"a.onnx": onnx.parser.parse_model(header + model).SerializeToString()})


DOUBLE = "g (float[1,2] x) => (float[1,2] y) {y = Add(x, x)}"


@pytest.mark.parametrize(
    ("ports", "message"),
    [
        ({"x": "ctx.step_count"}, "input 'ctx.step_count': a controller counts its ticks under this name"),
        ({"y": "ctx.step_count"}, "output 'ctx.step_count': a controller counts"),
        ({"x": "memory.a.in"}, "input 'memory.a.in': a controller would take it for memory"),
        ({"x": "memory.decided.out"}, "input 'memory.decided.out': a controller would take it for memory"),
        ({"y": "memory.a.out"}, "output 'memory.a.out': a controller would take it for memory"),
        ({"y": "memory.decided.in"}, "output 'memory.decided.in': a controller would take it for memory"),
        ({"x": "z", "y": "z"}, "'z' is an input and an output; an ONNX file has one value of a name"),
    ],
)
def test_names_that_mean_something_else_are_refused(ports: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ExportError) as refused:
        to_exploy(one_stage(tmp_path / "p", DOUBLE, **ports), tmp_path / "policy.onnx")
    assert "cannot be one ONNX file:\n" in str(refused.value)
    assert message in str(refused.value)


def test_stages_that_are_not_onnx_are_refused_all_at_once(tmp_path: Path) -> None:
    manifest = Manifest(
        name="other",
        inputs={"x": PORT},
        outputs={"y": PORT},
        stages={
            "norm": stage(artifacts={}, processor=Processor(type="normalize", assets=("s.safetensors",))),
            "torch": stage(artifacts={"torchscript": Artifact(path="a.pt")}),
        },
        wires=(Wire("inputs/x", "norm/x"), Wire("norm/y", "torch/x"), Wire("torch/y", "outputs/y")),
    )
    package = write(tmp_path / "p", manifest, files={"s.safetensors": b"", "a.pt": b""})
    with pytest.raises(ExportError) as refused:
        to_exploy(package, tmp_path / "policy.onnx")
    assert "stage 'norm' is the processor 'normalize', and only ONNX can be written" in str(refused.value)
    assert "stage 'torch' has artifacts for ['torchscript'], and none for onnx" in str(refused.value)


def test_another_runner_is_refused(tmp_path: Path) -> None:
    package = one_stage(tmp_path / "p", DOUBLE)
    runner = msgspec.structs.replace(package.manifest.runner, type="kv_cache_flow")
    package = msgspec.structs.replace(package, manifest=msgspec.structs.replace(package.manifest, runner=runner))
    with pytest.raises(ExportError, match="runner 'kv_cache_flow': the file runs each stage once"):
        to_exploy(package, tmp_path / "policy.onnx")


def two_opsets(out: Path, first: int, second: int) -> Package:
    manifest = Manifest(
        name="two",
        inputs={"x": PORT},
        outputs={"y": PORT},
        stages={"a": stage(), "b": stage(artifacts={"onnx": Artifact(path="b.onnx")})},
        wires=(Wire("inputs/x", "a/x"), Wire("a/y", "b/x"), Wire("b/y", "outputs/y")),
    )
    texts = (f'<ir_version: 7, opset_import: ["" : {opset}]>\n{DOUBLE}' for opset in (first, second))
    models = [onnx.parser.parse_model(text).SerializeToString() for text in texts]
    return write(out, manifest, files={"a.onnx": models[0], "b.onnx": models[1]})


def test_opsets_that_differ_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="stage 'b' has opset 17 of 'ai.onnx', and stage 'a' has 18; export both"):
        to_exploy(two_opsets(tmp_path / "p", 18, 17), tmp_path / "policy.onnx")
    with pytest.raises(ExportError, match="stage 'a' has opset 10; expected at least 11"):
        to_exploy(two_opsets(tmp_path / "q", 10, 10), tmp_path / "policy.onnx")
    written = to_exploy(two_opsets(tmp_path / "r", 11, 11), tmp_path / "policy.onnx")
    assert onnx.load(written.path).opset_import[0].version == 11
    assert onnx.load(written.path).ir_version == 8


def test_a_batch_that_nothing_counts_is_refused(tmp_path: Path) -> None:
    rows = Port(dtype="float32", shape=("batch", 2))
    manifest = single_stage(
        "rows", inputs={"x": PORT}, outputs={"y": rows}, artifacts={"onnx": Artifact(path="a.onnx")}
    )
    model = "g (float[1,2] x) => (float[batch,2] y) {y = Identity(x)}"
    package = write(tmp_path / "p", manifest, files={"a.onnx": support.model(model)})
    with pytest.raises(ExportError, match="output 'y' has a symbolic batch, and no input or state has one"):
        to_exploy(package, tmp_path / "policy.onnx")


def test_quantization_annotations_are_refused(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(support.HEADER + DOUBLE)
    model.graph.quantization_annotation.add(tensor_name="x")
    manifest = one_stage(tmp_path / "p", DOUBLE).manifest
    package = write(tmp_path / "p", manifest, files={"a.onnx": model.SerializeToString()})
    with pytest.raises(ExportError, match="has quantization annotations, which cannot be moved"):
        to_exploy(package, tmp_path / "policy.onnx")


@pytest.mark.parametrize("debug", [False, True])
def test_a_rollout_that_the_file_does_not_give_leaves_nothing(debug: bool, tmp_path: Path) -> None:
    recording, x = Recording(), support.f32(1, 2)
    recording.step({"x": x}, {"y": x + x})
    recording.step({"x": x}, {"y": x + x + np.float32(1e-3)})
    manifest = one_stage(tmp_path / "p", DOUBLE).manifest
    package = write(tmp_path / "p", manifest, files={"a.onnx": support.model(DOUBLE)}, golden=recording.golden())
    with pytest.raises(ExportError, match=r"tick 1 of the golden rollout: output 'y'\[0, 0\]: expected .*2.001"):
        to_exploy(package, tmp_path / "out" / "policy.onnx", debug=debug)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p"]


def test_a_rollout_that_cannot_be_asked_for_is_said(tmp_path: Path) -> None:
    """Steps alone: in the file every decision acts at once."""
    contents = support.arm_contents()
    steps = [tick for tick in contents["golden"].ticks if tick.rate == "policy"]
    recording = Recording()
    for tick in steps[:1]:
        recording.step(tick.inputs, tick.outputs, tick.states)
    contents["golden"] = recording.golden()
    package = write(tmp_path / "p", support.arm_manifest(), **contents)
    written = to_exploy(package, tmp_path / "policy.onnx")
    assert written.replayed_ticks == 0
    assert written.warnings[-1].startswith("no tick of the golden rollout could be replayed")


# --- the disk --------------------------------------------------------------------------------------------------------


def test_an_old_file_is_replaced_whole_or_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = write_arm(tmp_path / "p")
    target, copy = tmp_path / "policy.onnx", tmp_path / "debug" / "policy_default.onnx"
    copy.parent.mkdir()
    target.write_bytes(b"old")
    copy.write_bytes(b"old too")

    def fail(self: Path, other: Path) -> None:
        if Path(other) == target:
            raise OSError(28, "No space left on device")
        real(self, other)

    real = Path.replace
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", fail)
        with pytest.raises(PackageError, match="policy.onnx: cannot be written: No space left"):
            to_exploy(package, target, debug=True)
    assert (target.read_bytes(), copy.read_bytes()) == (b"old", b"old too")
    assert sorted(path.name for path in copy.parent.iterdir()) == ["policy_default.onnx"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["debug", "p", "policy.onnx"]
    to_exploy(package, target, debug=True)
    assert copy.read_bytes() != b"old too"
    assert target.read_bytes() != b"old"


def test_a_folder_that_was_made_for_it_goes_if_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = write_arm(tmp_path / "p")

    def fail(*_: Any) -> None:
        raise ExportError("no")

    monkeypatch.setattr(exploy_writing._Proof, "check", fail)
    with pytest.raises(ExportError, match="no"):
        to_exploy(package, tmp_path / "a" / "b" / "policy.onnx", debug=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p"]


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("policy", "the name of an ONNX file ends in .onnx"),
        (".onnx", "the name of an ONNX file ends in .onnx"),
        ("folder.onnx", "is there already, and is no plain file"),
        ("link.onnx", "is a link; name the place it points to"),
        ("p/policy.onnx", "which holds nothing but its own files"),
        ("a\0b.onnx", "cannot be a path"),
        ("p/manifest.json/policy.onnx", "cannot be written|lies in the package"),
    ],
)
def test_a_place_that_cannot_be_is_refused(out: str, message: str, tmp_path: Path) -> None:
    package = write_arm(tmp_path / "p")
    (tmp_path / "folder.onnx").mkdir()
    (tmp_path / "link.onnx").symlink_to(tmp_path / "elsewhere.onnx")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(AshoreError, match=message):
        to_exploy(package, tmp_path / out)
    assert sorted(tmp_path.rglob("*")) == before


def test_it_needs_no_torch() -> None:
    code = "import sys, ashore.interop.exploy; print('torch' in sys.modules, 'exploy' in sys.modules)"
    done = support.run_python(code)
    assert done.stdout == "False False\n", done.stdout + done.stderr
