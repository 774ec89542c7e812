"""Operators that only move data: as views where that is all it takes, else as copies."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ashore.backends.c.code import C_TYPES
from ashore.backends.c.evaluate import EVALUATE, pads_of, split_sizes
from ashore.backends.c.graph import Node, axis_of, prod
from ashore.backends.c.kernel import Literal, Step
from ashore.backends.c.lower import Lowerer, Lowering
from ashore.backends.c.views import Root, View, look, row_major, whole
from ashore.errors import BackendError
from ashore.package import Array

_FEW_COPIES = 32
"""A gather by known indices is made of so many copies at most; beyond that, of a table."""


def _look(lowerer: Lowerer, node: Node) -> None:
    """What numpy can do without moving anything."""
    view = lowerer.view(node.value(0))

    def function(array: Array) -> Array:
        return np.asarray(EVALUATE[node.op](node, [array]))

    seen = look(view, function)
    if seen is None:
        seen = look(lowerer.contiguous(view, node.label), function)
    if seen is None:
        raise BackendError(f"{node.where}: cannot be compiled")
    lowerer.put(node.outputs[0], seen)


def _tile(lowerer: Lowerer, node: Node) -> None:
    view, counts = lowerer.view(node.value(0)), node.constant(1)
    target = lowerer.output(node)
    counts = np.ones(0, np.int64) if counts is None else counts
    # [a, b] repeated (m, n) times is [m, a, n, b] with strides of zero.
    pairs = [(int(count), size) for count, size in zip(counts, view.shape, strict=True)]
    shape = tuple(length for pair in pairs for length in pair)
    strides = tuple(step for stride in view.strides for step in (0, stride))
    lowerer.copy(node.label, View(view.root, view.offset, shape, strides), whole(target.root, shape))


def _split(lowerer: Lowerer, node: Node) -> None:
    view = lowerer.view(node.value(0))
    axis, start = axis_of(node, node.get("axis", 0), len(view.shape)), 0
    for value, size in zip(node.outputs, split_sizes(node), strict=True):
        lowerer.put(value, cut(view, axis, start, size))
        start += size


def cut(view: View, axis: int, start: int, size: int) -> View:
    """A stretch of an axis."""
    shape = (*view.shape[:axis], size, *view.shape[axis + 1 :])
    return View(view.root, view.offset + start * view.strides[axis], shape, view.strides)


def _concat(lowerer: Lowerer, node: Node) -> None:
    target = lowerer.output(node)
    axis, start = axis_of(node, node.attributes["axis"], len(target.shape)), 0
    for index in range(len(node.inputs)):
        value = node.value(index)
        part = cut(target, axis, start, value.shape[axis])
        lowerer.loop(node.label, part, [Step(value.dtype, "{0}", (lowerer.operand(value, value.shape),))])
        start += value.shape[axis]


def _gather(lowerer: Lowerer, node: Node) -> None:
    view, index = lowerer.view(node.value(0)), node.value(1)
    axis = axis_of(node, node.get("axis", 0), len(view.shape))
    size = view.shape[axis]
    if index.data is not None:
        places = np.where(index.data < 0, index.data + size, index.data)
        if places.size and not ((places >= 0) & (places < size)).all():
            raise BackendError(f"{node.where}: an index is outside the axis of length {size}")
        _gather_known(lowerer, node, view, axis, places)
        return
    source, at = lowerer.contiguous(view, node.label), lowerer.contiguous(lowerer.view(index), node.label)
    target = lowerer.output(node)
    outer, inner = prod(view.shape[:axis]), prod(view.shape[axis + 1 :])
    lowerer.run(node, _gathering(outer, at.count, size, inner), {"x": source, "i": at}, {"y": target})


def _gathering(outer: int, count: int, size: int, inner: int) -> list[str]:
    return [
        "int o, i, k;",
        f"for (o = 0; o < {outer}; ++o)",
        f"    for (i = 0; i < {count}; ++i) {{",
        f"        const size_t at = native_index((int64_t)(@i@)[i], {size}, &outside);",
        f"        for (k = 0; k < {inner}; ++k)",
        f"            (@y@)[(o * {count} + i) * {inner} + k] = (@x@)[((size_t)o * {size} + at) * {inner} + (size_t)k];",
        "    }",
    ]


def _gather_known(lowerer: Lowerer, node: Node, view: View, axis: int, places: Array) -> None:
    flat = [int(place) for place in places.reshape(-1)]
    step = flat[1] - flat[0] if len(flat) > 1 else 1
    if flat == [flat[0] + step * index for index in range(len(flat))] if flat else False:
        # Evenly spaced places are a view; one place is an axis less.
        stride = view.strides[axis]
        shape = (*view.shape[:axis], *places.shape, *view.shape[axis + 1 :])
        inner = tuple(step * stride * each for each in row_major(places.shape))
        strides = (*view.strides[:axis], *inner, *view.strides[axis + 1 :])
        lowerer.put(node.outputs[0], View(view.root, view.offset + flat[0] * stride, shape, strides))
        return
    target = lowerer.output(node)
    straight = whole(target.root, (*view.shape[:axis], len(flat), *view.shape[axis + 1 :]))
    runs = _runs(flat)
    if len(runs) <= _FEW_COPIES:
        for start, first, length in runs:
            lowerer.copy(node.label, cut(view, axis, first, length), cut(straight, axis, start, length))
        return
    source = lowerer.contiguous(view, node.label)
    outer, inner = prod(view.shape[:axis]), prod(view.shape[axis + 1 :])
    lines = _gathering(outer, len(flat), view.shape[axis], inner)
    lowerer.run(node, lines, {"x": source}, {"y": target}, {"i": places.reshape(-1).astype(np.int32)})


def _runs(flat: list[int]) -> list[tuple[int, int, int]]:
    """(where in the result, first place, length) of every stretch of places that follow each other."""
    found: list[tuple[int, int, int]] = []
    for index, place in enumerate(flat):
        if found and place == found[-1][1] + found[-1][2]:
            found[-1] = (found[-1][0], found[-1][1], found[-1][2] + 1)
        else:
            found.append((index, place, 1))
    return found


def _loops(shape: tuple[int, ...]) -> list[str]:
    """The heads of loops over all places of a shape."""
    return [f"for (i{axis} = 0; i{axis} < {size}; ++i{axis})" for axis, size in enumerate(shape)]


def _flat(sizes: tuple[int, ...], names: list[str]) -> str:
    """The index of a place in an array that lies row-major."""
    terms = [f"(size_t){name} * {step}" for name, step in zip(names, row_major(sizes), strict=True)]
    return " + ".join(terms) or "0"


def _gather_elements(lowerer: Lowerer, node: Node) -> None:
    view, index = lowerer.view(node.value(0)), node.value(1)
    axis = axis_of(node, node.get("axis", 0), len(view.shape))
    source, at = lowerer.contiguous(view, node.label), lowerer.contiguous(lowerer.view(index), node.label)
    target = lowerer.output(node)
    names = [f"i{place}" for place in range(len(index.shape))]
    place = _flat(index.shape, names)
    names[axis] = "at"
    lines = [
        f"int {', '.join(f'i{place}' for place in range(len(index.shape)))};",
        *_loops(index.shape),
        "{",
        f"    const size_t at = native_index((int64_t)(@i@)[{place}], {view.shape[axis]}, &outside);",
        f"    (@y@)[{place}] = (@x@)[{_flat(view.shape, names)}];",
        "}",
    ]
    lowerer.run(node, lines, {"x": source, "i": at}, {"y": target})


def _reduced(node: Node, old: str, new: str, dtype: np.dtype) -> str:  # type: ignore[type-arg]
    match node.get("reduction", "none"):
        case "none":
            return new
        case "add":
            return f"({C_TYPES[dtype.name]})({old} + {new})"
        case "mul":
            return f"({C_TYPES[dtype.name]})({old} * {new})"
        case "max":
            return f"{old} > {new} ? {old} : {new}"
        case "min":
            return f"{old} < {new} ? {old} : {new}"
        case other:
            raise BackendError(f"{node.where}: the reduction {other!r} is not known to the backend 'c'")


def _scatter_elements(lowerer: Lowerer, node: Node) -> None:
    view, index, updates = lowerer.view(node.value(0)), node.value(1), node.value(2)
    axis = axis_of(node, node.get("axis", 0), len(view.shape))
    target = lowerer.output(node)
    lowerer.copy(node.label, view, target)
    at, new = (lowerer.contiguous(lowerer.view(value), node.label) for value in (index, updates))
    names = [f"i{place}" for place in range(len(index.shape))]
    place = _flat(index.shape, names)
    names[axis] = "at"
    lines = [
        f"int {', '.join(f'i{place}' for place in range(len(index.shape)))};",
        *_loops(index.shape),
        "{",
        f"    const size_t at = native_index((int64_t)(@i@)[{place}], {view.shape[axis]}, &outside);",
        f"    {C_TYPES[view.dtype.name]} *const to = (@y@) + ({_flat(view.shape, names)});",
        f"    *to = {_reduced(node, '*to', f'(@u@)[{place}]', view.dtype)};",
        "}",
    ]
    lowerer.run(node, lines, {"i": at, "u": new, "y0": target}, {"y": target})


def _gather_nd(lowerer: Lowerer, node: Node) -> None:
    view, index = lowerer.view(node.value(0)), node.value(1)
    rows = node.get("batch_dims", 0)
    source, at = lowerer.contiguous(view, node.label), lowerer.contiguous(lowerer.view(index), node.label)
    target = lowerer.output(node)
    depth = index.shape[-1]
    batch = prod(view.shape[:rows])
    count, inner = prod(index.shape[rows:-1]), prod(view.shape[rows + depth :])
    places = _places_nd(depth, view.shape[rows : rows + depth])
    lines = [
        "int o, i, k;",
        f"for (o = 0; o < {batch}; ++o)",
        f"    for (i = 0; i < {count}; ++i) {{",
        f"        size_t at = (size_t)o * {prod(view.shape[rows : rows + depth])};",
        *places,
        f"        for (k = 0; k < {inner}; ++k)",
        f"            (@y@)[(o * {count} + i) * {inner} + k] = (@x@)[at * {inner} + (size_t)k];",
        "    }",
    ]
    lines = [line.replace("ROW", f"o * {count} + i") for line in lines]
    lowerer.run(node, lines, {"x": source, "i": at}, {"y": target})


def _places_nd(depth: int, sizes: tuple[int, ...]) -> list[str]:
    return [
        f"        at += native_index((int64_t)(@i@)[(ROW) * {depth} + {place}], {sizes[place]}, &outside) * {step};"
        for place, step in enumerate(row_major(sizes))
    ]


def _scatter_nd(lowerer: Lowerer, node: Node) -> None:
    view, index, updates = lowerer.view(node.value(0)), node.value(1), node.value(2)
    target = lowerer.output(node)
    lowerer.copy(node.label, view, target)
    depth = index.shape[-1]
    count, inner = prod(index.shape[:-1]), prod(view.shape[depth:])
    new = lowerer.contiguous(lowerer.view(updates), node.label)
    ins, constants = {"u": new, "y0": target}, dict[str, Array]()
    if index.data is not None:
        constants["i"] = index.data.reshape(-1).astype(np.int32)
    else:
        ins["i"] = lowerer.contiguous(lowerer.view(index), node.label)
    lines = [
        "int i, k;",
        f"for (i = 0; i < {count}; ++i) {{",
        "        size_t at = 0;",
        *(line.replace("ROW", "i") for line in _places_nd(depth, view.shape[:depth])),
        f"    for (k = 0; k < {inner}; ++k) {{",
        f"        {C_TYPES[view.dtype.name]} *const to = (@y@) + at * {inner} + (size_t)k;",
        f"        *to = {_reduced(node, '*to', f'(@u@)[i * {inner} + k]', view.dtype)};",
        "    }",
        "}",
    ]
    lowerer.run(node, lines, ins, {"y": target}, constants)


def _pad(lowerer: Lowerer, node: Node) -> None:
    view, pads = lowerer.view(node.value(0)), pads_of(node)
    target, mode = lowerer.output(node), node.get("mode", "constant")
    if mode != "constant":
        # Where each place comes from is known: one table an axis, one axis at a time.
        for axis, (before, after) in enumerate(pads):
            if (before, after) == (0, 0):
                continue
            places = np.pad(np.arange(view.shape[axis]), (max(before, 0), max(after, 0)), mode=mode)  # type: ignore[call-overload]
            places = places[max(-before, 0) : len(places) - max(-after, 0)]
            shape = (*view.shape[:axis], len(places), *view.shape[axis + 1 :])
            place = lowerer.scratch(view.dtype, shape)
            for start, first, length in _runs([int(entry) for entry in places]):
                lowerer.copy(node.label, cut(view, axis, first, length), cut(place, axis, start, length))
            view = place
        lowerer.copy(node.label, view, target)
        return
    value = node.optional(2)
    if value is not None and value.data is None:
        raise BackendError(f"{node.where}: what it pads with is computed at run time; the backend 'c' refuses it")
    filling = node.get("value", 0) if value is None or value.data is None else value.data.reshape(-1)[0]
    literal = Literal(np.array(filling, view.dtype)[()], view.dtype)
    inside = target
    for axis, (before, after) in enumerate(pads):
        view = cut(view, axis, max(-before, 0), view.shape[axis] - max(-before, 0) - max(-after, 0))
        inside = cut(inside, axis, max(before, 0), view.shape[axis])
    # Only the rims: one on either side of each axis, as long as what is inside along the axes before it.
    rest = target
    for axis, (before, after) in enumerate(pads):
        for start, size in ((0, max(before, 0)), (rest.shape[axis] - max(after, 0), max(after, 0))):
            if size:
                rim = cut(rest, axis, start, size)
                lowerer.loop(node.label, rim, [Step(view.dtype, "{0}", (literal,))])
        rest = cut(rest, axis, max(before, 0), view.shape[axis])
    lowerer.copy(node.label, view, inside)


def _one_hot(lowerer: Lowerer, node: Node) -> None:
    index, values = node.value(0), lowerer.contiguous(lowerer.view(node.value(2)), node.label)
    target = lowerer.output(node)
    axis = node.get("axis", -1)
    axis += len(target.shape) if axis < 0 else 0
    outer, depth, inner = prod(target.shape[:axis]), target.shape[axis], prod(target.shape[axis + 1 :])
    lines = [
        "int o, d, k;",
        f"for (o = 0; o < {outer}; ++o)",
        f"    for (d = 0; d < {depth}; ++d)",
        f"        for (k = 0; k < {inner}; ++k) {{",
        f"            const int64_t at = (int64_t)(@i@)[o * {inner} + k];",
        f"            (@y@)[(o * {depth} + d) * {inner} + k] = (@v@)[(at < 0 ? at + {depth} : at) == d];",
        "        }",
    ]
    at = lowerer.contiguous(lowerer.view(index), node.label)
    lowerer.run(node, lines, {"i": at, "v": values}, {"y": target})


def _trilu(lowerer: Lowerer, node: Node) -> None:
    view, target = lowerer.view(node.value(0)), lowerer.output(node)
    k = node.constant(1)
    ones = np.ones(view.shape[-2:], np.bool_)
    diagonal = 0 if k is None else int(k.reshape(()))
    kept = np.triu(ones, diagonal) if node.get("upper", 1) else np.tril(ones, diagonal)
    mask = whole(Root("constant", kept.dtype, kept.size, data=kept), kept.shape)
    zero = Literal(np.zeros((), view.dtype)[()], view.dtype)
    shape, strides = view.shape, (*(0,) * (len(view.shape) - 2), *mask.strides)
    operands = (View(mask.root, 0, shape, strides), view, zero)
    lowerer.loop(node.label, target, [Step(view.dtype, "{0} ? {1} : {2}", operands)])


MOVEMENT: Mapping[str, Lowering] = {
    **dict.fromkeys(
        ("Dropout", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"), _look
    ),
    "Concat": _concat,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "OneHot": _one_hot,
    "Pad": _pad,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Split": _split,
    "Tile": _tile,
    "Trilu": _trilu,
}
