"""From the graph of a rate to kernels with every array in its place."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ashore.backends.c.code import C_TYPES
from ashore.backends.c.fusing import fuse
from ashore.backends.c.graph import Node, Value
from ashore.backends.c.kernel import Kernel
from ashore.backends.c.lower import Lowerer
from ashore.backends.c.operators import OPERATORS
from ashore.backends.c.planning import plan
from ashore.backends.c.program import RateProgram
from ashore.backends.c.simplify import simplify
from ashore.backends.c.views import View
from ashore.errors import BackendError


@dataclass
class Compiled:
    """The kernels of a rate, and where its results are when they have run."""

    kernels: list[Kernel]
    results: dict[int, View] = field(default_factory=dict[int, View])
    """By the identity of the value; row-major, and in nothing that a commit writes."""

    def view(self, value: Value) -> View:
        """Where a result is."""
        return self.results[id(value)]


def compile_rate(program: RateProgram, target: str, sizes: dict[str, int]) -> Compiled:
    """Lower a rate, join its loops, and place its scratch.

    Args:
        program: what it computes.
        target: what it is compiled for.
        sizes: dtype -> elements of the arena that all rates share; grown as needed.
    """
    simplify(program.graph)
    lowerer = Lowerer(target)
    for node in program.graph.nodes:
        _check_dtypes(node)
        lowering = OPERATORS.get(node.op)
        if lowering is None:
            raise BackendError(
                f"{node.where}: the backend 'c' computes this only where all of its inputs are constants"
            )
        with np.errstate(all="ignore"):
            lowering(lowerer, node)
    results = {id(value): _settled(lowerer, value) for value in program.graph.results}
    roots = [view.root for view in results.values()]
    kernels = fuse(lowerer.kernels, roots)
    plan(kernels, roots, sizes)
    return Compiled(kernels, results)


def _check_dtypes(node: Node) -> None:
    for value in (*node.inputs, *node.outputs):
        if value is not None and value.dtype.name not in C_TYPES:
            raise BackendError(f"{node.where}: {value.name!r} is {value.dtype}, which C has no type for")


def _settled(lowerer: Lowerer, value: Value) -> View:
    """A result that can be copied out as it is: row-major, and no state, since states are overwritten one by one."""
    view = lowerer.view(value)
    if view.contiguous and view.root.kind != "state":
        return view
    place = lowerer.scratch(view.dtype, view.shape)
    lowerer.copy(f"the result {value.name!r}", view, place)
    return place
