"""The record door: marks and declarations, options, single steps, and what a package holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from recorded import FAST, Filter, check_exact, export_filter, numbers

import ashore
import ashore.backends.onnx
import support
from ashore.errors import BackendError, ExportError, InputError
from ashore.package import read
from ashore.spec import Joint, Timing

# --- marks -----------------------------------------------------------------------------------------------------------


def test_step_as_a_context_manager_ends_the_step(tmp_path: Path) -> None:
    path = export_filter(tmp_path)
    assert sorted(ashore.load(path).states) == ["history", "smooth"]
    check_exact(path, Filter)


def test_step_as_a_mark_begins_a_step_and_ends_the_one_before(tmp_path: Path) -> None:
    code = Filter()
    with ashore.record("filter", tmp_path, **FAST) as rec:
        for index, x in enumerate(numbers(1, 6)):
            if index == 3:
                rec.reset()
                code.reset()
            rec.step()
            rec.output("y", code.step(rec.input("x", x)))
    assert len(read(tmp_path / "filter").golden().ticks) == 6
    check_exact(tmp_path / "filter", Filter)


def test_without_any_mark_there_is_one_step(tmp_path: Path) -> None:
    weight = torch.nn.Linear(4, 4)
    with ashore.record("plain", tmp_path, **FAST) as rec:
        rec.output("y", torch.tanh(weight(rec.input("x", torch.ones(1, 4)))))
    assert len(read(tmp_path / "plain").golden().ticks) == 1
    got = ashore.load(tmp_path / "plain").step({"x": np.full((1, 4), 0.3, np.float32)})["y"]
    np.testing.assert_allclose(got, torch.tanh(weight(torch.full((1, 4), 0.3))).detach().numpy(), atol=1e-6)


def test_what_is_done_between_steps_is_not_part_of_one(tmp_path: Path) -> None:
    code = Filter()
    with ashore.record("filter", tmp_path, **FAST) as rec:
        for x in numbers(1, 5):
            with rec.step():
                rec.output("y", code.step(rec.input("x", x)))
            float(x.sum())  # logging, outside of the step
            torch.rand(3)
    check_exact(tmp_path / "filter", Filter, resets=())


def test_a_step_in_which_nothing_is_declared_does_not_count(tmp_path: Path) -> None:
    code = Filter()
    with ashore.record("filter", tmp_path, **FAST) as rec:
        with rec.step():
            pass
        for x in numbers(1, 5):
            with rec.step():
                rec.output("y", code.step(rec.input("x", x)))
        rec.step()
    assert len(read(tmp_path / "filter").golden().ticks) == 5


def test_recording_nothing_is_an_export_error(tmp_path: Path) -> None:
    with (
        pytest.raises(ExportError, match="nothing was recorded"),
        ashore.record("nothing", tmp_path, **FAST),
    ):
        torch.ones(3) + 1
    assert list(tmp_path.iterdir()) == []


def test_a_port_is_declared_once_in_a_step(tmp_path: Path) -> None:
    x = torch.ones(1, 4)
    with (
        pytest.raises(InputError, match="input 'x' was declared already in this step"),
        ashore.record("twice", tmp_path, **FAST) as rec,
        rec.step(),
    ):
        rec.input("x", x)
        rec.input("x", x)
    with (
        pytest.raises(InputError, match="output 'y' was declared already in this step"),
        ashore.record("twice", tmp_path, **FAST) as rec,
        rec.step(),
    ):
        rec.output("y", x)
        rec.output("y", x)


def test_what_is_said_about_a_port_is_in_the_manifest(tmp_path: Path) -> None:
    names = ["hip", "knee", "foot", "toe"]
    with ashore.record(
        "told",
        tmp_path,
        **FAST,
        timing=Timing(policy_dt_s=0.02),
        joints=[Joint(name=name) for name in names],
        description="a policy",
        licence="MIT",
        metadata={"run": 7},
    ) as rec:
        for x in numbers(1, 3):
            with rec.step():
                q = rec.input(
                    "q", x, kind="state/joint/position", unit="rad", element_names=names, source="sensor", frame="base"
                )
                rec.output(
                    "target",
                    q * 0.5,
                    kind="target/joint/position",
                    element_names=names,
                    connection="write:robot:set_target",
                )
    manifest = read(tmp_path / "told").manifest
    q, target = manifest.inputs["q"], manifest.outputs["target"]
    assert (q.kind, q.unit, q.source, q.frame) == ("state/joint/position", "rad", "sensor", "base")
    assert q.element_names == (None, tuple(names))
    assert (target.kind, target.connection) == ("target/joint/position", "write:robot:set_target")
    assert (manifest.description, manifest.licence, manifest.metadata) == ("a policy", "MIT", {"run": 7})
    assert manifest.timing == Timing(policy_dt_s=0.02)
    assert [joint.name for joint in manifest.joints] == names


def test_a_port_takes_no_unknown_word(tmp_path: Path) -> None:
    with pytest.raises((TypeError, InputError), match="colour"), ashore.record("told", tmp_path, **FAST) as rec:
        rec.input("q", torch.ones(1), colour="red")
    assert list(tmp_path.iterdir()) == []


# --- declared states -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelling", ["in_place", "rebound"])
def test_a_declared_state_keeps_its_name(tmp_path: Path, spelling: str) -> None:
    class Code:
        def __init__(self) -> None:
            self.memory = torch.full((1, 4), 0.5)

        def reset(self) -> None:
            if spelling == "in_place":
                self.memory.fill_(0.5)
            else:
                self.memory = torch.full((1, 4), 0.5)

        def step(self, x: torch.Tensor) -> torch.Tensor:
            if spelling == "in_place":
                self.memory.mul_(0.5).add_(x)
            else:
                self.memory = self.memory * 0.5 + x
            return self.memory * 2.0

    code = Code()
    with ashore.record("kept", tmp_path, **FAST) as rec:
        for index, x in enumerate(numbers(1, 6)):
            if index == 3:
                rec.reset()
                code.reset()
            with rec.step():
                x = rec.input("x", x)
                assert rec.state("filter", code.memory) is code.memory
                rec.output("y", code.step(x))
    policy = ashore.load(tmp_path / "kept")
    assert list(policy.states) == ["filter"]
    np.testing.assert_array_equal(policy.state()["filter"], np.full((1, 4), 0.5, np.float32))
    check_exact(tmp_path / "kept", Code)


def test_a_declared_state_may_be_nested(tmp_path: Path) -> None:
    class Code:
        def __init__(self) -> None:
            self.net = torch.nn.LSTM(4, 4)
            self.reset()

        def reset(self) -> None:
            self.hidden = torch.zeros(1, 1, 4), torch.zeros(1, 1, 4)

        @torch.no_grad()
        def step(self, x: torch.Tensor) -> torch.Tensor:
            y, self.hidden = self.net(x.unsqueeze(0), self.hidden)
            return y.squeeze(0)

    def make() -> Code:
        torch.manual_seed(3)
        return Code()

    code = make()
    with ashore.record("nested", tmp_path, **FAST) as rec:
        for index, x in enumerate(numbers(1, 6)):
            if index == 3:
                rec.reset()
                code.reset()
            with rec.step():
                x = rec.input("x", x)
                rec.state("hidden", code.hidden)
                rec.output("y", code.step(x))
    assert list(ashore.load(tmp_path / "nested").states) == ["hidden_0", "hidden_1"]
    check_exact(tmp_path / "nested", make)


# --- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"alow": {"randomness"}}, InputError, "unknown option 'alow'; did you mean 'allow'"),
        ({"colour": "red"}, InputError, "unknown option 'colour'; there are"),
        ({"allow": {"randomnes"}}, InputError, "no finding 'randomnes'; did you mean 'randomness'"),
        ({"allow": "randomness"}, InputError, "expected a set of names"),
        ({"backend": "onnx-dinamo"}, BackendError, "unknown exporter 'onnx-dinamo'; did you mean 'onnx-dynamo'"),
        ({"profile": "ort-1.1"}, InputError, "profile: expected one of"),
        ({"batch": "any"}, InputError, "batch: expected 'recorded', 'one' or 'dynamic', got 'any'"),
        ({"validation_steps": -1}, InputError, "validation_steps: expected a count from 0"),
        ({"validation_steps": 2.5}, InputError, "validation_steps: expected a count from 0"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_recorded(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    ran = False
    with pytest.raises(error, match=message), ashore.record("wrong", tmp_path, **options):
        ran = True
    assert not ran


@pytest.mark.parametrize("name", ["", "a b", "a/b", "..", "ä", "-a", "a" * 200])
def test_a_name_that_no_package_can_have_is_refused_before_anything_is_recorded(tmp_path: Path, name: str) -> None:
    ran = False
    with pytest.raises(InputError, match="a package cannot be called"), ashore.record(name, tmp_path, **FAST) as rec:
        ran = True
        rec.output("y", rec.input("x", torch.ones(1, 4)) * 2.0)
    assert list(tmp_path.iterdir()) == []
    assert not ran


@pytest.mark.parametrize("value", [1.5, "text", None, [1.0], object()])
def test_what_is_no_tensor_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(InputError, match="expected a tensor or an array"), ashore.record("no", tmp_path, **FAST) as rec:
        rec.input("x", value)


def test_arrays_are_taken_as_tensors(tmp_path: Path) -> None:
    with ashore.record("arrays", tmp_path, **FAST) as rec:
        for x in numbers(1, 3):
            with rec.step():
                got = rec.input("x", x.numpy())
                assert isinstance(got, torch.Tensor)
                rec.output("y", got * 2.0)
    got = ashore.load(tmp_path / "arrays").step({"x": np.ones((1, 4), np.float32)})["y"]
    np.testing.assert_allclose(got, 2.0)


# --- a single step ---------------------------------------------------------------------------------------------------


def test_a_single_step_that_read_only_what_is_known_is_accepted(tmp_path: Path) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)
            self.register_buffer("scale", torch.full((4,), 3.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) * self.scale + torch.tensor([1.0, 2.0, 3.0, 4.0]) + torch.arange(4)

    net = Net().eval()
    with ashore.record("single", tmp_path, **FAST) as rec, rec.step():
        rec.output("y", net(rec.input("x", torch.ones(1, 4))))
    policy = ashore.load(tmp_path / "single")
    for x in numbers(2, 5):
        np.testing.assert_allclose(policy.step({"x": x.numpy()})["y"], net(x).detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("what", ["captured", "state"])
def test_a_single_step_that_read_something_else_asks_for_more(tmp_path: Path, what: str) -> None:
    kept = torch.ones(1, 4)
    with (
        pytest.raises(ExportError, match=r"test_record.py:\d+: .*\[too_few_steps\]") as caught,
        ashore.record("single", tmp_path, **FAST) as rec,
        rec.step(),
    ):
        x = rec.input("x", torch.ones(1, 4))
        if what == "state":
            kept += x
        rec.output("y", x * kept)
    assert "record at least three steps" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


# --- contents --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package with everything in it, as the default options make it."""
    code, offset = Filter(), torch.tensor([[1.0, -2.0, 3.0, 0.5]])
    out = tmp_path_factory.mktemp("complete")
    with ashore.record("filter", out, summary=False) as rec:
        for index, x in enumerate(numbers(1, 6)):
            if index in (2, 3):
                rec.reset()
                code.reset()
            with rec.step():
                rec.output("y", code.step(rec.input("x", x)) + offset)
    return out / "filter"


def test_the_golden_rollout_is_what_was_recorded(complete: Path) -> None:
    golden, code = read(complete).golden(), Filter()
    assert [tick.reset for tick in golden.ticks] == [True, False, True, True, False, False]
    for tick, x in zip(golden.ticks, numbers(1, 6), strict=True):
        if tick.reset:
            code.reset()
        np.testing.assert_array_equal(tick.inputs["x"], x.numpy())
        y = code.step(x).numpy() + np.array([[1.0, -2.0, 3.0, 0.5]], np.float32)
        np.testing.assert_array_equal(tick.outputs["y"], y)
        np.testing.assert_allclose(tick.states["smooth"], code.smooth.numpy(), atol=1e-6)
        np.testing.assert_allclose(tick.states["history"], code.history.numpy(), atol=1e-6)


def test_frozen_tensors_are_listed_with_line_shape_and_value(complete: Path) -> None:
    frozen = [one for one in read(complete).manifest.constants if one.values == (1.0, -2.0, 3.0, 0.5)]
    assert len(frozen) == 1
    assert "offset" in frozen[0].name
    assert (frozen[0].dtype, frozen[0].shape, frozen[0].lowest, frozen[0].highest) == ("float32", (1, 4), -2.0, 3.0)
    assert frozen[0].where is not None
    assert "test_record.py:" in frozen[0].where
    everything = " ".join(one.name for one in read(complete).manifest.constants)
    assert "weight" not in everything
    assert "bias" not in everything


def test_states_that_were_found_are_reported(complete: Path) -> None:
    manifest = read(complete).manifest
    found = [one for one in manifest.findings if one.name == "undeclared_state"]
    assert {one.severity for one in found} == {"info"}
    assert sorted(one.tensor.rpartition(".")[2] for one in found if one.tensor) == ["history", "smooth"]
    assert all(one.where and "recorded.py:" in one.where for one in found)
    assert "no_reset" not in {one.name for one in manifest.findings}


def test_log_and_picture_are_in_the_package(complete: Path) -> None:
    log = (complete / "export.log").read_text()
    for word in (
        "6 steps in 3 episodes",
        "x: float32 [1, 4]",
        "smooth",
        "offset",
        "undeclared_state",
        "test_record.py:",
    ):
        assert word in log
    assert (complete / "graph.svg").read_text().lstrip().startswith(("<svg", "<?xml"))
    assert (complete / "graph.png").read_bytes().startswith(b"\x89PNG")
    manifest = json.loads((complete / "manifest.json").read_text())
    assert {"export.log", "graph.svg", "graph.png", "state.safetensors", "golden.safetensors"} <= manifest[
        "files"
    ].keys()


def test_the_package_is_verified_by_the_command_line(complete: Path) -> None:
    done = support.run_python("from ashore.cli import main; main()", "verify", str(complete))
    assert done.returncode == 0, done.stdout + done.stderr
    done = support.run_python("from ashore.cli import main; main()", "inspect", str(complete))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "offset" in done.stdout


def test_the_package_is_exact(complete: Path) -> None:
    class Code(Filter):
        def step(self, x: torch.Tensor) -> torch.Tensor:
            return super().step(x) + torch.tensor([[1.0, -2.0, 3.0, 0.5]])

    check_exact(complete, Code)


def test_without_a_recorded_reset_that_is_said(tmp_path: Path) -> None:
    path = export_filter(tmp_path, steps=4, resets=())
    assert "no_reset" in {one.name for one in read(path).manifest.findings}
    check_exact(path, Filter)


def test_the_summary_is_printed_and_can_be_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export_filter(tmp_path)
    quiet = capsys.readouterr()
    assert (quiet.out, quiet.err) == ("", "")
    export_filter(tmp_path, summary=True)
    said = capsys.readouterr()
    assert said.out == ""
    assert "x -> y" in said.err
    assert "smooth" in said.err


def test_the_recorder_holds_the_package(tmp_path: Path) -> None:
    with ashore.record("held", str(tmp_path), **FAST) as rec:
        assert rec.package is None
        rec.output("y", rec.input("x", torch.ones(1, 4)) * 2.0)
    assert rec.package is not None
    assert rec.package.path == tmp_path / "held"


def test_constants_that_have_the_same_name_are_all_listed(tmp_path: Path) -> None:
    scales = [torch.full((1, 4), number) for number in (2.0, 3.0)]

    def scaled(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return x * scale

    with ashore.record("twice", tmp_path, **FAST) as rec:
        for x in numbers(1, 4):
            with rec.step():
                rec.output("y", scaled(scaled(rec.input("x", x), scales[0]), scales[1]))
    constants = read(tmp_path / "twice").manifest.constants
    assert [one.values for one in constants] == [(2.0,) * 4, (3.0,) * 4]
