from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ashore
import support
from ashore.errors import BackendError, ManifestError, PackageError
from ashore.package import Package, pack


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
        artifacts["openvino"] = artifacts.pop("onnx")

    support.edit_manifest(sum_package.path, rename)
    with pytest.raises(BackendError, match=r"stage 'policy' has no artifact for 'onnx'; it has \['openvino'\]"):
        ashore.load(sum_package.path)


def test_a_processor_nobody_knows_is_an_error(sum_package: Package) -> None:
    entry = {"type": "whiten", "port": "x"}
    support.edit_manifest(sum_package.path, lambda document: document.update(preprocessors=[entry]))
    with pytest.raises(ManifestError, match="unknown type 'whiten'"):
        ashore.load(sum_package.path)


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="there is no package here"):
        ashore.load(tmp_path / "nothing.ashore")


def test_two_policies_of_one_package_do_not_share_state(sum_package: Package) -> None:
    one, two = ashore.load(sum_package), ashore.load(sum_package)
    x = support.f32(1, 2, 3)
    one.step({"x": x})
    np.testing.assert_array_equal(two.step({"x": x})["y"], support.Sum().step(x))


def test_the_root_package_exports_its_names_lazily() -> None:
    assert {"load", "Policy", "AshoreError"} <= set(ashore.__all__)
    for name in ashore.__all__:
        assert getattr(ashore, name) is not None
    with pytest.raises(AttributeError, match="module 'ashore' has no attribute 'lode'"):
        _ = ashore.lode  # type: ignore[attr-defined]
