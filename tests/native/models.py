"""Small ONNX graphs as packages, to be compiled and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

from ashore.package import Package, write
from ashore.spec import Artifact, Port, single_stage

OPSET, IR_VERSION, ARTIFACT = 18, 9, "artifacts/policy.onnx"


@dataclass
class Case:
    """One operator with its operands: arrays are inputs, unless they are marked as constants."""

    op: str
    operands: Sequence[Any]
    outputs: int = 1
    attributes: Mapping[str, Any] = field(default_factory=dict)
    atol: float = 1e-6
    rtol: float = 1e-6


@dataclass(frozen=True)
class Constant:
    """An operand that the graph holds."""

    data: np.ndarray


def case(op: str, *operands: Any, outputs: int = 1, atol: float = 1e-6, rtol: float = 1e-6, **attributes: Any) -> Case:
    return Case(op, operands, outputs, attributes, atol, rtol)


def ints(*values: int) -> Constant:
    return Constant(np.array(values, np.int64))


class Model:
    """Cases side by side in one graph, so that one compilation serves them all."""

    def __init__(self, cases: Sequence[Case], opset: int = OPSET) -> None:
        self.cases, self.inputs = cases, dict[str, np.ndarray]()
        nodes: list[onnx.NodeProto] = []
        weights: list[onnx.TensorProto] = []
        self.results: dict[str, Case] = {}
        for index, one in enumerate(cases):
            names: list[str] = []
            for place, operand in enumerate(one.operands):
                name = "" if operand is None else f"i{index}_{place}_{one.op}"
                if isinstance(operand, Constant):
                    weights.append(numpy_helper.from_array(np.asarray(operand.data), name))
                elif operand is not None:
                    self.inputs[name] = np.asarray(operand)
                names.append(name)
            results = [f"o{index}_{place}_{one.op}" for place in range(one.outputs)]
            self.results |= dict.fromkeys(results, one)
            nodes.append(helper.make_node(one.op, names, results, **one.attributes))
        ports = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in self.inputs.items()
        ]
        outputs = [helper.make_empty_tensor_value_info(name) for name in self.results]
        graph = helper.make_graph(nodes, "cases", ports, outputs, weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSION)
        self.data = onnx.shape_inference.infer_shapes(model).SerializeToString()
        self.expected = self.run(self.inputs)

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What ONNX Runtime computes."""
        options = ort.SessionOptions()
        options.log_severity_level = 4
        session = ort.InferenceSession(self.data, options)
        return dict(zip(self.results, session.run(list(self.results), dict(inputs)), strict=True))

    def package(self, out: Path, name: str = "cases") -> Package:
        inputs = {name: _port(array) for name, array in self.inputs.items()}
        outputs = {name: _port(array) for name, array in self.expected.items()}
        artifact = Artifact(path=ARTIFACT, opset=OPSET, ir_version=IR_VERSION)
        manifest = single_stage(name, inputs=inputs, outputs=outputs, artifacts={"onnx": artifact})
        return write(out, manifest, files={ARTIFACT: self.data})

    def check(self, got: Mapping[str, np.ndarray]) -> None:
        """Raise unless every result is what ONNX Runtime computes."""
        wrong: list[str] = []
        for name, expected in self.expected.items():
            one, value = self.results[name], got[name]
            assert (value.dtype, value.shape) == (expected.dtype, expected.shape), name
            if expected.dtype.kind == "f":
                same = np.allclose(value, expected, atol=one.atol, rtol=one.rtol, equal_nan=True)
            else:
                same = np.array_equal(value, expected)
            if not same:
                places = ~np.isclose(value, expected, atol=one.atol, rtol=one.rtol, equal_nan=True)
                wrong.append(
                    f"{name} {dict(one.attributes)}: expected {expected[places][:4]}, got {value[places][:4]}, at "
                    f"{np.argwhere(places)[:4].tolist()}"
                )
        assert not wrong, "\n".join(wrong)


def _port(array: np.ndarray) -> Port:
    return Port(dtype=array.dtype.name, shape=array.shape, finite=False)  # type: ignore[arg-type]
