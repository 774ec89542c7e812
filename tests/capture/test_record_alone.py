"""Recording leaves torch, the user's tensors and the disk alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from recorded import FAST, QUIET, Filter, check_exact, export_filter, numbers

import ashore
import ashore.backends.onnx
from ashore.errors import ExportError

# --- nothing is left behind, nothing is changed ----------------------------------------------------------------------


def settings() -> dict[str, Any]:
    """Everything of torch that listening could leave behind."""
    return {
        "function modes": torch._C._len_torch_function_stack(),
        "dispatch modes": torch._C._len_torch_dispatch_stack(),
        "fastpath": torch.backends.mha.get_fastpath_enabled(),
        "mkldnn": torch._C._get_mkldnn_enabled(),
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "dtype": torch.get_default_dtype(),
        "jit": torch.jit._state._enabled.enabled,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "stance": repr(torch._dynamo.eval_frame._stance),
        "matmul": torch.get_float32_matmul_precision(),
        "attributes": {name: getattr(torch.Tensor, name) for name in ("__setitem__", "item", "numpy", "__bool__")},
        "functions": (torch.cat, torch.tensor, torch.lstm, torch.nn.Module.__call__, torch.nn.functional.linear),
    }


def test_a_recording_leaves_torch_as_it_was(tmp_path: Path) -> None:
    before = settings()
    assert before["function modes"] == before["dispatch modes"] == 0
    export_filter(tmp_path)
    assert settings() == before


def test_settings_that_the_user_changed_stay_changed(tmp_path: Path) -> None:
    torch.backends.mha.set_fastpath_enabled(False)
    torch.backends.mkldnn.set_flags(False)
    try:
        before = settings()
        export_filter(tmp_path)
        assert settings() == before
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
        torch.backends.mkldnn.set_flags(True)


def test_compiled_code_runs_eagerly_while_recording_and_is_compiled_again_after(tmp_path: Path) -> None:
    calls: list[object] = []

    def backend(graph: torch.fx.GraphModule, _: object) -> Any:
        calls.append(graph)
        return graph.forward

    compiled = torch.compile(lambda x: torch.sin(x) * 2.0, backend=backend)
    with ashore.record("compiled", tmp_path, **FAST) as rec:
        for x in numbers(1, 3):
            with rec.step():
                rec.output("y", compiled(rec.input("x", x)))
    assert calls == []
    compiled(torch.ones(1, 4))
    assert len(calls) == 1
    got = ashore.load(tmp_path / "compiled").step({"x": np.full((1, 4), 0.3, np.float32)})["y"]
    np.testing.assert_allclose(got, np.sin(np.full((1, 4), 0.3)) * 2.0, atol=1e-6)


def test_an_exception_in_the_users_code_leaves_nothing_behind(tmp_path: Path) -> None:
    before, code = settings(), Filter()
    with pytest.raises(ZeroDivisionError, match="mine"), ashore.record("filter", tmp_path, **FAST) as rec:
        for index, x in enumerate(numbers(1, 6)):
            with rec.step():
                rec.output("y", code.step(rec.input("x", x)))
                if index == 4:
                    raise ZeroDivisionError("mine")
    assert settings() == before
    assert list(tmp_path.iterdir()) == []
    assert rec.package is None
    check_exact(export_filter(tmp_path), Filter)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_so_does_an_interruption(tmp_path: Path, error: type[BaseException]) -> None:
    before = settings()
    with pytest.raises(error), ashore.record("filter", tmp_path, **FAST) as rec:
        rec.input("x", torch.ones(1))
        raise error
    assert settings() == before
    assert list(tmp_path.iterdir()) == []


def test_an_exception_in_an_operation_leaves_the_recording_usable(tmp_path: Path) -> None:
    code = Filter()
    with ashore.record("filter", tmp_path, **FAST) as rec:
        for index, x in enumerate(numbers(1, 6)):
            if index == 3:
                rec.reset()
                code.reset()
            with rec.step():
                x = rec.input("x", x)
                with pytest.raises(RuntimeError, match="shape|size"):
                    x @ torch.ones(7, 7)
                rec.output("y", code.step(x))
    check_exact(tmp_path / "filter", Filter)


def test_a_failed_export_leaves_torch_as_it_was(tmp_path: Path) -> None:
    before = settings()
    with pytest.raises(ExportError), ashore.record("leaky", tmp_path, **FAST) as rec:
        for x in numbers(1, 3):
            with rec.step():
                x = rec.input("x", x)
                rec.output("y", x * x.max().item())
    assert settings() == before


@torch.jit.script
def scripted(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 1:
        x = x[:1]
    return torch.sin(x) * 2.0


def test_torchscript_stays_enabled_and_scripted_code_is_recorded(tmp_path: Path) -> None:
    class Code:
        def reset(self) -> None:
            pass

        def step(self, x: torch.Tensor) -> torch.Tensor:
            return scripted(x) + 1.0

    with ashore.record("scripted", tmp_path, **FAST) as rec:
        assert torch.jit._state._enabled.enabled
        assert isinstance(torch.jit.script(torch.nn.Linear(2, 2)), torch.jit.ScriptModule)
        assert isinstance(scripted, torch.jit.ScriptFunction)
        for x in numbers(1, 3):
            with rec.step():
                rec.output("y", Code().step(rec.input("x", x)))
    check_exact(tmp_path / "scripted", Code)


def test_tensors_keep_their_class_identity_values_and_grad(tmp_path: Path) -> None:
    class Own(torch.nn.Parameter):
        pass

    weight = Own(torch.ones(4, 4))
    net = torch.nn.Linear(4, 4)
    with ashore.record("kept", tmp_path, **FAST) as rec:
        for x in numbers(1, 3):
            with rec.step():
                before = x.clone()
                got = rec.input("x", x)
                assert got is x
                assert type(got) is torch.Tensor
                assert not got.requires_grad
                assert type(weight) is Own
                y = net(got) @ weight
                assert type(y) is torch.Tensor
                assert y.requires_grad
                assert y.grad_fn is not None
                assert rec.output("y", y) is y
                assert torch.equal(x, before)
                assert x._version == 0
        y.sum().backward()
    assert weight.grad is not None
    torch.testing.assert_close(weight.grad, net(x).sum(0).detach().unsqueeze(1).expand(4, 4))


def test_an_input_that_requires_grad_keeps_it(tmp_path: Path) -> None:
    with ashore.record("grad", tmp_path, **FAST) as rec:
        for x in numbers(1, 3):
            x.requires_grad_()
            with rec.step():
                y = rec.input("x", x) ** 2
                rec.output("y", y)
            y.sum().backward()
            torch.testing.assert_close(x.grad, 2.0 * x.detach())
    got = ashore.load(tmp_path / "grad").step({"x": np.full((1, 4), 3.0, np.float32)})["y"]
    np.testing.assert_allclose(got, 9.0)


def test_recording_and_exporting_draw_no_random_numbers(tmp_path: Path) -> None:
    def run(rec: Any) -> torch.Tensor:
        code = Filter()
        torch.manual_seed(5)
        for x in numbers(1, 5):
            noise = torch.rand(1, 4)  # the environment's
            if rec is None:
                code.step(x + noise)
            else:
                with rec.step():
                    rec.output("y", code.step(rec.input("x", x + noise)))
        return torch.get_rng_state()

    plain = run(None)
    with ashore.record("drawn", tmp_path, **QUIET) as rec:
        recorded = run(rec)
    assert torch.equal(recorded, plain)
    assert torch.equal(torch.get_rng_state(), plain)
    python_and_numpy = np.random.get_state()[1]
    export_filter(tmp_path)
    assert np.array_equal(np.random.get_state()[1], python_and_numpy)


def test_recorded_code_computes_the_same_bits_as_without_recording(tmp_path: Path) -> None:
    plain, recorded = Filter(), Filter()
    with ashore.record("bits", tmp_path, **FAST) as rec:
        for x in numbers(1, 5):
            with rec.step():
                got = rec.output("y", recorded.step(rec.input("x", x)))
            assert torch.equal(got, plain.step(x))
            assert torch.equal(recorded.history, plain.history)


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode", "enable_grad", "set_grad_off"])
def test_every_grad_mode_is_exact(tmp_path: Path, mode: str) -> None:
    class Code:
        def __init__(self) -> None:
            torch.manual_seed(0)
            self.net = torch.nn.Linear(4, 4)
            self.reset()

        def reset(self) -> None:
            self.last = torch.zeros(1, 4)

        def step(self, x: torch.Tensor) -> torch.Tensor:
            self.last = torch.tanh(self.net(x) + self.last)
            return self.last

    around = {
        "no_grad": torch.no_grad,
        "inference_mode": torch.inference_mode,
        "enable_grad": torch.enable_grad,
        "set_grad_off": lambda: torch.set_grad_enabled(False),
    }[mode]
    code = Code()
    with ashore.record("mode", tmp_path, **FAST) as rec, around():
        for index, x in enumerate(numbers(1, 6)):
            if index == 3:
                rec.reset()
                code.reset()
            with rec.step():
                rec.output("y", code.step(rec.input("x", x)))
    assert torch.is_grad_enabled()
    check_exact(tmp_path / "mode", Code)


def test_recording_inside_inference_mode_is_exact(tmp_path: Path) -> None:
    with torch.inference_mode():
        path = export_filter(tmp_path, backend="onnx-dynamo")
    check_exact(path, Filter)


def test_a_recording_inside_a_recording_is_exact_or_refused(tmp_path: Path) -> None:
    try:
        with ashore.record("outer", tmp_path, **FAST) as outer:
            for x in numbers(1, 3):
                with outer.step():
                    y = torch.sin(outer.input("x", x))
                    outer.output("y", y)
            export_filter(tmp_path / "inner")
    except ashore.AshoreError:
        return
    got = ashore.load(tmp_path / "outer").step({"x": np.full((1, 4), 0.5, np.float32)})["y"]
    np.testing.assert_allclose(got, np.sin(np.full((1, 4), 0.5)), atol=1e-6)
    check_exact(tmp_path / "inner" / "filter", Filter)
