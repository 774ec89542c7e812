"""What a graph becomes before it becomes C: kernels that read and write views, in the order in which they run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ashore.backends.c.code import C_TYPES, indent, number
from ashore.backends.c.views import Root, View
from ashore.package import Array


class Places(Protocol):
    """Says where things are, once that has been decided."""

    def at(self, view: View) -> str:
        """A C expression that points to the first element of a view."""
        ...

    def constant(self, data: Array) -> str:
        """The name of an array of constants."""
        ...


class Kernel(Protocol):
    """Something that runs: it reads roots and writes roots."""

    label: str

    @property
    def reads(self) -> list[Root]:
        """What must have been written before."""
        ...

    @property
    def writes(self) -> list[Root]:
        """What it writes."""
        ...

    def emit(self, places: Places) -> list[str]:
        """Its lines of C."""
        ...


@dataclass
class Call:
    """Lines of C with places in them: ``{name}`` is where a view or an array of constants is."""

    label: str
    lines: list[str]
    ins: Mapping[str, View] = field(default_factory=dict[str, View])
    outs: Mapping[str, View] = field(default_factory=dict[str, View])
    constants: Mapping[str, Array] = field(default_factory=dict[str, Array])

    @property
    def reads(self) -> list[Root]:
        """The roots of its inputs."""
        return [view.root for view in self.ins.values()]

    @property
    def writes(self) -> list[Root]:
        """The roots of its outputs."""
        return [view.root for view in self.outs.values()]

    def emit(self, places: Places) -> list[str]:
        """Its lines, with every place filled in."""
        names = {name: places.at(view) for name, view in {**self.ins, **self.outs}.items()}
        names |= {name: places.constant(data) for name, data in self.constants.items()}
        made: list[str] = []
        for line in self.lines:
            for name, place in names.items():
                line = line.replace(f"@{name}@", place)
            made.append(line)
        return made


@dataclass(frozen=True)
class Literal:
    """A number in an expression."""

    value: Any
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class Step:
    """A step of a statement inside a loop: an expression over views, literals, and earlier steps of the loop."""

    dtype: np.dtype[Any]
    expression: str
    """With ``{0}``, ``{1}`` for its operands."""

    operands: tuple[View | Literal | int, ...]
    """An int is the number of an earlier step."""


@dataclass
class Loop:
    """Elementwise work over one shape, in one pass: steps, and what of them is stored where."""

    label: str
    shape: tuple[int, ...]
    """Without axes of length 1."""

    steps: list[Step]
    stores: list[tuple[View, int]]
    """(where, which step)."""

    @property
    def reads(self) -> list[Root]:
        """The roots of its operands."""
        return [operand.root for step in self.steps for operand in step.operands if isinstance(operand, View)]

    @property
    def writes(self) -> list[Root]:
        """The roots that it stores to."""
        return [view.root for view, _ in self.stores]

    def emit(self, places: Places) -> list[str]:
        """Nested loops over as few axes as the strides allow."""
        views = [operand for step in self.steps for operand in step.operands if isinstance(operand, View)]
        views += [view for view, _ in self.stores]
        sizes, strides = _collapsed(self.shape, [_strides(view, self.shape) for view in views])
        unique: dict[tuple[Any, ...], str] = {}
        names: list[str] = []
        heads: list[str] = []
        stored = {id(view.root) for view, _ in self.stores}
        for view, steps in zip(views, strides, strict=True):
            key = (id(view.root), view.offset, steps)
            if key not in unique:
                kind, quality = C_TYPES[view.dtype.name], "" if id(view.root) in stored else "const "
                unique[key] = f"{'y' if id(view.root) in stored else 'x'}{len(unique)}"
                heads.append(f"{quality}{kind} *const {unique[key]} = {places.at(view)};")
            names.append(f"{unique[key]}[{_index(steps)}]")
        body: list[str] = []
        found, cursor = dict[str, str](), iter(names)
        for place, step in enumerate(self.steps):
            terms: list[str] = []
            for operand in step.operands:
                match operand:
                    case View():
                        element = next(cursor)
                        if element not in found:
                            found[element] = f"e{len(found)}"
                            body.append(f"const {C_TYPES[operand.dtype.name]} {found[element]} = {element};")
                        terms.append(found[element])
                    case Literal():
                        terms.append(_literal(operand))
                    case _:
                        terms.append(f"t{operand}")
            body.append(f"const {C_TYPES[step.dtype.name]} t{place} = {step.expression.format(*terms)};")
        for _, place in self.stores:
            body.append(f"{next(cursor)} = t{place};")
        for axis in reversed(range(len(sizes))):
            head = f"for (i{axis} = 0; i{axis} < {sizes[axis]}; ++i{axis}) {{"
            body = [head, *indent(body), "}"]
        counters = [f"int {', '.join(f'i{axis}' for axis in range(len(sizes)))};"] if sizes else []
        return [*heads, *counters, *body]


def _literal(literal: Literal) -> str:
    shown = number(literal.value, literal.dtype)
    return f"({shown})" if shown.startswith("-") else shown


def _strides(view: View, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a view over the axes of a loop, which have no length 1."""
    kept = tuple(stride for size, stride in zip(view.shape, view.strides, strict=True) if size != 1)
    if len(kept) == len(shape):
        return kept
    # It was matched as contiguous, under another shape.
    strides, step = list[int](), 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _collapsed(shape: tuple[int, ...], strides: list[tuple[int, ...]]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Join neighbouring axes wherever every view goes on evenly from one into the next."""
    sizes, rows = list(shape), [list(row) for row in strides]
    axis = len(sizes) - 2
    while axis >= 0:
        if all(row[axis] == row[axis + 1] * sizes[axis + 1] for row in rows):
            sizes[axis + 1] *= sizes[axis]
            del sizes[axis]
            for row in rows:
                del row[axis]
        axis -= 1
    return tuple(sizes), [tuple(row) for row in rows]


def _index(strides: Iterable[int]) -> str:
    terms = [f"i{axis}" if stride == 1 else f"i{axis} * {stride}" for axis, stride in enumerate(strides) if stride != 0]
    return " + ".join(terms) or "0"
