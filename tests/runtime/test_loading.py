from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest

import ashore
import support
from ashore.errors import BackendError, InputError, ManifestError, PackageError
from ashore.package import Package, pack, write
from ashore.spec import Artifact, Manifest, Port, Stage, Wire


@pytest.mark.parametrize("form", ["path", "text", "package", "archive"])
def test_every_form_of_a_package_loads(sum_package: Package, tmp_path: Path, form: str) -> None:
    sources = {"path": sum_package.path, "text": str(sum_package.path), "package": sum_package}
    source = pack(sum_package, tmp_path / "p.ashore").path if form == "archive" else sources[form]
    x = support.f32(1, 2, 3)
    np.testing.assert_array_equal(ashore.load(source).step({"x": x})["y"], support.Sum().step(x))


def test_an_unknown_backend_is_named(sum_package: Package) -> None:
    with pytest.raises(BackendError, match=r"unknown backend 'onyx'; did you mean 'onnx'\?"):
        ashore.load(sum_package, backend="onyx")


def test_a_stage_without_an_artifact_for_the_backend_is_named(sum_package: Package) -> None:
    def rename(document: dict) -> None:
        artifacts = document["stages"]["policy"]["artifacts"]
        artifacts["unheard-of"] = artifacts.pop("onnx")

    support.edit_manifest(sum_package.path, rename)
    with pytest.raises(BackendError, match=r"sum: stage 'policy' has no artifact for 'onnx'; it has \['unheard-of'\]"):
        ashore.load(sum_package.path, backend="onnx")
    with pytest.raises(
        BackendError, match=r"sum: stage 'policy' has artifacts only for \['unheard-of'\], and this Ashore"
    ):
        ashore.load(sum_package.path)


def test_an_alias_of_a_backend_is_as_good_as_its_name(arm_package: Package) -> None:
    assert ashore.load(arm_package, backend="onnx-dynamo").manifest.name == "arm"
    assert ashore.load(arm_package, backend={"act": "onnx-torchscript"}).manifest.name == "arm"
    with pytest.raises(BackendError, match=r"stage 'act' has no artifact for 'torchscript'; it has \['onnx'\]"):
        ashore.load(arm_package, backend={"act": "jit-trace"})


@pytest.mark.parametrize("backend", [None, {}])
def test_if_no_backend_is_chosen_onnx_runs(sum_package: Package, backend: dict[str, str] | None) -> None:
    def add(document: dict) -> None:
        document["stages"]["policy"]["artifacts"]["a-first-by-name"] = {"path": "artifacts/policy.onnx"}

    support.edit_manifest(sum_package.path, add)
    x = support.f32(1, 2, 3)
    np.testing.assert_array_equal(
        ashore.load(sum_package.path, backend=backend).step({"x": x})["y"], support.Sum().step(x)
    )


def test_a_processor_nobody_knows_is_an_error(sum_package: Package) -> None:
    def change(document: dict) -> None:
        document["stages"]["policy"].update(artifacts={}, processor={"type": "whiten"})

    support.edit_manifest(sum_package.path, change)
    with pytest.raises(ManifestError, match="stage 'policy': unknown processor 'whiten'"):
        ashore.load(sum_package.path)


def test_a_runner_nobody_knows_is_an_error(sum_package: Package) -> None:
    support.edit_manifest(sum_package.path, lambda document: document["runner"].update(type="flow"))
    with pytest.raises(ManifestError, match="this Ashore has no runner 'flow', only 'single_pass'"):
        ashore.load(sum_package.path)


def test_backends_are_chosen_for_all_stages_or_for_each(arm_package: Package) -> None:
    assert ashore.load(arm_package, backend={"act": "onnx"}).manifest.name == "arm"
    with pytest.raises(BackendError, match="unknown backend 'torch'"):
        ashore.load(arm_package, backend={"act": "torch"})
    with pytest.raises(InputError, match=r"backend: there is no stage 'decid'; did you mean 'decide'\?"):
        ashore.load(arm_package, backend={"decid": "onnx"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threads": 0}, "threads: expected a whole number from 1 to 1024, got 0"),
        ({"threads": 1.5}, "threads: expected a whole number from 1 to 1024, got 1.5"),
        ({"threads": 2**31}, "threads: expected a whole number from 1 to 1024, got 2147483648"),
        ({"batch": "3"}, "batch: expected a whole number from 1, got '3'"),
        ({"batch": True}, "batch: expected a whole number from 1, got True"),
        ({"batch": 2}, "exported for a fixed batch; it cannot be loaded with batch=2"),
        ({"backend": 5}, "backend: expected a name, or a mapping from stage to name, got 5"),
        ({"backend": ["onnx"]}, r"backend: expected a name, or a mapping from stage to name, got \['onnx'\]"),
        ({"backend": {"policy": None}}, "backend: expected a name, or a mapping from stage to name"),
        ({"backend": {"policy": 5}}, "backend: expected a name, or a mapping from stage to name"),
        ({"providers": "CPUExecutionProvider"}, "providers: expected a list of names, .* got 'CPUExecutionProvider'"),
        ({"providers": []}, r"providers: expected a list of names, .* got \[\]"),
        ({"providers": [None]}, "providers: expected a list of names"),
        ({"providers": [("CPUExecutionProvider", 5)]}, "providers: expected a list of names"),
        ({"path": None}, "path: expected a path or a package, got None"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(sum_package: Package, arguments: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ashore.load(**{"path": sum_package, **arguments})


def test_the_cpu_may_be_asked_for_by_name(sum_package: Package) -> None:
    x = support.f32(1, 2, 3)
    for providers in (["CPUExecutionProvider"], [("CPUExecutionProvider", {})]):
        assert ashore.load(sum_package, providers=providers).step({"x": x}) is not None


def test_a_path_with_a_nul_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="cannot be a path|there is no package here"):
        ashore.load("a\0b")


def test_a_batch_that_would_not_fit_into_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"with batch=1000000000 a port would take 8000000000 bytes"):
        ashore.load(support.write_batched(tmp_path / "p"), batch=10**9)


def test_an_error_names_the_package(sum_package: Package) -> None:
    support.edit_manifest(sum_package.path, lambda document: document.update(surprise=1), reseal=False)
    with pytest.raises(ManifestError) as caught:
        ashore.load(sum_package.path)
    assert str(caught.value).startswith(f"{sum_package.path}: manifest.json: top level: ")


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="there is no package here"):
        ashore.load(tmp_path / "nothing.ashore")


def test_buffers_between_stages_live_as_long_as_the_policy(tmp_path: Path) -> None:
    """ONNX Runtime knows only the addresses of its buffers. If nothing owned them they would be given to others."""
    width = 1000
    port = Port(dtype="float32", shape=(1, width))

    def stage(source: str, target: str) -> Stage:
        artifacts = {"onnx": Artifact(path=f"{source}.onnx")}
        return Stage(rate="policy", inputs={source: port}, outputs={target: port}, artifacts=artifacts)

    def double(source: str, target: str) -> bytes:
        text = (
            f"g (float[1,{width}] {source}) => (float[1,{width}] {target}) {{\n{target} = Add({source}, {source})\n}}"
        )
        return support.model(text)

    manifest = Manifest(
        name="chain",
        inputs={"x": port},
        outputs={"y": port},
        stages={"a": stage("x", "mid"), "b": stage("mid", "y")},
        wires=(Wire("inputs/x", "a/x"), Wire("a/mid", "b/mid"), Wire("b/y", "outputs/y")),
    )
    files = {"x.onnx": double("x", "mid"), "mid.onnx": double("mid", "y")}
    policy = ashore.load(write(tmp_path / "p", manifest, files=files))
    gc.collect()
    bystanders = [np.full((1, width + 16), 7, np.float32) for _ in range(200)]
    for x in support.inputs_like((1, width), 5, seed=1):
        np.testing.assert_array_equal(policy.step({"x": x})["y"], 4 * x)
    for bystander in bystanders:
        assert (bystander == 7).all(), "a step wrote into somebody else's memory"


def test_two_policies_of_one_package_do_not_share_state(sum_package: Package) -> None:
    one, two = ashore.load(sum_package), ashore.load(sum_package)
    x = support.f32(1, 2, 3)
    one.step({"x": x})
    np.testing.assert_array_equal(two.step({"x": x})["y"], support.Sum().step(x))


RECORDING = {
    *("record", "start", "stop", "compile_graph", "annotate", "TensorSemantics", "TemporalAxis", "GraphConfigs"),
    *("InputKindEnum", "OutputKindEnum", "export_actor"),
}
"""What needs torch."""


def test_the_root_package_exports_its_names_lazily() -> None:
    assert {"load", "Policy", "AshoreError"} <= set(ashore.__all__)
    for name in ashore.__all__:
        if name in RECORDING and "ASHORE_NO_TORCH" in os.environ:
            with pytest.raises(ModuleNotFoundError, match=rf"ashore.{name} needs torch; use pip install"):
                getattr(ashore, name)
        else:
            assert getattr(ashore, name) is not None
    assert ashore.package.read is not None
    assert ashore.verify.replay is not None
    with pytest.raises(AttributeError, match="module 'ashore' has no attribute 'lode'"):
        _ = ashore.lode  # type: ignore[attr-defined]
