from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import support
from ashore.errors import InputError, VerificationError
from ashore.package import Golden, Package, Recording, Tick, read, write
from ashore.runtime import backend as seam
from ashore.spec import Artifact, BackendResult, Port, Verification, single_stage
from ashore.verify import replay


def test_a_good_package_passes_stepwise_and_free_running(arm_package: Package) -> None:
    report = replay(arm_package)
    assert report.passed
    assert (report.steps, report.substeps, report.resets) == (6, 22, 2)
    for mode in ("stepwise", "free_running"):
        assert report.max_abs_error[mode].keys() == {
            "outputs/action",
            "outputs/torque",
            "states/action",
            "states/filter",
            "states/ticks",
        }
        assert report.worst(mode) == 0.0


def rewrite(package: Package, out: Path, **changes: Any) -> Package:
    """The same package with some of its contents replaced."""
    golden = changes.pop("golden", package.golden())
    files = {
        path: package.read(path)
        for path in package.manifest.files
        if path not in ("state.safetensors", "golden.safetensors")
    }
    return write(
        out,
        package.manifest,
        files={**files, **changes.pop("files", {})},
        initial={**package.initial_state(), **changes.pop("initial", {})},
        golden=golden,
    )


def test_a_changed_weight_is_named_by_step_port_element_and_values(arm_package: Package, tmp_path: Path) -> None:
    wrong = support.model(support.DECIDE_MODEL.replace("2.0", "2.02"))
    report = replay(rewrite(arm_package, tmp_path / "p", files={"artifacts/decide.onnx": wrong}))
    assert not report.passed
    first = report.mismatches[0]
    assert (first.mode, first.tick, first.call, first.port) == ("stepwise", 0, "step 0", "outputs/action")
    assert first.element == "[0, 0]"
    assert first.expected != first.got
    assert f"step 0: outputs/action[0, 0]: expected {first.expected!r}, got {first.got!r}" in first.message
    assert {mismatch.mode for mismatch in report.mismatches} == {"stepwise", "free_running"}


def test_a_joint_is_named_in_a_mismatch(arm_package: Package, tmp_path: Path) -> None:
    wrong = support.model(
        support.ACT_MODEL.replace("tenth = Constant<value_float = 0.1>", "tenth = Constant<value_float = 0.2>")
    )
    report = replay(rewrite(arm_package, tmp_path / "p", files={"artifacts/act.onnx": wrong}))
    assert report.mismatches[0].call == "substep 0"
    assert "outputs/torque[0, 0] (shoulder)" in report.mismatches[0].message


def test_a_wrong_initial_state_is_found(sum_package: Package, tmp_path: Path) -> None:
    report = replay(rewrite(sum_package, tmp_path / "p", initial={"h": support.f32(1, 2, 3.5)}))
    assert [(m.mode, m.tick, m.port) for m in report.mismatches] == [
        ("stepwise", 0, "outputs/y"),
        ("stepwise", 0, "states/h"),
        ("free_running", 0, "outputs/y"),
        ("free_running", 0, "states/h"),
    ]
    assert report.mismatches[0].element == "[0, 2] (c)"


def test_a_wrong_reset_rule_is_found(sum_package: Package) -> None:
    support.edit_manifest(sum_package.path, lambda document: document["states"]["h"].update(reset="keep"))
    report = replay(read(sum_package.path))
    assert {mismatch.tick for mismatch in report.mismatches} == {5}


def test_swapped_wires_are_found(tmp_path: Path) -> None:
    port = Port(dtype="float32", shape=(1, 2))
    text = "policy (float[1,2] kp, float[1,2] kd) => (float[1,2] y) {\ny = Sub(kp, kd)\n}"
    manifest = single_stage(
        "gains", inputs={"kp": port, "kd": port}, outputs={"y": port}, artifacts={"onnx": Artifact(path="a.onnx")}
    )
    recording = Recording()
    for kp, kd in zip(support.inputs_like((1, 2), 3, 1), support.inputs_like((1, 2), 3, 2), strict=True):
        recording.step({"kp": kp, "kd": kd}, {"y": kp - kd})
    package = write(tmp_path / "p", manifest, files={"a.onnx": support.model(text)}, golden=recording.golden())
    assert replay(package).passed

    def swap(document: dict) -> None:
        for wire in document["wires"]:
            wire["target"] = {"policy/kp": "policy/kd", "policy/kd": "policy/kp"}.get(wire["target"], wire["target"])

    support.edit_manifest(package.path, swap)
    assert not replay(read(package.path)).passed


def test_an_error_that_builds_up_is_seen_free_running_only(sum_package: Package, tmp_path: Path) -> None:
    """A small error a step passes step by step, and adds up to a large one in the loop."""
    golden = sum_package.golden()
    assert golden is not None
    ticks, drift = [], np.float32(0)
    for tick in golden.ticks:
        drift = np.float32(0) if tick.reset else drift + np.float32(6e-6)
        h = tick.states["h"] + drift
        ticks.append(Tick(tick.index, tick.rate, tick.reset, tick.inputs, {"y": h * tick.inputs["x"]}, {"h": h}))
    report = replay(rewrite(sum_package, tmp_path / "p", golden=Golden(tuple(ticks))), rtol=0.0)
    assert {mismatch.mode for mismatch in report.mismatches} == {"free_running"}
    assert report.worst("free_running") > report.worst("stepwise")


def test_an_error_while_replaying_is_a_failure_with_its_cause(sum_package: Package, tmp_path: Path) -> None:
    wrong = support.model(
        support.SUM_MODEL.replace("Mul(h_out, x)", "Div(h_out, nothing)").replace(
            "h_out = Add(h_in, x)", "nothing = Sub(x, x)\n    h_out = Add(h_in, x)"
        )
    )
    report = replay(rewrite(sum_package, tmp_path / "p", files={"artifacts/policy.onnx": wrong}))
    assert not report.passed
    assert "output 'y'[0, 0] (a) is" in report.mismatches[0].message


def test_the_tolerance_of_the_export_is_used(sum_package: Package, tmp_path: Path) -> None:
    wrong = support.model(
        support.SUM_MODEL.replace(
            "y = Mul(h_out, x)", "e = Constant<value_float = 0.0001>()\n    z = Mul(h_out, x)\n    y = Add(z, e)"
        )
    )
    package = rewrite(sum_package, tmp_path / "p", files={"artifacts/policy.onnx": wrong})
    assert not replay(package).passed
    assert replay(package, atol=1e-3).passed
    result = BackendResult(backend="onnx", runtime="x", max_abs_error_stepwise=1e-4, max_abs_error_free_running=1e-4)
    record = msgspec.to_builtins(Verification(status="passed", steps=8, atol=1e-3, rtol=0.0, results=(result,)))
    support.edit_manifest(package.path, lambda document: document.update(verification=record))
    loosened = read(package.path)
    assert replay(loosened).passed
    assert (replay(loosened).atol, replay(loosened).tolerance_from) == (1e-3, "package")
    assert replay(package).tolerance_from == "default"
    assert not replay(loosened, atol=1e-5).passed


@pytest.mark.parametrize("tolerance", [float("nan"), float("inf"), -1e-9])
@pytest.mark.parametrize("name", ["atol", "rtol"])
def test_a_tolerance_that_lets_everything_through_is_refused(sum_package: Package, name: str, tolerance: float) -> None:
    with pytest.raises(InputError, match=f"verify: {name}: expected a number from 0, got {tolerance}"):
        replay(sum_package, **{name: tolerance})


def test_a_package_without_a_rollout_cannot_be_verified(sum_package: Package, tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match="holds no golden rollout"):
        replay(rewrite(sum_package, tmp_path / "p", golden=None))


def test_scalars_are_compared_like_anything_else(tmp_path: Path) -> None:
    port = Port(dtype="float32", shape=())
    manifest = single_stage("one", inputs={"x": port}, outputs={"y": port}, artifacts={"onnx": Artifact(path="a.onnx")})
    for offset, passes in ((0.0, True), (0.5, False)):
        recording = Recording()
        recording.step({"x": np.float32(1)}, {"y": np.float32(2 + offset)})
        files = {"a.onnx": support.model("p (float x) => (float y) {\ny = Add(x, x)\n}")}
        report = replay(write(tmp_path / "p", manifest, files=files, golden=recording.golden()))
        assert report.passed is passes
    assert report.mismatches[0].message == "step 0: outputs/y[]: expected 2.5, got 2.0"


def test_tolerances_do_not_round_to_the_dtype_of_the_port(tmp_path: Path) -> None:
    port = Port(dtype="float16", shape=(1,))
    manifest = single_stage(
        "half", inputs={"x": port}, outputs={"y": port}, artifacts={"onnx": Artifact(path="a.onnx")}
    )
    recording = Recording()
    recording.step({"x": np.array([60000], np.float16)}, {"y": np.array([96], np.float16)})
    files = {"a.onnx": support.model("p (float16[1] x) => (float16[1] y) {\ny = Identity(x)\n}")}
    package = write(tmp_path / "p", manifest, files=files, golden=recording.golden())
    assert not replay(package, atol=59900.0, rtol=0.0).passed
    assert replay(package, atol=59904.0, rtol=0.0).passed


def test_integers_must_agree_to_the_last_one(tmp_path: Path) -> None:
    port = Port(dtype="int64", shape=(1,))
    text = "policy (int64[1] x) => (int64[1] y) {\ny = Identity(x)\n}"
    manifest = single_stage(
        "ints", inputs={"x": port}, outputs={"y": port}, artifacts={"onnx": Artifact(path="a.onnx")}
    )
    recording, huge = Recording(), np.array([2**62 + 1], np.int64)
    recording.step({"x": huge}, {"y": huge - 1})
    package = write(tmp_path / "p", manifest, files={"a.onnx": support.model(text)}, golden=recording.golden())
    report = replay(package, atol=10.0, rtol=1.0)
    assert report.mismatches[0].message == "step 0: outputs/y[0]: expected 4611686018427387904, got 4611686018427387905"


@pytest.mark.parametrize(("recorded", "passes"), [(np.inf, True), (-np.inf, False), (1.0, False), (np.nan, False)])
def test_infinities_are_compared_as_such(tmp_path: Path, recorded: float, passes: bool) -> None:
    port = Port(dtype="float32", shape=(1, 1), finite=False)
    text = "policy (float[1,1] x) => (float[1,1] y) {\ny = Identity(x)\n}"
    manifest = single_stage("inf", inputs={"x": port}, outputs={"y": port}, artifacts={"onnx": Artifact(path="a.onnx")})
    recording = Recording()
    recording.step({"x": support.f32(np.inf)}, {"y": support.f32(recorded)})
    package = write(tmp_path / "p", manifest, files={"a.onnx": support.model(text)}, golden=recording.golden())
    assert replay(package, rtol=1.0).passed is passes


def test_a_batch_is_replayed_as_a_batch(tmp_path: Path) -> None:
    report = replay(support.write_batched(tmp_path / "p", rows=3))
    assert report.passed
    assert report.batch == 3


def test_progress_is_reported_for_each_tick_of_each_mode(arm_package: Package) -> None:
    seen: list[None] = []
    replay(arm_package, advance=lambda: seen.append(None))
    assert len(seen) == 2 * 28


def test_the_report_says_what_ran_each_stage(arm_package: Package) -> None:
    assert replay(arm_package).backend == "onnx"
    assert replay(arm_package, backend="onnx-dynamo").backend == "onnx"
    assert replay(arm_package, backend={"act": "onnx"}).backend == "onnx"


def test_the_report_names_stages_where_they_ran_on_different_backends(
    arm_package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seam, "BACKENDS", {**seam.BACKENDS, "twin": seam.BACKENDS["onnx"]})

    def rename(document: dict[str, Any]) -> None:
        artifacts = document["stages"]["act"]["artifacts"]
        artifacts["twin"] = artifacts.pop("onnx")

    support.edit_manifest(arm_package.path, rename)
    report = replay(read(arm_package.path))
    assert report.passed
    assert report.backend == "act: twin, decide: onnx"
