"""OpenVINO's own files (IR), by way of ONNX.

They are read as ONNX and saved, in float32. `ov.convert_model` is left alone: it would report to OpenVINO's makers that
it was used.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import openvino
import torch

from ashore.backends.exporting import Exported, Request
from ashore.backends.onnx import export_dynamo
from ashore.runtime.openvino import operations


def export_openvino(request: Request) -> Exported:
    """Export by way of `torch.export` and ONNX."""
    made = export_dynamo(request)
    model: Any = openvino.Core().read_model(made.data, b"")
    _keep_unused_inputs(model, request)
    _name_by_place(model)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "stage.xml"
        openvino.save_model(model, path, compress_to_fp16=False)
        description, weights = path.read_bytes(), path.with_suffix(".bin").read_bytes()
    return Exported(
        backend="openvino",
        suffix=".xml",
        data=description,
        more={".bin": weights} if weights else {},
        exporter=f"torch {torch.__version__}, openvino {openvino.__version__} openvino",
        messages=made.messages,
    )


def _keep_unused_inputs(model: Any, request: Request) -> None:
    """Put back the inputs that OpenVINO left out because nothing reads them."""
    kept = {name for port in model.inputs for name in port.get_names()}
    for place, (name, example) in enumerate(zip(request.inputs, request.example, strict=True)):
        if name not in kept:
            shape = list(example.shape)
            if place in request.dynamic:
                shape[request.dynamic[place]] = -1
            dtype = openvino.Type(example.numpy().dtype)
            parameter = openvino.op.Parameter(dtype, openvino.PartialShape(shape))
            parameter.set_friendly_name(name)
            parameter.output(0).set_names({name})
            model.add_parameters([parameter])
    model.validate_nodes_and_infer_types()


def _name_by_place(model: Any) -> None:
    """Name what OpenVINO itself named by counting all it ever made, so that the same model gives the same file."""
    for place, op in enumerate(operations(model)):
        if op.get_friendly_name() == op.get_name():
            op.set_friendly_name(f"{op.get_type_name()}.{place}")
