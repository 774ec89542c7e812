"""Convolutions, pooling and resizing: correct, and made of plain loops; the innermost one becomes vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ashore.backends.c.code import C_TYPES, number
from ashore.backends.c.evaluate import resized, window_of
from ashore.backends.c.graph import Node, prod
from ashore.backends.c.lower import Lowerer, Lowering
from ashore.backends.c.rows import permuted
from ashore.errors import BackendError

_SPATIAL = 3
_FUNCTIONS = {"Conv": "conv", "ConvTranspose": "conv_transpose"}


def _three(sizes: Sequence[int], fill: int) -> list[int]:
    """As many lengths as the loops have, the missing ones in front."""
    if len(sizes) > _SPATIAL:
        raise BackendError(f"windows over {len(sizes)} axes are not known to the backend 'c'")
    return [fill] * (_SPATIAL - len(sizes)) + [int(size) for size in sizes]


def _sizes(node: Node, before: Sequence[int], out: Sequence[int]) -> str:
    kernel, strides, dilations, pads, _ = window_of(node, tuple(before))
    table = [
        *_three(before, 1),
        *_three(out, 1),
        *_three(kernel, 1),
        *_three(strides, 1),
        *_three(dilations, 1),
        *_three(pads, 0),
    ]
    return ", ".join(map(str, table))


def _conv(lowerer: Lowerer, node: Node) -> None:
    view = lowerer.contiguous(lowerer.view(node.value(0)), node.label)
    if view.dtype != np.float32:
        raise BackendError(f"{node.where}: the backend 'c' computes it for float32 only, not {view.dtype}")
    weights, bias, target = node.value(1), node.optional(2), lowerer.output(node)
    groups = node.get("group", 1)
    ins = {"x": view, "w": lowerer.contiguous(lowerer.view(weights), node.label)}
    if bias is not None:
        ins["b"] = lowerer.contiguous(lowerer.view(bias), node.label)
    inputs, outputs = view.shape[1] // groups, target.shape[1] // groups
    function, bias_of = f"native_{_FUNCTIONS[node.op]}", "@b@" if "b" in ins else "NULL"
    lines = [
        f"static const int sizes[] = {{{_sizes(node, view.shape[2:], target.shape[2:])}}};",
        f"{function}(@x@, @w@, {bias_of}, @y@, {view.shape[0]}, {groups}, {inputs}, {outputs}, sizes);",
    ]
    lowerer.run(node, lines, ins, {"y": target})


def _pool(lowerer: Lowerer, node: Node) -> None:
    view = lowerer.contiguous(lowerer.view(node.value(0)), node.label)
    if view.dtype != np.float32:
        raise BackendError(f"{node.where}: the backend 'c' computes it for float32 only, not {view.dtype}")
    if len(node.outputs) > 1 and node.outputs[1] is not None:
        raise BackendError(f"{node.where}: the places of the largest are not known to the backend 'c'")
    target = lowerer.output(node)
    after = _three(window_of(node, view.shape[2:])[4], 0)
    sizes = f"{_sizes(node, view.shape[2:], target.shape[2:])}, {', '.join(map(str, after))}"
    mode = 0 if node.op == "MaxPool" else 2 if node.get("count_include_pad", 0) else 1
    lines = [
        f"static const int sizes[] = {{{sizes}}};",
        f"native_pool(@x@, @y@, {prod(view.shape[:2])}, {mode}, sizes);",
    ]
    lowerer.run(node, lines, {"x": view}, {"y": target})


def _global_pool(lowerer: Lowerer, node: Node) -> None:
    view = lowerer.contiguous(lowerer.view(node.value(0)), node.label)
    target, width, kind = lowerer.output(node), prod(view.shape[2:]), C_TYPES[view.dtype.name]
    mean = node.op == "GlobalAveragePool"
    lines = [
        "int r, i;",
        f"for (r = 0; r < {prod(view.shape[:2])}; ++r) {{",
        f"    const {kind} *const x = (@x@) + (size_t)r * {width};",
        f"    {kind} total = x[0];",
        f"    for (i = 1; i < {width}; ++i)",
        f"        total = {'total + x[i]' if mean else 'x[i] > total ? x[i] : total'};",
        f"    (@y@)[r] = total{f' / {number(np.array(width, view.dtype)[()], view.dtype)}' if mean else ''};",
        "}",
    ]
    lowerer.run(node, lines, {"x": view}, {"y": target})


def _resize(lowerer: Lowerer, node: Node) -> None:
    view = lowerer.view(node.value(0))
    for axis, table in resized(node).items():
        lower, upper, weight = table
        source = lowerer.contiguous(view, node.label)
        outer, size, inner = prod(view.shape[:axis]), view.shape[axis], prod(view.shape[axis + 1 :])
        place = lowerer.scratch(view.dtype, (*view.shape[:axis], len(lower), *view.shape[axis + 1 :]))
        count, kind = len(lower), C_TYPES[view.dtype.name]
        value = "low[k]" if not weight.any() else "low[k] * (1 - @f@[i]) + high[k] * @f@[i]"
        lines = [
            "int o, i, k;",
            f"for (o = 0; o < {outer}; ++o)",
            f"    for (i = 0; i < {count}; ++i) {{",
            f"        const {kind} *const low = @x@ + ((size_t)o * {size} + (size_t)@l@[i]) * {inner};",
            f"        {kind} *const y = @y@ + ((size_t)o * {count} + (size_t)i) * {inner};",
            f"        for (k = 0; k < {inner}; ++k)",
            f"            y[k] = {value};",
            "    }",
        ]
        constants = {"l": lower.astype(np.int32)}
        if weight.any():
            high = f"        const {kind} *const high = @x@ + ((size_t)o * {size} + (size_t)@h@[i]) * {inner};"
            lines.insert(4, high)
            constants |= {"h": upper.astype(np.int32), "f": weight.astype(view.dtype)}
        lowerer.run(node, lines, {"x": source}, {"y": place}, constants)
        view = place
    target = lowerer.output(node)
    lowerer.copy(node.label, view, target)


def _depth(lowerer: Lowerer, node: Node) -> None:
    """`DepthToSpace` and `SpaceToDepth`: a reshape, a transposition, a reshape."""
    view, block = lowerer.view(node.value(0)), node.attributes["blocksize"]
    rows, channels, height, width = view.shape
    value = node.outputs[0]
    if value is None:
        return
    if node.op == "SpaceToDepth":
        shape = (rows, channels, height // block, block, width // block, block)
        order = [0, 3, 5, 1, 2, 4]
    elif node.get("mode", "DCR") == "DCR":
        shape, order = (rows, block, block, channels // block**2, height, width), [0, 3, 4, 1, 5, 2]
    else:
        shape, order = (rows, channels // block**2, block, block, height, width), [0, 1, 4, 2, 5, 3]
    moved = permuted(lowerer.reshaped(view, shape, node.label), order)
    lowerer.put(value, lowerer.reshaped(moved, value.shape, node.label))


WINDOWS: Mapping[str, Lowering] = {
    "AveragePool": _pool,
    "Conv": _conv,
    "ConvTranspose": _conv,
    "DepthToSpace": _depth,
    "GlobalAveragePool": _global_pool,
    "GlobalMaxPool": _global_pool,
    "MaxPool": _pool,
    "Resize": _resize,
    "SpaceToDepth": _depth,
}
