from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import support
from ashore.errors import BackendError
from ashore.package import Package
from ashore.runtime import BACKENDS, Options, backend, load
from ashore.spec import Stage


class BrokenError(RuntimeError):
    pass


class NumpySession:
    """The sum policy in numpy, behind the same seam as ONNX Runtime."""

    errors = (BrokenError,)

    def bind(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Callable[[], object]:
        def call() -> None:
            if inputs["x"][0, 0] == 13:
                raise BrokenError("unlucky")
            np.add(inputs["h_in"], inputs["x"], out=outputs["h_out"])
            np.multiply(outputs["h_out"], inputs["x"], out=outputs["y"])

        return call


class NumpyBackend:
    def open(self, where: str, files: Sequence[bytes], stage: Stage, options: Options) -> NumpySession:
        assert len(files) == 1
        assert stage.inputs.keys() == {"x", "h_in"}
        return NumpySession()


@pytest.fixture
def numpy_package(sum_package: Package, monkeypatch: pytest.MonkeyPatch) -> Package:
    monkeypatch.setattr(backend, "BACKENDS", {**BACKENDS, "numpy": f"{__name__}:NumpyBackend"})

    def add(document: dict[str, Any]) -> None:
        document["stages"]["policy"]["artifacts"]["numpy"] = document["stages"]["policy"]["artifacts"]["onnx"]

    support.edit_manifest(sum_package.path, add)
    return sum_package


def test_any_backend_behind_the_seam_runs(numpy_package: Package) -> None:
    policy, reference = load(numpy_package.path, backend="numpy"), support.Sum()
    for x in support.inputs_like((1, 3), 5, seed=3):
        np.testing.assert_array_equal(policy.step({"x": x})["y"], reference.step(x))


def test_what_a_session_raises_becomes_a_backend_error_and_the_state_stays(numpy_package: Package) -> None:
    policy = load(numpy_package.path, backend="numpy")
    before = policy.state()["h"]
    with pytest.raises(BackendError, match="step: the backend failed; the state is unchanged: unlucky"):
        policy.step({"x": support.f32(13, 0, 0)})
    np.testing.assert_array_equal(policy.state()["h"], before)
