"""Graphs moved into other graphs: every name changed, no name meeting another.

A name means what the innermost graph says that defines it. So what a nested graph defines is renamed by the rule, and
what it takes from outside is renamed as it was outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import onnx

Rename: TypeAlias = Callable[[str], str]


def prefixed(prefix: str, others: Mapping[str, str] | None = None) -> Rename:
    """The rule that puts a prefix before every name, but for those that are listed with another one."""
    known = others or {}
    return lambda name: known.get(name, prefix + name)


def renamed(
    nodes: Iterable[onnx.NodeProto], prefix: str, others: Mapping[str, str] | None = None
) -> list[onnx.NodeProto]:
    """Copies of nodes with a prefix before every name in them.

    Args:
        nodes: of one graph.
        prefix: for their own names, and for the names of values.
        others: values that get another name, such as those that they take from outside.
    """
    made: list[onnx.NodeProto] = []
    for index, node in enumerate(nodes):
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name = copy.name or f"#{index}"
        _rename_node(copy, prefixed(prefix, others), prefixed(prefix))
        made.append(copy)
    return made


def stripped(nodes: Iterable[onnx.NodeProto], prefixes: tuple[str, ...]) -> list[onnx.NodeProto]:
    """Copies of nodes without the prefix that their names have."""

    def strip(name: str) -> str:
        return next((name.removeprefix(prefix) for prefix in prefixes if name.startswith(prefix)), name)

    made: list[onnx.NodeProto] = []
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        _rename_node(copy, strip, strip)
        made.append(copy)
    return made


def _rename_node(node: onnx.NodeProto, value: Rename, inner: Rename) -> None:
    if node.name:
        node.name = inner(node.name)
    node.input[:] = [value(name) if name else "" for name in node.input]
    node.output[:] = [value(name) if name else "" for name in node.output]
    for graph in subgraphs(node):
        _rename_graph(graph, value, inner)


def _rename_graph(graph: onnx.GraphProto, outer: Rename, inner: Rename) -> None:
    own = defined(graph)

    def value(name: str) -> str:
        return inner(name) if name in own else outer(name)

    for node in graph.node:
        _rename_node(node, value, inner)
    for named in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        named.name = value(named.name)
    for sparse in graph.sparse_initializer:
        sparse.values.name = value(sparse.values.name)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs that a node runs."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def defined(graph: onnx.GraphProto) -> set[str]:
    """The values that a graph defines: its inputs, its constants, and what its nodes compute."""
    return {
        *(port.name for port in graph.input),
        *(constant.name for constant in graph.initializer),
        *(constant.values.name for constant in graph.sparse_initializer),
        *(name for node in graph.node for name in node.output if name),
    }


def captured(graph: onnx.GraphProto) -> set[str]:
    """The values that a graph, or one nested in it, takes from outside."""
    taken = {port.name for port in graph.output}
    for node in graph.node:
        taken |= reads(node)
    return taken - defined(graph)


def reads(node: onnx.NodeProto) -> set[str]:
    """The values that a node reads, also those that only its nested graphs read."""
    taken = {name for name in node.input if name}
    for graph in subgraphs(node):
        taken |= captured(graph)
    return taken
