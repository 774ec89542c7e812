from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import support
from ashore.errors import BackendError
from ashore.runtime.protobuf import external_data, input_names


def outside(name: str = "w") -> onnx.TensorProto:
    tensor = numpy_helper.from_array(np.ones(4, np.float32), name)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="offset", value="0")
    tensor.external_data.add(key="location", value="far.bin")
    return tensor


def model(nodes: list[onnx.NodeProto], **fields: object) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", [], [], **fields)  # type: ignore[arg-type]
    return helper.make_model(graph)


def branch(*nodes: onnx.NodeProto, **fields: object) -> onnx.NodeProto:
    graph = helper.make_graph(list(nodes), "b", [], [], **fields)  # type: ignore[arg-type]
    return helper.make_node("If", ["c"], ["y"], then_branch=graph, else_branch=graph)


def function_model() -> onnx.ModelProto:
    made = model([])
    node = helper.make_node("Constant", [], ["y"], value=outside())
    made.functions.append(helper.make_function("d", "f", [], ["y"], [node], [helper.make_opsetid("", 18)]))
    return made


def function_default_model() -> onnx.ModelProto:
    """A default value of a function's attribute, which a constant in it takes up by reference."""
    made = function_model()
    del made.functions[0].node[0].attribute[:]
    made.functions[0].attribute_proto.append(helper.make_attribute("weights", outside()))
    made.functions[0].node[0].attribute.add(name="value", ref_attr_name="weights", type=onnx.AttributeProto.TENSOR)
    return made


def training_model() -> onnx.ModelProto:
    made = model([])
    made.training_info.add(algorithm=helper.make_graph([], "t", [], [], [outside()]))
    return made


HIDING_PLACES = {
    "an initializer": model([], initializer=[outside()]),
    "a sparse initializer": model(
        [], sparse_initializer=[helper.make_sparse_tensor(outside(), numpy_helper.from_array(np.arange(4), "i"), [9])]
    ),
    "a constant": model([helper.make_node("Constant", [], ["y"], value=outside())]),
    "a list of tensors": model([helper.make_node("Constant", [], ["y"], values=[outside()])]),
    "a branch": model([branch(initializer=[outside()])]),
    "a branch in a branch": model([branch(branch(helper.make_node("Constant", [], ["y"], value=outside())))]),
    "a function": function_model(),
    "a default of a function": function_default_model(),
    "training information": training_model(),
}


@pytest.mark.parametrize("place", HIDING_PLACES)
def test_weights_outside_the_file_are_found_wherever_they_hide(place: str) -> None:
    assert external_data(HIDING_PLACES[place].SerializeToString()) == "far.bin"


def test_a_file_with_its_weights_inside_passes() -> None:
    inside = numpy_helper.from_array(np.ones(1000, np.float32), "w")
    assert external_data(model([branch()], initializer=[inside]).SerializeToString()) is None
    assert external_data(support.model(support.SUM_MODEL)) is None


def test_a_tag_that_others_read_differently_is_refused() -> None:
    """A tag of more than 32 bits is cut by other readers: field 7 with bit 35 set would be field 7 to them."""
    inside = model([], initializer=[outside()]).graph.SerializeToString()
    plain = b"\x3a" + bytes([len(inside)]) + inside
    assert external_data(plain) == "far.bin"
    with pytest.raises(BackendError, match="no field has the number"):
        external_data(b"\xba\x80\x80\x80\x80\x01" + plain[1:])
    with pytest.raises(BackendError, match="no field has the number 0"):
        external_data(b"\x02\x00")


def test_graphs_nested_without_end_are_refused() -> None:
    def field(number: int, content: bytes) -> bytes:
        length, size = b"", len(content)
        while size >= 0x80:
            length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
        return bytes([number << 3 | 2]) + length + bytes([size]) + content

    graph = b""
    for _ in range(70):
        graph = field(1, field(5, field(6, graph)))  # a node whose attribute is the graph so far
    with pytest.raises(BackendError, match="nested more than 64 deep"):
        external_data(field(7, graph))


@given(st.binary(max_size=400))
@example(b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
@example(b"\x3a\x05\x2a")
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        external_data(data)
    except BackendError as error:
        assert "not a readable ONNX file" in str(error)


def test_the_inputs_of_a_file_are_read_without_onnx() -> None:
    assert input_names(support.model(support.ACT_MODEL)) == {"v", "held", "f_in", "n_in"}
    assert input_names(b"") == set()
    with pytest.raises(BackendError, match="not a readable ONNX file"):
        input_names(support.model(support.SUM_MODEL)[:-3])
