"""Processors as ONNX graphs: for tools that take one file, or run everything on one device.

What the graphs compute is said in `ashore.backends.processor_graphs`; here they become models.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ashore.backends.processor_graphs import PROCESSOR_GRAPHS, ints
from ashore.processors import Read
from ashore.spec import Port, Stage

OPSET = 18
IR_VERSION = 9


def lower(stage: Stage, read: Read) -> onnx.ModelProto | None:
    """The graph of a stage that is a processor, or None if it has none.

    Args:
        stage: the stage; its ports are those of the graph, and its batch axis stays symbolic.
        read: gives the bytes of a file of the package.
    """
    kind = stage.processor.type if stage.processor else ""
    if kind not in PROCESSOR_GRAPHS:
        return None
    graph = _Graph(stage)
    results = PROCESSOR_GRAPHS[kind](graph, f"the processor {kind!r}", stage, read)
    return None if results is None else graph.finish(results)


class _Graph:
    """A graph that grows node by node. A value is its name."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def __call__(self, kind: str, *inputs: Any, **attributes: Any) -> str:
        """Add a node, and give its value. Inputs are values, or arrays, which become constants."""
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        self._nodes.append(helper.make_node(kind, names, [self._name()], **attributes))
        return self._nodes[-1].output[0]

    def slice(self, value: str, axis: int, start: int, stop: int) -> str:
        """Elements start to stop of an axis."""
        return self("Slice", value, ints(start), ints(stop), ints(axis))

    def unsqueeze(self, value: str, *axes: int) -> str:
        """New axes of length 1."""
        return self("Unsqueeze", value, ints(*axes)) if axes else value

    def finish(self, results: Mapping[str, str]) -> onnx.ModelProto:
        """The model that gives these values at these ports."""
        for port, value in results.items():
            self._nodes.append(helper.make_node("Identity", [value], [port]))
        inputs, outputs = (
            [_value(name, port) for name, port in ports.items()] for ports in (self._stage.inputs, self._stage.outputs)
        )
        graph = helper.make_graph(self._nodes, "processor", inputs, outputs, initializer=self._constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        onnx.checker.check_model(model, full_check=True)
        return model

    def _constant(self, array: np.ndarray) -> str:
        self._constants.append(numpy_helper.from_array(np.asarray(array), self._name()))
        return self._constants[-1].name

    def _name(self) -> str:
        """A name that no port and no other value has."""
        index = len(self._nodes) + len(self._constants)
        while (name := f"v{index}") in self._stage.inputs or name in self._stage.outputs:
            index += len(self._stage.inputs) + len(self._stage.outputs) + 100_000
        return name


def _value(name: str, port: Port) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(port.dtype)), port.shape)
