"""Nothing is written but what was proven, or allowed by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from recorded import FAST, QUIET, export_filter, numbers

import ashore
import ashore.backends.onnx
from ashore.backends import EXPORTERS, Exported, Request
from ashore.errors import ExportError
from ashore.package import read

# --- what is written, and what is not --------------------------------------------------------------------------------


def test_a_failed_export_leaves_nothing_and_does_not_replace_a_package(tmp_path: Path) -> None:
    path = export_filter(tmp_path)
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    with (
        pytest.raises(ExportError, match=r"test_record_proof.py:\d+: .*\[value_leak\]"),
        ashore.record("filter", tmp_path, **FAST) as rec,
    ):
        for x in numbers(1, 3):
            with rec.step():
                x = rec.input("x", x)
                rec.output("y", x * x.max().item())
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before
    assert [one.name for one in tmp_path.iterdir()] == ["filter"]


def test_a_later_export_replaces_an_earlier_one(tmp_path: Path) -> None:
    export_filter(tmp_path, steps=4)
    path = export_filter(tmp_path, steps=7)
    assert len(read(path).golden().ticks) == 7
    assert [one.name for one in tmp_path.iterdir()] == ["filter"]


def wrong(request: Request) -> Exported:
    """An exporter that gets the bias of a layer slightly wrong."""
    good = ashore.backends.onnx.export_torchscript(request)
    model = onnx.load_from_string(good.data)
    bias = next(tensor for tensor in model.graph.initializer if list(tensor.dims) == [4])
    values = onnx.numpy_helper.to_array(bias).copy()
    values[2] += 0.01
    bias.CopyFrom(onnx.numpy_helper.from_array(values, bias.name))
    return dataclasses.replace(good, data=model.SerializeToString())


def broken(request: Request) -> Exported:
    """An exporter that writes what no runtime can read."""
    return dataclasses.replace(ashore.backends.onnx.export_torchscript(request), data=b"nonsense")


def failing(request: Request) -> Exported:
    raise RuntimeError("the exporter gave up")


def test_a_file_that_computes_something_else_fails_the_export_by_step_port_and_element(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ashore.backends.onnx, "export_dynamo", wrong)
    with pytest.raises(ExportError) as caught:
        export_filter(tmp_path, backend="onnx-dynamo")
    assert {finding.name for finding in caught.value.findings} == {"precision"}
    message = str(caught.value)
    assert "[precision]" in message
    assert "step 0" in message or "tick 0" in message
    assert "'y'" in message or "y[" in message
    assert "[0, 2]" in message
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_file_can_be_allowed_and_is_then_a_finding_in_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ashore.backends.onnx, "export_dynamo", wrong)
    path = export_filter(tmp_path, backend="onnx-dynamo", allow={"precision"})
    manifest = read(path).manifest
    assert "precision" in {finding.name for finding in manifest.findings}
    assert manifest.verification is not None
    assert manifest.verification.status != "passed"


@pytest.mark.parametrize("exporter", [broken, failing])
def test_a_file_that_cannot_be_read_or_made_fails_the_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exporter: Callable[[Request], Exported]
) -> None:
    monkeypatch.setattr(ashore.backends.onnx, "export_dynamo", exporter)
    with pytest.raises(ExportError) as caught:
        export_filter(tmp_path, backend="onnx-dynamo")
    assert {finding.name for finding in caught.value.findings} == {"unsupported_operation"}
    assert list(tmp_path.iterdir()) == []


def test_verification_is_recorded(tmp_path: Path) -> None:
    verification = read(export_filter(tmp_path, validation_steps=13, atol=1e-4, rtol=1e-6)).manifest.verification
    assert verification is not None
    assert (verification.status, verification.steps) == ("passed", 6 + 13)
    assert (verification.atol, verification.rtol) == (1e-4, 1e-6)
    (result,) = verification.results
    assert result.backend == "onnx"
    assert result.runtime.startswith("onnxruntime ")
    assert 0.0 <= result.max_abs_error_stepwise <= 1e-5
    assert 0.0 <= result.max_abs_error_free_running <= 1e-5


def test_verification_that_is_left_out_is_recorded_as_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ashore.backends.onnx, "export_dynamo", wrong)
    manifest = read(export_filter(tmp_path, backend="onnx-dynamo", validation_steps=0)).manifest
    assert manifest.verification is not None
    assert (manifest.verification.status, manifest.verification.results) == ("skipped", ())


@pytest.mark.parametrize("exporter", list(EXPORTERS))
def test_what_was_allowed_is_in_the_manifest_with_its_line(tmp_path: Path, exporter: str) -> None:
    with ashore.record("allowed", tmp_path, **QUIET, backend=exporter, allow={"unused_input"}) as rec:
        for x in numbers(1, 3):
            with rec.step():
                used, _ = rec.input("used", x), rec.input("spare", x.clone())
                rec.output("y", used * 2.0)
    (finding,) = [one for one in read(tmp_path / "allowed").manifest.findings if one.severity == "error"]
    assert finding.name == "unused_input"
    assert finding.where is not None
    assert finding.where.startswith("test_record_proof.py:") or "test_record_proof.py:" in finding.where
    assert "spare" in finding.message
    assert finding.remedy
    policy = ashore.load(tmp_path / "allowed", backend=exporter)
    given = {"used": np.ones((1, 4), np.float32), "spare": np.full((1, 4), 5.0, np.float32)}
    np.testing.assert_allclose(policy.step({name: given[name] for name in policy.inputs})["y"], 2.0)


class Findings:
    """Steps that are not exact, each by one finding."""

    def __init__(self) -> None:
        self.count = 0
        self.outside = torch.ones(1, 4)
        self.norm = torch.nn.BatchNorm1d(1).train()

    def between_steps(self) -> None:
        self.count += 1
        self.outside.numpy()[:] = self.count

    def value_leak(self, x: torch.Tensor) -> torch.Tensor:
        return x * float(self.outside.max() * 0.0 + x.sum())

    def branch(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2.0 if x.sum() > -100.0 else x

    def randomness(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.randn(1, 4)

    def python_value(self, x: torch.Tensor) -> torch.Tensor:
        return x * (1.0 + self.count)

    def undeclared_input(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.outside

    def constant_output(self, x: torch.Tensor) -> torch.Tensor:
        return torch.full((1, 4), 2.0)

    def training_mode(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x.T).T * 2.0


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("value_leak", "value_leak"),
        ("branch", "value_leak"),
        ("randomness", "randomness"),
        ("python_value", "python_value"),
        ("undeclared_input", "undeclared_input"),
        ("constant_output", "constant_output"),
        ("training_mode", "training_mode"),
    ],
)
def test_a_finding_fails_the_export_and_can_be_allowed_by_its_name(tmp_path: Path, method: str, name: str) -> None:
    def run(out: Path, allow: set[str]) -> Path:
        code = Findings()
        with ashore.record("found", out, **QUIET, backend="jit-trace", allow=allow) as rec:
            for x in numbers(1, 4):
                with rec.step():
                    rec.output("y", getattr(code, method)(rec.input("x", x)))
                code.between_steps()
        return out / "found"

    def attempt(names: set[str]) -> Path | None:
        try:
            return run(tmp_path / "lenient", names)
        except ExportError as error:
            further = {finding.name for finding in error.findings} - names
            assert further
            assert further <= {"precision", "not_reproduced", "first_step", "unused_input", "constant_output"}
            names |= further
            return None

    with pytest.raises(ExportError, match=rf"test_record_proof.py:\d+: .*\[{name}\]") as caught:
        run(tmp_path / "strict", set())
    names = {finding.name for finding in caught.value.findings}
    assert name in names
    assert not (tmp_path / "strict").exists()
    # What is not exact is found by more than one check: whoever allows one finding has to allow the others too.
    while (path := attempt(names)) is None:
        pass
    manifest = read(path).manifest
    (finding, *_) = [one for one in manifest.findings if one.name == name]
    assert finding.severity == "error"
    assert finding.where is not None
    assert "test_record_proof.py:" in finding.where
    assert name in (tmp_path / "lenient" / "found" / "export.log").read_text()


def test_the_same_is_refused_where_it_is_not_allowed(tmp_path: Path) -> None:
    with (
        pytest.raises(ExportError, match=r"test_record_proof.py:\d+: .*spare.*\[unused_input\]"),
        ashore.record("refused", tmp_path, **FAST) as rec,
    ):
        for x in numbers(1, 3):
            with rec.step():
                used, _ = rec.input("used", x), rec.input("spare", x.clone())
                rec.output("y", used * 2.0)
    assert list(tmp_path.iterdir()) == []


def test_an_error_holds_every_finding_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ExportError) as caught, ashore.record("many", tmp_path, **FAST) as rec:
        for x in numbers(1, 3):
            with rec.step():
                x = rec.input("x", x)
                rec.output("y", x * x.max().item() + torch.rand(1, 4))
    assert {finding.name for finding in caught.value.findings} >= {"value_leak", "randomness"}
    for finding in caught.value.findings:
        assert str(finding) in str(caught.value)
        assert finding.line is not None
        assert Path(finding.line.file).name == "test_record_proof.py"
    assert "What to do:" in str(caught.value)
