"""The realistic pipeline on every exporter, against eager, and what its files look like."""

from __future__ import annotations

import functools
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from pipelines import SENSORS, LstmPolicy, MlpPolicy, draw, quat_rotate_inverse

import ashore
from ashore import annotate
from ashore.backends import EXPORTERS, PROFILES
from ashore.errors import BackendError, ExportError
from ashore.package import Package, read

BACKENDS = {
    "onnx-dynamo": "onnx",
    "onnx-torchscript": "onnx",
    "jit-script": "torchscript",
    "jit-trace": "torchscript",
    "pt2": "pt2",
    "openvino": "openvino",
}
STEPS, RESETS = 50, (9, 10, 31)
QUIET: dict[str, Any] = {"summary": False, "picture": False}


class TwoNodes(LstmPolicy):
    """Perception, then the policy; what lies between them is part of neither."""

    @torch.no_grad()
    def step(self, sensors: dict[str, torch.Tensor]) -> torch.Tensor:
        given = annotate.input_tensors("perception", dict(sensors))
        observation = self.observation.compute(dict(zip(sensors, given, strict=True)))
        annotate.output_tensors("perception", {"observation": observation})
        scaled = observation * 0.5
        scaled = annotate.input_tensors("policy", {"observation": scaled})
        action = self.act(scaled)
        self.observation.last_action = action
        target = action * 0.25 + self.observation.default_pos
        annotate.output_tensors("policy", {"target": target})
        return target


PIPELINES: dict[str, Callable[[], MlpPolicy]] = {"mlp": MlpPolicy, "lstm": LstmPolicy, "two_nodes": TwoNodes}
every_exporter = pytest.mark.parametrize("exporter", list(EXPORTERS))
every_onnx_exporter = pytest.mark.parametrize("exporter", ["onnx-dynamo", "onnx-torchscript"])


def export_recorded(make: Callable[[], MlpPolicy], out: Path, exporter: str, **options: Any) -> Package:
    code, generator = make(), torch.Generator().manual_seed(1)
    with ashore.record("made", out, backend=exporter, **{**QUIET, **options}) as rec:
        for step in range(6):
            if step == 3:
                rec.reset()
                code.reset()
            given = draw(generator)
            with rec.step():
                given = {name: rec.input(name, tensor) for name, tensor in given.items()}
                rec.output("target", code.step(given))
    assert rec.package is not None
    return rec.package


def export_two_nodes(out: Path, exporter: str) -> Package:
    code, generator = TwoNodes(), torch.Generator().manual_seed(1)
    ashore.start("made", out)
    for step in range(6):
        if step == 3:
            annotate.reset()
            code.reset()
        code.step(draw(generator))
    ashore.stop()
    ashore.compile_graph(visualize=False, summary=False, backend=exporter)
    return read(out / "made")


Packages = Callable[[str, str], Package]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    """Pipeline and exporter -> package, made when first asked for."""

    @functools.cache
    def make(pipeline: str, exporter: str) -> Package:
        out = tmp_path_factory.mktemp(pipeline)
        if pipeline == "two_nodes":
            return export_two_nodes(out, exporter)
        return export_recorded(PIPELINES[pipeline], out, exporter)

    return make


def only_file(package: Package) -> onnx.ModelProto:
    ((_, stage),) = package.manifest.stages.items()
    return onnx.load_from_string(package.read(stage.artifacts["onnx"].path))


# --- exactness -------------------------------------------------------------------------------------------------------


@every_exporter
@pytest.mark.parametrize("pipeline", list(PIPELINES))
def test_the_closed_loop_is_exact_over_fifty_steps(packages: Packages, pipeline: str, exporter: str) -> None:
    """Inputs that were not recorded, with resets, each step on the states of the one before."""
    policy = ashore.load(packages(pipeline, exporter).path, backend=exporter)
    code, generator = PIPELINES[pipeline](), torch.Generator().manual_seed(2)
    for step in range(STEPS):
        if step in RESETS:
            policy.reset()
            code.reset()
        given = draw(generator)
        got = policy.step({name: tensor.numpy() for name, tensor in given.items()})["target"]
        np.testing.assert_allclose(got, code.step(given).numpy(), atol=1e-6, rtol=0, err_msg=f"step {step}")


def test_states_are_found_and_named(packages: Packages) -> None:
    mlp, lstm = (packages(pipeline, "onnx-dynamo").manifest.states for pipeline in ("mlp", "lstm"))
    assert sorted(mlp) == ["history", "last_action"]
    assert {"history", "last_action"} < lstm.keys()
    assert len(lstm) == 4
    assert {state.role for name, state in lstm.items() if name not in mlp} == {"recurrent"}
    assert mlp["history"].role == "history"
    assert mlp["last_action"].role == "last_action"


@every_exporter
@pytest.mark.parametrize("pipeline", list(PIPELINES))
def test_ports_have_the_same_names_on_every_backend(packages: Packages, pipeline: str, exporter: str) -> None:
    package, other = packages(pipeline, exporter), packages(pipeline, "onnx-dynamo")
    assert list(package.manifest.inputs) == list(SENSORS)
    assert "target" in package.manifest.outputs
    for group in ("inputs", "outputs", "states"):
        assert getattr(package.manifest, group) == getattr(other.manifest, group)
    assert package.manifest.wires == other.manifest.wires
    assert list(package.manifest.stages) == list(other.manifest.stages)
    for name, stage in package.manifest.stages.items():
        assert (stage.inputs, stage.outputs) == (
            other.manifest.stages[name].inputs,
            other.manifest.stages[name].outputs,
        )
        ((backend, artifact),) = stage.artifacts.items()
        assert backend == BACKENDS[exporter]
        assert artifact.inputs == tuple(stage.inputs)
        assert artifact.outputs == tuple(stage.outputs)
        assert artifact.exporter is not None
        assert artifact.exporter.split()[-1] == exporter
        if backend == "onnx":
            model = onnx.load_from_string(package.read(artifact.path))
            assert [port.name for port in model.graph.input] == list(stage.inputs)
            assert [port.name for port in model.graph.output] == list(stage.outputs)


def test_two_nodes_are_two_stages(packages: Packages) -> None:
    manifest = packages("two_nodes", "onnx-dynamo").manifest
    assert list(manifest.stages) == ["perception", "policy"]
    assert set(SENSORS) <= manifest.stages["perception"].inputs.keys()
    assert any(wire.source.startswith("perception/") and wire.target.startswith("policy/") for wire in manifest.wires)


@every_exporter
def test_verification_ran_on_what_was_exported(packages: Packages, exporter: str) -> None:
    verification = packages("mlp", exporter).manifest.verification
    assert verification is not None
    assert verification.status == "passed"
    assert [result.backend for result in verification.results] == [BACKENDS[exporter]]


def test_an_artifact_that_can_run_code_is_opened_only_when_asked_for(packages: Packages) -> None:
    with pytest.raises(ashore.AshoreError, match="backend='pt2'"):
        ashore.load(packages("mlp", "pt2").path)
    for exporter in set(EXPORTERS) - {"pt2"}:
        ashore.load(packages("mlp", exporter).path)


@pytest.mark.parametrize("exporter", ["jit-trace", "pt2"])
def test_what_torch_runs_runs_on_the_cpu_and_says_so(packages: Packages, exporter: str) -> None:
    package = packages("mlp", exporter)
    assert ashore.load(package, backend=exporter, device="CPU")
    with pytest.raises(ashore.AshoreError, match=r"device 'cuda' is not there; Ashore runs torch's files on \['cpu'\]"):
        ashore.load(package, backend=exporter, device="cuda")


def test_an_exporter_that_is_not_installed_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASHORE_EXPORT_CACHE", "off")  # where it was installed before, its files may be there
    monkeypatch.setitem(sys.modules, "openvino", None)
    monkeypatch.delitem(sys.modules, "ashore.backends.openvino", raising=False)
    message = r"the exporter 'openvino' needs openvino, which is not installed; use pip install 'ashore\[openvino\]'"
    with pytest.raises(BackendError, match=message):
        export_recorded(MlpPolicy, tmp_path, "openvino")
    assert list(tmp_path.iterdir()) == []


# --- ONNX files ------------------------------------------------------------------------------------------------------


class HandWritten(torch.nn.Module):
    """What an engineer would write to export the MLP pipeline, with its states as inputs and outputs."""

    def __init__(self) -> None:
        super().__init__()
        code = MlpPolicy()
        self.actor = code.actor
        self.register_buffer("default_pos", code.observation.default_pos)
        self.register_buffer("gravity", code.observation.gravity)
        self.register_buffer("command_scale", torch.tensor([2.0, 2.0, 0.25]))

    def forward(
        self,
        quat: torch.Tensor,
        angular_velocity: torch.Tensor,
        command: torch.Tensor,
        joint_pos: torch.Tensor,
        joint_vel: torch.Tensor,
        contact: torch.Tensor,
        history: torch.Tensor,
        last_action: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        quat = quat / quat.norm(dim=-1, keepdim=True)
        w, xyz = quat[:, :1], quat[:, 1:]
        turned = 2.0 * torch.cross(xyz, self.gravity, dim=-1)
        gravity = self.gravity - w * turned + torch.cross(xyz, turned, dim=-1)
        terms = (
            angular_velocity * 0.25,
            gravity,
            command * self.command_scale,
            joint_pos - self.default_pos,
            joint_vel * 0.05,
            (contact > 0.5).float(),
            last_action,
        )
        frame = torch.cat(terms, dim=-1).clamp(-100.0, 100.0)
        history = torch.cat((history[:, 1:], frame.unsqueeze(1)), dim=1)
        action = self.actor(history.flatten(1))
        return action * 0.25 + self.default_pos, action, history


@pytest.fixture(scope="module")
def nodes_by_hand() -> int:
    """How many nodes torch's own exporter makes of it."""
    shapes = [*SENSORS.values(), (1, 3, 49), (1, 12)]
    example = tuple(torch.randn(shape) for shape in shapes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(HandWritten().eval(), example, dynamo=True, opset_version=18, verbose=False)
    assert program is not None
    return len(program.model_proto.graph.node)


@every_onnx_exporter
def test_the_graph_is_about_as_small_as_a_hand_written_one(
    packages: Packages, nodes_by_hand: int, exporter: str
) -> None:
    kinds = Counter(node.op_type for node in only_file(packages("mlp", exporter)).graph.node)
    assert kinds.total() <= 1.3 * nodes_by_hand, f"{kinds.total()} nodes, by hand {nodes_by_hand}: {kinds}"


@every_onnx_exporter
def test_the_graph_holds_no_junk(packages: Packages, exporter: str) -> None:
    mlp_file = only_file(packages("mlp", exporter))
    kinds = Counter(node.op_type for node in mlp_file.graph.node)
    for junk in ("Identity", "Constant", "Dropout", "Shape", "ScatterND", "ScatterElements", "If", "Loop", "Where"):
        assert junk not in kinds, kinds
    assert kinds["Cast"] <= 1  # the contacts, from bool to float
    assert kinds["Gemm"] == 3
    assert not mlp_file.functions
    used = {name for node in mlp_file.graph.node for name in node.input}
    assert {tensor.name for tensor in mlp_file.graph.initializer} <= used
    onnx.checker.check_model(mlp_file, full_check=True)


@every_onnx_exporter
def test_the_file_holds_no_paths_of_this_machine(packages: Packages, exporter: str) -> None:
    model = only_file(packages("mlp", exporter))
    lines = [entry.value for node in model.graph.node for entry in node.metadata_props if entry.key == "ashore.line"]
    assert bool(lines) == (exporter == "onnx-dynamo")
    assert not [line for line in lines if not re.fullmatch(r"tests/[\w/]+\.py:\d+", line)]
    for node in model.graph.node:
        del node.metadata_props[:]
    data = model.SerializeToString()
    assert str(Path.cwd()).encode() not in data
    assert b".py" not in data


@every_onnx_exporter
def test_an_lstm_stays_one_node(packages: Packages, exporter: str) -> None:
    kinds = Counter(node.op_type for node in only_file(packages("lstm", exporter)).graph.node)
    assert kinds["LSTM"] == 1
    assert not {"Loop", "Scan", "Sigmoid"} & kinds.keys()


@pytest.mark.parametrize(
    ("exporter", "options", "opset", "ir_version"),
    [
        ("onnx-dynamo", {}, 18, 9),
        ("onnx-dynamo", {"opset": 21}, 21, 9),
        ("onnx-dynamo", {"opset": 20, "ir_version": 8}, 20, 8),
        ("onnx-dynamo", {"profile": "ort-1.14"}, *PROFILES["ort-1.14"]),
        ("onnx-dynamo", {"profile": "ort-1.18"}, *PROFILES["ort-1.18"]),
        ("onnx-dynamo", {"profile": "ort-1.18", "opset": 19}, 19, PROFILES["ort-1.18"][1]),
        ("onnx-torchscript", {}, 18, 9),
        ("onnx-torchscript", {"opset": 14, "ir_version": 7}, 14, 7),
        ("onnx-torchscript", {"profile": "ort-1.16"}, *PROFILES["ort-1.16"]),
    ],
)
def test_opset_and_ir_version_are_those_that_were_asked_for(
    tmp_path: Path, exporter: str, options: dict[str, Any], opset: int, ir_version: int
) -> None:
    package = export_small(tmp_path, exporter, **options)
    model, artifact = only_file(package), package.manifest.stages["policy"].artifacts["onnx"]
    assert [(one.domain, one.version) for one in model.opset_import if one.domain in ("", "ai.onnx")] == [("", opset)]
    assert model.ir_version == ir_version
    assert (artifact.opset, artifact.ir_version) == (opset, ir_version)
    got = ashore.load(package.path).step({"x": np.full((1, 4), 0.5, np.float32)})["y"]
    np.testing.assert_allclose(got, np.tanh(np.full((1, 4), 1.0)), atol=1e-6)


def export_small(out: Path, exporter: str, **options: Any) -> Package:
    with ashore.record("small", out, backend=exporter, **QUIET, **options) as rec:
        for number in (0.1, 0.2, -0.3):
            with rec.step():
                rec.output("y", torch.tanh(rec.input("x", torch.full((1, 4), number)) * 2.0))
    assert rec.package is not None
    return rec.package


@pytest.mark.parametrize(
    ("exporter", "opset", "message"),
    [("onnx-dynamo", 17, "writes opsets 18 to"), ("onnx-torchscript", 99, "writes opsets 9 to 20, not 99")],
)
def test_an_opset_that_an_exporter_does_not_write_is_an_export_error(
    tmp_path: Path, exporter: str, opset: int, message: str
) -> None:
    with pytest.raises(ashore.AshoreError, match=message):
        export_small(tmp_path, exporter, opset=opset)
    assert list(tmp_path.iterdir()) == []


@every_exporter
def test_an_operation_that_a_backend_cannot_express_is_named_with_its_line(tmp_path: Path, exporter: str) -> None:
    """Or the package is exact: the torch backends have every operation."""
    given = [torch.randn(4, 4, generator=torch.Generator().manual_seed(seed)) for seed in range(4)]
    try:
        with ashore.record("svd", tmp_path, backend=exporter, **QUIET) as rec:
            for x in given[:3]:
                with rec.step():
                    x = rec.input("x", x)
                    rec.output("y", torch.linalg.eigvalsh(x + x.T))
    except ExportError as error:
        (finding,) = error.findings
        assert finding.name == "unsupported_operation"
        assert "eigvalsh" in str(error) or "eigh" in str(error)
        assert finding.line is not None
        assert Path(finding.line.file).name == "test_backends.py"
        assert list(tmp_path.iterdir()) == []
    else:
        got = ashore.load(tmp_path / "svd", backend=exporter).step({"x": given[3].numpy()})["y"]
        np.testing.assert_allclose(got, torch.linalg.eigvalsh(given[3] + given[3].T).numpy(), atol=1e-5)


@every_exporter
def test_every_dtype_passes_through_every_exporter(tmp_path: Path, exporter: str) -> None:
    def compute(given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        double = {} if exporter == "openvino" else {"d": given["d"] + 1.0}  # which OpenVINO computes in float32
        return {
            **double,
            "f": given["f"] * 2.0,
            "i": given["i"] * 3,
            "j": given["j"] - 1,
            "b": ~given["b"],
            "u": given["u"] + 1,
        }

    def inputs(seed: int) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        plain = torch.randn(1, 3, generator=generator)
        whole = torch.randint(0, 100, (1, 3), generator=generator)
        return {
            "f": plain,
            "d": plain.double(),
            "i": whole,
            "j": whole.int(),
            "b": plain > 0,
            "u": whole.to(torch.uint8),
        }

    known = compute(inputs(0))
    with ashore.record("dtypes", tmp_path, backend=exporter, **QUIET) as rec:
        for seed in range(3):
            with rec.step():
                given = {name: rec.input(name, tensor) for name, tensor in inputs(seed).items() if name in known}
                for name, tensor in compute(given).items():
                    rec.output(name, tensor)
    policy = ashore.load(tmp_path / "dtypes", backend=exporter)
    given = inputs(9)
    got = policy.step({name: given[name].numpy() for name in policy.inputs})
    for name, tensor in compute(given).items():
        assert got[name].dtype == tensor.numpy().dtype
        np.testing.assert_array_equal(got[name], tensor.numpy())


def test_openvino_refuses_what_it_would_compute_in_float32(tmp_path: Path) -> None:
    message = r"stage 'policy' .*: Parameter 'd' is float64, which OpenVINO computes as float32"
    with (
        pytest.raises(ExportError, match=message),
        ashore.record("double", tmp_path, backend="openvino", **QUIET) as rec,
    ):
        for seed in range(3):
            with rec.step():
                rec.output("y", rec.input("d", torch.full((1, 2), float(seed), dtype=torch.float64)) * 0.1)
    assert list(tmp_path.iterdir()) == []


def test_openvino_files_are_the_same_each_time_and_keep_their_weights_in_float32(
    packages: Packages, tmp_path: Path
) -> None:
    package = packages("mlp", "openvino")
    artifact = package.manifest.stages["policy"].artifacts["openvino"]
    assert (artifact.path, artifact.data) == ("artifacts/policy.xml", ("artifacts/policy.bin",))
    again = export_recorded(MlpPolicy, tmp_path, "openvino")
    for path in (artifact.path, *artifact.data):
        assert again.read(path) == package.read(path)
    assert b"FP16" not in package.read(artifact.path)


def test_the_scripted_helper_is_what_it_says() -> None:
    quat = torch.tensor([[0.5**0.5, 0.0, 0.0, 0.5**0.5]])  # a quarter turn about z
    turned = quat_rotate_inverse(quat, torch.tensor([[1.0, 0.0, 0.0]]))
    torch.testing.assert_close(turned, torch.tensor([[0.0, -1.0, 0.0]]))
