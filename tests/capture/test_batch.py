"""One package for any number of rows: each gets what it would have got alone, or the line that mixes them is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ashore
from ashore.errors import ExportError, InputError
from ashore.package import Package
from ashore.spec import BATCH

QUIET: dict[str, Any] = {"summary": False, "picture": False}


class Mlp:
    """History in place, last action rebound, a network."""

    def __init__(self, rows: int) -> None:
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(18, 16), torch.nn.ELU(), torch.nn.Linear(16, 2))
        self.offset = torch.tensor([0.5, -0.5])
        self.rows = rows
        self.history = torch.zeros(rows, 3, 4)
        self.last_action = torch.zeros(rows, 2)

    def reset(self) -> None:
        self.history.zero_()
        self.last_action = torch.zeros(self.rows, 2)

    @torch.no_grad()
    def step(self, q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        self.history[:, :-1] = self.history[:, 1:].clone()
        self.history[:, -1] = q
        seen = torch.cat((self.history.reshape(self.rows, -1), v * 0.1, self.last_action), dim=-1)
        self.last_action = self.net(seen)
        return self.last_action.tanh() + self.offset


class Lstm:
    """A hidden state that the first step creates."""

    def __init__(self, rows: int) -> None:
        torch.manual_seed(0)
        self.memory = torch.nn.LSTM(8, 6, num_layers=2)
        self.head = torch.nn.Linear(6, 2)
        self.hidden: tuple[torch.Tensor, torch.Tensor] | None = None

    def reset(self) -> None:
        self.hidden = None

    @torch.no_grad()
    def step(self, q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        features, self.hidden = self.memory(torch.cat((q, v), dim=-1).unsqueeze(0), self.hidden)
        return self.head(features.squeeze(0))


class Gru:
    """Batch-first recurrence, with a state that is written in place."""

    def __init__(self, rows: int) -> None:
        torch.manual_seed(0)
        self.memory = torch.nn.GRU(8, 6, batch_first=True)
        self.head = torch.nn.Linear(6, 2)
        self.hidden = torch.zeros(1, rows, 6)

    def reset(self) -> None:
        self.hidden.zero_()

    @torch.no_grad()
    def step(self, q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        features, hidden = self.memory(torch.cat((q, v), dim=-1).unsqueeze(1), self.hidden)
        self.hidden[:] = hidden
        return self.head(features[:, 0])


class Shapes:
    """Lengths of the batch written into the code, in many spellings."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.scale = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
        self.filtered = torch.ones(rows, 4)

    def reset(self) -> None:
        self.filtered = torch.ones(self.rows, 4)

    @torch.no_grad()
    def step(self, q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        rows = q.shape[0]
        blocks = torch.zeros(rows, 2, 2)
        blocks[:, 0] = q.view(rows, 2, 2)[:, 1]
        blocks = blocks + self.scale.view(1, 2, 2).expand(rows, 2, 2)
        gains = self.scale.repeat(rows, 1)
        self.filtered = torch.lerp(self.filtered, q, 0.25)
        flat = torch.stack((blocks.flatten(1), gains, self.filtered), dim=1).sum(dim=1)
        return torch.where(v > 0, flat, torch.zeros_like(flat)) + torch.ones(rows, 1)


class Attention:
    """Sequence first, as torch's own attention works: rows share axes with heads and with tokens."""

    def __init__(self, rows: int) -> None:
        torch.manual_seed(0)
        self.attention = torch.nn.MultiheadAttention(4, 2).eval()
        self.token, self.head = torch.randn(1, 1, 4), torch.nn.Linear(4, 2)

    def reset(self) -> None:
        """There is nothing to reset."""

    @torch.no_grad()
    def step(self, q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        tokens = torch.stack((q, v, q * v))
        tokens = torch.cat((self.token.expand(-1, q.shape[0], -1), tokens))
        attended, _ = self.attention(tokens, tokens, tokens, need_weights=False)
        again, _ = self.attention(attended, attended, attended, need_weights=False)
        return self.head(again[0])


CODE: dict[str, Callable[[int], Any]] = {"mlp": Mlp, "lstm": Lstm, "gru": Gru}


def draw(generator: torch.Generator, rows: int) -> dict[str, torch.Tensor]:
    return {"q": torch.randn(rows, 4, generator=generator), "v": torch.randn(rows, 4, generator=generator)}


def export(make: Callable[[int], Any], out: Path, rows: int, **options: Any) -> Package:
    code, generator = make(rows), torch.Generator().manual_seed(1)
    with ashore.record("made", out, **{"batch": "dynamic", **QUIET, **options}) as rec:
        for step in range(6):
            if step == 3:
                rec.reset()
                code.reset()
            given = draw(generator, rows)
            with rec.step():
                given = {name: rec.input(name, tensor) for name, tensor in given.items()}
                rec.output("y", code.step(**given))
    assert rec.package is not None
    return rec.package


@pytest.fixture(
    scope="module", params=[(name, rows) for name in CODE for rows in (1, 3)], ids=lambda one: f"{one[0]}{one[1]}"
)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Package]:
    name, rows = request.param
    return name, export(CODE[name], tmp_path_factory.mktemp(name), rows)


def check_rows(package: Package, make: Callable[[int], Any], batch: int, backend: str | None = None) -> None:
    """Every row equals a run of the code with that row alone."""
    policy = ashore.load(package.path, batch=batch, backend=backend)
    alone, generator = [make(1) for _ in range(batch)], torch.Generator().manual_seed(2)
    for step in range(25):
        if step in (6, 7, 18):
            policy.reset()
            for code in alone:
                code.reset()
        given = draw(generator, batch)
        got = policy.step({name: tensor.numpy() for name, tensor in given.items()})["y"]
        wanted = [
            code.step(**{name: tensor[row : row + 1] for name, tensor in given.items()})
            for row, code in enumerate(alone)
        ]
        np.testing.assert_allclose(got, torch.cat(wanted).numpy(), atol=2e-6, rtol=0, err_msg=f"step {step}")


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_each_row_gets_what_it_would_have_got_alone(made: tuple[str, Package], batch: int) -> None:
    name, package = made
    check_rows(package, CODE[name], batch)


@pytest.mark.parametrize("rows", [3, 5])
def test_rows_may_share_an_axis_with_heads_and_tokens(tmp_path: Path, rows: int) -> None:
    package = export(Attention, tmp_path, rows)
    for batch in (1, 4):
        check_rows(package, Attention, batch)


def test_the_manifest_says_which_axis_is_the_batch(made: tuple[str, Package]) -> None:
    name, package = made
    manifest = package.manifest
    assert manifest.inputs["q"].shape == (BATCH, 4)
    assert manifest.outputs["y"].shape[0] == BATCH
    shapes = {state: spec.shape for state, spec in manifest.states.items()}
    expected = {
        "mlp": {"history": (BATCH, 3, 4), "last_action": (BATCH, 2)},
        "gru": {"hidden": (1, BATCH, 6)},
    }
    if name == "lstm":
        assert sorted(shapes.values()) == [(2, BATCH, 6)] * 2
    else:
        assert shapes == expected[name]


def test_one_row_can_start_an_episode(made: tuple[str, Package]) -> None:
    name, package = made
    policy = ashore.load(package.path, batch=3)
    alone, generator = [CODE[name](1) for _ in range(3)], torch.Generator().manual_seed(4)
    for step in range(9):
        if step in (4, 6):
            policy.reset(np.array([False, step == 4, step == 6]))
            alone[1 if step == 4 else 2].reset()
        given = draw(generator, 3)
        got = policy.step({key: tensor.numpy() for key, tensor in given.items()})["y"]
        wanted = [
            code.step(**{key: tensor[row : row + 1] for key, tensor in given.items()}) for row, code in enumerate(alone)
        ]
        np.testing.assert_allclose(got, torch.cat(wanted).numpy(), atol=2e-6, rtol=0, err_msg=f"step {step}")


@pytest.mark.parametrize("rows", [1, 3])
def test_lengths_written_into_the_code_are_exact_or_named(tmp_path: Path, rows: int) -> None:
    try:
        package = export(Shapes, tmp_path, rows, backend="onnx-torchscript")
    except ExportError as error:
        (finding,) = error.findings
        assert finding.name == "batch"
        assert finding.line is not None
        assert Path(finding.line.file).name == "test_batch.py"
    else:
        for batch in (1, 4):
            check_rows(package, Shapes, batch)


@pytest.mark.parametrize("exporter", ["onnx-torchscript", "jit-script", "jit-trace", "pt2"])
@pytest.mark.parametrize("name", ["mlp", "lstm"])
def test_every_exporter_keeps_the_batch_open(tmp_path: Path, exporter: str, name: str) -> None:
    package = export(CODE[name], tmp_path, 1, backend=exporter)
    for batch in (1, 4):
        check_rows(package, CODE[name], batch, backend=exporter)


def test_without_asking_the_batch_is_what_was_recorded(tmp_path: Path) -> None:
    package = export(Mlp, tmp_path, 3, batch="recorded", backend="onnx-torchscript")
    assert package.manifest.inputs["q"].shape == (3, 4)
    with pytest.raises(InputError, match="exported for a fixed batch"):
        ashore.load(package.path, batch=2)


# --- rows that cannot be told apart ----------------------------------------------------------------------------------

MIXING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "mean_of_all": lambda x: x - x.mean(),
    "first_row": lambda x: x * x[0],
    "first_row_kept": lambda x: x + x[:1],
    "sum_over_rows": lambda x: x / x.abs().sum(dim=0, keepdim=True),
    "largest_of_all": lambda x: x / x.abs().max(),
    "norm_of_all": lambda x: x / x.norm(),
    "softmax_over_rows": lambda x: torch.softmax(x, dim=0),
    "cumulative": lambda x: x.cumsum(dim=0),
    "flipped": lambda x: x.flip(0),
    "rolled": lambda x: torch.roll(x, 1, dims=0),
    "sorted": lambda x: x.sort(dim=0).values,
    "gram": lambda x: (x @ x.T) @ x,
    "last_row": lambda x: x - x[-1],
    "transposed": lambda x: x.T.reshape(x.shape),
    "merged": lambda x: torch.softmax(torch.stack((x, x)).view(-1, 4), dim=0)[: len(x)],
}


@pytest.mark.parametrize(
    ("name", "rows"),
    [(name, 1) for name in MIXING if name not in ("first_row_kept", "merged")] + [(name, 3) for name in MIXING],
)
def test_rows_that_are_mixed_are_a_finding_with_the_line(tmp_path: Path, name: str, rows: int) -> None:
    generator = torch.Generator().manual_seed(1)
    with (
        pytest.raises(ExportError) as caught,
        ashore.record("mixed", tmp_path, batch="dynamic", **QUIET, backend="onnx-torchscript") as rec,
    ):
        for _ in range(4):
            with rec.step():
                x = rec.input("x", torch.randn(rows, 4, generator=generator))
                rec.output("y", MIXING[name](x))
    assert [finding.name for finding in caught.value.findings] == ["batch"]
    (finding,) = caught.value.findings
    assert finding.line is not None
    assert Path(finding.line.file).name == "test_batch.py"
    assert finding.line.text.startswith(f'"{name}"')
    assert list(tmp_path.iterdir()) == []


def test_a_row_that_is_taken_from_a_single_row_is_that_row(tmp_path: Path) -> None:
    """With one row, ``x[:1]`` is all of it, to torch as well; alone, each row gets the same."""
    generator = torch.Generator().manual_seed(1)
    with ashore.record("whole", tmp_path, batch="dynamic", **QUIET) as rec:
        for _ in range(3):
            with rec.step():
                rec.output("y", MIXING["first_row_kept"](rec.input("x", torch.randn(1, 4, generator=generator))))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_allclose(ashore.load(tmp_path / "whole", batch=3).step({"x": x})["y"], 2.0 * x)


def test_inputs_without_a_common_first_axis_are_a_finding(tmp_path: Path) -> None:
    with (
        pytest.raises(ExportError, match=r"no common first axis: x \[2, 4\], gain \[3\].*\[batch\]"),
        ashore.record("uneven", tmp_path, batch="dynamic", **QUIET) as rec,
    ):
        for number in range(3):
            with rec.step():
                x, gain = rec.input("x", torch.full((2, 4), 1.0 + number)), rec.input("gain", torch.ones(3) * number)
                rec.output("y", x * gain.sum())


def test_a_state_that_starts_differently_in_other_rows_is_a_finding(tmp_path: Path) -> None:
    state = torch.arange(3.0).unsqueeze(1).repeat(1, 4)
    with (
        pytest.raises(ExportError, match=r"starts with other values in other rows.*\[batch\]"),
        ashore.record("uneven", tmp_path, batch="dynamic", **QUIET) as rec,
    ):
        for number in range(4):
            with rec.step():
                x = rec.input("x", torch.full((3, 4), 1.0 + number))
                state = state * 0.5 + x
                rec.output("y", state)


def test_a_constant_for_each_row_is_a_finding_or_refused(tmp_path: Path) -> None:
    """Rows that are scaled differently cannot be served in any number."""
    scale = torch.tensor([[1.0], [2.0], [3.0]])
    with pytest.raises(ExportError) as caught, ashore.record("scaled", tmp_path, batch="dynamic", **QUIET) as rec:
        for number in range(4):
            with rec.step():
                rec.output("y", rec.input("x", torch.full((3, 4), 1.0 + number)) * scale)
    assert [finding.name for finding in caught.value.findings] == ["batch"]
    assert caught.value.findings[0].line is not None
