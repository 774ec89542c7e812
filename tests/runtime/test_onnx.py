from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import support
from ashore.errors import BackendError, InputError
from ashore.package import Package, write
from ashore.runtime import Options, load
from ashore.runtime import onnx as onnx_backend
from ashore.runtime.onnx import OnnxBackend, open_session
from ashore.spec import Artifact, Port, Stage, single_stage

F3 = Port(dtype="float32", shape=(1, 3))
INPUTS, OUTPUTS = {"x": F3, "h_in": F3}, {"y": F3, "h_out": F3}


def stage(inputs: dict[str, Port] = INPUTS, outputs: dict[str, Port] = OUTPUTS) -> Stage:
    return Stage(rate="policy", inputs=inputs, outputs=outputs, artifacts={"onnx": Artifact(path="a.onnx")})


def open_model(data: bytes, made: Stage | None = None) -> object:
    return OnnxBackend().open("stage", Artifact(path="a.onnx"), [data], made or stage(), Options())


def port(**fields: Any) -> Port:
    return Port(**{"dtype": "float32", "shape": (1, 3), **fields})


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (stage({"x": F3}), r"inputs: the manifest says \['x'\], the artifact has \['h_in', 'x'\]"),
        (stage(outputs={"y": F3, "z": F3}), r"outputs: the manifest says \['y', 'z'\]"),
        (stage({**INPUTS, "x": port(dtype="float64")}), r"'x': the manifest says float64, the"),
        (stage({**INPUTS, "x": port(shape=(1, 4))}), r"'x': the manifest says shape \[1, 4\]"),
        (stage({**INPUTS, "x": port(shape=(3,))}), r"'x': the manifest says shape \[3\]"),
        (stage({**INPUTS, "x": port(shape=("batch", 3))}), r"says shape \['batch', 3\]"),
    ],
)
def test_the_artifact_must_have_the_ports_of_the_manifest(made: Stage, message: str) -> None:
    with pytest.raises(BackendError, match=message):
        open_model(support.model(support.SUM_MODEL), made)


def test_the_right_ports_open() -> None:
    assert open_model(support.model(support.SUM_MODEL)) is not None


def test_an_artifact_of_several_files_is_refused() -> None:
    data = support.model(support.SUM_MODEL)
    with pytest.raises(BackendError, match="stage: an ONNX artifact is one file, with its weights inside; got 2"):
        OnnxBackend().open("stage", Artifact(path="a.onnx"), [data, b"weights"], stage(), Options())


@pytest.mark.parametrize("data", [b"", b"not onnx", b"\x08\x0a" * 50, support.model(support.SUM_MODEL)[:-10]])
def test_what_is_no_onnx_file_is_refused(data: bytes) -> None:
    with pytest.raises(BackendError, match="stage: ONNX Runtime refuses it|not a readable ONNX file"):
        open_model(data)


def test_an_operator_nobody_knows_is_refused() -> None:
    data = support.model(support.SUM_MODEL.replace("Mul(h_out, x)", "Conjure(h_out, x)"))
    with pytest.raises(BackendError, match=r"refuses it: .*Conjure"):
        open_model(data)


def test_a_provider_that_is_not_there_is_an_error_and_never_a_quiet_fallback() -> None:
    with pytest.raises(BackendError, match="provider 'WarpDriveExecutionProvider' is not installed; there are"):
        open_session(support.model(support.SUM_MODEL), Options(providers=["WarpDriveExecutionProvider"]), "x")
    with pytest.raises(BackendError, match="is not installed"):
        open_session(support.model(support.SUM_MODEL), Options(providers=[("CUDAExecutionProvider", {})]), "x")


def test_without_the_private_call_the_public_one_is_used(sum_package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    class Public:
        """A session that has public methods only."""

        def __init__(self, session: Any) -> None:
            self.io_binding, self.run_with_iobinding = session.io_binding, session.run_with_iobinding

    real = onnx_backend.OnnxSession.__init__
    monkeypatch.setattr(onnx_backend.OnnxSession, "__init__", lambda self, session: real(self, Public(session)))
    x = support.f32(1, 2, 3)
    np.testing.assert_array_equal(load(sum_package).step({"x": x})["y"], support.Sum().step(x))


def test_a_provider_that_does_not_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    with (
        pytest.warns(UserWarning, match="CUDAExecutionProvider"),
        pytest.raises(BackendError, match="installed but could not be started"),
    ):
        open_session(support.model(support.SUM_MODEL), Options(providers=["CUDAExecutionProvider"]), "x")


def test_threads_are_set_and_do_not_spin() -> None:
    settings = open_session(support.model(support.SUM_MODEL), Options(threads=2), "x").get_session_options()
    assert settings.intra_op_num_threads == 2
    assert settings.inter_op_num_threads == 1
    assert settings.get_session_config_entry("session.intra_op.allow_spinning") == "0"


def test_a_name_that_is_no_text_is_refused() -> None:
    data = support.model(support.SUM_MODEL.replace("y = Mul", "Qy = Mul").replace("[1,3] y", "[1,3] Qy"))
    with pytest.raises(BackendError, match="stage: holds a name that is no text"):
        open_model(data.replace(b"Qy", b"\xff\xfe"))


def test_what_onnx_runtime_quotes_cannot_drive_a_terminal() -> None:
    made = onnx.load_from_string(support.model(support.SUM_MODEL))
    made.graph.node[0].op_type = "\x1b]0;owned\x07"
    with pytest.raises(BackendError) as caught:
        open_model(made.SerializeToString())
    assert "owned" in str(caught.value)
    assert "\x1b" not in str(caught.value)


def gather_package(out: Path) -> Package:
    text = """
    policy (float[1,2] x) => (float[1,2] y) {
        table = Constant<value = float[3,2] {1,2,3,4,5,6}>()
        total = ReduceSum<keepdims = 0>(x)
        row = Cast<to = 7>(total)
        zero = Constant<value_ints = [0]>()
        picked = Gather(table, row)
        y = Unsqueeze(picked, zero)
    }
    """
    f2 = Port(dtype="float32", shape=(1, 2))
    manifest = single_stage("gather", inputs={"x": f2}, outputs={"y": f2}, artifacts={"onnx": Artifact(path="a.onnx")})
    return write(out, manifest, files={"a.onnx": support.model(text)})


def test_a_stage_that_fails_while_running_is_told_with_its_cause(tmp_path: Path) -> None:
    policy = load(gather_package(tmp_path / "p"))
    np.testing.assert_array_equal(policy.step({"x": support.f32(1, 1)})["y"], [[5, 6]])
    with pytest.raises(BackendError, match="step: the backend failed; the state is unchanged: .*Gather"):
        policy.step({"x": support.f32(50, 50)})
    np.testing.assert_array_equal(policy.step({"x": support.f32(0, 0)})["y"], [[1, 2]])


def test_a_stage_that_fails_on_a_nan_is_told_as_a_bad_input(tmp_path: Path) -> None:
    policy = load(gather_package(tmp_path / "p"))
    with pytest.raises(InputError, match=r"input 'x'\[0, 1\] is nan"):
        policy.step({"x": support.f32(1, np.nan)})


def external(folder: Path, location: str) -> bytes:
    weights = onnx.numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    onnx.external_data_helper.set_external_data(weights, location=location)
    weights.ClearField("raw_data")
    weights.data_location = onnx.TensorProto.EXTERNAL
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 64]) for name in "xy"]
    graph = onnx.helper.make_graph([node], "g", ends[:1], ends[1:], [weights])
    return onnx.helper.make_model(graph, ir_version=10).SerializeToString()


@pytest.mark.parametrize("location", ["weights.bin", "/etc/hostname", "../../weights.bin", ""])
def test_weights_outside_the_file_are_refused(tmp_path: Path, location: str) -> None:
    with pytest.raises(BackendError, match=f"keeps weights outside the file, in '{location}'"):
        open_session(external(tmp_path, location), Options(), "stage")


@pytest.mark.parametrize("device", ["cpu", "CPU"])
def test_the_device_cpu_is_the_provider_of_the_cpu(device: str) -> None:
    for providers in (None, ["CPUExecutionProvider"]):
        session = open_session(support.model(support.SUM_MODEL), Options(device=device, providers=providers), "x")
        assert session.get_providers() == ["CPUExecutionProvider"]


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "GPU", "npu", "cpu:0", "auto"])
def test_a_device_that_is_not_there_is_an_error_and_never_a_quiet_fallback(sum_package: Package, device: str) -> None:
    with pytest.raises(
        BackendError, match=rf"device {device!r} is not there; ONNX Runtime has \['cpu'\] here, and the"
    ):
        load(sum_package, device=device)


BOTH = ["CUDAExecutionProvider", "CPUExecutionProvider"]


@pytest.mark.parametrize(
    ("device", "providers", "chosen"),
    [
        ("cuda", None, ["CUDAExecutionProvider"]),
        ("CUDA:1", None, [("CUDAExecutionProvider", {"device_id": "1"})]),
        ("cuda", BOTH, BOTH),
        ("cuda:1", [("CUDAExecutionProvider", {"device_id": 1})], [("CUDAExecutionProvider", {"device_id": 1})]),
        (None, BOTH, BOTH),
        (None, None, ["CPUExecutionProvider"]),
    ],
)
def test_a_device_means_a_provider(
    monkeypatch: pytest.MonkeyPatch, device: str | None, providers: list[Any] | None, chosen: list[Any]
) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: BOTH)
    assert onnx_backend._providers(onnxruntime, Options(device=device, providers=providers)) == chosen


@pytest.mark.parametrize(
    ("device", "providers"),
    [
        ("cpu", BOTH),
        ("cuda", ["CPUExecutionProvider"]),
        ("cuda:1", BOTH),
        ("cuda:1", [("CUDAExecutionProvider", {"device_id": 0})]),
    ],
)
def test_a_device_and_providers_that_contradict_each_other_are_an_error(
    monkeypatch: pytest.MonkeyPatch, device: str, providers: list[Any]
) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: BOTH)
    with pytest.raises(BackendError, match=f"device {device!r} means the provider .*, and the first of the providers"):
        onnx_backend._providers(onnxruntime, Options(device=device, providers=providers))
