"""LSTM, GRU and RNN: two products with constant weights for all gates, then one loop over the cells."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ashore.backends.c.graph import Node
from ashore.backends.c.lower import Lowerer, Lowering
from ashore.backends.c.products import dense_call, panels
from ashore.backends.c.views import View, whole
from ashore.errors import BackendError
from ashore.package import Array

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_USUAL = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh"), "RNN": ("tanh",)}


def recurrent(lowerer: Lowerer, node: Node) -> None:
    """A recurrent layer over a sequence, which mostly has one element."""
    weights, recurrence, biases = _parameters(node)
    relu = _check(node)
    directions, hidden = recurrence.shape[0], recurrence.shape[2]
    source = lowerer.contiguous(lowerer.view(node.value(0)), node.label)
    steps, rows, width = source.shape
    shape = (directions, rows, hidden)
    last = [_place(lowerer, node, index, shape) for index in (1, 2)[: 2 if node.op == "LSTM" else 1]]
    every = lowerer.output(node, 0) if node.outputs[0] is not None else None
    layer = _Layer(lowerer, node, steps, rows, width, hidden, relu)
    for direction in range(directions):
        backwards = node.get("direction", "forward") == "reverse" or direction == 1
        states = [_part(view, direction) for view in last]
        for state, index in zip(states, (5, 6), strict=False):
            _start(lowerer, node, index, direction, state)
        layer.emit(
            source, weights[direction], recurrence[direction], biases[direction], states, every, direction, backwards
        )


def _parameters(node: Node) -> tuple[Array, Array, Array]:
    weights, recurrence, biases = (node.constant(index) for index in (1, 2, 3))
    if weights is None or recurrence is None:
        raise BackendError(f"{node.where}: lacks weights")
    if weights.dtype != np.float32:
        raise BackendError(f"{node.where}: the backend 'c' computes it for float32 only, not {weights.dtype}")
    if biases is None:
        biases = np.zeros((weights.shape[0], 2 * weights.shape[1]), np.float32)
    return weights, recurrence, biases


def _check(node: Node) -> bool:
    """Refuse what is not the usual cell; whether an RNN has relu for its function."""
    lengths = node.optional(4)
    if lengths is not None and (lengths.data is None or (lengths.data != node.value(0).shape[0]).any()):
        raise BackendError(f"{node.where}: sequences of different lengths are not known to the backend 'c'")
    if node.optional(7) is not None or node.get("clip", 0) or node.get("input_forget", 0):
        raise BackendError(f"{node.where}: peepholes, clipping and coupled gates are not known to the backend 'c'")
    given = [str(name).lower() for name in node.get("activations", ())]
    if node.op == "RNN" and given and set(given) == {"relu"}:
        return True
    usual = _USUAL[node.op]
    if given and given != [*usual] * (len(given) // len(usual)):
        raise BackendError(f"{node.where}: the functions {given} are not known to the backend 'c'; expected {[*usual]}")
    return False


def _place(lowerer: Lowerer, node: Node, index: int, shape: tuple[int, ...]) -> View:
    value = node.outputs[index] if index < len(node.outputs) else None
    return lowerer.make(value) if value is not None else lowerer.scratch(np.dtype(np.float32), shape)


def _part(view: View, direction: int) -> View:
    rows, hidden = view.shape[1:]
    return whole(view.root, (rows, hidden), view.offset + direction * rows * hidden)


def _start(lowerer: Lowerer, node: Node, index: int, direction: int, state: View) -> None:
    """Fill a state with what it starts from; the cells then work on it in place."""
    value = node.optional(index)
    if value is None:
        source = lowerer.constant(np.zeros(1, np.float32), state.shape)
    else:
        source = _part(lowerer.contiguous(lowerer.view(value), node.label), direction)
    lowerer.copy(node.label, source, state)


class _Layer:
    """Sizes of a layer, and the lines that run one direction of it."""

    def __init__(
        self, lowerer: Lowerer, node: Node, steps: int, rows: int, width: int, hidden: int, relu: bool
    ) -> None:
        self._lowerer, self._node, self._relu = lowerer, node, relu
        self._steps, self._rows, self._width, self._hidden = steps, rows, width, hidden
        self._columns = _GATES[node.op] * hidden
        self._row = self._columns

    def emit(
        self,
        source: View,
        weights: Array,
        recurrence: Array,
        biases: Array,
        states: list[View],
        every: View | None,
        direction: int,
        backwards: bool,
    ) -> None:
        """Add the call that runs one direction."""
        rows, hidden, node = self._rows, self._hidden, self._node
        outer, inner = np.split(biases, 2)
        constants, scratch = {"w": panels(weights.T)}, self._lowerer.scratch
        outs = {"h": states[0], "g": scratch(np.dtype(np.float32), (rows, self._row))}
        match node.op:
            case "LSTM":
                constants |= {"r": panels(recurrence.T), "b": outer + inner}
                outs["c"] = states[1]
                body = [
                    self._product("@r@", "h", hidden, self._columns, "g", self._row),
                    self._cells(
                        f"native_lstm_cells(g + r * {self._row}, c + r * {hidden}, h + r * {hidden}, {hidden});"
                    ),
                ]
            case "GRU" if node.get("linear_before_reset", 0):
                constants |= {"r": panels(recurrence.T), "b": outer, "q": inner}
                outs["k"] = scratch(np.dtype(np.float32), (rows, self._row))
                cells = f"native_gru_cells(g + r * {self._row}, k + r * {self._row}, h + r * {hidden}, {hidden});"
                product = dense_call("h", hidden, rows, hidden, self._columns, "@q@", 0, "k", self._row, "@r@")
                body = [product, self._cells(cells)]
            case "GRU":
                gates = 2 * hidden
                constants |= {"r": panels(recurrence[:gates].T), "n": panels(recurrence[gates:].T)}
                constants["b"] = outer + inner
                outs["k"] = scratch(np.dtype(np.float32), (rows, self._hidden))
                reset = f"native_gru_reset(g + r * {self._row}, h + r * {hidden}, k + r * {hidden}, {hidden});"
                cells = f"native_gru_reset_cells(g + r * {self._row}, h + r * {hidden}, {hidden});"
                start = f"g + {gates}"
                candidate = dense_call("k", hidden, rows, hidden, hidden, start, self._row, start, self._row, "@n@")
                body = [
                    self._product("@r@", "h", hidden, gates, "g", self._row),
                    self._cells(reset),
                    candidate,
                    self._cells(cells),
                ]
            case _:
                constants |= {"r": panels(recurrence.T), "b": outer + inner}
                function = "native_relu_cells" if self._relu else "native_tanh_cells"
                body = [
                    self._product("@r@", "h", hidden, self._columns, "g", self._row),
                    self._cells(f"{function}(g + r * {self._row}, h + r * {hidden}, {hidden});"),
                ]
        ins = {"x": source, "h0": states[0], **({"c0": states[1]} if len(states) > 1 else {})}
        self._add(body, ins, outs, constants, every, direction, backwards)

    def _add(
        self,
        body: list[str],
        ins: dict[str, View],
        outs: dict[str, View],
        constants: dict[str, Array],
        every: View | None,
        direction: int,
        backwards: bool,
    ) -> None:
        rows, width, hidden, steps = self._rows, self._width, self._hidden, self._steps
        at = f"{steps - 1} - t" if backwards else "t"
        lines = [f"float *const {name} = @{name}@;" for name in outs]
        lines += [
            "int t, r;",
            f"for (t = 0; t < {steps}; ++t) {{",
            f"    const float *const x = @x@ + (size_t)({at}) * {rows * width};",
            f"    {dense_call('x', width, rows, width, self._columns, '@b@', 0, 'g', self._row)}",
            *(f"    {line}" for line in body),
        ]
        if every is not None:
            # [steps, directions, rows, hidden]
            directions = every.shape[1]
            outs["y"] = every
            place = f"@y@ + ((size_t)({at}) * {directions} + {direction}) * {rows * hidden}"
            lines.append(f"    memcpy({place}, h, {rows * hidden} * sizeof(float));")
        self._lowerer.run(self._node, [*lines, "}"], ins, outs, constants)

    def _product(self, weights: str, source: str, depth: int, columns: int, target: str, row: int) -> str:
        return dense_call(source, depth, self._rows, depth, columns, target, row, target, row, weights)

    def _cells(self, call: str) -> str:
        return f"for (r = 0; r < {self._rows}; ++r) {call}"


RECURRENT: Mapping[str, Lowering] = {"GRU": recurrent, "LSTM": recurrent, "RNN": recurrent}
