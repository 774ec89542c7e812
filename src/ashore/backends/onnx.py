"""ONNX files, by either of torch's exporters, tidied.

Both give the same port names, hold their weights inside, and are cleaned: constants folded, copies and dead nodes
removed, shapes inferred.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, cast

import onnx
import onnx_ir
import onnx_ir.passes.common as common
import onnxscript.optimizer
import torch

from ashore.backends.exporting import Exported, Request
from ashore.backends.functional import LINE, functionalise, plain_graph
from ashore.backends.messages import overheard
from ashore.backends.torchlib import kept_translations
from ashore.errors import BackendError

DEFAULT_OPSET = 18
DEFAULT_IR_VERSION = 9
_LARGEST = 1 << 26
_TORCHSCRIPT_OPSETS = range(9, 21)
_DYNAMO_OPSETS = range(18, 24)


def export_dynamo(request: Request) -> Exported:
    """Export by way of `torch.export`."""
    opset = _check_opset("onnx-dynamo", request.opset or DEFAULT_OPSET, _DYNAMO_OPSETS)
    with overheard() as messages, kept_translations():
        made = torch.onnx.export(
            functionalise(request.module, request.example, request.dynamic, lines=True),
            request.example,
            dynamo=True,
            input_names=_places("in", request.inputs),
            output_names=_places("out", request.outputs),
            opset_version=opset,
            external_data=False,
            verbose=False,
            optimize=False,  # its rewriting gives two limits of one input the same name
        )
        if made is None:
            raise BackendError("the ONNX exporter gave nothing")
        return _finish(made.model_proto, request, opset, "onnx-dynamo", messages)


def export_torchscript(request: Request) -> Exported:
    """Export by way of a trace."""
    opset = _check_opset("onnx-torchscript", request.opset or DEFAULT_OPSET, _TORCHSCRIPT_OPSETS)
    stream = io.BytesIO()
    names = _places("in", request.inputs)
    axes = {names[index]: {axis: "batch"} for index, axis in request.dynamic.items()}
    with overheard() as messages, torch.no_grad():
        graph = plain_graph(functionalise(request.module, request.example, request.dynamic))
        torch.onnx.export(
            torch.jit.script(graph) if request.dynamic else graph,
            request.example,
            cast("Any", stream),
            dynamo=False,
            input_names=names,
            output_names=_places("out", request.outputs),
            dynamic_axes=axes or None,
            opset_version=opset,
        )
        return _finish(onnx.load_from_string(stream.getvalue()), request, opset, "onnx-torchscript", messages)


def _check_opset(exporter: str, opset: int, known: range) -> int:
    if opset not in known:
        raise BackendError(f"{exporter} writes opsets {known[0]} to {known[-1]}, not {opset}")
    return opset


def _tidy_up(model: onnx_ir.Model) -> None:
    """Fold constants, and remove what is dead, double or does nothing.

    The optimiser's rewriting is left out: it gives two limits of one input the same name.
    """
    common.InlinePass()(model)
    for _ in range(2):
        onnxscript.optimizer.fold_constants(model, input_size_limit=_LARGEST, output_size_limit=_LARGEST)
        common.IdentityEliminationPass()(model)
        common.RemoveUnusedNodesPass()(model)
    common.RemoveUnusedFunctionsPass()(model)
    common.RemoveUnusedOpsetsPass()(model)
    common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    common.DeduplicateInitializersPass()(model)
    common.CommonSubexpressionEliminationPass()(model)
    common.OutputFixPass()(model)
    common.NameFixPass()(model)


def _places(prefix: str, ports: Sequence[str]) -> list[str]:
    """Names that no value inside a graph has, until the ports get their own."""
    return [f"ashore_{prefix}_{index}" for index in range(len(ports))]


def _keep_unused_inputs(graph: onnx_ir.Graph, request: Request) -> None:
    """Put back the inputs that an exporter left out because nothing reads them."""
    for place, (name, example) in enumerate(zip(_places("in", request.inputs), request.example, strict=True)):
        if place >= len(graph.inputs) or graph.inputs[place].name != name:
            shape: list[int | str] = list(example.shape)
            if place in request.dynamic:
                shape[request.dynamic[place]] = "batch"
            dtype = onnx_ir.DataType.from_numpy(example.numpy().dtype)
            value = onnx_ir.Value(name=name, shape=onnx_ir.Shape(shape), type=onnx_ir.TensorType(dtype))
            graph.inputs.insert(place, value)


def _name_ports(graph: onnx_ir.Graph, request: Request) -> None:
    """Give the ports their names, and values inside that have one of these another."""
    taken = {*request.inputs, *request.outputs}
    ports = {*graph.inputs, *graph.outputs}
    for node in onnx_ir.traversal.RecursiveGraphIterator(graph):
        for value in node.outputs:
            if value.name in taken and value not in ports:
                value.name = f"ashore_{value.name}_inside"
    for name in [name for name in graph.initializers if name in taken]:
        value = graph.initializers.pop(name)
        value.name = f"ashore_{name}_inside"
        graph.initializers[value.name] = value
    for value, name in zip((*graph.inputs, *graph.outputs), (*request.inputs, *request.outputs), strict=True):
        value.name = name


def _line(node: onnx.NodeProto) -> str:
    """The line of code that a node comes from; what the exporter made by itself has none."""
    return next((entry.value for entry in node.metadata_props if entry.key == "pkg.torch.onnx.stack_trace"), "")


def _finish(model: onnx.ModelProto, request: Request, opset: int, exporter: str, messages: list[str]) -> Exported:
    tidy = onnx_ir.from_proto(model)
    _tidy_up(tidy)
    _keep_unused_inputs(tidy.graph, request)
    given = [port.name for port in tidy.graph.inputs]
    if given != _places("in", request.inputs) or len(tidy.graph.outputs) != len(request.outputs):
        raise BackendError(f"{exporter} changed the ports: {given} -> {len(tidy.graph.outputs)} outputs")
    _name_ports(tidy.graph, request)
    model = onnx_ir.to_proto(tidy)
    lines = [_line(node) if exporter == "onnx-dynamo" else "" for node in model.graph.node]
    model.ir_version = request.ir_version or DEFAULT_IR_VERSION
    model.producer_name, model.producer_version = "ashore", ""
    for part in (
        model,
        model.graph,
        *model.graph.node,
        *model.graph.value_info,
        *model.graph.input,
        *model.graph.output,
    ):
        del part.metadata_props[:]  # where torch's own stack traces go
        part.doc_string = ""
    for node, line in zip(model.graph.node, lines, strict=True):
        if line:
            node.metadata_props.add(key=LINE, value=line)
    return Exported(
        backend="onnx",
        suffix=".onnx",
        data=model.SerializeToString(deterministic=True),
        exporter=f"torch {torch.__version__} {exporter}",
        opset=opset,
        ir_version=model.ir_version,
        messages=tuple(messages),
    )
