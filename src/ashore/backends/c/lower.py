"""From nodes to kernels: every operator becomes views, elementwise loops, or calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ashore.backends.c.code import C_TYPES
from ashore.backends.c.graph import Node, Value
from ashore.backends.c.kernel import Call, Kernel, Literal, Loop, Step
from ashore.backends.c.views import Root, View, look, whole
from ashore.errors import BackendError
from ashore.package import Array

Lowering: TypeAlias = Callable[["Lowerer", Node], None]
Operand: TypeAlias = "View | Literal | int"


class Lowerer:
    """Gathers kernels, and knows where every value is."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.kernels: list[Kernel] = []
        self._views: dict[int, View] = {}
        self._values: list[Value] = []
        """Keeps what the keys of `_views` are about alive."""

    def view(self, value: Value) -> View:
        """Where a value is."""
        if id(value) not in self._views:
            if value.dtype.name not in C_TYPES:
                raise BackendError(f"{value.name!r} is {value.dtype}, which the backend 'c' does not compute with")
            if value.data is not None:
                root = Root("constant", value.dtype, value.count, data=np.asarray(value.data, order="C"))
            elif value.home is not None:
                root = Root("state" if "states." in value.home else "input", value.dtype, value.count, value.home)
            else:
                raise BackendError(f"{value.name!r} is read before it is computed")
            self.put(value, whole(root, value.shape))
        return self._views[id(value)]

    def put(self, value: Value | None, view: View) -> None:
        """Say where a value is."""
        if value is not None:
            self._values.append(value)
            self._views[id(value)] = view

    def make(self, value: Value) -> View:
        """Give a value a place of its own."""
        self.put(value, self.scratch(value.dtype, value.shape))
        return self._views[id(value)]

    def output(self, node: Node, index: int = 0) -> View:
        """A place for an output of a node, also if nothing reads it."""
        value = node.outputs[index] if index < len(node.outputs) else None
        if value is None:
            raise BackendError(f"{node.where}: output {index} is missing")
        return self.make(value)

    def scratch(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> View:
        """Room for something in between."""
        if dtype.name not in C_TYPES:
            raise BackendError(f"{dtype} is nothing that the backend 'c' computes with")
        return whole(Root("scratch", dtype, int(np.prod(shape, dtype=np.int64))), shape)

    def run(
        self,
        node: Node,
        lines: Sequence[str],
        ins: Mapping[str, View],
        outs: Mapping[str, View],
        constants: Mapping[str, Array] | None = None,
    ) -> None:
        """Add a call; its inputs must be contiguous where the lines need that."""
        if any(view.count for view in outs.values()):
            self.kernels.append(Call(node.label, list(lines), dict(ins), dict(outs), dict(constants or {})))

    def loop(self, label: str, target: View, steps: Sequence[Step]) -> None:
        """Add an elementwise loop whose last step is stored; its views have the shape of the target."""
        if target.count:
            shape = tuple(size for size in target.shape if size != 1)
            self.kernels.append(Loop(label, shape, list(steps), [(target, len(steps) - 1)]))

    def operand(self, value: Value, shape: tuple[int, ...]) -> View | Literal:
        """A value in a loop over a shape: a number if it is the same everywhere, else a view broadcast to it."""
        data = value.data
        if data is not None and data.size and (data.size == 1 or _uniform(data)):
            return Literal(data.reshape(-1)[0], value.dtype)
        return broadcast(self.view(value), shape)

    def constant(self, data: Array, shape: tuple[int, ...]) -> View:
        """An array of constants, broadcast to a shape."""
        root = Root("constant", data.dtype, data.size, data=np.asarray(data, order="C"))
        return broadcast(whole(root, data.shape), shape)

    def copy(self, label: str, source: View, target: View) -> None:
        """Store one view into another of the same shape."""
        self.loop(label, target, [Step(source.dtype, "{0}", (source,))])

    def contiguous(self, view: View, label: str) -> View:
        """The same array, row-major, moved if need be."""
        if view.contiguous:
            return whole(view.root, view.shape, view.offset)
        if view.root.data is not None:
            data = np.asarray(read_constant(view), order="C")
            return whole(Root("constant", view.dtype, data.size, data=data), view.shape)
        place = self.scratch(view.dtype, view.shape)
        self.copy(label, view, place)
        return place

    def reshaped(self, view: View, shape: tuple[int, ...], label: str) -> View:
        """An array under another shape, moved if need be."""
        seen = look(view, lambda array: array.reshape(shape))
        if seen is not None:
            return seen
        moved = self.contiguous(view, label)
        return whole(moved.root, shape, moved.offset)


def read_constant(view: View) -> Array:
    """What a view of a constant holds."""
    data = view.root.data
    if data is None:
        raise BackendError("a value that is computed at run time was taken for a constant")
    flat = data.reshape(-1)
    size = flat.itemsize
    return np.lib.stride_tricks.as_strided(
        flat[view.offset :], view.shape, [stride * size for stride in view.strides], writeable=False
    )


def broadcast(view: View, shape: tuple[int, ...]) -> View:
    """A view with every axis as long as a shape wants it."""
    missing = len(shape) - len(view.shape)
    strides = [0] * missing + [
        0 if size == 1 and wanted != 1 else stride
        for size, stride, wanted in zip(view.shape, view.strides, shape[missing:], strict=True)
    ]
    return View(view.root, view.offset, shape, tuple(strides))


def _uniform(data: Array) -> bool:
    flat = data.reshape(-1)
    return bool(flat.tobytes() == flat[:1].tobytes() * flat.size)
