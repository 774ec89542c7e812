"""Turning a module that writes in place into a graph that does not.

`torch.export` functionalises: ``buf[:, -1] = x`` becomes a new value of ``buf``. What it leaves behind is then said in
operations that every runtime is good at.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from contextlib import nullcontext
from typing import cast

import torch
from torch._ops import OpOverload
from torch.fx.traceback import preserve_node_meta

from ashore.backends.decompositions import DECOMPOSITIONS

aten = torch.ops.aten


LINE = "ashore.line"
"""Under what name operations are annotated with their line of code, ``file.py:12``, while a graph is made of them."""


def functionalise(
    module: torch.nn.Module, example: tuple[torch.Tensor, ...], dynamic: Mapping[int, int], *, lines: bool = False
) -> torch.export.ExportedProgram:
    """Export a module as a graph of operations that write nowhere.

    Args:
        module: takes and gives tensors, positionally.
        example: inputs to trace it with.
        dynamic: position of an input -> its batch axis, where the batch is symbolic.
        lines: whether nodes keep the line that they are annotated with, as their stack trace.
    """
    shapes = None
    if dynamic:
        batch = torch.export.Dim("batch", min=1, max=1 << 20)
        axes = tuple({dynamic[index]: batch} if index in dynamic else None for index in range(len(example)))
        shapes = (axes,)  # the module takes *args
    with torch.no_grad(), preserve_node_meta() if lines else nullcontext():
        program = torch.export.export(module, example, dynamic_shapes=shapes, strict=False)
        program = program if _is_done(program) else program.run_decompositions(dict(DECOMPOSITIONS))
    for node in program.graph.nodes if lines else ():
        node.meta["stack_trace"] = node.meta.get("custom", {}).get(LINE, "")
    return program


def _is_done(program: torch.export.ExportedProgram) -> bool:
    """Whether nothing is left to be said otherwise, which saves a second trace."""
    calls = [node.target for node in program.graph.nodes if node.op not in ("placeholder", "output")]
    return all(
        target is operator.getitem or (_writes_nowhere(target) and target not in DECOMPOSITIONS) for target in calls
    )


def _writes_nowhere(target: object) -> bool:
    schema = getattr(target, "_schema", None)
    return schema is not None and not schema.is_mutable


def plain_graph(program: torch.export.ExportedProgram) -> torch.fx.GraphModule:
    """The graph of an exported program as a module, with nothing around it that TorchScript does not understand."""
    lifted = cast("torch.fx.GraphModule", program.module())
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(lifted.graph, {}))
    for node in list(graph.nodes):
        if node.op == "call_module" and node.target == "_guards_fn":
            graph.erase_node(node)
        elif node.target in (aten._softmax.default, aten._log_softmax.default):
            named = aten.softmax if node.target is aten._softmax.default else aten.log_softmax
            node.target, node.args = named, node.args[:2]
        elif node.target is aten._unsafe_index.Tensor:
            node.target = aten.index
        elif node.target is aten.sym_size.int:
            node.target = aten.size
        elif node.target is aten._to_copy.default:
            node.target, node.args, node.kwargs = aten.to, (node.args[0], node.kwargs["dtype"]), {}
        elif isinstance(node.target, OpOverload):
            node.target = node.target.overloadpacket
    return torch.fx.GraphModule(lifted, graph)
