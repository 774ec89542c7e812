"""Whole packages as C: rates, states, wires, checks, and what the files are like."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from harness import FAST, STRICT, Native, RefusedError, build, native
from models import Constant, Model, case
from onnx import TensorProto, helper

import ashore
import processing
import support
from ashore.backends.c import generate
from ashore.errors import BackendError, InputError
from ashore.package import Package, read, write
from ashore.runtime import Policy, load
from ashore.spec import Artifact, Joint, Limits, Port, single_stage
from graphs import SUBJECTS, write_subject
from runtime.test_random_wiring import World

QUICK = ("-O1", "-march=native", "-fno-math-errno", "-ffp-contract=fast")
BAD_INPUT, BAD_RESULT, NOT_DECIDED, BAD_INDEX = 1, 2, 3, 4


def random_inputs(ports: Any, names: Any, rng: np.random.Generator) -> dict[str, np.ndarray]:
    shapes = {name: [1 if size == "batch" else size for size in ports[name].shape] for name in names}
    return {name: rng.standard_normal(shapes[name]).astype(ports[name].dtype) for name in names}


def compare(policy: Policy, compiled: Native, rng: np.random.Generator, steps: int, atol: float = 0.0) -> None:
    """Drive both with the same inputs, with a reset in the middle; everything must agree."""
    for tick in range(steps):
        if tick == steps // 2:
            policy.reset()
            compiled.reset()
        for verb, names in (("step", policy.step_inputs), ("substep", policy.substep_inputs)):
            if verb == "substep" and not compiled.contract.substep_output_count:
                continue
            inputs = random_inputs(policy.inputs, names, rng)
            expected, got = getattr(policy, verb)(inputs), getattr(compiled, verb)(inputs)
            assert got.keys() == expected.keys()
            for name in expected:
                np.testing.assert_allclose(got[name], expected[name], rtol=0, atol=atol, err_msg=f"{verb}: {name}")
            for name, value in policy.state().items():
                np.testing.assert_allclose(compiled.state()[name], value, rtol=atol, atol=atol, err_msg=f"state {name}")


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_benchmarked_policy_computes_what_onnx_runtime_computes(name: str, tmp_path: Path) -> None:
    package = write_subject(SUBJECTS[name](), tmp_path / "package")
    compiled = native(package, tmp_path / "c", flags=FAST)
    compare(load(package), compiled, np.random.default_rng(0), 60, atol=1e-6)


def test_two_rates_share_states_and_a_kept_state_outlives_a_reset(tmp_path: Path) -> None:
    package = support.write_arm(tmp_path / "package")
    policy, compiled = load(package), native(package, tmp_path / "c", flags=QUICK)
    compare(policy, compiled, np.random.default_rng(0), 12, atol=1e-6)
    assert compiled.state()["ticks"].item() == policy.state()["ticks"].item() == 1
    compiled.reset()
    assert compiled.state()["ticks"].item() == 1
    np.testing.assert_array_equal(compiled.state()["action"], support.Arm().action)


def test_a_substep_before_the_first_step_does_nothing(tmp_path: Path) -> None:
    compiled = native(support.write_arm(tmp_path / "package"), tmp_path / "c", flags=QUICK)
    before = compiled.state()
    with pytest.raises(RefusedError) as caught:
        compiled.substep({"v": support.f32(1, 2)})
    assert caught.value.status == NOT_DECIDED
    compiled.step({"q": support.f32(1, 2)})
    compiled.substep({"v": support.f32(1, 2)})
    compiled.restore(before, decided=True)
    assert compiled.contract.decided(compiled.policy)
    compiled.substep({"v": support.f32(1, 2)})
    compiled.reset()
    with pytest.raises(RefusedError):
        compiled.substep({"v": support.f32(1, 2)})


def test_a_bad_input_names_its_element_and_changes_nothing(tmp_path: Path) -> None:
    compiled = native(support.write_sum(tmp_path / "package"), tmp_path / "c", flags=QUICK)
    compiled.step({"x": support.f32(1, 2, 3)})
    before = compiled.state()["h"]
    for value in (np.nan, np.inf, -np.inf):
        with pytest.raises(RefusedError) as caught:
            compiled.step({"x": support.f32(1, value, 3)})
        assert (caught.value.status, caught.value.port, caught.value.element) == (BAD_INPUT, 0, 1)
        np.testing.assert_array_equal(compiled.state()["h"], before)
    compiled.contract.set_unchecked(compiled.policy, 1)
    assert np.isnan(compiled.step({"x": support.f32(1, np.nan, 3)})["y"][0, 1])


def test_a_bad_result_names_its_element_and_changes_nothing(tmp_path: Path) -> None:
    compiled = native(support.write_sum(tmp_path / "package"), tmp_path / "c", flags=QUICK)
    before = compiled.state()["h"]
    with pytest.raises(RefusedError) as caught:  # h = h + x is finite, y = h x is not
        compiled.step({"x": support.f32(1, 2, 1e30)})
    assert (caught.value.status, caught.value.port, caught.value.element) == (BAD_RESULT, 0, 2)
    compiled.restore({"h": support.f32(0, 3e38, 0)})
    with pytest.raises(RefusedError) as caught:  # the state is looked at where the output is not yet
        compiled.step({"x": support.f32(0, 3e38, 0)})
    assert (caught.value.status, caught.value.element) == (BAD_RESULT, 1)
    compiled.reset()
    np.testing.assert_array_equal(compiled.state()["h"], before)


def test_a_symbolic_batch_gets_a_length(tmp_path: Path) -> None:
    package = support.write_batched(tmp_path / "package")
    compiled, policy = native(package, tmp_path / "c", batch=3, flags=QUICK), load(package, batch=3)
    for x in support.inputs_like((3, 2), 5, seed=3):
        np.testing.assert_array_equal(compiled.step({"x": x})["y"], policy.step({"x": x})["y"])
    assert compiled.contract.batch == 3


@pytest.mark.parametrize("seed", range(6))
def test_a_random_package_runs_as_its_wires_say(seed: int, tmp_path: Path) -> None:
    world = World(seed)
    package = write(tmp_path / "p", world.manifest, files=world.files(), initial=world.initial)
    compare(load(package), native(package, tmp_path / "c", flags=("-O0",)), np.random.default_rng(seed), 10, atol=1e-6)


def test_a_state_that_takes_another_states_place_is_copied_first(tmp_path: Path) -> None:
    text = "p (float[1,2] a, float[1,2] b, float[1,2] x) => (float[1,2] c, float[1,2] d, float[1,2] y) {\n"
    text += "c = Identity(b)\nd = Identity(a)\ny = Add(x, a)\n}"
    port = Port(dtype="float32", shape=(1, 2))
    state = support.State(dtype="float32", shape=(1, 2), role="memory")
    states = {"one": support.Feedback(state, "c", "a"), "two": support.Feedback(state, "d", "b")}
    artifact = Artifact(path="a.onnx")
    manifest = single_stage(
        "swap", inputs={"x": port}, outputs={"y": port}, states=states, artifacts={"onnx": artifact}
    )
    initial = {"one": support.f32(1, 2), "two": support.f32(3, 4)}
    package = write(tmp_path / "p", manifest, files={"a.onnx": support.model(text)}, initial=initial)
    compare(load(package), native(package, tmp_path / "c", flags=QUICK), np.random.default_rng(0), 5)


def processors() -> dict[str, tuple[Any, dict[str, Any]]]:
    port, count, stage = processing.port, processing.count, processing.stage
    window = {"frame": port("batch", 3), "window": port("batch", 4, 3), "filled": count("batch")}
    queue = {"chunk": port(1, 5, 2), "queue": port(1, 3, 2), "left": count(1)}
    average = {"chunk": port(1, 4, 2), "average": port(1, 3, 2), "decided": count(1)}
    relative = {"actions": port(1, 4, 3), "state": port(1, 3)}
    image = {"x": port(1, 6, 8, 3, dtype="uint8")}
    return {
        "history": (
            stage("history", window, {"window_next": window["window"], "filled_next": count("batch")}),
            {"window": "history", "filled": "counter"},
        ),
        "action_queue": (
            stage("action_queue", queue, {"action": port(1, 2), "queue_next": queue["queue"], "left_next": count(1)}),
            {"queue": "memory", "left": "counter"},
        ),
        "temporal_ensemble": (
            stage(
                "temporal_ensemble",
                average,
                {"action": port(1, 2), "average_next": average["average"], "decided_next": count(1)},
                coefficient=0.1,
            ),
            {"average": "memory", "decided": "counter"},
        ),
        "slice": (stage("slice", {"x": port(1, 5)}, {"y": port(1, 3)}, start=[0, 1]), {}),
        "pad": (stage("pad", {"x": port(1, 5)}, {"y": port(1, 8)}), {}),
        "relative": (stage("relative_actions", relative, {"relative": port(1, 4, 3)}, mask=[True, False, True]), {}),
        "image": (stage("image", image, {"y": port(1, 3, 6, 8)}), {}),
    }


@pytest.mark.parametrize("kind", processors())
def test_processors_are_compiled(kind: str, tmp_path: Path) -> None:
    made, roles = processors()[kind]
    package = processing.write_stage(tmp_path / "p", made, roles)
    compare(load(package), native(package, tmp_path / "c", flags=QUICK), np.random.default_rng(0), 9, atol=1e-6)


def described() -> Any:
    names = ('hip "left"', "knee??/")
    port = Port(
        dtype="float32",
        shape=(1, 2),
        kind="state/joint/position",
        unit=("rad", "m"),
        frame="base",
        source="sensor",
        element_names=(None, names),
        limits=Limits(lower=-1.5, upper=(2.0, None)),
        connection="state:robot:q",
        description="where the joints */ are",
    )
    plain = Port(dtype="float32", shape=(1, 2))
    artifact = Artifact(path="a.onnx")
    manifest = single_stage("9.Odd-name", inputs={"int": port, "a.b": plain, "a_b": plain}, outputs={"class": plain},
                            artifacts={"onnx": artifact})  # fmt: skip
    joints = (Joint(name=names[0], kp=20.0, kd=0.5), Joint(name=names[1], type="prismatic", effort_limit=3.0))
    return msgspec.structs.replace(manifest, joints=joints, version="1.0", description="a */ policy\nof two lines")


def odd_package(out: Path) -> Package:
    node = helper.make_node("Sum", ["int", "a.b", "a_b"], ["class"])
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2]) for name in ("int", "a.b", "a_b", "class")]
    graph = helper.make_graph([node], "g", ports[:3], ports[3:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return write(out, described(), files={"a.onnx": model.SerializeToString()})


def test_the_contract_says_what_the_manifest_says_whatever_the_names_are(tmp_path: Path) -> None:
    compiled = native(odd_package(tmp_path / "p"), tmp_path / "c", flags=QUICK)
    contract, (first, *_) = compiled.contract, compiled.ports("step_input")
    assert (contract.name, contract.version, contract.policy_dt_s) != (b"9.Odd-name", b"1.0", 0)
    assert [port.name for port in compiled.ports("step_input")] == [b"int", b"a.b", b"a_b"]
    assert (first.kind, first.frame, first.source) == (b"state/joint/position", b"base", b"sensor")
    assert (first.unit, first.units[1], first.connection) == (None, b"m", b"state:robot:q")
    assert [first.names[index].decode() for index in range(2)] == ['hip "left"', "knee??/"]
    assert ([first.lower[index] for index in range(2)], first.upper[1]) == ([-1.5, -1.5], float("inf"))
    assert (contract.joints[0].kp, contract.joints[1].effort_limit) == (20.0, 3.0)
    assert np.isnan(contract.joints[1].kp)
    given = {name: support.f32(index, 1) for index, name in enumerate(("int", "a.b", "a_b"))}
    np.testing.assert_array_equal(compiled.step(given)["class"], support.f32(3, 3))


@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++", "clang++"])
def test_the_code_has_no_warnings_as_c_and_as_cpp(compiler: str, tmp_path: Path) -> None:
    standard = ["-std=c++17", "-x", "c++"] if compiler.endswith("++") else ["-std=c99"]
    packages = {
        "odd": odd_package(tmp_path / "odd"),
        "arm": support.write_arm(tmp_path / "arm"),
        "lstm": write_subject(SUBJECTS["LSTM 48-64, head 12"](), tmp_path / "lstm"),
        "transformer": write_subject(SUBJECTS["Transformer 8x128, 2 layers"](), tmp_path / "transformer"),
    }
    for name, package in packages.items():
        folder = tmp_path / f"{name}_c"
        folder.mkdir()
        for file, content in generate(package).files.items():
            (folder / file).write_bytes(content)
        command = [compiler, *standard, *STRICT, "-O0", "-c", str(folder / "policy.c"), "-o", str(folder / "out.o")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_the_same_package_gives_the_same_bytes(tmp_path: Path) -> None:
    package = write_subject(SUBJECTS["Pipeline, 7 inputs"](), tmp_path / "package")
    first, second = generate(package), generate(read(tmp_path / "package"))
    assert first == second
    assert set(first.files) == {"ashore.h", "policy.h", "policy.c"}


def test_large_weights_are_a_file_of_their_own(tmp_path: Path) -> None:
    weights = Constant(np.random.default_rng(0).standard_normal((512, 600)).astype(np.float32) / 20)
    model = Model([case("MatMul", np.ones((1, 512), np.float32), weights, atol=1e-5)])
    package = model.package(tmp_path / "package", "big")
    source = generate(package)
    assert len(source.files["policy_weights.bin"]) > 1 << 20
    assert len(source.files["policy.c"]) < 1 << 16
    compiled = Native(build(source, tmp_path / "c", QUICK), source.name)
    model.check(compiled.step(model.inputs))


def refusal(package: Package) -> str:
    with pytest.raises(BackendError) as caught:
        generate(package)
    return str(caught.value)


def one_node(out: Path, node: Any, inputs: dict[str, list[int]], outputs: dict[str, list[int]]) -> Package:
    ports = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in side.items()]
        for side in (inputs, outputs)
    ]
    model = helper.make_model(helper.make_graph([node], "g", *ports), opset_imports=[helper.make_opsetid("", 18)])
    manifest = single_stage(
        "one",
        inputs={name: Port(dtype="float32", shape=tuple(shape)) for name, shape in inputs.items()},
        outputs={name: Port(dtype="float32", shape=tuple(shape)) for name, shape in outputs.items()},
        artifacts={"onnx": Artifact(path="a.onnx")},
    )
    return write(out, manifest, files={"a.onnx": model.SerializeToString()})


def test_an_unknown_operator_is_refused_with_its_node_and_its_line(tmp_path: Path) -> None:
    node = helper.make_node("Det", ["x"], ["y"], name="node_det")
    entry = node.metadata_props.add()
    entry.key, entry.value = "pkg.torch.onnx.stack_trace", 'File "robot/terms.py", line 42, in speed\n    x.det()'
    message = refusal(one_node(tmp_path / "p", node, {"x": [1, 2, 2]}, {"y": [1]}))
    assert "stage 'policy' (a.onnx): node 'node_det' (Det), from robot/terms.py:42: the backend 'c' does not" in message


def test_an_export_keeps_the_line_of_every_operation(tmp_path: Path) -> None:
    grid = torch.zeros(1, 2, 2, 2)
    with ashore.record("p", out=tmp_path) as recording:
        for step in range(4):
            if step == 2:
                recording.reset()
            with recording.step():
                image = recording.input("image", torch.randn(1, 1, 4, 4))
                recording.output("y", torch.nn.functional.grid_sample(image * 2, grid, align_corners=True))
    message = refusal(read(tmp_path / "p"))
    line = Path(__file__).read_text().split("grid_sample(image")[0].count("\n") + 1
    assert "(GridSample), from " in message
    assert f"test_generate.py:{line}: the backend 'c' does not know this operator" in message


def test_a_foreign_domain_is_refused(tmp_path: Path) -> None:
    node = helper.make_node("Thing", ["x"], ["y"], domain="my.robot")
    message = refusal(one_node(tmp_path / "p", node, {"x": [1, 2]}, {"y": [1, 2]}))
    assert "node (Thing): the backend 'c' knows no operators of the domain 'my.robot'" in message


def test_a_shape_that_is_computed_is_refused(tmp_path: Path) -> None:
    node = helper.make_node("NonZero", ["x"], ["y"])
    message = refusal(one_node(tmp_path / "p", node, {"x": [1, 2]}, {"y": [1, 2]}))
    assert "(NonZero): only its values decide how long its result is" in message


def test_an_index_outside_of_its_table_is_refused_when_it_comes(tmp_path: Path) -> None:
    place = np.array([1], np.int64)
    model = Model([case("Gather", np.arange(6, dtype=np.float32).reshape(3, 2), place, axis=0)])
    compiled = native(model.package(tmp_path / "p"), tmp_path / "c", flags=QUICK)
    model.check(compiled.step(model.inputs))
    table, index = model.inputs
    for wrong in (3, -4):
        with pytest.raises(RefusedError) as caught:
            compiled.step({table: model.inputs[table], index: np.array([wrong], np.int64)})
        assert caught.value.status == BAD_INDEX


def test_a_stage_without_onnx_is_refused(tmp_path: Path) -> None:
    package = support.write_sum(tmp_path / "p")
    stage = package.manifest.stages["policy"]
    other = msgspec.structs.replace(stage, artifacts={"torchscript": stage.artifacts["onnx"]})
    manifest = msgspec.structs.replace(package.manifest, stages={"policy": other})
    message = refusal(msgspec.structs.replace(package, manifest=manifest))
    assert "stage 'policy': has no ONNX artifact to compile, only ['torchscript']" in message


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    package = support.write_sum(tmp_path / "p")
    with pytest.raises(InputError, match=r"target: expected one of \['host', 'generic', 'cortex-m'\], got 'toaster'"):
        generate(package, target="toaster")
    with pytest.raises(InputError, match="batch: expected a whole number from 1, got 0"):
        generate(package, batch=0)


def test_nothing_but_numpy_is_needed_to_compile(tmp_path: Path) -> None:
    support.write_arm(tmp_path / "p")
    code = """
import sys
from ashore.backends.c import generate
from ashore.package import read
generate(read(sys.argv[1]))
print(sorted({name.split(".")[0] for name in sys.modules} & {"onnx", "onnxruntime", "torch", "onnx_ir"}))
"""
    done = support.run_python(code, str(tmp_path / "p"))
    assert done.stdout.strip() == "[]", done.stderr
