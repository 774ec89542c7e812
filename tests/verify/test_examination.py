"""What a verification shows besides the replay: drift, drawn inputs, long episodes, sensitivity, pace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planting import walker

import ashore
import support
from ashore.errors import InputError, VerificationError
from ashore.package import Golden, Package, Recording, Tick, read, write
from ashore.runtime import Options, open_stages
from ashore.runtime.loading import assemble
from ashore.spec import Artifact, Manifest, Port, Timing, single_stage
from ashore.verify import BackendReport, drifts, examine, replay
from ashore.verify.drift import drift_of
from ashore.verify.fuzz import Sampler
from ashore.verify.pace import paces
from ashore.verify.references import find_reference
from ashore.verify.sensitivity import sensitivity


def test_a_good_package_of_two_rates_passes_in_every_part(arm_package: Package) -> None:
    found = examine(arm_package, steps=20, decisions=20)
    assert found.passed
    assert found.problems == []
    (one,) = found.backends
    assert [pace.call for pace in one.pace] == ["step", "substep"]
    assert [pace.period_us for pace in one.pace] == [20000.0, 5000.0]
    assert one.fuzz is not None
    assert one.episode is not None
    assert set(one.fuzz.max_abs_error) == {
        "outputs/action",
        "outputs/torque",
        "states/action",
        "states/filter",
        "states/ticks",
    }
    assert len(one.episode.traces["outputs/action"]) == 20
    assert len(one.episode.traces["outputs/torque"]) == 80
    assert found.ranges["q"].lowest < 0 < found.ranges["q"].highest


def test_a_package_without_a_rollout_and_a_list_without_backends_are_refused(tmp_path: Path) -> None:
    contents = support.sum_contents()
    del contents["golden"]
    bare = write(tmp_path / "p", support.sum_manifest(), **contents)
    with pytest.raises(VerificationError, match="holds no golden rollout"):
        examine(bare)
    with pytest.raises(InputError, match="expected at least one"):
        examine(support.write_sum(tmp_path / "q"), backends=())


def test_several_backends_are_looked_at_side_by_side(arm_package: Package) -> None:
    found = examine(arm_package, backends=("onnx", "openvino"), decisions=5)
    assert [one.backend for one in found.backends] == ["onnx", "openvino"]
    assert [one.fuzz.reference for one in found.backends if one.fuzz] == ["openvino", "onnx"]
    assert found.passed


def test_a_package_that_cannot_run_is_reported_once_and_no_more(sum_package: Package) -> None:
    text = support.SUM_MODEL.replace("y = Mul(h_out, x)", "n = Sub(x, x)\n    y = Div(h_out, n)")
    support.change_file(sum_package.path, "artifacts/policy.onnx", support.model(text))
    found = examine(read(sum_package.path), decisions=5)
    assert not found.passed
    assert found.backends[0].pace == []
    assert found.backends[0].fuzz is None


# --- drift -----------------------------------------------------------------------------------------------------------


def drifting(package: Package, step: float) -> Golden:
    """A rollout of `support.Sum` that grows away from it."""
    golden = package.golden()
    assert golden is not None
    ticks, drift = [], np.float32(0)
    for index in range(24):
        tick = golden.ticks[index % 5]
        h = (ticks[-1].states["h"] if ticks else support.Sum.initial) + tick.inputs["x"] + np.float32(step)
        drift += np.float32(step)
        ticks.append(Tick(index, "policy", index == 0, tick.inputs, {"y": h * tick.inputs["x"]}, {"h": h}))
    return Golden(tuple(ticks))


def test_an_error_that_grows_over_an_episode_is_seen(sum_package: Package) -> None:
    golden = drifting(sum_package, 2e-6)
    report = replay(sum_package, golden=golden, atol=1e-3)
    assert report.passed
    trace = report.traces["free_running"]["states/h"]
    assert len(trace.errors) == len(trace.ticks) == 24
    assert trace.errors[-1] > 10 * trace.errors[0]
    found = {one.port: one for one in drifts(replay(sum_package, golden=golden), golden)}
    assert found["states/h"].grows
    assert found["states/h"].ticks == 24


@pytest.mark.parametrize(
    ("errors", "grows"),
    [
        ([1e-6] * 20, False),
        ([1e-8 * 2**i for i in range(12)], True),
        ([1e-11 * i for i in range(20)], False),  # rounding
        ([1e-5 * i for i in range(5)], False),  # too short
        ([1e-3, *[1e-6] * 20], False),
        ([0.0] * 10 + [1e-4] * 10, True),
        ([], False),
    ],
)
def test_what_counts_as_growing(errors: list[float], grows: bool) -> None:
    if errors:
        assert drift_of("x", errors, 1e-5).grows is grows
    assert drifts(replay_of_nothing(), Golden(())) == []


def replay_of_nothing() -> Any:
    from ashore.verify import Report

    return Report("p", "onnx", 1, 0, 0, 0, 1e-5, 1e-5, "default")


def test_growth_within_the_tolerance_is_a_warning(sum_package: Package, tmp_path: Path) -> None:
    contents = support.sum_contents()
    package = write(tmp_path / "p", support.sum_manifest(), **{**contents, "golden": drifting(sum_package, 3e-7)})
    found = examine(package, atol=1e-5, rtol=1e-3)
    assert found.passed
    assert {(one.part, one.severity, one.where) for one in found.problems} == {
        ("drift", "warning", "outputs/y"),
        ("drift", "warning", "states/h"),
    }
    assert "the error of outputs/y grows from" in found.problems[0].message


# --- drawn inputs ----------------------------------------------------------------------------------------------------


def test_drawn_inputs_stay_in_what_was_recorded(tmp_path: Path) -> None:
    package = walker(tmp_path / "w")
    golden = package.golden()
    assert golden is not None
    sampler = Sampler(golden, package.manifest, seed=3)
    rows = [sampler.draw("policy") for _ in range(50)]
    for name in package.manifest.inputs:
        seen = np.stack([tick.inputs[name] for tick in golden.ticks])
        drawn = np.stack([row[name] for row in rows])
        assert drawn.dtype == np.float32
        assert len(np.unique(drawn)) > 50
        if name != "gravity":
            assert (drawn >= seen.min(0) - 1e-6).all()
            assert (drawn <= seen.max(0) + 1e-6).all()
    lengths = np.linalg.norm(np.stack([row["gravity"] for row in rows]), axis=-1)
    np.testing.assert_allclose(lengths, 1, atol=1e-6)
    again = Sampler(golden, package.manifest, seed=3).draw("policy")
    np.testing.assert_array_equal(again["joint_pos"], rows[0]["joint_pos"])


def test_inputs_of_every_kind_are_drawn(tmp_path: Path) -> None:
    inputs = {
        "flag": Port(dtype="bool", shape=(1, 2)),
        "count": Port(dtype="int64", shape=(1,)),
        "noise": Port(dtype="float32", shape=(1, 4), kind="noise"),
        "depth": Port(dtype="float32", shape=(1, 2), finite=False),
    }
    manifest = single_stage(
        "p", inputs=inputs, outputs={"y": inputs["count"]}, artifacts={"onnx": Artifact(path="a.onnx")}
    )
    recording = Recording()
    for number in (2, 5):
        row = {
            "flag": np.array([[True, False]]),
            "count": np.array([number]),
            "noise": np.zeros((1, 4), np.float32),
            "depth": support.f32(np.inf, 1),
        }
        recording.step(row, {"y": row["count"]})
    sampler = Sampler(recording.golden(), manifest, seed=0)
    rows = [sampler.draw("policy") for _ in range(40)]
    assert {int(row["count"][0]) for row in rows} == {2, 3, 4, 5}
    assert {tuple(row["flag"][0].tolist()) for row in rows} == {(True, False)}
    assert np.stack([row["noise"] for row in rows]).std() > 0.5
    assert all(np.isinf(row["depth"][0, 0]) for row in rows)


def two_files(out: Path, other: str) -> Package:
    """A stage with an ONNX file, and an OpenVINO backend that opens another one."""
    port = Port(dtype="float32", shape=(1, 2), element_names=(None, ("a", "b")))
    artifacts = {"onnx": Artifact(path="a.onnx"), "twin": Artifact(path="b.onnx")}
    manifest = single_stage("two", inputs={"x": port}, outputs={"y": port}, artifacts=artifacts)
    texts = ("one = Constant<value_float = 1.0>() y = Add(x, one)", other)
    files = {
        name: support.model(f"p (float[1,2] x) => (float[1,2] y) {{ {text} }}")
        for name, text in zip(("a.onnx", "b.onnx"), texts, strict=True)
    }
    recording = Recording()
    for x in support.inputs_like((1, 2), 4, seed=0):
        x = np.abs(x)
        recording.step({"x": x}, {"y": x + np.float32(1)})
    return write(out, manifest, files=files, golden=recording.golden())


@pytest.fixture
def twins(monkeypatch: pytest.MonkeyPatch) -> None:
    from ashore.runtime import backend as seam
    from ashore.verify import references

    both = {"onnx": seam.BACKENDS["onnx"], "twin": seam.BACKENDS["onnx"]}
    monkeypatch.setattr(seam, "BACKENDS", both)
    monkeypatch.setattr(references, "BACKENDS", both)


@pytest.mark.usefixtures("twins")
def test_a_backend_that_computes_something_else_is_found_and_named(tmp_path: Path) -> None:
    package = two_files(tmp_path / "p", "one = Constant<value_float = 1.001>() y = Add(x, one)")
    assert examine(package).passed  # its own file is right
    found = examine(package, decisions=10, seed=7)
    assert not found.passed
    (problem,) = found.problems
    assert problem.part == "fuzz"
    assert "onnx on drawn inputs (seed 7), step 0: outputs/y[0, 0] (a) of stage 'policy': twin gives" in problem.message
    found = examine(package, steps=10)
    assert not found.passed
    assert "onnx over 10 decisions without a reset, step 0: outputs/y[0, 0] (a)" in found.problems[0].message


@pytest.mark.usefixtures("twins")
def test_what_only_one_of_two_refuses_is_a_difference(tmp_path: Path) -> None:
    package = two_files(tmp_path / "p", "n = Sub(x, x) y = Div(x, n)")
    found = examine(package, decisions=3)
    assert not found.passed
    assert "step 0: only twin refused it: " in found.problems[0].message


@pytest.mark.usefixtures("twins")
def test_a_reference_that_does_not_open_is_passed_over_and_named(tmp_path: Path) -> None:
    package = two_files(tmp_path / "p", "y = Identity(x)")
    support.change_file(package.path, "b.onnx", b"nonsense")
    reference, refused = find_reference(read(package.path), {"policy": "onnx"}, batch=1)
    assert reference is not None
    assert reference.name == "onnx, not optimised"
    assert refused[0].startswith("twin: ")


def test_onnx_runtime_without_optimisations_is_another_way_to_run_it(tmp_path: Path) -> None:
    package = walker(tmp_path / "w")
    plain = assemble(package, open_stages(package, None, Options(optimise=False)))
    golden = package.golden()
    assert golden is not None
    optimised = ashore.load(package)
    for tick in golden.ticks[:3]:
        ours, theirs = optimised.step(tick.inputs), plain.step(tick.inputs)
        np.testing.assert_allclose(ours["joint_target"], theirs["joint_target"], atol=1e-5)


def test_two_runs_with_the_same_seed_find_the_same(tmp_path: Path) -> None:
    package = walker(tmp_path / "w")
    first, second, other = (examine(package, decisions=10, seed=seed).backends[0].fuzz for seed in (1, 1, 2))
    assert first == second
    assert first != other


# --- sensitivity -----------------------------------------------------------------------------------------------------


def written(out: Path, text: str, inputs: dict[str, Port], golden: Golden | None = None, **more: Any) -> Package:
    """One stage with the output y, recorded from its own graph."""
    heads = ", ".join(
        f"{'int64' if port.dtype == 'int64' else 'float'}[{','.join(map(str, port.shape))}] {name}"
        for name, port in inputs.items()
    )
    manifest = single_stage(
        "one",
        inputs=inputs,
        outputs={"y": Port(dtype="float32", shape=(1, 2))},
        artifacts={"onnx": Artifact(path="a.onnx")},
        **more,
    )
    files = {"a.onnx": support.model(f"p ({heads}) => (float[1,2] y) {{ {text} }}")}
    policy, recording = ashore.load(write(out, manifest, files=files)), Recording()
    rng = np.random.default_rng(0)
    for _ in range(6):
        row = {
            name: (rng.integers(0, 2, port.shape) if port.dtype == "int64" else rng.random(port.shape)).astype(
                port.dtype
            )
            for name, port in inputs.items()
        }
        recording.step(row, policy.step(row))
    return write(out, manifest, files=files, golden=golden or recording.golden())


X = Port(dtype="float32", shape=(1, 2), element_names=(None, ("hip", "knee")))


def test_an_input_that_changes_nothing_is_named(tmp_path: Path) -> None:
    package = written(
        tmp_path / "p", "zero = Sub(z, z) y = Add(x, zero)", {"x": X, "z": Port(dtype="float32", shape=(1, 2))}
    )
    found = examine(package)
    assert found.passed
    (problem,) = found.problems
    assert (problem.part, problem.severity, problem.where) == ("sensitivity", "warning", "inputs/z")
    assert "input 'z' changes nothing: no output reacts to it" in problem.message


def test_an_element_that_changes_nothing_is_named(tmp_path: Path) -> None:
    mask = "mask = Constant<value_floats = [1.0, 0.0]>()"
    found = examine(written(tmp_path / "p", f"{mask} y = Mul(x, mask)", {"x": X}))
    assert found.sensitivity.silent_elements == {"x": ["knee"]}
    assert "input 'x': 1 of its elements change nothing: knee" in found.problems[0].message


def test_an_element_that_is_clipped_reacts_in_one_direction(tmp_path: Path) -> None:
    text = "low = Constant<value_float = 0.0>() high = Constant<value_float = 0.2>() y = Clip(x, low, high)"
    assert examine(written(tmp_path / "p", text, {"x": X})).problems == []


def test_an_index_that_is_out_of_range_is_looked_at(tmp_path: Path) -> None:
    table = "rows = Constant<value = float[2,2] {1, 2, 3, 4}>() y = Gather<axis = 0>(rows, i)"
    package = written(tmp_path / "p", table, {"i": Port(dtype="int64", shape=(1,))})
    found = sensitivity(ashore.load(package), golden_of(package))
    assert found.by == {"i": "element"}
    assert found.silent == []


def test_an_input_that_acts_only_after_a_while_is_no_false_alarm(tmp_path: Path) -> None:
    """A delay of ten decisions: the first few show nothing."""
    from ashore.spec import Feedback, State

    port = Port(dtype="float32", shape=(1, 1))
    text = """p (float[1,1] x, float[1,10] line) => (float[1,1] y, float[1,10] later) {
        one = Constant<value_ints = [1]>() zero = Constant<value_ints = [0]>() end = Constant<value_ints = [99]>()
        rest = Slice(line, one, end, one)
        later = Concat<axis = 1>(rest, x)
        y = Slice(line, zero, one, one)
    }"""
    state = Feedback(State(dtype="float32", shape=(1, 10), role="history"), "later", "line")
    manifest = single_stage(
        "late", inputs={"x": port}, outputs={"y": port}, states={"line": state},
        artifacts={"onnx": Artifact(path="a.onnx")},
    )  # fmt: skip
    contents: dict[str, Any] = {
        "files": {"a.onnx": support.model(text)}, "initial": {"line": np.zeros((1, 10), np.float32)}
    }  # fmt: skip
    policy, recording = ashore.load(write(tmp_path / "p", manifest, **contents)), Recording()
    for x in support.inputs_like((1, 1), 14, seed=0):
        recording.step({"x": x}, policy.step({"x": x}), policy.state())
    package = write(tmp_path / "p", manifest, **contents, golden=recording.golden())
    assert sensitivity(ashore.load(package), golden_of(package)).silent == []


def test_many_elements_are_changed_together_and_slow_steps_are_passed_over(tmp_path: Path) -> None:
    wide = Port(dtype="float32", shape=(1, 2, 400))
    text = "a = Constant<value_ints = [2]>() y = ReduceMean<keepdims = 0>(x, a)"
    package = written(tmp_path / "p", text, {"x": wide})
    policy, golden = ashore.load(package), golden_of(package)
    assert sensitivity(policy, golden).by == {"x": "port"}
    skipped = examine(package, budget_s=0.0)
    assert skipped.sensitivity.skipped == ["x"]
    (problem,) = skipped.problems
    assert problem.severity == "note"
    assert "['x'] do anything was not looked at" in problem.message


def test_what_takes_too_long_is_left_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that runs an hour between two looks at it, and a machine that seemed fast at first."""
    from ashore.verify import sensitivity as module

    package = written(tmp_path / "p", "y = Add(x, z)", {"x": X, "z": X})
    policy, golden = ashore.load(package), golden_of(package)
    hours = iter([0.0, 1e-9, *(3600.0 * hour for hour in range(1000))])
    monkeypatch.setattr(module, "perf_counter", lambda: next(hours))
    found = sensitivity(policy, golden)
    assert found.skipped == ["x", "z"]
    assert found.by == {}
    assert found.silent == []


def golden_of(package: Package) -> Golden:
    golden = package.golden()
    assert golden is not None
    return golden


# --- pace ------------------------------------------------------------------------------------------------------------


def test_a_step_that_is_late_is_an_error(tmp_path: Path) -> None:
    manifest: Manifest = support.sum_manifest()
    import msgspec

    hasty = msgspec.structs.replace(manifest, timing=Timing(policy_dt_s=1e-9))
    found = examine(write(tmp_path / "p", hasty, **support.sum_contents()))
    assert not found.passed
    (problem,) = found.problems
    assert (problem.part, problem.severity, problem.where) == ("timing", "error", "step")
    assert "and the next is due after 1e-06 ms" in problem.message


def test_times_are_counted_and_none_is_lost(sum_package: Package) -> None:
    (pace,) = paces(ashore.load(sum_package), golden_of(sum_package))
    assert pace.samples == sum(pace.counts) >= 400
    assert len(pace.edges_us) == len(pace.counts) + 1
    assert pace.p50_us <= pace.p99_us <= pace.max_us
    assert pace.period_us is None
    assert list(pace.edges_us) == sorted(pace.edges_us)


def test_the_rollout_is_timed_at_least_once(sum_package: Package) -> None:
    (pace,) = paces(ashore.load(sum_package), golden_of(sum_package), budget_s=0.0)
    assert pace.samples == 8


def test_a_report_holds_what_ran(sum_package: Package) -> None:
    assert isinstance(examine(sum_package).backends[0], BackendReport)


@pytest.mark.parametrize("name", ["sum", "arm"])
def test_packages_of_older_versions_are_still_verified(name: str) -> None:
    found = examine(read(Path(__file__).parents[1] / "data" / "v1" / f"{name}.ashore"), decisions=3)
    assert found.passed
    (problem,) = found.problems
    assert (problem.part, problem.severity) == ("contract", "note")
