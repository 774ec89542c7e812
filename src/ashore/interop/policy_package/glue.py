"""What that format's runtime does between its files, as model files: casts, masks of images, other names of ports.

The same request gives the same bytes, so that what was added on the way in is known again on the way out.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from ashore.errors import BackendError, PackageError
from ashore.spec import Port

_OPSET, _IR_VERSION = 13, 8


def cast_model(before: Port, after: Port) -> bytes:
    """A file that turns ``x`` into ``y``, of another dtype."""
    onnx = _onnx()
    node = onnx.helper.make_node("Cast", ["x"], ["y"], to=_element(after))
    return _model("cast", [node], {"x": before}, {"y": after})


def ones_model(mask: Port) -> bytes:
    """A file without inputs whose ``y`` is one everywhere."""
    onnx = _onnx()
    shape = [int(dim) for dim in mask.shape]
    value = onnx.helper.make_tensor("value", _element(mask), shape, [1] * _size(shape))
    node = onnx.helper.make_node("Constant", [], ["y"], value=value)
    return _model("ones", [node], {}, {"y": mask})


def renamed(data: bytes, inputs: Mapping[str, str], outputs: Mapping[str, str], where: str) -> bytes:
    """A model file whose ports have other names; what lies between them keeps its own.

    Args:
        data: the file.
        inputs: port -> its new name.
        outputs: likewise.
        where: what to call the file in an error.
    """
    ins, outs = ({old: new for old, new in names.items() if old != new} for names in (inputs, outputs))
    if not ins and not outs:
        return data
    onnx = _onnx()
    model = onnx.load_model_from_string(data)
    graph = model.graph
    known = {name for node in graph.node for name in (*node.input, *node.output)}
    known |= {one.name for one in (*graph.input, *graph.output, *graph.initializer)}
    for new in (*ins.values(), *outs.values()):
        if new in known:
            raise PackageError(f"{where}: a port cannot be called {new!r}, since something in the file is")
    for ports, names in ((graph.input, ins), (graph.output, outs)):
        for port in ports:
            port.name = names.get(port.name, port.name)
    first = [onnx.helper.make_node("Identity", [new], [old]) for old, new in ins.items()]
    last = [onnx.helper.make_node("Identity", [old], [new]) for old, new in outs.items()]
    nodes = [*first, *graph.node, *last]
    del graph.node[:]
    graph.node.extend(nodes)
    return model.SerializeToString(deterministic=True)


def _model(name: str, nodes: list[Any], inputs: Mapping[str, Port], outputs: Mapping[str, Port]) -> bytes:
    onnx = _onnx()
    ins, outs = (
        [onnx.helper.make_tensor_value_info(name, _element(port), list(port.shape)) for name, port in ports.items()]
        for ports in (inputs, outputs)
    )
    model = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, name, ins, outs),
        opset_imports=[onnx.helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="ashore",
    )
    return model.SerializeToString(deterministic=True)


def _element(port: Port) -> int:
    import numpy as np

    return _onnx().helper.np_dtype_to_tensor_dtype(np.dtype(port.dtype))


def _size(shape: list[int]) -> int:
    size = 1
    for dim in shape:
        size *= dim
    return size


def _onnx() -> Any:
    if find_spec("onnx") is None:
        raise BackendError(
            "this conversion has to join model files, which needs onnx; use pip install 'ashore[export]'"
        )
    import onnx
    import onnx.helper

    return onnx
