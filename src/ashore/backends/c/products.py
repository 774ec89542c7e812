"""Matrix products: with constant weights, which are stored the way they are read, and between two computed arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ashore.backends.c.code import C_TYPES
from ashore.backends.c.expressions import arithmetic
from ashore.backends.c.graph import Node, Value, prod
from ashore.backends.c.kernel import Literal, Step
from ashore.backends.c.lower import Lowerer, Lowering, broadcast
from ashore.backends.c.rows import permuted
from ashore.backends.c.views import View, whole
from ashore.errors import BackendError
from ashore.package import Array

_FLOAT32 = np.dtype(np.float32)


def panels(weights: Array) -> Array:
    """Weights [depth, columns] as the dense kernel reads them: in panels, the last of them filled up with zeros."""
    parts: list[Array] = []
    for column, width in _panels(weights.shape[1]):
        panel = np.zeros((weights.shape[0], width), np.float32)
        part = weights[:, column : column + width]
        panel[:, : part.shape[1]] = part
        parts.append(panel.reshape(-1))
    return np.concatenate(parts)


def _panels(columns: int) -> list[tuple[int, int]]:
    """(first column, width) of each panel; the kernel finds the same ones."""
    found: list[tuple[int, int]] = []
    column = 0
    while column < columns:
        left = columns - column
        width = 128 if left > 96 else 64 if left > 48 else 32 if left > 24 else 16
        found.append((column, width))
        column += width
    return found


def dense_call(
    x: str,
    x_row: int,
    rows: int,
    depth: int,
    columns: int,
    start: str,
    start_row: int,
    y: str,
    y_row: int,
    w: str = "@w@",
) -> str:
    """A call of the dense kernel."""
    return f"native_dense({w}, {x}, {x_row}, {rows}, {depth}, {columns}, {start}, {start_row}, {y}, {y_row});"


def dense(lowerer: Lowerer, node: Node, source: View, weights: Array, bias: Array | None, target: View) -> None:
    """Compute target = source weights + bias, for rows of the source."""
    depth, columns = weights.shape
    rows = source.count // depth if depth else 0
    start = np.zeros(columns, np.float32) if bias is None else bias.astype(np.float32)
    lines = [dense_call("@x@", depth, rows, depth, columns, "@b@", 0, "@y@", columns)]
    lowerer.run(node, lines, {"x": source}, {"y": target}, {"w": panels(weights), "b": start})


def _matmul(lowerer: Lowerer, node: Node) -> None:
    left, right = node.value(0), node.value(1)
    if right.data is not None and right.data.ndim == 2 and right.dtype == _FLOAT32 and len(left.shape) >= 1:
        source = lowerer.contiguous(lowerer.view(left), node.label)
        dense(lowerer, node, source, right.data, _bias(node.optional(2)), lowerer.output(node))
        return
    target = lowerer.output(node)
    a, b = lowerer.view(left), lowerer.view(right)
    # A vector is a matrix of one row, or of one column.
    if len(left.shape) == 1:
        a = View(a.root, a.offset, (1, *a.shape), (0, *a.strides))
    if len(right.shape) == 1:
        b = View(b.root, b.offset, (*b.shape, 1), (*b.strides, 0))
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    place = whole(target.root, (*lead, a.shape[-2], b.shape[-1]))
    between(lowerer, node, broadcast(a, (*lead, *a.shape[-2:])), broadcast(b, (*lead, *b.shape[-2:])), place)


def _bias(value: Value | None) -> Array | None:
    return None if value is None else value.data


def between(lowerer: Lowerer, node: Node, a: View, b: View, target: View) -> None:
    """target[..., m, n] = a[..., m, k] b[..., k, n]; the axes before are the same in all three."""
    lead, (m, k), n = a.shape[:-2], a.shape[-2:], b.shape[-1]
    kind = C_TYPES[a.dtype.name]
    fast = a.dtype == _FLOAT32
    dots = fast and b.strides[-2] == 1 and k > 1 and n > 1 and k >= 8
    if dots and a.strides[-1] != 1:
        a = lowerer.contiguous(a, node.label)
    if fast and not dots and n > 1 and b.strides[-1] != 1:
        b = lowerer.contiguous(b, node.label)
    counters = [f"i{axis}" for axis in range(len(lead))]

    def place(view: View, name: str) -> str:
        terms = [
            f"{counter} * {stride}"
            for counter, stride in zip(counters, view.strides[: len(lead)], strict=True)
            if stride
        ]
        return " + ".join([f"(@{name}@)", *terms])

    if fast:
        function = "native_dots" if dots else "native_products"
        shape = f"{a.strides[-2]}, {m}, {k}, {n}" if dots else f"{a.strides[-2]}, {a.strides[-1]}, {m}, {k}, {n}"
        step = b.strides[-1] if dots else b.strides[-2]
        inner = [f"{function}({place(a, 'a')}, {shape}, {place(b, 'b')}, {step}, {place(target, 'y')}, {n});"]
    else:
        element = f"pa[m * {a.strides[-2]} + k * {a.strides[-1]}]", f"pb[k * {b.strides[-2]} + n * {b.strides[-1]}]"
        total = arithmetic("+", a.dtype, "total", f"({arithmetic('*', a.dtype, *element)})")
        inner = [
            "{",
            f"    const {kind} *const pa = {place(a, 'a')};",
            f"    const {kind} *const pb = {place(b, 'b')};",
            f"    {kind} *const py = {place(target, 'y')};",
            "    int m, k, n;",
            f"    for (m = 0; m < {m}; ++m)",
            f"        for (n = 0; n < {n}; ++n) {{",
            f"            {kind} total = 0;",
            f"            for (k = 0; k < {k}; ++k)",
            f"                total = {total};",
            f"            py[m * {n} + n] = total;",
            "        }",
            "}",
        ]
    heads = [f"for ({c} = 0; {c} < {size}; ++{c})" for c, size in zip(counters, lead, strict=True)]
    lines = [*([f"int {', '.join(counters)};"] if counters else []), *heads, *inner]
    lowerer.run(node, lines, {"a": a, "b": b}, {"y": target})


def _gemm(lowerer: Lowerer, node: Node) -> None:
    left, right, bias = node.value(0), node.value(1), node.optional(2)
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    a, b = lowerer.view(left), right.data
    a = permuted(a, [1, 0]) if node.get("transA", 0) else a
    target = lowerer.output(node)
    if b is not None and right.dtype == _FLOAT32:
        weights = (b.T if node.get("transB", 0) else b) * np.float32(alpha)
        known = None if bias is None else bias.data
        row = None if known is None else _one_row(known, weights.shape[1])
        source = lowerer.contiguous(a, node.label)
        dense(lowerer, node, source, weights, None if row is None else row * np.float32(beta), target)
        if bias is None or row is not None:
            return
        alpha = 1.0
    else:
        view = lowerer.view(right)
        between(lowerer, node, a, permuted(view, [1, 0]) if node.get("transB", 0) else view, target)
        if bias is None and alpha == 1.0:
            return
    _finish(lowerer, node, target, bias, alpha, beta)


def _finish(lowerer: Lowerer, node: Node, product: View, bias: Value | None, alpha: float, beta: float) -> None:
    """Compute alpha product + beta bias, where they are not in the product yet."""
    target, dtype = lowerer.output(node), product.dtype

    def real(value: float) -> Literal:
        return Literal(np.array(value, dtype)[()], dtype)

    steps = [Step(dtype, "{0} * {1}", (product, real(alpha)))]
    if bias is not None:
        steps.append(Step(dtype, "{0} * {1}", (lowerer.operand(bias, target.shape), real(beta))))
        steps.append(Step(dtype, "{0} + {1}", (0, 1)))
    lowerer.loop(node.label, target, steps)


def _one_row(data: Array, columns: int) -> Array | None:
    """A bias that is the same in every row, as one row."""
    if data.ndim <= 1 or data.shape[0] == 1:
        return np.broadcast_to(data.reshape(-1), (columns,))
    return None


def _einsum(lowerer: Lowerer, node: Node) -> None:
    equation = str(node.attributes["equation"]).replace(" ", "")
    sides, arrow, result = equation.partition("->")
    terms = sides.split(",")
    if not arrow or "." in equation or len(terms) != 2 or any(len(set(term)) != len(term) for term in (*terms, result)):
        raise BackendError(f"{node.where}: the equation {equation!r} is not known to the backend 'c'")
    sizes = {
        letter: size
        for index, term in enumerate(terms)
        for letter, size in zip(term, node.value(index).shape, strict=True)
    }
    views = [lowerer.view(node.value(index)) for index in range(2)]
    both = [letter for letter in result if letter in terms[0] and letter in terms[1]]
    summed = [letter for letter in dict.fromkeys(terms[0] + terms[1]) if letter not in result]
    rows = [letter for letter in result if letter in terms[0] and letter not in terms[1]]
    columns = [letter for letter in result if letter in terms[1] and letter not in terms[0]]
    if any(letter not in terms[0] or letter not in terms[1] for letter in summed):
        raise BackendError(f"{node.where}: the equation {equation!r} is not known to the backend 'c'")

    def grouped(view: View, term: str, groups: list[list[str]]) -> View:
        moved = permuted(view, [term.index(letter) for group in groups for letter in group])
        shape = (
            *(sizes[letter] for letter in groups[0]),
            *(prod([sizes[letter] for letter in group]) for group in groups[1:]),
        )
        return lowerer.reshaped(moved, shape, node.label)

    a, b = grouped(views[0], terms[0], [both, rows, summed]), grouped(views[1], terms[1], [both, summed, columns])
    order = [*both, *rows, *columns]
    place = lowerer.scratch(a.dtype, tuple(sizes[letter] for letter in order))
    between(lowerer, node, a, b, whole(place.root, (*a.shape[:-1], b.shape[-1])))
    lowerer.put(node.outputs[0], permuted(place, [order.index(letter) for letter in result]))


PRODUCTS: Mapping[str, Lowering] = {"Einsum": _einsum, "Gemm": _gemm, "MatMul": _matmul}
