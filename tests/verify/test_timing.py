from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

import support
from ashore.errors import BackendError
from ashore.package import Package, read, write
from ashore.spec import Artifact, Port, single_stage
from ashore.verify import Bare, bench, take_turns


def test_candidates_take_turns_in_rounds() -> None:
    calls: list[str] = []
    resets: list[None] = []
    candidates = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    taken = take_turns(candidates, samples=50, reset=lambda: resets.append(None))
    assert taken["a"].samples == taken["b"].samples == 50
    measured = calls[400:]  # after warming up
    assert resets == [None] * 13
    assert measured == ["a"] * 20 + ["b"] * 20 + ["a"] * 20 + ["b"] * 20 + ["a"] * 10 + ["b"] * 10
    assert 0 < taken["a"].p50_us <= taken["a"].p99_us <= taken["a"].p999_us


def test_garbage_collection_comes_back_whatever_happens() -> None:
    def fail() -> None:
        if not gc.isenabled():
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        take_turns({"a": fail}, samples=100)
    assert gc.isenabled()


def test_every_rate_is_measured_against_a_bare_call(arm_package: Package) -> None:
    seen: list[int] = []
    timings = bench(arm_package, samples=100, advance=seen.append)
    assert [timing.rate for timing in timings] == ["policy", "substep"]
    assert sum(seen) == 2 * 2 * 100
    for timing in timings:
        assert timing.ratio == timing.policy.p50_us / timing.bare.p50_us


def test_the_bare_call_feeds_states_back(sum_package: Package) -> None:
    """What it is compared with must do the same work: after n calls the state has taken in n inputs."""
    import onnxruntime

    fed: list[np.ndarray] = []
    real = onnxruntime.InferenceSession.run

    def spy(self: object, names: object, feed: dict) -> object:
        fed.append(feed["h_in"].copy())
        return real(self, names, feed)

    x = support.f32(1, 1, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnxruntime.InferenceSession, "run", spy)
        call = Bare(sum_package, "policy", {"x": x}).call
        for _ in range(3):
            call()
    np.testing.assert_array_equal(np.concatenate(fed), support.Sum.initial + np.arange(3)[:, None])


def test_a_state_that_would_grow_for_ever_is_reset_between_rounds(tmp_path: Path) -> None:
    """A state that doubles is infinite after 128 steps, and a policy refuses to go on."""
    contents = support.sum_contents()
    contents["files"] = {
        "artifacts/policy.onnx": support.model(support.SUM_MODEL.replace("Add(h_in, x)", "Add(h_in, h_in)"))
    }
    package = write(tmp_path / "p", support.sum_manifest(), **{**contents, "golden": None})
    assert bench(package, samples=1000)[0].policy.samples == 1000


def test_a_package_without_a_rollout_is_measured_with_random_inputs(tmp_path: Path) -> None:
    assert bench(support.write_batched(tmp_path / "p"), samples=100)[0].policy.samples == 100
    ports = {"x": Port(dtype="float32", shape=()), "n": Port(dtype="bool", shape=())}
    manifest = single_stage("s", inputs=ports, outputs={"y": ports["x"]}, artifacts={"onnx": Artifact(path="a.onnx")})
    text = "p (float x, bool n) => (float y) {\nm = Cast<to = 1>(n)\ny = Add(x, m)\n}"
    package = write(tmp_path / "scalar", manifest, files={"a.onnx": support.model(text)})
    assert bench(package, samples=100)[0].policy.samples == 100


def test_a_stage_without_onnx_cannot_be_compared(sum_package: Package) -> None:
    def rename(document: dict) -> None:
        artifacts = document["stages"]["policy"]["artifacts"]
        artifacts["openvino"] = artifacts.pop("onnx")

    support.edit_manifest(sum_package.path, rename)
    with pytest.raises(BackendError, match="stage 'policy' has no ONNX artifact to measure"):
        Bare(read(sum_package.path), "policy", {"x": support.f32(1, 2, 3)})


def test_a_package_without_onnx_is_refused_before_anything_opens_it(sum_package: Package) -> None:
    def rename(document: dict) -> None:
        artifacts = document["stages"]["policy"]["artifacts"]
        artifacts["pt2"] = artifacts.pop("onnx")

    support.edit_manifest(sum_package.path, rename)
    with pytest.raises(BackendError, match=r"stage 'policy' has no artifact for 'onnx'; it has \['pt2'\]"):
        bench(read(sum_package.path), samples=100)
