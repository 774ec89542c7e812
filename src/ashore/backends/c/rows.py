"""Operators along axes: reductions, softmax, normalisations, the largest elements, running sums.

They work on rows: what they go along is moved to the end, and back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ashore.backends.c.code import C_TYPES, number
from ashore.backends.c.evaluate import reduced_axes
from ashore.backends.c.expressions import arithmetic, call, cast
from ashore.backends.c.graph import Node, axis_of, prod
from ashore.backends.c.kernel import Step
from ashore.backends.c.lower import Lowerer, Lowering, broadcast
from ashore.backends.c.views import View, look
from ashore.errors import BackendError


def permuted(view: View, order: Sequence[int]) -> View:
    """A view with its axes in another order."""
    return View(
        view.root,
        view.offset,
        tuple(view.shape[axis] for axis in order),
        tuple(view.strides[axis] for axis in order),
    )


def _last(rank: int, axis: int) -> list[int]:
    """The order of axes that has one of them last."""
    return [*(other for other in range(rank) if other != axis), axis]


def along(lowerer: Lowerer, node: Node, view: View, axis: int) -> tuple[View, Callable[[View], View]]:
    """An array with an axis moved to the end, row-major; and what moves a result back."""
    order = _last(len(view.shape), axis)
    back = [order.index(place) for place in range(len(order))]
    return lowerer.contiguous(permuted(view, order), node.label), lambda result: permuted(result, back)


def _softmax(lowerer: Lowerer, node: Node) -> None:
    view = lowerer.view(node.value(0))
    axis = axis_of(node, node.get("axis", -1), len(view.shape))
    source, back = along(lowerer, node, view, axis)
    target = lowerer.scratch(view.dtype, source.shape)
    lowerer.put(node.outputs[0], back(target))
    width, kind, dtype = source.shape[-1], C_TYPES[view.dtype.name], view.dtype
    total = f"native_sum(y, {width})" if dtype.name == "float32" else "total"
    lines = [
        "int r, i;",
        f"for (r = 0; r < {prod(source.shape[:-1])}; ++r) {{",
        f"    const {kind} *const x = (@x@) + r * {width};",
        f"    {kind} *const y = (@y@) + r * {width};",
        f"    {kind} most = x[0], total = 0;",
        f"    for (i = 1; i < {width}; ++i)",
        "        most = x[i] > most ? x[i] : most;",
        f"    for (i = 0; i < {width}; ++i)",
        f"        y[i] = {call('exp', dtype, 'x[i] - most')};",
    ]
    if dtype.name != "float32":
        lines += [f"    for (i = 0; i < {width}; ++i)", "        total += y[i];"]
    if node.op == "Softmax":
        one = number(np.ones((), dtype)[()], dtype)
        lines += [f"    total = {one} / {total};", f"    for (i = 0; i < {width}; ++i)", "        y[i] *= total;"]
    else:
        lines += [
            f"    total = {call('log', dtype, total)};",
            f"    for (i = 0; i < {width}; ++i)",
            "        y[i] = x[i] - most - total;",
        ]
    lowerer.run(node, [*lines, "}"], {"x": source}, {"y": target})


_REDUCTIONS: Mapping[str, tuple[str, str]] = {
    "ReduceL1": ("abs", "+"),
    "ReduceL2": ("square", "+"),
    "ReduceLogSum": ("", "+"),
    "ReduceMax": ("", ">"),
    "ReduceMean": ("", "+"),
    "ReduceMin": ("", "<"),
    "ReduceProd": ("", "*"),
    "ReduceSum": ("", "+"),
    "ReduceSumSquare": ("square", "+"),
}
"""Operator -> (what is done to each element, how they are joined)."""


def _reduce(lowerer: Lowerer, node: Node) -> None:
    view, axes = lowerer.view(node.value(0)), reduced_axes(node)
    kept = [axis for axis in range(len(view.shape)) if axis not in axes]
    moved = permuted(view, [*kept, *axes])
    outer, width = prod([view.shape[axis] for axis in kept]), prod([view.shape[axis] for axis in axes])
    dtype, (before, sign) = view.dtype, _REDUCTIONS[node.op]
    value = node.outputs[0]
    if value is None:
        return
    if width == 0:
        raise BackendError(f"{node.where}: reduces an axis of length 0; the backend 'c' refuses it")
    place = lowerer.scratch(dtype, tuple(view.shape[axis] for axis in kept))
    if (1 <= width <= 16 and not view.contiguous) or width <= 4:
        _unrolled(lowerer, node, moved, place, len(kept), before, sign)
    else:
        _rows(lowerer, node, lowerer.contiguous(moved, node.label), place, outer, width, before, sign)
    seen = look(place, lambda array: array.reshape(value.shape))
    if seen is None:
        raise BackendError(f"{node.where}: cannot be compiled")
    lowerer.put(value, seen)


def _before(before: str, dtype: np.dtype[Any], element: str) -> str:
    if before == "square":
        return arithmetic("*", dtype, element, element)
    if before == "abs":
        return call("fabs", dtype, element) if dtype.kind == "f" else f"({element} < 0 ? -{element} : {element})"
    return element


def _joined(sign: str, dtype: np.dtype[Any], left: str, right: str) -> str:
    if sign in "<>":
        return f"({right} {sign} {left}{f' || {right} != {right}' * (dtype.kind == 'f')}) ? {right} : {left}"
    return arithmetic(sign, dtype, left, right)


def _after(node: Node, dtype: np.dtype[Any], total: str, width: int) -> str:
    match node.op:
        case "ReduceMean":
            count = number(np.array(width, dtype)[()], dtype)
            return f"{total} / {count}"
        case "ReduceL2":
            return (
                call("sqrt", dtype, total)
                if dtype.kind == "f"
                else cast(f"sqrt((double){total})", np.dtype("f8"), dtype)
            )
        case "ReduceLogSum":
            return call("log", dtype, total)
        case _:
            return total


def _unrolled(lowerer: Lowerer, node: Node, moved: View, place: View, kept: int, before: str, sign: str) -> None:
    """A few elements each: an elementwise loop over what is kept, so that it can join its neighbours."""
    dtype, inner = moved.dtype, moved.shape[kept:]
    steps: list[Step] = []
    total = -1
    for index in np.ndindex(*inner):
        offset = sum(at * stride for at, stride in zip(index, moved.strides[kept:], strict=True))
        part = View(moved.root, moved.offset + offset, moved.shape[:kept], moved.strides[:kept])
        steps.append(Step(dtype, "{0}", (part,)))
        if before:
            steps.append(Step(dtype, _before(before, dtype, "{0}"), (len(steps) - 1,)))
        if total >= 0:
            steps.append(Step(dtype, _joined(sign, dtype, "{0}", "{1}"), (total, len(steps) - 1)))
        total = len(steps) - 1
    steps.append(Step(dtype, _after(node, dtype, "{0}", prod(inner)), (total,)))
    lowerer.loop(node.label, place, steps)


def _rows(
    lowerer: Lowerer, node: Node, source: View, place: View, outer: int, width: int, before: str, sign: str
) -> None:
    dtype = source.dtype
    kind = C_TYPES[dtype.name]
    lines = ["int r;", f"for (r = 0; r < {outer}; ++r) {{", f"    const {kind} *const x = (@x@) + (size_t)r * {width};"]
    if dtype.name == "float32" and sign == "+" and not before:
        lines.append(f"    const float total = native_sum(x, {width});")
    elif dtype.name == "float32" and sign == "+" and before == "square":
        lines.append(f"    const float total = native_dot(x, x, {width});")
    else:
        lines += [
            "    int i;",
            f"    {kind} total = {_before(before, dtype, 'x[0]')};",
            f"    for (i = 1; i < {width}; ++i) {{",
            f"        const {kind} e = {_before(before, dtype, 'x[i]')};",
            f"        total = {_joined(sign, dtype, 'total', 'e')};",
            "    }",
        ]
    lines += [f"    (@y@)[r] = {_after(node, dtype, 'total', width)};", "}"]
    lowerer.run(node, lines, {"x": source}, {"y": place})


def _reduce_log_sum_exp(lowerer: Lowerer, node: Node) -> None:
    view, axes = lowerer.view(node.value(0)), reduced_axes(node)
    kept = [axis for axis in range(len(view.shape)) if axis not in axes]
    source = lowerer.contiguous(permuted(view, [*kept, *axes]), node.label)
    target = lowerer.output(node)
    width, kind, dtype = prod([view.shape[axis] for axis in axes]), C_TYPES[view.dtype.name], view.dtype
    lines = [
        "int r, i;",
        f"for (r = 0; r < {target.count}; ++r) {{",
        f"    const {kind} *const x = (@x@) + (size_t)r * {width};",
        f"    {kind} most = x[0], total = 0;",
        f"    for (i = 1; i < {width}; ++i)",
        "        most = x[i] > most ? x[i] : most;",
        f"    for (i = 0; i < {width}; ++i)",
        f"        total += {call('exp', dtype, 'x[i] - most')};",
        f"    (@y@)[r] = most + {call('log', dtype, 'total')};",
        "}",
    ]
    lowerer.run(node, lines, {"x": source}, {"y": target})


def _arg(lowerer: Lowerer, node: Node) -> None:
    view = lowerer.view(node.value(0))
    axis = axis_of(node, node.get("axis", 0), len(view.shape))
    source, _ = along(lowerer, node, view, axis)
    target = lowerer.output(node)  # an axis of length 1, or none: row-major either way
    sign = (">" if node.op == "ArgMax" else "<") + "=" * bool(node.get("select_last_index", 0))
    lines = [
        "int r, i;",
        f"for (r = 0; r < {prod(source.shape[:-1])}; ++r) {{",
        f"    const {C_TYPES[view.dtype.name]} *const x = (@x@) + (size_t)r * {source.shape[-1]};",
        "    int best = 0;",
        f"    for (i = 1; i < {source.shape[-1]}; ++i)",
        f"        best = x[i] {sign} x[best] ? i : best;",
        "    (@y@)[r] = best;",
        "}",
    ]
    lowerer.run(node, lines, {"x": source}, {"y": target})


def _top_k(lowerer: Lowerer, node: Node) -> None:
    view = lowerer.view(node.value(0))
    axis = axis_of(node, node.get("axis", -1), len(view.shape))
    source, back = along(lowerer, node, view, axis)
    count = node.constant(1)
    if count is None:
        raise BackendError(f"{node.where}: says no count")
    width, k = source.shape[-1], int(count.reshape(()))
    values = lowerer.scratch(view.dtype, (*source.shape[:-1], k))
    places = lowerer.scratch(np.dtype(np.int64), values.shape)
    sign, kind = ">" if node.get("largest", 1) else "<", C_TYPES[view.dtype.name]
    lines = [
        "int r, i, j;",
        f"for (r = 0; r < {prod(source.shape[:-1])}; ++r) {{",
        f"    const {kind} *const x = (@x@) + (size_t)r * {width};",
        f"    {kind} *const v = (@v@) + (size_t)r * {k};",
        f"    int64_t *const at = (@p@) + (size_t)r * {k};",
        "    int filled = 0;",
        f"    for (i = 0; i < {width}; ++i) {{ /* insert, behind what is equal */",
        f"        if (filled == {k} && !(x[i] {sign} v[{k - 1}]))",
        "            continue;",
        f"        j = filled < {k} ? filled++ : {k - 1};",
        f"        for (; j > 0 && x[i] {sign} v[j - 1]; --j) {{",
        "            v[j] = v[j - 1];",
        "            at[j] = at[j - 1];",
        "        }",
        "        v[j] = x[i];",
        "        at[j] = i;",
        "    }",
        "}",
    ]
    lowerer.run(node, lines, {"x": source}, {"v": values, "p": places})
    lowerer.put(node.outputs[0], back(values))
    lowerer.put(node.outputs[1] if len(node.outputs) > 1 else None, back(places))


def _cumsum(lowerer: Lowerer, node: Node) -> None:
    view, axis = lowerer.view(node.value(0)), node.constant(1)
    if axis is None:
        raise BackendError(f"{node.where}: says no axis")
    source, back = along(lowerer, node, view, axis_of(node, int(axis.reshape(())), len(view.shape)))
    target = lowerer.scratch(view.dtype, source.shape)
    lowerer.put(node.outputs[0], back(target))
    width, kind = source.shape[-1], C_TYPES[view.dtype.name]
    place = f"{width - 1} - i" if node.get("reverse", 0) else "i"
    add = f"        total = {arithmetic('+', view.dtype, 'total', 'x[at]')};"
    store = "        y[at] = total;"
    lines = [
        "int r, i;",
        f"for (r = 0; r < {prod(source.shape[:-1])}; ++r) {{",
        f"    const {kind} *const x = (@x@) + (size_t)r * {width};",
        f"    {kind} *const y = (@y@) + (size_t)r * {width};",
        f"    {kind} total = 0;",
        f"    for (i = 0; i < {width}; ++i) {{",
        f"        const int at = {place};",
        *([store, add] if node.get("exclusive", 0) else [add, store]),
        "    }",
        "}",
    ]
    lowerer.run(node, lines, {"x": source}, {"y": target})


def _layer_norm(lowerer: Lowerer, node: Node) -> None:
    view = lowerer.contiguous(lowerer.view(node.value(0)), node.label)
    axis = axis_of(node, node.get("axis", -1), len(view.shape))
    _normalised(lowerer, node, view, prod(view.shape[:axis]), prod(view.shape[axis:]), centred=node.op[0] == "L")


def _normalised(lowerer: Lowerer, node: Node, view: View, rows: int, width: int, *, centred: bool) -> None:
    """Rows of mean 0 and variance 1 (or of mean square 1), scaled and shifted."""
    extra = [value for value in node.outputs[1:] if value is not None]
    if extra:
        raise BackendError(f"{node.where}: its output {extra[0].name!r} is not known to the backend 'c'")
    dtype, target = view.dtype, lowerer.output(node)
    kind = C_TYPES[dtype.name]
    axis = axis_of(node, node.get("axis", -1), len(view.shape))
    ins = {"x": view, "s": _spread(lowerer, node, 1, view.shape[axis:])}
    shift = node.optional(2) if centred else None
    if shift is not None:
        ins["b"] = _spread(lowerer, node, 2, view.shape[axis:])
    moved, shifted = "(x[i] - mean)" if centred else "x[i]", " + (@b@)[i]" if "b" in ins else ""
    lines = [
        "int r, i;",
        f"for (r = 0; r < {rows}; ++r) {{",
        f"    const {kind} *const x = (@x@) + (size_t)r * {width};",
        f"    {kind} *const y = (@y@) + (size_t)r * {width};",
        *statistics(node, dtype, width, centred=centred),
        f"    for (i = 0; i < {width}; ++i)",
        f"        y[i] = {moved} * scale * (@s@)[i]{shifted};",
        "}",
    ]
    lowerer.run(node, lines, ins, {"y": target})


def statistics(node: Node, dtype: np.dtype[Any], width: int, *, centred: bool) -> list[str]:
    """Lines that find `mean` and `scale` of a row `x`."""
    kind = C_TYPES[dtype.name]
    epsilon = number(np.array(node.get("epsilon", 1e-5), dtype)[()], dtype)
    one, count = (number(np.array(value, dtype)[()], dtype) for value in (1, width))
    if dtype.name == "float32":
        lines = [f"    const float mean = native_sum(x, {width}) / {count};"] if centred else []
        square = f"native_squares(x, mean, {width})" if centred else f"native_dot(x, x, {width})"
        return [*lines, f"    const float scale = {one} / sqrtf({square} / {count} + {epsilon});"]
    lines = [f"    {kind} mean = 0, square = 0, scale;"]
    if centred:
        lines += [f"    for (i = 0; i < {width}; ++i)", "        mean += x[i];", f"    mean /= {count};"]
    return [
        *lines,
        f"    for (i = 0; i < {width}; ++i)",
        "        square += (x[i] - mean) * (x[i] - mean);",
        f"    scale = {one} / {call('sqrt', dtype, f'square / {count} + {epsilon}')};",
    ]


def _spread(lowerer: Lowerer, node: Node, index: int, shape: tuple[int, ...]) -> View:
    """A parameter, one element for each of a row."""
    view = lowerer.view(node.value(index))
    return lowerer.contiguous(broadcast(view, shape), node.label)


def _batch_norm(lowerer: Lowerer, node: Node) -> None:
    value, target = node.value(0), lowerer.output(node)
    if node.get("training_mode", 0):
        raise BackendError(f"{node.where}: is in training mode, so it would change with every call")
    known = [node.constant(index) for index in range(1, 5)]
    if any(array is None for array in known):
        raise BackendError(f"{node.where}: lacks parameters")
    scale, shift, mean, variance = (np.asarray(array, np.float64) for array in known)
    factor = scale / np.sqrt(variance + node.get("epsilon", 1e-5))
    offset = shift - mean * factor
    shape = (-1, *(1,) * (len(value.shape) - 2))
    parameters = [lowerer.constant(array.reshape(shape).astype(value.dtype), value.shape) for array in (factor, offset)]
    operands = (lowerer.operand(value, value.shape), *parameters)
    lowerer.loop(node.label, target, [Step(value.dtype, "{0} * {1} + {2}", operands)])


def _group_norm(lowerer: Lowerer, node: Node) -> None:
    """`GroupNormalization` and `InstanceNormalization`."""
    view = lowerer.contiguous(lowerer.view(node.value(0)), node.label)
    rows, channels = view.shape[:2]
    groups = channels if node.op[0] == "I" else node.attributes["num_groups"]
    inner, each = prod(view.shape[2:]), channels // groups
    width, kind, dtype, target = each * inner, C_TYPES[view.dtype.name], view.dtype, lowerer.output(node)
    ins = {"x": view}
    for name, index in (("s", 1), ("b", 2)):
        given = lowerer.contiguous(lowerer.view(node.value(index)), node.label)
        ins[name] = given
    per_group = ins["s"].count == groups and groups != channels
    place = "g" if per_group else f"g * {each} + c"
    lines = [
        "int n, g, c, i;",
        f"for (n = 0; n < {rows}; ++n)",
        f"for (g = 0; g < {groups}; ++g) {{",
        f"    const {kind} *const x = (@x@) + ((size_t)n * {groups} + (size_t)g) * {width};",
        f"    {kind} *const y = (@y@) + ((size_t)n * {groups} + (size_t)g) * {width};",
        *statistics(node, dtype, width, centred=True),
        f"    for (c = 0; c < {each}; ++c)",
        f"        for (i = 0; i < {inner}; ++i)",
        f"            y[c * {inner} + i] = (x[c * {inner} + i] - mean) * scale * (@s@)[{place}] + (@b@)[{place}];",
        "}",
    ]
    lowerer.run(node, lines, ins, {"y": target})


ROWS: Mapping[str, Lowering] = {
    **dict.fromkeys(_REDUCTIONS, _reduce),
    "ArgMax": _arg,
    "ArgMin": _arg,
    "BatchNormalization": _batch_norm,
    "CumSum": _cumsum,
    "GroupNormalization": _group_norm,
    "InstanceNormalization": _group_norm,
    "LayerNormalization": _layer_norm,
    "LogSoftmax": _softmax,
    "RMSNormalization": _layer_norm,
    "ReduceLogSumExp": _reduce_log_sum_exp,
    "Softmax": _softmax,
    "TopK": _top_k,
}
