"""Processors as graphs of ONNX operators, whoever builds the graph.

Each graph has the ports of its stage, and computes the same operations in the same order as numpy does, so that it
rounds as numpy does. What is text has no graph. Counters are not checked in a graph; what no run can leave in one does
not occur in it. Nothing here needs the ``onnx`` package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from ashore.processors import Read
from ashore.processors.action_queue import read_queue
from ashore.processors.history import read_steps
from ashore.processors.image import read_conversion
from ashore.processors.normalize import read_scaling
from ashore.processors.pad import read_padding
from ashore.processors.relative import read_offset
from ashore.processors.resize import Mixture, Resizing, read_resize, read_resize_with_pad
from ashore.processors.slice import read_part
from ashore.processors.temporal_ensemble import read_ensemble
from ashore.spec import Stage

_FLOAT = 1
"""ONNX's number of float32."""

_PADS = {"float32", "float64", "int8", "uint8", "int32", "int64", "uint32", "uint64", "bool"}
"""What ONNX Runtime pads on a CPU."""


class Growing(Protocol):
    """A graph that grows node by node. A value is its name."""

    def __call__(self, kind: str, *inputs: Any, **attributes: Any) -> str:
        """Add a node, and give its value. Inputs are values, or arrays, which become constants."""
        ...

    def slice(self, value: str, axis: int, start: int, stop: int) -> str:
        """Elements start to stop of an axis."""
        ...

    def unsqueeze(self, value: str, *axes: int) -> str:
        """New axes of length 1."""
        ...


def ints(*values: int) -> np.ndarray:
    """Whole numbers as ONNX takes them."""
    return np.array(values, np.int64)


def _normalize(graph: Growing, where: str, stage: Stage, read: Read) -> dict[str, str]:
    params, source, target, offset, scale, _ = read_scaling(where, stage, read)
    moved = graph("Sub", source, offset)
    if params.mode == "mean_std":
        return {target: graph("Div", moved, scale)}
    one = np.ones((), offset.dtype)
    return {target: graph("Sub", graph("Div", graph("Mul", moved, one * 2), scale), one)}


def _denormalize(graph: Growing, where: str, stage: Stage, read: Read) -> dict[str, str]:
    params, source, target, offset, scale, kept = read_scaling(where, stage, read)
    value = source if kept is None else graph.slice(source, len(stage.inputs[source].shape) - 1, 0, kept)
    one = np.ones((), offset.dtype)
    match params.mode:
        case "mean_std":
            scaled = graph("Mul", value, scale)
        case "min_max":
            scaled = graph("Mul", graph("Div", graph("Add", value, one), one * 2), scale)
        case _:
            scaled = graph("Div", graph("Mul", graph("Add", value, one), scale), one * 2)
    return {target: graph("Add", scaled, offset)}


def _image(graph: Growing, where: str, stage: Stage, read: Read) -> dict[str, str]:
    source, target, transposed, scaled, low, span = read_conversion(where, stage)
    value, axes = source, list(range(len(stage.inputs[source].shape)))
    if transposed:
        value = graph("Transpose", value, perm=[*axes[:-3], axes[-1], axes[-3], axes[-2]])
    if scaled:
        value = graph("Div", graph("Cast", value, to=_FLOAT), np.float32(255))
    if (low, span) != (0.0, 1.0):
        value = graph("Add", graph("Mul", value, np.float32(span)), np.float32(low))
    return {target: value}


def _resize(graph: Growing, where: str, stage: Stage, read: Read) -> dict[str, str]:
    return _resized(graph, stage, read_resize(where, stage))


def _resize_with_pad(graph: Growing, where: str, stage: Stage, read: Read) -> dict[str, str]:
    return _resized(graph, stage, read_resize_with_pad(where, stage))


def _resized(graph: Growing, stage: Stage, resizing: Resizing) -> dict[str, str]:
    """By `Gather`: the places that the operator `Resize` would mix are rounded differently."""
    axes = len(stage.inputs[resizing.source].shape)
    value = resizing.source
    if resizing.height is not None:
        value = _mixed(graph, value, resizing.height, axes - 2, (-1, 1))
    if resizing.width is not None:
        value = _mixed(graph, value, resizing.width, axes - 1, (-1,))
    if resizing.clip is not None:
        value = graph("Clip", value, *map(np.float32, resizing.clip))
    if resizing.size != resizing.frame:
        below, right = (whole - part for whole, part in zip(resizing.frame, resizing.size, strict=True))
        before, after = (resizing.top, resizing.left), (below - resizing.top, right - resizing.left)
        pads = ints(*(0,) * (axes - 2), *before, *(0,) * (axes - 2), *after)
        value = graph("Pad", value, pads, np.float32(resizing.value))
    return {resizing.target: value}


def _mixed(graph: Growing, value: str, mixture: Mixture, axis: int, shape: tuple[int, ...]) -> str:
    ends = ((mixture.lower, mixture.rest), (mixture.upper, mixture.weight))
    parts = [graph("Mul", graph("Gather", value, index, axis=axis), part.reshape(shape)) for index, part in ends]
    return graph("Add", *parts)


def _pad(graph: Growing, where: str, stage: Stage, read: Read) -> dict[str, str] | None:
    source, target, missing, value = read_padding(where, stage)
    port = stage.inputs[source]
    if port.dtype not in _PADS:
        return None
    pads = ints(*(0,) * (2 * len(port.shape) - 1), missing)
    return {target: graph("Pad", source, pads, np.array(value, port.dtype))}


def _slice(graph: Growing, where: str, stage: Stage, read: Read) -> dict[str, str]:
    source, target, cut = read_part(where, stage)
    starts, stops = ([getattr(part, end) for part in cut[1:]] for end in ("start", "stop"))
    return {target: graph("Slice", source, ints(*starts), ints(*stops), ints(*range(1, len(cut))))}


def _relative(operation: str, target: str) -> ProcessorGraph:
    def lowering(graph: Growing, where: str, stage: Stage, read: Read) -> dict[str, str]:
        mask, chunked = read_offset(where, stage, target)
        offset = graph("Mul", "state", mask)
        return {target: graph(operation, "actions", graph.unsqueeze(offset, 1) if chunked else offset)}

    return lowering


def _history(graph: Growing, where: str, stage: Stage, read: Read) -> dict[str, str]:
    steps = read_steps(where, stage)
    frame = graph.unsqueeze("frame", 1)
    moved = graph("Concat", graph.slice("window", 1, 1, steps), frame, axis=1) if steps > 1 else frame
    first = graph.unsqueeze(graph("Equal", "filled", ints(0)), *range(1, len(stage.inputs["window"].shape)))
    return {"window_next": graph("Where", first, frame, moved), "filled_next": _counted(graph, "filled", steps)}


def _temporal_ensemble(graph: Growing, where: str, stage: Stage, read: Read) -> dict[str, str]:
    weights, sums, remaining = read_ensemble(where, stage)
    most = len(remaining)
    spoken = graph.unsqueeze(graph("Min", graph.unsqueeze("decided", 1), remaining[None]), 2)
    known, last = graph.slice("chunk", 1, 0, most), graph.slice("chunk", 1, most, most + 1)
    past = graph("Gather", sums, graph("Max", graph("Sub", spoken, ints(1)), ints(0)))
    said = graph("Mul", known, graph("Gather", weights, spoken))
    updated = graph("Div", graph("Add", graph("Mul", "average", past), said), graph("Gather", sums, spoken))
    merged = graph("Concat", graph("Where", graph("Greater", spoken, ints(0)), updated, known), last, axis=1)
    return {
        "action": graph("Gather", merged, np.int64(0), axis=1),
        "average_next": graph.slice(merged, 1, 1, most + 1),
        "decided_next": _counted(graph, "decided", most),
    }


def _action_queue(graph: Growing, where: str, stage: Stage, read: Read) -> dict[str, str]:
    steps = read_queue(where, stage)
    empty = graph("Equal", "left", ints(0))
    queue = graph("Where", graph.unsqueeze(empty, 1, 2), graph.slice("chunk", 1, 0, steps), "queue")
    left = graph("Where", empty, ints(steps), "left")
    first = graph.slice(queue, 1, 0, 1)
    place = graph("Expand", graph.unsqueeze(graph("Sub", ints(steps), left), 1, 2), graph("Shape", first))
    action = graph("Squeeze", graph("GatherElements", queue, place, axis=1), ints(1))
    return {"action": action, "queue_next": queue, "left_next": graph("Sub", left, ints(1))}


def _counted(graph: Growing, name: str, most: int) -> str:
    """A counter after one more."""
    return graph("Min", graph("Add", name, ints(1)), ints(most))


ProcessorGraph = Callable[[Growing, str, Stage, Read], "dict[str, str] | None"]
PROCESSOR_GRAPHS: Mapping[str, ProcessorGraph] = {
    "absolute_actions": _relative("Add", "absolute"),
    "action_queue": _action_queue,
    "denormalize": _denormalize,
    "history": _history,
    "image": _image,
    "normalize": _normalize,
    "pad": _pad,
    "relative_actions": _relative("Sub", "relative"),
    "resize": _resize,
    "resize_with_pad": _resize_with_pad,
    "slice": _slice,
    "temporal_ensemble": _temporal_ensemble,
}
