"""The ONNX files of a package's stages, as parts to build one graph from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnx
import onnx.helper
import onnx.inliner
from google.protobuf.message import DecodeError, Message

from ashore.errors import ExportError, PackageError
from ashore.package import Package
from ashore.runtime import Options, open_stages
from ashore.spec import SINGLE_PASS, Manifest, Port, State

MIN_OPSET = 11
"""The first one that has every operation that joins the stages, with the meaning that is wanted."""

MIN_IR_VERSION = 8
"""The first one in which a constant need not be an input, and that every runtime of the last years reads."""

ONNX_DOMAINS = ("", "ai.onnx")
"""Two ways to write the same domain."""


@dataclass(frozen=True)
class StageModel:
    """What a stage computes."""

    nodes: tuple[onnx.NodeProto, ...]
    constants: tuple[onnx.TensorProto, ...]
    opsets: Mapping[str, int]
    """Domain -> version."""

    ir_version: int


def load_stages(package: Package) -> dict[str, StageModel]:
    """The stages of a package, each known to have the ports that the manifest says.

    Raises:
        ExportError: a stage cannot be part of one ONNX graph, or two of them cannot be parts of the same. All reasons
            are named at once.
    """
    manifest = package.manifest
    problems = (
        []
        if manifest.runner.type == SINGLE_PASS
        else [f"runner {manifest.runner.type!r}: the file runs each stage once"]
    )
    for name, stage in manifest.stages.items():
        if stage.processor is not None:
            problems.append(f"stage {name!r} is the processor {stage.processor.type!r}, and only ONNX can be written")
        elif "onnx" not in stage.artifacts:
            problems.append(f"stage {name!r} has artifacts for {sorted(stage.artifacts)}, and none for onnx")
    refuse(package, problems)
    open_stages(package, "onnx", Options())
    models = {
        name: load_stage(package.read(stage.artifacts["onnx"].path), f"{package.path}: stage {name!r}")
        for name, stage in manifest.stages.items()
    }
    refuse(package, _disagreements(models))
    return models


def refuse(package: Package, problems: list[str]) -> None:
    """Raise `ExportError` with all problems, if there are any."""
    if problems:
        raise ExportError(f"{package.path}: cannot be one ONNX file:\n  " + "\n  ".join(problems))


def load_stage(data: bytes, where: str) -> StageModel:
    """Take an ONNX file apart.

    Args:
        data: the whole file, weights inside.
        where: what to call it in an error.
    """
    model = parse(data, where)
    graph = model.graph
    if graph.sparse_initializer or graph.quantization_annotation:
        what = "sparse constants" if graph.sparse_initializer else "quantization annotations"
        raise ExportError(f"{where}: has {what}, which cannot be moved into another graph; export it without them")
    opsets = {"" if entry.domain in ONNX_DOMAINS else entry.domain: entry.version for entry in model.opset_import}
    nodes: list[onnx.NodeProto] = []
    constants = list(graph.initializer)
    for node in graph.node:  # weights may be nodes too, and would then be in both graphs
        if node.op_type == "Constant" and [entry.name for entry in node.attribute] == ["value"]:
            tensor = onnx.TensorProto()
            tensor.CopyFrom(node.attribute[0].t)
            tensor.name = node.output[0]
            constants.append(tensor)
        else:
            nodes.append(node)
    return StageModel(tuple(nodes), tuple(constants), opsets, model.ir_version)


def parse(data: bytes, where: str) -> onnx.ModelProto:
    """An ONNX file as a model without functions of its own."""
    try:
        model = onnx.load_from_string(data)
        if not _is_text(model):
            raise PackageError(f"{where}: is no ONNX file: it holds a name that is no text")
        return onnx.inliner.inline_local_functions(model) if model.functions else model
    except (DecodeError, ValueError, RuntimeError) as error:
        raise PackageError(f"{where}: is no ONNX file: {error}") from error


def _is_text(message: Message) -> bool:
    """Whether everything that should be text is: what is no UTF-8, protobuf hands out as bytes."""
    for field, value in message.ListFields():
        entries: Any = (value,) if isinstance(value, Message | str | bytes | int | float) else value
        if field.type == field.TYPE_STRING and not all(isinstance(entry, str) for entry in entries):
            return False
        if field.type == field.TYPE_MESSAGE and not all(_is_text(entry) for entry in entries):
            return False
    return True


def _disagreements(models: Mapping[str, StageModel]) -> list[str]:
    problems: list[str] = []
    versions: dict[str, tuple[str, int]] = {}
    for name, model in models.items():
        for domain, version in model.opsets.items():
            other, known = versions.setdefault(domain, (name, version))
            if version != known:
                problems.append(
                    f"stage {name!r} has opset {version} of {domain or 'ai.onnx'!r}, and stage {other!r} has {known}; "
                    "export both with the same"
                )
        if model.opsets.get("", MIN_OPSET) < MIN_OPSET:
            problems.append(f"stage {name!r} has opset {model.opsets['']}; expected at least {MIN_OPSET}")
    return problems


def opsets_of(models: Mapping[str, StageModel]) -> list[onnx.OperatorSetIdProto]:
    """The operator sets of a graph that holds all these stages."""
    joined = {domain: version for model in models.values() for domain, version in model.opsets.items()}
    joined.setdefault("", MIN_OPSET)
    return [onnx.helper.make_opsetid(domain, version) for domain, version in sorted(joined.items())]


def ir_version_of(models: Mapping[str, StageModel]) -> int:
    """The version of the file format for a graph that holds all these stages."""
    return max(MIN_IR_VERSION, *(model.ir_version for model in models.values()))


def value_info(name: str, array: Port | State) -> onnx.ValueInfoProto:
    """A port as ONNX declares it; a symbolic batch stays one."""
    return onnx.helper.make_tensor_value_info(name, element_type(array.dtype), list(array.shape))


def element_type(dtype: str) -> int:
    """What ONNX calls a dtype."""
    import numpy as np

    return int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def stage_file(manifest: Manifest, name: str, model: StageModel) -> bytes:
    """A stage as an ONNX file of its own, with the ports that a manifest says."""
    stage = manifest.stages[name]
    graph = onnx.helper.make_graph(
        list(model.nodes),
        name,
        [value_info(port, spec) for port, spec in stage.inputs.items()],
        [value_info(port, spec) for port, spec in stage.outputs.items()],
        list(model.constants),
    )
    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in sorted(model.opsets.items())]
    return onnx.helper.make_model(
        graph, opset_imports=opsets, ir_version=model.ir_version, producer_name="ashore"
    ).SerializeToString(deterministic=True)
