"""The annotate door: the order of its calls, what passes through, and compile_graph."""

from __future__ import annotations

import importlib.metadata
import re
from collections import OrderedDict
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
import torch
from doors import Script, export_annotated, run_annotated, worst_error

import ashore
import support
from ashore import (
    InferenceManager,
    TensorSemantics,
    annotate,
)
from ashore.backends import exporter_name
from ashore.errors import BackendError, ExportError, InputError, OrderError
from ashore.package import read

pytestmark = pytest.mark.usefixtures("session_closed")


class Plain(Script):
    """One node, no state."""

    def __init__(self) -> None:
        self.net = torch.nn.Linear(4, 2)

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x = annotate.input_tensors("policy", {"x": given["x"]})
        y = torch.tanh(self.net(x))
        annotate.output_tensors("policy", {"y": y})
        return {"y": y}


# --- the quick start -------------------------------------------------------------------------------------------------


def quick_start() -> str:
    description = str(importlib.metadata.distribution("leapp").metadata.get_payload())
    found = re.search(r"## Quick example\s+```python\n(.*?)```", description, re.DOTALL)
    assert found is not None
    return found.group(1)


@pytest.mark.parametrize("how", ["as_a_file", "without_a_file"])
def test_quick_start_of_leapp_runs_with_only_its_imports_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    script = quick_start()
    changed = script.replace("import leapp\n", "import ashore as leapp\n").replace(
        "from leapp import", "from ashore import"
    )
    assert [line for line in changed.splitlines() if line not in script.splitlines()] == [
        "import ashore as leapp",
        "from ashore import annotate",
    ]
    (tmp_path / "script.py").write_text(changed)
    monkeypatch.chdir(tmp_path)
    strict = "import warnings; warnings.simplefilter('error')\n"
    run = "import runpy; runpy.run_path('script.py', run_name='__main__')" if how == "as_a_file" else changed
    done = support.run_python(strict + run)
    assert done.returncode == 0, done.stderr
    package = read(tmp_path / "my_pipeline")
    assert {name: list(stage.artifacts) for name, stage in package.manifest.stages.items()} == {
        "preprocess": ["torchscript"],
        "policy": ["onnx"],
    }
    assert (tmp_path / "my_pipeline" / "graph.png").is_file()
    policy = ashore.load(package.path)
    obs = np.linspace(-1.0, 2.0, 8, dtype=np.float32)
    first, second = policy.step({"obs": obs}), policy.step({"obs": obs * 2})
    assert list(first) == ["action"]
    assert first["action"].shape == (4,)
    # The preprocessing takes out scale, so a doubled observation gives nearly the same action.
    np.testing.assert_allclose(first["action"], second["action"], atol=1e-4)


# --- order -----------------------------------------------------------------------------------------------------------


def test_stop_without_start_is_an_order_error() -> None:
    with pytest.raises(OrderError, match="stop: nothing is being recorded; call start first"):
        ashore.stop()


def test_stop_twice_is_an_order_error(tmp_path: Path) -> None:
    ashore.start("made", save_path=tmp_path)
    ashore.stop()
    with pytest.raises(OrderError, match="nothing is being recorded"):
        ashore.stop()


def test_compile_graph_while_recording_is_an_order_error(tmp_path: Path) -> None:
    ashore.start("made", save_path=tmp_path)
    run_annotated(Plain, steps=2, resets=())
    with pytest.raises(OrderError, match="still recording; call stop first"):
        ashore.compile_graph()
    ashore.stop()
    assert list(tmp_path.iterdir()) == []


def test_compile_graph_without_a_recording_is_an_order_error(tmp_path: Path) -> None:
    ashore.start("made", save_path=tmp_path)
    ashore.stop()
    with pytest.raises(OrderError, match="nothing was recorded"):
        ashore.compile_graph()


def test_output_tensors_before_input_tensors_is_an_order_error(tmp_path: Path) -> None:
    ashore.start("made", save_path=tmp_path)
    annotate.input_tensors("policy", {"x": torch.zeros(1, 4)})
    with pytest.raises(OrderError, match="annotate.output_tensors: node 'polici' is not open.*did you mean 'policy'"):
        annotate.output_tensors("polici", {"y": torch.zeros(1, 4)})


def test_outputs_that_are_marked_twice_in_a_step_are_an_order_error(tmp_path: Path) -> None:
    ashore.start("made", save_path=tmp_path)
    x = annotate.input_tensors("policy", {"x": torch.zeros(1, 4)})
    annotate.output_tensors("policy", {"y": x + 1.0})
    with pytest.raises(OrderError, match="node 'policy' has given its outputs in this step already; call it once a"):
        annotate.output_tensors("policy", {"y": x + 1.0})


class Reads(Plain):
    """Looks at a value where no operation lies between the outputs and that."""

    before = False

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x = annotate.input_tensors("policy", {"x": given["x"]})
        y = torch.tanh(self.net(x))
        if self.before:
            self.seen = y.tolist()
        annotate.output_tensors("policy", {"y": y})
        if not self.before:
            self.seen = y.tolist()
        return {"y": y}


def test_a_value_that_is_read_right_after_the_outputs_is_only_a_warning(tmp_path: Path) -> None:
    found = {one.name: one.severity for one in read(export_annotated(Reads, tmp_path)).manifest.findings}
    assert found["late_leak"] == "warning"


def test_a_value_that_is_read_right_before_the_outputs_fails_the_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reads, "before", True)
    with pytest.raises(ExportError, match="value_leak"):
        export_annotated(Reads, tmp_path)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        ("state_tensors", {"h": torch.zeros(1)}),
        ("update_state", {"h": torch.zeros(1)}),
        ("register_buffer", {"b": torch.zeros(1)}),
        ("module", torch.nn.Linear(1, 1)),
    ],
)
def test_a_call_for_a_node_that_is_not_open_is_an_order_error(tmp_path: Path, call: str, argument: Any) -> None:
    ashore.start("made", save_path=tmp_path)
    with pytest.raises(OrderError, match=f"annotate.{call}: node 'policy' is not open"):
        getattr(annotate, call)("policy", argument)


def test_update_of_a_state_that_was_not_declared_is_refused(tmp_path: Path) -> None:
    ashore.start("made", save_path=tmp_path)
    annotate.input_tensors("policy", {"x": torch.zeros(1, 4)})
    with pytest.raises(InputError, match="'h' is updated, but was not declared"):
        annotate.update_state("policy", {"h": torch.zeros(1, 4)})


def test_start_over_an_open_session_discards_it_and_warns(tmp_path: Path) -> None:
    ashore.start("first", save_path=tmp_path)
    run_annotated(Plain)
    with pytest.warns(UserWarning, match="the session that was open is discarded"):
        ashore.start("second", save_path=tmp_path)
    ashore.stop()
    with pytest.raises(OrderError, match="nothing was recorded"):
        ashore.compile_graph()
    assert list(tmp_path.iterdir()) == []


def test_compile_graph_can_be_called_again(tmp_path: Path) -> None:
    export_annotated(Plain, tmp_path, backend="jit-trace")
    assert ashore.compile_graph(visualize=False, summary=False) == {"policy": True}
    assert worst_error(Plain, tmp_path / "made") <= 1e-6


@pytest.mark.parametrize("name", ["", "/", 3, None])
def test_start_refuses_what_is_no_name(tmp_path: Path, name: Any) -> None:
    with pytest.raises(InputError, match="expected a name|a package cannot be called"):
        ashore.start(name, save_path=tmp_path)


def test_start_refuses_to_leave_nodes_out(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot leave out the nodes \\['policy'\\]"):
        ashore.start("made", save_path=tmp_path, non_traced=["policy"])


def test_start_takes_the_arguments_of_leapp(tmp_path: Path) -> None:
    ashore.start("made", tmp_path, False, False, non_traced=[], max_cached_io=2, global_patching=False, patching=None)
    run_annotated(Plain)
    ashore.stop()
    done = ashore.compile_graph(False, False, validate=True, rtol=1e-3, atol=1e-5, strict=True, graph_configs=None)
    assert done == {"policy": True}
    assert worst_error(Plain, tmp_path / "made") <= 1e-6


def test_folders_in_the_name_are_added_to_save_path(tmp_path: Path) -> None:
    ashore.start("robots/dog", save_path=tmp_path)
    run_annotated(Plain)
    ashore.stop()
    ashore.compile_graph(visualize=False, summary=False, backend="jit-trace")
    assert read(tmp_path / "robots" / "dog").manifest.name == "dog"


@pytest.mark.parametrize("node", ["", "  ", None, 3])
def test_a_node_needs_a_name(tmp_path: Path, node: Any) -> None:
    ashore.start("made", save_path=tmp_path)
    with pytest.raises(InputError, match="expected the name of a node"):
        annotate.input_tensors(node, {"x": torch.zeros(1)})


@pytest.mark.parametrize("tensors", [torch.zeros(2), [torch.zeros(2)], "x", 3, None])
def test_tensors_need_names(tmp_path: Path, tensors: Any) -> None:
    ashore.start("made", save_path=tmp_path)
    with pytest.raises(InputError, match="expected a dict of tensors, or TensorSemantics"):
        annotate.input_tensors("policy", tensors)


def test_what_is_no_tensor_is_refused_by_name(tmp_path: Path) -> None:
    ashore.start("made", save_path=tmp_path)
    with pytest.raises(InputError, match="'gain'.*float"):
        annotate.input_tensors("policy", {"gain": 0.5})


def test_two_semantics_with_one_name_are_refused(tmp_path: Path) -> None:
    ashore.start("made", save_path=tmp_path)
    with pytest.raises(InputError, match="same name"):
        annotate.input_tensors("policy", [TensorSemantics("x", torch.zeros(1)), TensorSemantics("x", torch.ones(1))])


# --- passing through -------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


@pytest.mark.parametrize("recording", [False, True], ids=["outside", "inside"])
def test_tensors_are_handed_back_as_they_are(tmp_path: Path, recording: bool) -> None:
    one, two = torch.randn(1, 4), torch.randn(1, 4)
    if recording:
        ashore.start("made", save_path=tmp_path)
    assert annotate.input_tensors("policy", {"one": one}) is one
    several = annotate.input_tensors("policy", {"two": one, "three": two})
    assert type(several) is tuple
    assert several[0] is one
    assert several[1] is two
    assert annotate.input_tensors("policy", TensorSemantics("four", one)) is one
    assert annotate.input_tensors("policy", [TensorSemantics("five", one), TensorSemantics("six", two)])[1] is two
    assert annotate.state_tensors("policy", {"h": one}) is one
    assert annotate.update_state("policy", {"h": two}) is two
    assert annotate.register_buffer("policy", one) is one
    assert annotate.register_buffer("policy", [one, two])[1] is two
    assert annotate.register_buffer("policy", {"b": two}) is two
    assert annotate.module("policy", torch.nn.Linear(2, 2)) is None
    out = annotate.output_tensors("policy", {"y": one, "z": two}, static_outputs={"kp": torch.ones(1)})
    assert type(out) is tuple
    assert out[0] is one
    assert out[1] is two


@pytest.mark.parametrize("recording", [False, True], ids=["outside", "inside"])
def test_nested_structures_are_handed_back_with_their_classes_and_tensors(tmp_path: Path, recording: bool) -> None:
    a, b, c, d, e = (torch.randn(1, 2) for _ in range(5))
    nested = {"list": [a, b], "named": Pair(c, d), "ordered": OrderedDict(deep={"er": e})}
    if recording:
        ashore.start("made", save_path=tmp_path)
    got = annotate.input_tensors("policy", {"obs": nested})
    assert type(got) is dict
    assert type(got["list"]) is list
    assert type(got["named"]) is Pair
    assert type(got["ordered"]) is OrderedDict
    assert got["list"][0] is a
    assert got["list"][1] is b
    assert got["named"].left is c
    assert got["named"].right is d
    assert got["ordered"]["deep"]["er"] is e


def test_reset_outside_a_session_does_nothing() -> None:
    assert annotate.reset() is None


# --- compile_graph ---------------------------------------------------------------------------------------------------


class Leaky(Script):
    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x = annotate.input_tensors("policy", {"x": given["x"]})
        y = x * float(x[0, 0])
        annotate.output_tensors("policy", {"y": y})
        return {"y": y}


def test_a_finding_is_raised_with_its_line_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"test_annotate.py:\d+: .*\[value_leak\]") as caught:
        export_annotated(Leaky, tmp_path)
    assert "value_leak" in {finding.name for finding in caught.value.findings}
    assert list(tmp_path.iterdir()) == []


def test_without_strict_a_finding_is_a_warning_and_nothing_is_written(tmp_path: Path) -> None:
    ashore.start("made", save_path=tmp_path)
    run_annotated(Leaky)
    ashore.stop()
    with pytest.warns(UserWarning, match=r"nothing was written(.|\n)*test_annotate.py:\d+(.|\n)*value_leak"):
        assert ashore.compile_graph(strict=False) == {"policy": False}
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_finds_out_and_writes_nothing(tmp_path: Path) -> None:
    for made, good in ((Plain, True), (Leaky, False)):
        ashore.start("made", save_path=tmp_path, dry_run=True)
        run_annotated(made)
        ashore.stop()
        if good:
            assert ashore.compile_graph() == {"policy": True}
        else:
            with pytest.raises(ExportError, match="value_leak"):
                ashore.compile_graph()
    assert list(tmp_path.iterdir()) == []


def test_without_validation_it_is_recorded_as_skipped(tmp_path: Path) -> None:
    path = export_annotated(Plain, tmp_path, validate=False)
    verification = read(path).manifest.verification
    assert verification is not None
    assert verification.status == "skipped"


def test_compile_graph_refuses_unknown_options(tmp_path: Path) -> None:
    ashore.start("made", save_path=tmp_path)
    run_annotated(Plain)
    ashore.stop()
    with pytest.raises(InputError, match="unknown option 'opzet'; did you mean 'opset'"):
        ashore.compile_graph(opzet=18)


def test_verbose_prints_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ashore.start("made", save_path=tmp_path, verbose=True)
    run_annotated(Plain)
    ashore.stop()
    ashore.compile_graph(visualize=False, backend="onnx-torchscript")
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (tmp_path / "made" / "export.log").read_text()


class PerNode(Script):
    """Every node chooses its exporter."""

    exporters: ClassVar = ["onnx-dynamo", "onnx-torchscript", "jit-script", "jit-trace"]

    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        value = given["x"]
        for index, exporter in enumerate(self.exporters):
            value = annotate.input_tensors(f"node{index}", {"x" if index == 0 else f"value{index}": value})
            value = torch.sin(value) * 2.0
            name = "y" if index == len(self.exporters) - 1 else f"value{index + 1}"
            annotate.output_tensors(f"node{index}", {name: value}, export_with=exporter)
        return {"y": value}


def test_every_node_is_exported_by_what_it_chose(tmp_path: Path) -> None:
    path = export_annotated(PerNode, tmp_path)
    used = [
        artifact.exporter.split()[-1]
        for stage in read(path).manifest.stages.values()
        for artifact in stage.artifacts.values()
    ]
    assert used == PerNode.exporters
    assert worst_error(PerNode, path) <= 1e-6
    manager = InferenceManager(path)
    got = manager({"node0/x": torch.ones(1, 4)})["node3/y"]
    torch.testing.assert_close(got, PerNode().step({"x": torch.ones(1, 4)})["y"])


@pytest.mark.parametrize(
    ("alias", "full"), [("onnx", "onnx-dynamo"), ("jit", "jit-script"), ("exported-program", "pt2")]
)
def test_exporters_go_by_the_names_of_leapp(tmp_path: Path, alias: str, full: str) -> None:
    assert exporter_name(alias) == full
    ashore.start("made", save_path=tmp_path, dry_run=True)
    x = annotate.input_tensors("policy", {"x": torch.ones(1, 4)})
    annotate.output_tensors("policy", {"y": x * 2.0}, export_with=alias)
    ashore.stop()
    assert ashore.compile_graph() == {"policy": True}


def test_an_unknown_exporter_and_an_unknown_backend_parameter_are_refused(tmp_path: Path) -> None:
    ashore.start("made", save_path=tmp_path)
    x = annotate.input_tensors("policy", {"x": torch.ones(1, 4)})
    with pytest.raises(BackendError, match="unknown exporter 'onnx-dinamo'; did you mean 'onnx-dynamo'"):
        annotate.output_tensors("policy", {"y": x}, export_with="onnx-dinamo")
    with pytest.raises(InputError, match="unknown backend parameter 'opsets'"):
        annotate.output_tensors("policy", {"y": x}, backend_params={"opsets": 18})


class WithParams(Script):
    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x = annotate.input_tensors("policy", {"x": given["x"]})
        y = x * 2.0
        annotate.output_tensors("policy", {"y": y}, export_with="onnx", backend_params={"opset_version": 20})
        return {"y": y}


def test_backend_params_choose_the_opset(tmp_path: Path) -> None:
    artifact = read(export_annotated(WithParams, tmp_path)).manifest.stages["policy"].artifacts["onnx"]
    assert artifact.opset == 20


class OpsetByNode(Script):
    def step(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x = annotate.input_tensors("first", {"x": given["x"]})
        y = annotate.output_tensors("first", {"y": x * 2.0}, backend_params={"opset_version": 20})
        y = annotate.input_tensors("second", {"y": y})
        z = annotate.output_tensors("second", {"z": y + 1.0}, backend_params={"opset_version": 19, "ir_version": 8})
        return {"z": z}


def test_backend_params_are_those_of_their_node(tmp_path: Path) -> None:
    stages = read(export_annotated(OpsetByNode, tmp_path)).manifest.stages
    first, second = stages["first"].artifacts["onnx"], stages["second"].artifacts["onnx"]
    assert (first.opset, second.opset) == (20, 19)
    assert (first.ir_version, second.ir_version) == (9, 8)
