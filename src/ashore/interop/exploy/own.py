"""A one-file policy that Ashore wrote, taken apart into the package that it was.

The note in the file says what the stages are and how they are joined; what they compute is in the graph. To be sure
that nobody changed one without the other, the graph is built again from the stages that were found, and must be the
same.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import onnx

from ashore.errors import AshoreError, PackageError
from ashore.interop.contents import Contents
from ashore.interop.exploy.assembling import (
    DEFAULT,
    PROCESS_ACTIONS,
    assemble,
    constant_prefix,
    stage_prefix,
)
from ashore.interop.exploy.layout import Layout
from ashore.interop.exploy.note import Note, portable, read_note
from ashore.interop.exploy.properties import ABOUT, DATE, GROUPS, VERSION, about_of, properties
from ashore.interop.exploy.renaming import stripped, subgraphs
from ashore.interop.exploy.stages import StageModel, stage_file
from ashore.package.reading import check_initial
from ashore.runtime.one_file import NOTE
from ashore.spec import Manifest


def take_apart(model: onnx.ModelProto, where: str) -> Contents:
    """The package that a file was written from.

    Args:
        model: the file, with a note.
        where: what to call it in an error.
    """
    said = {entry.key: entry.value for entry in model.metadata_props}
    note, manifest, initial = read_note(said[NOTE], where)
    if manifest != _portable(manifest, where) or note.stages.keys() != manifest.stages.keys():
        raise PackageError(f"{where}: its {NOTE!r} note does not fit itself")
    check_initial(initial, manifest.states, f"{where}: its {NOTE!r} note: initial")
    decimation = 1 if manifest.timing is None else manifest.timing.decimation
    layout = Layout(decimation, note.decided, note.held, note.root)
    stages = {name: _stage(model.graph, name, note, manifest) for name in manifest.stages}
    try:
        again = assemble(manifest, layout, stages, initial).whole
    except (AshoreError, LookupError, ValueError, TypeError, StopIteration) as error:
        raise _changed(where) from error
    if _bytes(again.graph) != _bytes(model.graph) or list(again.opset_import) != list(model.opset_import):
        raise _changed(where)
    files = {manifest.stages[name].artifacts["onnx"].path: stage_file(manifest, name, stages[name]) for name in stages}
    return Contents(_with_about(manifest, layout, said), files, initial)


def _portable(manifest: Manifest, where: str) -> Manifest:
    if any("onnx" not in stage.artifacts for stage in manifest.stages.values()):
        raise PackageError(f"{where}: its {NOTE!r} note names a stage without an ONNX artifact")
    return portable(manifest)


def _changed(where: str) -> PackageError:
    return PackageError(
        f"{where}: its graph is not the one that its {NOTE!r} note tells of; convert the file as it was written, or "
        "take the note out of it"
    )


def _bytes(graph: onnx.GraphProto) -> bytes:
    return graph.SerializeToString(deterministic=True)


def _stage(graph: onnx.GraphProto, name: str, note: Note, manifest: Manifest) -> StageModel:
    branch = DEFAULT if manifest.stages[name].rate == "policy" else PROCESS_ACTIONS
    values, constants = stage_prefix(note.root, branch, name), constant_prefix(note.root, name)
    found: list[onnx.TensorProto] = []
    for constant in graph.initializer:
        if constant.name.startswith(constants):
            copy = onnx.TensorProto()
            copy.CopyFrom(constant)
            copy.name = constant.name.removeprefix(constants)
            found.append(copy)
    nodes = stripped((node for node in _nodes(graph) if node.name.startswith(values)), (values, constants))
    return StageModel(tuple(nodes), tuple(found), note.stages[name].opsets, note.stages[name].ir_version)


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes of the two graphs."""
    for node in graph.node:
        for branch in subgraphs(node):
            yield from branch.node


def _with_about(manifest: Manifest, layout: Layout, said: dict[str, str]) -> Manifest:
    """The manifest, with what the file says beyond what the package itself would say."""
    groups = manifest.metadata.get(GROUPS)
    derived = properties(
        manifest,
        layout,
        metadata={},
        groups=groups if isinstance(groups, dict) else {},
        model_source=None,
        date=None,
        version="",
    )
    more = {key: text for key, text in said.items() if key not in (NOTE, DATE, VERSION) and derived.get(key) != text}
    if not more:
        return manifest
    about = {**about_of(manifest), **more}
    return msgspec.structs.replace(manifest, metadata={**manifest.metadata, ABOUT: about})
