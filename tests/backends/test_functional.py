"""A module that writes in place, as a graph that does not.

history[:, 1:] = x      becomes      history_1 = cat((history[:, :1], x), dim=1)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch.fx.traceback import annotate

from ashore.backends.functional import LINE, functionalise, plain_graph
from ashore.backends.messages import overheard

aten = torch.ops.aten
X = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))
OTHER = torch.randn(2, 3, generator=torch.Generator().manual_seed(1))

Function = Callable[..., tuple[torch.Tensor, ...]]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Torch warns of itself while it traces; exporters listen to that."""
    with overheard():
        yield


class Module(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self._function = function
        self.register_buffer("gain", torch.tensor([[1.0, 2.0, 3.0]]))

    def forward(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self._function(self.gain, *given)


def plain(gain: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (x * gain,)


def writing(gain: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    history = x.clone()
    history[:, 1:] = gain[:, :2]
    history[0] = 7.0
    history.add_(1.0)
    return history, history.t()


def said_otherwise(gain: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.atan2(x, gain), torch.log1p(x.abs()), x.sum(-1)


def split(gain: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    first, second = (x * gain).split(1, dim=0)
    return first, second


def softened(gain: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.softmax(-1), (x * gain).log_softmax(0)


def converted(gain: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.double(), x.to(torch.int64) + 1, (x > 0).float()


def heard(gain: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Operations as a recorder hears them, below those that people write."""
    soft, logarithm = aten._softmax.default(x, -1, False), aten._log_softmax.default(x * gain, 0, False)
    chosen = aten._unsafe_index.Tensor(x, [None, torch.tensor([2, 0])])
    return soft, logarithm, chosen, aten._to_copy.default(x, dtype=torch.float64)


def indexed(gain: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (x[:, torch.tensor([2, 0])] * 2,)


def straight(gain: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x, gain.clone()


FUNCTIONS = [plain, writing, said_otherwise, split, softened, converted, heard, indexed, straight]


def targets(program: torch.export.ExportedProgram) -> Iterator[torch._ops.OpOverload]:
    for node in program.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload):
            yield node.target


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_graph_computes_what_the_module_does_and_writes_nowhere(function: Function) -> None:
    module = Module(function).eval()
    program = functionalise(module, (X.clone(),), {})
    assert not any(target._schema.is_mutable for target in targets(program))
    for x in (X, OTHER):
        given = x.clone()
        torch.testing.assert_close(program.module()(given), module(x.clone()))
        assert torch.equal(given, x)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_plain_graph_computes_the_same_in_operations_that_scripts_know(function: Function) -> None:
    module = Module(function).eval()
    graph = plain_graph(functionalise(module, (X.clone(),), {}))
    assert not any(isinstance(node.target, torch._ops.OpOverload) for node in graph.graph.nodes)
    assert not any(node.op == "call_module" for node in graph.graph.nodes)
    torch.testing.assert_close(tuple(graph(OTHER)), module(OTHER))
    torch.testing.assert_close(tuple(torch.jit.script(graph)(OTHER)), module(OTHER))


@pytest.mark.parametrize(
    ("function", "gone"),
    [
        (writing, {aten.slice_scatter.default, aten.select_scatter.default, aten.copy_.default, aten.add_.Tensor}),
        (said_otherwise, {aten.atan2.default, aten.log1p.default}),
    ],
)
def test_what_runtimes_are_bad_at_is_said_in_other_operations(function: Function, gone: set[object]) -> None:
    program = functionalise(Module(function).eval(), (X.clone(),), {})
    assert not gone & set(targets(program))


def test_what_has_no_simpler_form_is_left_as_it_is() -> None:
    program = functionalise(Module(indexed).eval(), (X.clone(),), {})
    assert aten.index.Tensor in set(targets(program))


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_the_rows_of_an_input_may_be_open(rows: int) -> None:
    module = Module(lambda gain, x: (x * gain + x.sum(0, keepdim=True), x.new_zeros(x.shape[0], 2) + 1)).eval()
    program = functionalise(module, (X,), {0: 0})
    x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(program.module()(x), module(x))
    torch.testing.assert_close(tuple(plain_graph(program)(x)), module(x))


def test_the_rows_of_several_inputs_are_the_same_number_along_any_axis() -> None:
    module = Module(lambda gain, x, fixed, y: (x * gain + y.t() + fixed,)).eval()
    program = functionalise(module, (X, torch.ones(1, 3), X.t().contiguous()), {0: 0, 2: 1})
    x, y, fixed = torch.ones(4, 3), torch.full((3, 4), 2.0), torch.ones(1, 3)
    torch.testing.assert_close(program.module()(x, fixed, y), module(x, fixed, y))


def test_an_axis_that_is_not_open_is_as_in_the_example() -> None:
    program = functionalise(Module(plain).eval(), (X,), {})
    with pytest.raises(Exception, match="Guard failed|Expected input"):
        program.module()(torch.ones(5, 3))


def annotated(gain: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with annotate({LINE: "walk.py:12"}):
        y = torch.atan2(x, gain)
    with annotate({LINE: "walk.py:13"}):
        return (y + 1,)


def test_nodes_keep_the_line_that_they_are_annotated_with() -> None:
    program = functionalise(Module(annotated).eval(), (X,), {}, lines=True)
    lines = {node.target: node.meta["stack_trace"] for node in program.graph.nodes if node.op == "call_function"}
    assert lines.pop(aten.add.Tensor) in ("walk.py:12", "walk.py:13")
    assert lines[aten.atan.default] == "walk.py:12"
    last = [node for node in program.graph.nodes if node.op == "call_function"][-1]
    assert last.meta["stack_trace"] == "walk.py:13"
    assert all(node.meta["stack_trace"] == "" for node in program.graph.nodes if node.op == "placeholder")
