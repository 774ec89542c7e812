from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import support
from ashore.errors import BackendError, InputError
from ashore.package import Package
from ashore.runtime import BACKENDS, Options, backend, backend_name, default_backend, load
from ashore.spec import Artifact, Stage


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
    def open(
        self, where: str, artifact: Artifact, files: Sequence[bytes], stage: Stage, options: Options
    ) -> NumpySession:
        assert artifact == stage.artifacts["numpy"]
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


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("onnx", "onnx"),
        ("onnx-dynamo", "onnx"),
        ("onnx-torchscript", "onnx"),
        ("jit", "torchscript"),
        ("jit-script", "torchscript"),
        ("jit-trace", "torchscript"),
        ("exported-program", "pt2"),
        ("unheard-of", "unheard-of"),
    ],
)
def test_a_backend_may_be_called_by_its_exporter(alias: str, name: str) -> None:
    assert backend_name(alias) == name


def test_every_alias_is_of_a_backend_and_is_none_itself() -> None:
    assert set(backend.ALIASES.values()) <= BACKENDS.keys()
    assert not backend.ALIASES.keys() & BACKENDS.keys()
    assert BACKENDS.keys() >= backend.BY_POSITION


def test_what_is_said_of_backends_is_said_of_those_there_are() -> None:
    assert {*backend.ALSO_OPENS, *backend.EXTRAS, *backend.READS.values()} <= BACKENDS.keys()
    assert {name for others in backend.ALSO_OPENS.values() for name in others} <= BACKENDS.keys()
    assert backend.READS.keys() <= set(Options._fields)
    assert not backend.UNSAFE & {name for others in backend.ALSO_OPENS.values() for name in others}


@pytest.mark.parametrize(("names", "opened"), [(("onnx", "openvino"), "openvino"), (("onnx", "pt2"), "onnx")])
def test_a_backend_opens_its_own_artifact_before_that_of_another(names: tuple[str, ...], opened: str) -> None:
    stage = stage_with(*names)
    assert backend.artifact_of("s", stage, "openvino") is stage.artifacts[opened]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": ""}, "device: expected a name such as 'cpu', got ''"),
        ({"device": 0}, "device: expected a name such as 'cpu', got 0"),
        ({"properties": []}, r"properties: expected a mapping from name to value, got \[\]"),
        ({"properties": {1: 2}}, r"properties: expected a mapping from name to value, got \{1: 2\}"),
    ],
)
def test_options_of_another_type_are_refused(sum_package: Package, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(sum_package, **options)


def stage_with(*names: str) -> Stage:
    return Stage(rate="policy", inputs={}, outputs={}, artifacts={name: Artifact(path="a") for name in names})


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (("pt2", "torchscript", "onnx"), "onnx"),
        (("pt2", "torchscript"), "torchscript"),
        (("an-unknown-one", "torchscript"), "torchscript"),
    ],
)
def test_onnx_is_preferred_and_what_cannot_be_run_is_passed_over(names: tuple[str, ...], chosen: str) -> None:
    assert default_backend("s", stage_with(*names)) == chosen


def test_what_can_run_any_code_is_never_chosen_by_default() -> None:
    message = r"s has only artifacts that can run any code when they are opened: \['pt2'\]; if you trust the package"
    with pytest.raises(BackendError, match=message):
        default_backend("s", stage_with("pt2"))


def test_nothing_is_chosen_that_cannot_be_run() -> None:
    message = (
        r"p: stage 's' has artifacts only for \['pickle'\], and this Ashore runs \['onnx', 'openvino', 'pt2', 'tor"
    )
    with pytest.raises(BackendError, match=message):
        default_backend("p: stage 's'", stage_with("pickle"))


@pytest.mark.parametrize("name", sorted(backend.BY_POSITION))
@pytest.mark.parametrize("given", [{}, {"inputs": ("x", "h_in")}, {"outputs": ("y", "h_out")}])
def test_a_backend_that_takes_ports_by_position_must_be_told_their_order(
    sum_package: Package, name: str, given: dict[str, Any]
) -> None:
    def rename(document: dict[str, Any]) -> None:
        document["stages"]["policy"]["artifacts"] = {name: {"path": "artifacts/policy.onnx", **given}}

    support.edit_manifest(sum_package.path, rename)
    with pytest.raises(
        BackendError, match=rf"stage 'policy' \(artifacts/policy\.onnx\): {name!r} takes ports by position"
    ):
        load(sum_package.path, backend=name)


def positional(package: Package, name: str) -> None:
    """Make the package one that only a backend of torch could run; the file itself is none of its files."""

    def change(document: dict[str, Any]) -> None:
        order = {"inputs": ["x", "h_in"], "outputs": ["y", "h_out"]}
        document["stages"]["policy"]["artifacts"] = {name: {"path": "artifacts/policy.onnx", **order}}

    support.edit_manifest(package.path, change)


# Where torch is installed it is hidden; in the environment without torch this is what really happens.
LOAD_WITHOUT_TORCH = """
import importlib.util
import sys

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

if importlib.util.find_spec("torch"):
    sys.meta_path.insert(0, Hide())
import ashore

try:
    ashore.load(sys.argv[1], backend=sys.argv[2] or None)
except ashore.AshoreError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(("name", "asked"), [("torchscript", "torchscript"), ("torchscript", ""), ("pt2", "pt2")])
def test_a_backend_of_torch_says_what_to_install(sum_package: Package, name: str, asked: str) -> None:
    positional(sum_package, name)
    done = support.run_python(LOAD_WITHOUT_TORCH, str(sum_package.path), asked)
    expected = f"the backend {name!r} needs torch, which is not installed; use pip install 'ashore[export]'"
    assert done.stdout == f"BackendError {expected}\n", done.stderr


def test_a_package_is_asked_before_torch_is(sum_package: Package) -> None:
    """Nobody should install torch to learn that the package has nothing for it."""
    done = support.run_python(LOAD_WITHOUT_TORCH, str(sum_package.path), "jit")
    assert "stage 'policy' has no artifact for 'torchscript'; it has ['onnx']" in done.stdout, done.stderr


def test_a_module_of_ashore_that_is_missing_is_not_blamed_on_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "BACKENDS", {"lost": "ashore.backends.nowhere:Nothing"})
    with pytest.raises(ModuleNotFoundError, match=r"ashore\.backends\.nowhere"):
        backend.find_backend("lost")
