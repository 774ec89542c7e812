"""From the artifact of a stage to nodes: shapes made concrete, what is known computed, the rest named for errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ashore.backends.c.evaluate import NEVER_FOLDED, SHAPE_IS_ENOUGH, evaluate
from ashore.backends.c.graph import Graph, Node, Value, constant
from ashore.backends.c.onnx_file import FileGraph, FileNode
from ashore.errors import BackendError

_OLDEST = 9
_STANDARD = ("", "com.microsoft")


def import_graph(graph: Graph, file: FileGraph, ports: Mapping[str, Value], where: str, label: str) -> dict[str, Value]:
    """Add the nodes of a file to a graph.

    Args:
        graph: what they are added to.
        file: the file.
        ports: its inputs.
        where: what to call the file in an error.
        label: what the generated code calls the stage.

    Returns:
        Its outputs by name.
    """
    if file.opset < _OLDEST:
        raise BackendError(f"{where}: is of opset {file.opset}; the backend 'c' reads {_OLDEST} and newer")
    values: dict[str, Value] = dict(ports)
    values |= {name: constant(name, data) for name, data in file.weights.items()}
    _add_nodes(graph, file, values, where, label)
    missing = [name for name in file.outputs if name not in values]
    if missing:
        raise BackendError(f"{where}: nothing computes its output {missing[0]!r}")
    return {name: values[name] for name in file.outputs}


def _add_nodes(graph: Graph, file: FileGraph, values: dict[str, Value], where: str, label: str) -> None:
    for node in file.nodes:
        place = _place(where, node)
        if node.op == "If":
            _add_branch(graph, node, values, where, label, place)
            continue
        if node.domain not in _STANDARD or (node.domain and node.op != "Gelu"):
            raise BackendError(f"{place}: the backend 'c' knows no operators of the domain {node.domain!r}")
        if node.op in ("Softmax", "LogSoftmax") and file.opset < 13:
            raise BackendError(f"{place}: means something else in opset {file.opset}; export it with 13 or newer")
        inputs = tuple(_read(values, name, place) for name in node.inputs)
        made = Node(node.op, inputs, (), node.attributes, place, f"{label}: {node.name or node.op} ({node.op})")
        _add_node(graph, made, node.outputs, values)


def _read(values: Mapping[str, Value], name: str, place: str) -> Value | None:
    if name and name not in values:
        raise BackendError(f"{place}: nothing computes {name!r}")
    return values[name] if name else None


def _add_node(graph: Graph, node: Node, outputs: tuple[str, ...], values: dict[str, Value]) -> None:
    arrays = evaluate(node)
    known = node.op not in NEVER_FOLDED and all(value is None or value.data is not None for value in node.inputs)
    known = known or node.op in SHAPE_IS_ENOUGH
    made: list[Value | None] = []
    for name, array in zip(outputs, arrays, strict=False):
        if not name or array is None:
            made.append(None)
            continue
        values[name] = Value(name, array.dtype, array.shape, np.asarray(array, order="C") if known else None)
        values[name].shape = tuple(array.shape)
        made.append(values[name])
    if not known:
        graph.nodes.append(Node(node.op, node.inputs, tuple(made), node.attributes, node.where, node.label))


def _add_branch(graph: Graph, node: FileNode, values: dict[str, Value], where: str, label: str, place: str) -> None:
    """The branch that a known condition takes; there is no other way to compile one."""
    condition = _read(values, node.inputs[0], place)
    if condition is None or condition.data is None:
        raise BackendError(f"{place}: decides at run time which branch is computed; the backend 'c' refuses it")
    branch: Any = node.attributes["then_branch" if condition.data.reshape(-1)[0] else "else_branch"]
    inner = {**values, **{name: constant(name, data) for name, data in branch.weights.items()}}
    _add_nodes(graph, branch, inner, where, label)
    for name, result in zip(node.outputs, branch.outputs, strict=True):
        values[name] = inner[result]


def _place(where: str, node: FileNode) -> str:
    called = f" {node.name!r}" if node.name else ""
    return f"{where}: node{called} ({node.op}){f', from {node.line}' if node.line else ''}"
