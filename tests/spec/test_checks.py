from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import support
from ashore.errors import ManifestError
from ashore.spec import (
    Artifact,
    BackendResult,
    FileEntry,
    Frozen,
    Joint,
    JointLimits,
    Limits,
    Manifest,
    Port,
    Processor,
    Runner,
    Stage,
    Timing,
    Verification,
    Wire,
    check,
)

change = msgspec.structs.replace


def refuse(manifest: Manifest, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        check(manifest)


def with_input(**fields: Any) -> Manifest:
    manifest = support.arm_manifest()
    return change(manifest, inputs={**manifest.inputs, "q": change(manifest.inputs["q"], **fields)})


def with_wires(edit: Callable[[list[Wire]], Any]) -> Manifest:
    manifest = support.arm_manifest()
    wires = list(manifest.wires)
    edit(wires)
    return change(manifest, wires=tuple(wires))


def with_stage(name: str, **fields: Any) -> Manifest:
    manifest = support.arm_manifest()
    return change(manifest, stages={**manifest.stages, name: change(manifest.stages[name], **fields)})


def test_good_manifests_pass() -> None:
    check(support.arm_manifest())
    check(support.sum_manifest())


def test_all_problems_are_told_at_once() -> None:
    manifest = change(with_input(kind="state/joint/positon"), name="a name")
    with pytest.raises(ManifestError) as caught:
        check(manifest)
    assert "name: 'a name'" in str(caught.value)
    assert "did you mean 'state/joint/position'?" in str(caught.value)


def test_a_long_list_of_problems_is_cut() -> None:
    inputs = {f"i{number}": Port(dtype="float32", shape=(0,)) for number in range(20)}
    refuse(change(support.arm_manifest(), inputs=inputs), "and more")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"shape": (1, -2)}, r"inputs\.q\.shape\[1\]: expected a positive length"),
        ({"shape": (0, 2)}, r"inputs\.q\.shape\[0\]: expected a positive length"),
        ({"shape": (1 << 40, 2)}, r"inputs\.q\.shape: .* is over \d+ bytes"),
        ({"shape": (1,) * 9}, r"inputs\.q\.shape: 9 axes; at most 8"),
        ({"shape": ("batch", "batch")}, r"inputs\.q\.shape: 'batch' stands more than once"),
        ({"kind": "custom/"}, "unknown kind 'custom/'"),
        ({"kind": "gravity"}, "unknown kind 'gravity'; kinds of your own start with 'custom/'"),
        ({"unit": "rad/s"}, "a port of kind 'state/joint/position' is in rad or deg or m or 1, not in 'rad/s'"),
        ({"unit": ""}, r"inputs\.q\.unit: a unit is empty"),
        ({"unit": ("rad",)}, r"inputs\.q\.unit: 1 units for a last axis of 2"),
        ({"element_names": (support.JOINTS,)}, r"element_names: 1 entries for 2 axes"),
        ({"element_names": (None, ("shoulder",))}, r"element_names\[1\]: 1 names for an axis of 2"),
        ({"element_names": (None, ("elbow", "elbow"))}, r"element_names\[1\]: 'elbow' stands 2 times"),
        ({"element_names": (None, ("shoulder", "elbo"))}, "joint 'elbo' does not exist; did you mean 'elbow'?"),
        ({"limits": Limits(lower=(0.0,))}, r"limits\.lower: 1 numbers for a last axis of 2"),
        ({"limits": Limits(lower=(), upper=())}, r"limits\.lower: 0 numbers for a last axis of 2"),
        ({"limits": Limits(lower=1.0, upper=0.5)}, "the lower limit 1.0 is above the upper limit 0.5"),
        ({"limits": Limits(lower=(0.0, 2.0), upper=1.0)}, "the lower limit 2.0 is above the upper limit 1.0"),
        ({"element_names": None}, "a port of kind 'state/joint/position' must name its joints, in order"),
        ({"element_names": (None, None)}, "must name its joints, in order"),
        ({"kind": "state/body/pose", "element_names": None, "unit": None}, "a pose must name its elements"),
    ],
)
def test_a_port_that_makes_no_sense_is_refused(fields: dict[str, Any], message: str) -> None:
    refuse(with_input(**fields), message)


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "custom/tail/angle", "unit": "furlong"},
        {"kind": None, "unit": None},
        {"unit": ("rad", "m")},
        {"unit": "deg"},
        {"limits": Limits(lower=(-1.0, None), upper=3.0)},
    ],
)
def test_a_port_that_makes_sense_passes(fields: dict[str, Any]) -> None:
    check(with_input(**fields))


@pytest.mark.parametrize("names", [None, (None, None), (None, ("a", "b", "c", "d")), (None, tuple("xwzy"))])
def test_a_quaternion_must_say_its_order(names: Any) -> None:
    quaternion = Port(dtype="float32", shape=(1, 4), kind="state/body/rotation", element_names=names)
    manifest = support.arm_manifest()
    refuse(
        change(manifest, inputs={**manifest.inputs, "quat": quaternion}),
        r"inputs\.quat\.element_names: a quaternion must name its order, \[w, x, y, z\] or \[x, y, z, w\]",
    )


@pytest.mark.parametrize("order", ["wxyz", "xyzw"])
def test_either_order_of_a_quaternion_is_fine(order: str) -> None:
    quaternion = Port(dtype="float32", shape=(1, 4), kind="state/body/rotation", element_names=(None, tuple(order)))
    manifest = support.arm_manifest()
    with pytest.raises(ManifestError) as caught:
        check(change(manifest, inputs={**manifest.inputs, "quat": quaternion}))
    assert "quaternion" not in str(caught.value)  # only that nothing reads it


@pytest.mark.parametrize("name", ["", " q", "q\n", "a\tb", "x" * 201, "a\x00b", "a\u202eb", "__metadata__", "\u3000"])
def test_a_port_needs_a_name_that_can_be_shown(name: str) -> None:
    manifest = support.arm_manifest()
    refuse(change(manifest, inputs={**manifest.inputs, name: Port(dtype="bool", shape=(1,))}), "inputs: .* is no name")


def test_names_with_dots_slashes_and_other_letters_are_fine() -> None:
    manifest = support.arm_manifest()
    wires = tuple(Wire("inputs/left/arm.q ü", w.target) if w.source == "inputs/q" else w for w in manifest.wires)
    inputs = {"left/arm.q ü": manifest.inputs["q"], "v": manifest.inputs["v"]}
    check(change(manifest, inputs=inputs, wires=wires))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda w: w.__setitem__(0, Wire("inputs/p", "decide/q")), r"wires\[0\]\.source: 'inputs/p' is nothing"),
        (lambda w: w.__setitem__(0, Wire("inputs/q", "decid/q")), r"wires\[0\]\.target: .*did you mean 'decide/q'\?"),
        (lambda w: w.__setitem__(0, Wire("q", "decide/q")), r"wires\[0\]\.source: 'q' is nothing"),
        (lambda w: w.__setitem__(0, Wire("outputs/torque", "decide/q")), r"wires\[0\]\.source: 'outputs/torque'"),
        (lambda w: w.append(Wire("inputs/q", "outputs/action")), "only a stage output may write it"),
        (lambda w: w.append(Wire("states/action", "states/filter")), "only a stage output may write it"),
        (lambda w: w.pop(0), r"stages\.decide\.inputs\.q: expected one wire to end here, got 0"),
        (lambda w: w.append(Wire("inputs/v", "decide/q")), r"stages\.decide\.inputs\.q: expected one wire .* got 2"),
        (lambda w: w.pop(12), r"outputs\.torque: expected one wire to end here, got 0"),
        (lambda w: w.pop(12), r"stages\.act\.outputs\.torque: no wire starts here, so this output would be lost"),
        (lambda w: w.pop(11), r"states\.filter: no stage writes it"),
        (lambda w: w.pop(4), r"states\.filter: no stage reads it"),
        (lambda w: w.pop(1), r"inputs\.v: no wire starts here, so this input would be ignored"),
        (lambda w: w.append(Wire("act/torque", "states/filter")), "2 wires of rate 'substep' end here"),
        (lambda w: w.__setitem__(3, Wire("decide/action", "act/held")), "join them by a state"),
        (lambda w: w.__setitem__(4, Wire("states/ticks", "act/f_in")), r"dtype 'int64', act/f_in has 'float32'"),
    ],
)
def test_wires_that_do_not_join_are_refused(edit: Callable[[list[Wire]], Any], message: str) -> None:
    refuse(with_wires(edit), message)


def test_shapes_must_agree_along_a_wire() -> None:
    manifest = with_input(shape=(1, 3), element_names=None)
    refuse(manifest, r"wires\[0\]: inputs/q has shape \[1, 3\], decide/q has \[1, 2\]")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "custom/other"),
        ("element_names", (None, ("elbow", "shoulder"))),
        ("unit", "deg"),
        ("frame", "world"),
    ],
)
def test_meaning_must_agree_along_a_wire(field: str, value: Any) -> None:
    manifest = with_input(frame="base")
    stage = manifest.stages["decide"]
    stage = change(stage, inputs={**stage.inputs, "q": change(stage.inputs["q"], **{field: value})})
    refuse(change(manifest, stages={**manifest.stages, "decide": stage}), rf"wires\[0\]: inputs/q has {field}")


def test_a_cycle_without_a_state_is_named() -> None:
    port = Port(dtype="float32", shape=(1,))
    stage = Stage(rate="policy", inputs={"i": port}, outputs={"o": port}, artifacts={"onnx": Artifact(path="a.onnx")})
    manifest = Manifest(
        name="loop",
        inputs={},
        outputs={"y": port},
        stages={"a": stage, "b": stage},
        wires=(Wire("a/o", "b/i"), Wire("b/o", "a/i"), Wire("a/o", "outputs/y")),
    )
    refuse(manifest, "wires: a cycle without a state: (a -> b -> a|b -> a -> b)")


def test_a_stage_that_feeds_itself_is_a_cycle() -> None:
    manifest = support.sum_manifest()
    wires = tuple(Wire("policy/h_out", "policy/h_in") if w.target == "policy/h_in" else w for w in manifest.wires)
    refuse(change(manifest, wires=wires), "a cycle without a state: policy -> policy")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"artifacts": {}}, "stages.act: expected either artifacts, a processor or a runner, got none"),
        ({"processor": Processor(type="normalize")}, "a processor or a runner, got artifacts and a processor"),
        ({"runner": Runner(type="flow")}, "a processor or a runner, got artifacts and a runner"),
        ({"rate": "loop"}, "expected one stage whose runner runs this stage of a loop, got 0"),
        ({"rate": "loop"}, "act/torque belongs to a stage of a loop; its runner carries the values, and no wire does"),
        (
            {"artifacts": {}, "runner": Runner(type="flow", stages=("decide",))},
            "stages.act.runner.stages: 'decide' runs at 'policy'; expected 'loop'",
        ),
        (
            {"artifacts": {}, "runner": Runner(type="flow", stages=("decode",))},
            "stages.act.runner.stages: there is no stage 'decode'; did you mean 'decide'",
        ),
        (
            {"artifacts": {}, "runner": Runner(type="flow"), "rate": "loop"},
            "stages.act: a stage of a loop has no runner of its own",
        ),
        ({"outputs": support.arm_manifest().stages["act"].inputs}, "is both an input and an output"),
    ],
)
def test_a_stage_that_cannot_run_is_refused(fields: dict[str, Any], message: str) -> None:
    refuse(with_stage("act", **fields), message)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"inputs": ("q", "last")}, r"stages\.decide\.artifacts\.jit\.inputs: expected each of .* got \['q', 'last'\]"),
        (
            {"inputs": ("q", "q", "last", "n_in")},
            r"\.inputs: expected each of \['last', 'n_in', 'q'\] once, in some order",
        ),
        ({"inputs": ("q", "last", "n")}, r"\.inputs: expected each of .* got \['q', 'last', 'n'\]"),
        ({"inputs": ()}, r"\.inputs: expected each of .* got \[\]"),
        ({"inputs": ("action", "n_out")}, r"\.inputs: expected each of"),
        (
            {"outputs": ("action",)},
            r"\.outputs: expected each of \['action', 'n_out'\] once, in some order, got \['action'\]",
        ),
        ({"outputs": ("n_out", "action", "action")}, r"\.outputs: expected each of"),
    ],
)
def test_an_order_of_ports_is_one_of_all_the_ports_of_the_stage(fields: dict[str, Any], message: str) -> None:
    artifacts = support.arm_manifest().stages["decide"].artifacts
    refuse(with_stage("decide", artifacts={**artifacts, "jit": Artifact(path="a.pt", **fields)}), message)


def test_ports_may_stand_in_any_order() -> None:
    artifact = Artifact(path="a.pt", inputs=("n_in", "q", "last"), outputs=("n_out", "action"))
    check(with_stage("decide", artifacts={"torchscript": artifact}))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": ""}, r"constants\[1\]\.name: a constant needs a name"),
        ({"shape": (2, -1)}, r"constants\[1\]\.shape: expected lengths from 0, got \[2, -1\]"),
        ({"values": (1.0, 2.0, 3.0)}, r"constants\[1\]\.values: 3 numbers for the shape \[2, 2\]"),
        ({"values": ()}, r"constants\[1\]\.values: 0 numbers for the shape \[2, 2\]"),
        ({"lowest": 1.0}, r"constants\[1\]: lowest and highest come together"),
        ({"highest": 1.0}, r"constants\[1\]: lowest and highest come together"),
        ({"lowest": 1.0, "highest": 0.5}, r"constants\[1\]: lowest 1\.0 is above highest 0\.5"),
        ({"lowest": "inf", "highest": 0.5}, r"constants\[1\]: lowest inf is above highest 0\.5"),
    ],
)
def test_a_constant_that_contradicts_itself_is_refused(fields: dict[str, Any], message: str) -> None:
    good = Frozen(name="scale", dtype="float32", shape=(2, 2), values=(1.0, 2.0, 3.0, 4.0), lowest=1.0, highest=4.0)
    bad = Frozen(**{"name": "mask", "dtype": "float32", "shape": (2, 2), **fields})
    refuse(change(support.arm_manifest(), constants=(good, bad)), message)


def test_constants_may_be_empty_scalar_or_not_finite() -> None:
    made = (
        Frozen(name="nothing", dtype="int64", shape=(0, 3), values=()),
        Frozen(name="one", dtype="float32", shape=(), values=(2.5,), lowest=2.5, highest=2.5),
        Frozen(name="mask", dtype="float32", shape=(9, 9), lowest=float("-inf"), highest=0.0),
        Frozen(name="hole", dtype="float32", shape=(9, 9), lowest=float("nan"), highest=float("nan")),
    )
    check(change(support.arm_manifest(), constants=made))


def test_substeps_need_timing() -> None:
    refuse(change(support.arm_manifest(), timing=None), "a package with substeps needs timing")


def test_times_may_be_left_out_where_only_the_number_of_substeps_is_known() -> None:
    check(change(support.arm_manifest(), timing=Timing(decimation=4)))


def test_something_must_decide() -> None:
    refuse(with_stage("decide", rate="substep"), "no stage runs at the policy rate")


def test_a_package_without_outputs_is_refused() -> None:
    refuse(change(support.arm_manifest(), outputs={}), "a package needs at least one output")


@pytest.mark.parametrize("name", ["inputs", "outputs", "states", "a/b", "", "../a"])
def test_a_stage_may_not_take_a_reserved_name(name: str) -> None:
    manifest = support.arm_manifest()
    refuse(change(manifest, stages={**manifest.stages, name: manifest.stages["act"]}), "is no name for a stage")


@pytest.mark.parametrize(
    ("timing", "message"),
    [
        (Timing(policy_dt_s=0.02, physics_dt_s=0.005, decimation=0), "timing.decimation: expected at least 1"),
        (Timing(policy_dt_s=0.0), "timing.policy_dt_s: expected a positive time"),
        (Timing(policy_dt_s=-0.02), "timing.policy_dt_s: expected a positive time"),
        (Timing(physics_dt_s=0.005, decimation=4), "timing.policy_dt_s: missing"),
        (Timing(policy_dt_s=0.02, physics_dt_s=0.004, decimation=4), "4 substeps of 0.004 s take 0.016 s"),
    ],
)
def test_times_must_fit_together(timing: Timing, message: str) -> None:
    refuse(change(support.arm_manifest(), timing=timing), message)


def test_float32_rates_fit_together() -> None:
    check(change(support.arm_manifest(), timing=Timing(policy_dt_s=0.02, physics_dt_s=0.004999999888, decimation=4)))


@pytest.mark.parametrize(
    ("joint", "message"),
    [
        (Joint(name="elbow", kp=-1.0), r"joints\[1\]\.kp: -1.0 of 'elbow' is negative"),
        (Joint(name="elbow", effort_limit=-1.0), r"joints\[1\]\.effort_limit: -1.0 of 'elbow' is negative"),
        (Joint(name="elbow", velocity_limit=-1.0), r"joints\[1\]\.velocity_limit: -1.0 of 'elbow' is negative"),
        (Joint(name="elbow", position_limits=JointLimits(lower=1.0, upper=0.0)), "lower 1.0 is above upper 0.0"),
        (Joint(name="shoulder"), "joints: 'shoulder' stands 2 times"),
    ],
)
def test_joints_that_make_no_sense_are_refused(joint: Joint, message: str) -> None:
    refuse(change(support.arm_manifest(), joints=(Joint(name="shoulder"), joint)), message)


def test_the_runner_has_the_parameters_it_takes() -> None:
    refuse(change(support.arm_manifest(), runner=Runner(params={"n": 1})), r"runner\.params: .* has none, got \['n'\]")


def test_a_package_does_not_name_the_stages_that_its_runner_runs() -> None:
    runner = Runner(type="action_queue", stages=("act",))
    refuse(
        change(support.arm_manifest(), runner=runner), r"runner\.stages: expected none, since the wires say what is run"
    )


def looped(*bodies: str) -> Manifest:
    """A stage that runs another one several times."""
    manifest = support.sum_manifest()
    stage = manifest.stages["policy"]
    stages = {
        "policy": change(stage, artifacts={}, runner=Runner(type="flow", params={"num_steps": 10}, stages=bodies)),
        "body": change(stage, rate="loop"),
    }
    return change(manifest, stages=stages)


def test_a_stage_may_run_the_stages_of_a_loop() -> None:
    check(looped("body"))


def test_a_stage_of_a_loop_is_run_by_one_stage_once() -> None:
    refuse(looped("body", "body"), "expected one stage whose runner runs this stage of a loop, got 2")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"atol": 1e9, "rtol": 0.0}, r"verification\.atol: expected a tolerance from 0 to 0\.01, got 1000000000"),
        ({"atol": 0.0, "rtol": -1.0}, r"verification\.rtol: expected a tolerance from 0 to 0\.01, got -1"),
        ({"rtol": 0.0}, r"verification\.atol: expected a tolerance from 0 to 0\.01, got None"),
        ({"atol": 0.0, "rtol": 0.0, "results": ()}, "verification: passed, but no backend ran a step"),
        ({"atol": 0.0, "rtol": 0.0, "steps": 0}, "verification: passed, but no backend ran a step"),
    ],
)
def test_a_proof_that_proves_nothing_is_refused(fields: dict[str, Any], message: str) -> None:
    result = BackendResult(backend="onnx", runtime="x 1", max_abs_error_stepwise=0.0, max_abs_error_free_running=0.0)
    proof = Verification(**{"status": "passed", "steps": 5, "results": (result,), **fields})
    refuse(change(support.arm_manifest(), verification=proof), message)


def test_a_manifest_with_too_many_parts_is_refused_at_once() -> None:
    wires = (Wire("nobody/x", "nowhere/y"),) * 20_000
    refuse(change(support.arm_manifest(), wires=wires), "at most 10000 are supported")


def test_many_problems_are_found_quickly() -> None:
    """Suggestions are worked out only for what is shown; else this would take minutes."""
    ports = {f"some_rather_long_port_name_{number}": Port(dtype="float32", shape=(1,)) for number in range(3000)}
    wires = tuple(Wire(f"inputs/some_rather_long_prt_name_{number}", "act/v") for number in range(3000))
    began = time.process_time()
    refuse(change(support.arm_manifest(), inputs=ports, wires=wires), "did you mean")
    assert time.process_time() - began < 20


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"../a": FileEntry(sha256="0" * 64, size=1)}, "no empty, '.' or '..' part"),
        ({"/a": FileEntry(sha256="0" * 64, size=1)}, "relative to the package"),
        ({"manifest.json": FileEntry(sha256="0" * 64, size=1)}, "another path, or the manifest's, differs"),
        ({"Manifest.json": FileEntry(sha256="0" * 64, size=1)}, "another path, or the manifest's, differs"),
        (dict.fromkeys(("a", "a/b"), FileEntry(sha256="0" * 64, size=1)), "'a' is a file, so nothing can lie in it"),
        ({"a": FileEntry(sha256="0" * 64, size=1)}, r"there are states, but 'state\.safetensors' is not listed"),
        ({"a": FileEntry(sha256="0" * 63, size=1)}, "expected 64 lower-case hexadecimal"),
        ({"a": FileEntry(sha256="0" * 64, size=-1)}, "expected a length in bytes"),
        (dict.fromkeys(("a", "A"), FileEntry(sha256="0" * 64, size=1)), "at most by upper and lower case"),
        ({"a": FileEntry(sha256="0" * 64, size=1)}, "'artifacts/act.onnx' does not exist"),
    ],
)
def test_files_that_cannot_be_are_refused(files: dict[str, FileEntry], message: str) -> None:
    refuse(change(support.arm_manifest(), files=files, manifest_sha256="0" * 64), message)


def test_a_written_manifest_without_files_is_refused() -> None:
    refuse(change(support.arm_manifest(), manifest_sha256="0" * 64), "'artifacts/act.onnx' does not exist")


def test_one_state_may_have_a_writer_in_each_rate() -> None:
    manifest = support.arm_manifest()
    assert [wire.source for wire in manifest.wires if wire.target == "states/ticks"] == ["decide/n_out", "act/n_out"]
    check(manifest)


def test_structs_are_frozen() -> None:
    with pytest.raises(AttributeError):
        support.arm_manifest().name = "other"  # type: ignore[misc]
