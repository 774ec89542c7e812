"""Weights are read from ONNX files to the bit, in every way that they may be stored; what is broken is refused."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import support
from ashore.errors import BackendError
from ashore.verify.onnx_file import read_onnx


def file_with(*tensors: onnx.TensorProto) -> bytes:
    model = onnx.load_from_string(support.model("p (float[1] x) => (float[1] y) { y = Identity(x) }"))
    model.graph.initializer.extend(tensors)
    return model.SerializeToString()


TYPES = (
    "float32",
    "float64",
    "float16",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("raw", [True, False])
def test_every_type_comes_back_as_it_was(dtype: str, raw: bool) -> None:
    value = np.array([[0, 1, 2], [100, 3, 1]]).astype(dtype)
    if np.dtype(dtype).kind in "if":
        value[0, 1] = -1
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    if raw:
        tensor = numpy_helper.from_array(value, "w")
    else:
        tensor = helper.make_tensor("w", code, value.shape, value.reshape(-1).tolist())
    back = read_onnx(file_with(tensor), "here").weights["w"]
    np.testing.assert_array_equal(back, value)
    assert back.dtype == value.dtype


def test_numbers_and_constants_of_nodes_are_read() -> None:
    text = """p (float[2] x) => (float[2] y) {
        a = Constant<value_float = 2.5>()
        b = Constant<value_floats = [1.0, -2.0]>()
        c = Constant<value_ints = [3, -4]>()
        d = Constant<value = float[2] {7, 8}>()
        e = Mul(x, a)
        f = Add(e, b)
        y = Add(f, d)
    }"""
    found = read_onnx(support.model(text), "here")
    assert {name: value.tolist() for name, value in found.weights.items()} == {
        "a": [2.5],
        "b": [1.0, -2.0],
        "c": [3, -4],
        "d": [7.0, 8.0],
    }
    assert found.opset == 18
    assert found.operations == {"Mul": 1, "Add": 2}
    assert found.nodes[0][:3] == ("Mul", ("x", "a"), ("e",))


def test_inner_graphs_and_functions_are_read() -> None:
    inner = helper.make_graph(
        [helper.make_node("Constant", [], ["z"], value=helper.make_tensor("", TensorProto.FLOAT, [1], [5.0]))],
        "g",
        [],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [1])],
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    function = helper.make_function(
        "mine", "Twice", ["a"], ["b"],
        [helper.make_node("Constant", [], ["two"], value_float=2.0), helper.make_node("Mul", ["a", "two"], ["b"])],
        [helper.make_opsetid("", 18)],
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "p",
        [helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
    )
    opsets = [helper.make_opsetid("mine", 1), helper.make_opsetid("", 18)]
    model = helper.make_model(graph, opset_imports=opsets, functions=[function])
    found = read_onnx(model.SerializeToString(), "here")
    assert {name: value.tolist() for name, value in found.weights.items()} == {"y/z": [5.0], "Twice/two": [2.0]}
    assert found.operations == {"If": 1, "Mul": 1}
    assert found.opset == 18


def test_types_that_numpy_does_not_have_are_named() -> None:
    assert read_onnx(file_with(helper.make_tensor("w", TensorProto.BFLOAT16, [1], [1.0])), "here").unread == ["w"]


def test_a_weight_whose_shape_is_not_that_of_its_numbers_is_refused() -> None:
    tensor = numpy_helper.from_array(np.zeros(3, np.float32), "w")
    tensor.dims[0] = 4
    with pytest.raises(BackendError, match="here: not a readable ONNX file: cannot reshape"):
        read_onnx(file_with(tensor), "here")


@given(st.binary(max_size=200))
def test_nonsense_is_refused_or_empty(data: bytes) -> None:
    try:
        read_onnx(data, "here")
    except BackendError as error:
        assert str(error).startswith("here: not a readable ONNX file")


@given(st.data())
def test_a_damaged_file_is_read_or_refused(data: st.DataObject) -> None:
    whole = bytearray(file_with(numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3), "w")))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] = data.draw(st.integers(0, 255))
    try:
        read_onnx(bytes(whole[: data.draw(st.integers(1, len(whole)))]), "here")
    except BackendError as error:
        assert str(error).startswith("here: not a readable ONNX file")
