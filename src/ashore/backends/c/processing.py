"""Stages that are processors, as nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ashore.backends.c.onnx_file import FileGraph, FileNode
from ashore.backends.processor_graphs import PROCESSOR_GRAPHS, ints
from ashore.errors import BackendError
from ashore.package import Array
from ashore.processors import Read
from ashore.spec import Stage

_OPSET = 18


def processor_graph(where: str, stage: Stage, read: Read) -> FileGraph:
    """The graph of a stage that is a processor.

    Raises:
        BackendError: it has none.
    """
    kind = stage.processor.type if stage.processor else ""
    made = PROCESSOR_GRAPHS.get(kind)
    graph = _Nodes(stage)
    results = None if made is None else made(graph, f"{where}: the processor {kind!r}", stage, read)
    if results is None:
        raise BackendError(f"{where}: the processor {kind!r} cannot be compiled; run it before the compiled policy")
    return graph.finish(results)


class _Nodes:
    """A graph that grows node by node; see `ashore.backends.processor_graphs.Growing`."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._nodes: list[FileNode] = []
        self._weights: dict[str, Array] = {}

    def __call__(self, kind: str, *inputs: Any, **attributes: Any) -> str:
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        result = f"/{len(self._nodes)}"
        self._nodes.append(FileNode(kind, "", "", tuple(names), (result,), attributes, None))
        return result

    def slice(self, value: str, axis: int, start: int, stop: int) -> str:
        return self("Slice", value, ints(start), ints(stop), ints(axis))

    def unsqueeze(self, value: str, *axes: int) -> str:
        return self("Unsqueeze", value, ints(*axes)) if axes else value

    def finish(self, results: Mapping[str, str]) -> FileGraph:
        """The graph that gives these values at these ports."""
        copies = [FileNode("Identity", "", "", (value,), (port,), {}, None) for port, value in results.items()]
        return FileGraph(
            (*self._nodes, *copies), self._weights, tuple(self._stage.inputs), tuple(self._stage.outputs), _OPSET
        )

    def _constant(self, array: Any) -> str:
        name = f"/c{len(self._weights)}"
        self._weights[name] = np.asarray(array)
        return name
