"""What can be said shorter before anything is placed: dead nodes go, and a sum after a product becomes its bias."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ashore.backends.c.graph import Graph, Node, Value, constant


def simplify(graph: Graph) -> None:
    """Simplify a graph in place."""
    _prune(graph)
    _join_biases(graph)
    _prune(graph)


def _prune(graph: Graph) -> None:
    """Drop the nodes that nothing reads, and the outputs that nothing reads."""
    needed = {id(value) for value in graph.results}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if any(value is not None and id(value) in needed for value in node.outputs):
            read = tuple(value if value is not None and id(value) in needed else None for value in node.outputs)
            kept.append(replace(node, outputs=read))
            needed |= {id(value) for value in node.inputs if value is not None}
    graph.nodes = kept[::-1]


def _join_biases(graph: Graph) -> None:
    """`MatMul` with constant weights, then `Add` of one constant row: one product with a bias."""
    readers: dict[int, int] = {}
    makers: dict[int, int] = {}
    for place, node in enumerate(graph.nodes):
        for value in node.inputs:
            readers[id(value)] = readers.get(id(value), 0) + 1
        makers |= {id(value): place for value in node.outputs if value is not None}
    for value in graph.results:
        readers[id(value)] = readers.get(id(value), 0) + 1
    for place, node in enumerate(graph.nodes):
        if node.op != "Add":
            continue
        for product, bias in ((0, 1), (1, 0)):
            left, right = node.value(product), node.value(bias)
            maker = makers.get(id(left))
            if maker is None or readers.get(id(left)) != 1 or right.data is None:
                continue
            made = graph.nodes[maker]
            row = _row(made, right, node)
            if row is not None:
                joined = (*made.inputs[:2], row)
                graph.nodes[place] = Node("MatMul", joined, node.outputs, {}, made.where, made.label)
                break


def _row(made: Node, bias: Value, total: Node) -> Value | None:
    """The bias as one row, if it is one and the product can have it."""
    weights, product, result = made.optional(1), made.outputs[0], total.outputs[0]
    if made.op != "MatMul" or len(made.inputs) != 2 or weights is None or weights.data is None or bias.data is None:
        return None
    if weights.data.ndim != 2 or weights.dtype != np.float32 or product is None or result is None:
        return None
    width = weights.shape[1]
    if product.shape != result.shape or bias.count not in (1, width) or (bias.shape and bias.shape[-1] != bias.count):
        return None
    return constant(bias.name, np.broadcast_to(bias.data.reshape(-1), (width,)).copy())
