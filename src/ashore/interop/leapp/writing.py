"""From a package to a LEAPP directory that LEAPP's own runtime runs with the same results.

LEAPP's runtime takes ports by position, runs nodes in the order of the file, and puts a value where it is read as soon
as it is there. So ports are listed as the model file has them, and every node that reads a state comes before the one
that writes it. A package for which that cannot be done, or that says something LEAPP has no way to say, is refused with
every reason at once.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ashore.errors import AshoreError, ExportError, PackageError
from ashore.interop.folders import check_free, place_folder
from ashore.interop.leapp.document import (
    CONFIG_VERSION,
    DTYPES,
    LEAPP_BACKENDS,
    NOTE,
    OWN_VERSION,
    SUFFIXES,
    PackageNote,
    PortNote,
    StateNote,
)
from ashore.interop.leapp.ports import describe
from ashore.interop.leapp.reading import convert
from ashore.interop.leapp.yaml_text import dump_yaml
from ashore.package import Array, Package
from ashore.package.tensors import save_arrays
from ashore.runtime import Options, backend_name
from ashore.runtime.onnx import describe as describe_onnx
from ashore.runtime.onnx import open_session
from ashore.spec import (
    BATCH,
    SINGLE_PASS,
    Artifact,
    Endpoint,
    Port,
    State,
    Wiring,
    path_problem,
)

_PREFERRED = ("onnx", "torchscript", "pt2")


class Written(NamedTuple):
    """A LEAPP directory, and what its runtime calls what the package called otherwise."""

    path: Path
    yaml: Path
    size: int
    """Bytes of all files."""

    inputs: dict[str, list[str]]
    """Package input -> the ``node/port`` keys to feed, every one of them in every run."""

    outputs: dict[str, str]
    """Package output -> its ``node/port`` key."""

    states: dict[str, list[str]]
    """State -> the ``node/port`` keys that read it."""


def to_leapp(package: Package, out: str | os.PathLike[str], *, backend: str | None = None) -> Written:
    """Write a package as a LEAPP directory.

    Args:
        package: what to write.
        out: the directory to create; an empty one may be there.
        backend: whose artifacts to take, for packages with several: ``onnx``, ``torchscript`` or ``pt2``.

    Returns:
        Where it is, and the names that LEAPP's runtime goes by.

    Raises:
        ExportError: LEAPP cannot express the package. Nothing was written.
    """
    target = Path(out)
    check_free(target)
    writer = _Writer(package, None if backend is None else backend_name(backend))
    contents = writer.contents()
    yaml = f"{package.manifest.name}.yaml"
    place_folder(target, contents, lambda fresh: _read_back(fresh / yaml))
    size = sum(map(len, contents.values()))
    return Written(target, target / yaml, size, writer.inputs, writer.outputs, writer.states)


class _Writer:
    def __init__(self, package: Package, backend: str | None) -> None:
        self._package, self._backend = package, backend
        self._manifest, self._graph = package.manifest, Wiring(package.manifest)
        problems = list(self._problems())
        if problems:
            raise ExportError(f"{package.path}: LEAPP cannot express this package:\n  " + "\n  ".join(problems))
        self._order = self._run_order()
        graph, manifest = self._graph, self._manifest
        self.inputs = {name: list(map(str, graph.out_of(Endpoint("inputs", name)))) for name in manifest.inputs}
        self.outputs = {name: str(graph.into(Endpoint("outputs", name))[0]) for name in manifest.outputs}
        self.states = {name: list(map(str, graph.out_of(Endpoint("states", name)))) for name in manifest.states}

    def contents(self) -> dict[str, bytes]:
        """Path -> bytes of every file of the directory."""
        name, files = self._manifest.name, dict[str, bytes]()
        models = {stage: self._model(stage, files) for stage in self._order}
        pipeline: dict[str, Any] = {
            "inputs": self._boundary(end for ends in self.inputs.values() for end in ends),
            "outputs": self._boundary(self.outputs.values()),
            "data_flow": {str(source): list(map(str, targets)) for source, targets in self._data_flow()},
            "feedback_flow": {str(source): list(map(str, targets)) for source, targets in self._feedback()},
        }
        if self.states:
            pipeline["initial_values"] = f"{name}_initial_values.safetensors"
            files[pipeline["initial_values"]] = save_arrays(self._initial())
        pipeline["configs"] = self._configs()
        document = {"models": models, "pipeline": pipeline, "system information": self._system()}
        files[f"{name}.yaml"] = dump_yaml(document)
        return files

    # --- what cannot be said -----------------------------------------------------------------------------------------

    def _problems(self) -> Iterator[str]:
        manifest = self._manifest
        if manifest.runner.type != SINGLE_PASS:
            yield f"runner {manifest.runner.type!r}: LEAPP runs every node once"
        yield from self._stage_problems()
        for name, state in manifest.states.items():
            yield from _array_problems(f"state {name!r}", state)
            if state.reset == "keep":
                yield f"state {name!r} is kept on a reset; LEAPP's reset restores every initial value"
        for stage_name, stage in manifest.stages.items():
            for port in stage.outputs:
                outputs = [end.name for end in self._graph.out_of(Endpoint(stage_name, port)) if end.group == "outputs"]
                if len(outputs) > 1:
                    yield f"outputs {outputs}: both are {stage_name}/{port}, which LEAPP gives out once"

    def _stage_problems(self) -> Iterator[str]:
        for name, stage in self._manifest.stages.items():
            if stage.rate != "policy":
                yield f"stage {name!r} runs at the rate {stage.rate!r}; LEAPP has one rate"
            if problem := path_problem(f"{name}.onnx"):
                yield f"stage {name!r}: {problem}"
            if stage.processor is not None:
                yield f"stage {name!r} is the processor {stage.processor.type!r}; LEAPP runs model files only"
            else:
                yield from self._artifact_problems(name)
            for port_name, port in (*stage.inputs.items(), *stage.outputs.items()):
                if "/" in port_name:
                    yield f"port {port_name!r} of stage {name!r} has a slash in its name"
                yield from _array_problems(f"port {port_name!r} of stage {name!r}", port)

    def _artifact_problems(self, name: str) -> Iterator[str]:
        artifacts = self._manifest.stages[name].artifacts
        backend = self._chosen(name)
        if backend is None:
            wanted = self._backend or " or ".join(_PREFERRED)
            yield f"stage {name!r} has artifacts for {sorted(artifacts)}, and none for {wanted}"
        elif artifacts[backend].data:
            yield f"stage {name!r} needs {list(artifacts[backend].data)} beside its model; LEAPP has one file per node"
        elif backend != "onnx" and None in (artifacts[backend].inputs, artifacts[backend].outputs):
            yield f"stage {name!r} does not say in which order its {backend} artifact takes its ports"

    def _chosen(self, name: str) -> str | None:
        wanted = _PREFERRED if self._backend is None else (self._backend,)
        artifacts = self._manifest.stages[name].artifacts
        return next((backend for backend in wanted if backend in artifacts and backend in LEAPP_BACKENDS), None)

    def _run_order(self) -> tuple[str, ...]:
        """Stages in an order in which values are handed on, and states are read before they are written."""
        stages = self._manifest.stages
        sorter: TopologicalSorter[str] = TopologicalSorter({name: [] for name in sorted(stages)})
        for source, targets in self._data_flow():
            for target in targets:
                sorter.add(target.group, source.group)
        for source, targets in self._feedback():
            for target in targets:
                if target.group != source.group:
                    sorter.add(source.group, target.group)
        try:
            return tuple(sorter.static_order())
        except CycleError as error:
            raise ExportError(
                f"{self._package.path}: LEAPP cannot express this package: of the stages {' -> '.join(error.args[1])} "
                "one reads a state after another wrote it in the same run, where LEAPP would hand it the new value"
            ) from None

    # --- nodes -------------------------------------------------------------------------------------------------------

    def _model(self, name: str, files: dict[str, bytes]) -> dict[str, Any]:
        stage, backend = self._manifest.stages[name], self._chosen(name) or ""
        artifact, theirs = stage.artifacts[backend], LEAPP_BACKENDS[backend]
        data, path = self._package.read(artifact.path), f"{name}{SUFFIXES[theirs]}"
        files[path] = data
        inputs, outputs = self._port_order(name, backend, artifact, data)
        if sorted(inputs) != sorted(stage.inputs) or sorted(outputs) != sorted(stage.outputs):
            raise PackageError(f"{self._package.path}: {artifact.path}: its ports are not those of stage {name!r}")
        parameters: dict[str, Any] = {
            "model_path": path,
            "md5sum": hashlib.md5(data, usedforsecurity=False).hexdigest(),
            "sha256sum": hashlib.sha256(data).hexdigest(),
            "backend": theirs,
            "warp_segments": 0,
        }
        if artifact.opset is not None:
            parameters["opset_version"] = artifact.opset
        return {
            "inputs": [self._input(name, port) for port in inputs],
            "outputs": [self._output(name, port) for port in outputs],
            "parameters": parameters,
        }

    def _port_order(self, name: str, backend: str, artifact: Artifact, data: bytes) -> tuple[list[str], list[str]]:
        if backend != "onnx":
            return list(artifact.inputs or ()), list(artifact.outputs or ())
        where = f"{self._package.path}: stage {name!r}"
        found = describe_onnx(open_session(data, Options(), where), where)
        return [port.name for port in found.inputs], [port.name for port in found.outputs]

    def _input(self, stage: str, name: str) -> dict[str, Any]:
        port = self._manifest.stages[stage].inputs[name]
        group, outer = self._graph.into(Endpoint(stage, name))[0]
        if group == "inputs":
            return describe(name, _joined(port, self._manifest.inputs[outer]), PortNote(input=outer))
        if group == "states":
            state = self._manifest.states[outer]
            note = StateNote(name=outer, role=state.role, finite=state.finite, description=state.description)
            return describe(name, port, PortNote(state=note))
        return describe(name, port, PortNote())

    def _output(self, stage: str, name: str) -> dict[str, Any]:
        port = self._manifest.stages[stage].outputs[name]
        for group, outer in self._graph.out_of(Endpoint(stage, name)):
            if group == "outputs":
                return describe(name, _joined(port, self._manifest.outputs[outer]), PortNote(output=outer))
        return describe(name, port, PortNote())

    # --- the pipeline ------------------------------------------------------------------------------------------------

    def _boundary(self, ends: Any) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for end in ends:
            stage, _, port = end.partition("/")
            found.setdefault(stage, []).append(port)
        return found

    def _data_flow(self) -> Iterator[tuple[Endpoint, list[Endpoint]]]:
        for source in self._stage_outputs():
            targets = [end for end in self._graph.out_of(source) if end.group in self._manifest.stages]
            if targets:
                yield source, targets

    def _feedback(self) -> Iterator[tuple[Endpoint, list[Endpoint]]]:
        for source in self._stage_outputs():
            states = [end for end in self._graph.out_of(source) if end.group == "states"]
            if states:
                yield source, [target for state in states for target in self._graph.out_of(state)]

    def _stage_outputs(self) -> Iterator[Endpoint]:
        for name, stage in self._manifest.stages.items():
            yield from (Endpoint(name, port) for port in stage.outputs)

    def _initial(self) -> dict[str, Array]:
        values = self._package.initial_state()
        return {end: values[name] for name, ends in self.states.items() for end in ends}

    def _configs(self) -> dict[str, Any]:
        manifest, about = self._manifest, self._about()
        metadata = {key: value for key, value in manifest.metadata.items() if not about or key != "leapp"}
        configs = dict(about["configs"]) if about else {}
        if manifest.timing is not None and manifest.timing.policy_dt_s is not None:
            configs["frequency"] = 1.0 / manifest.timing.policy_dt_s
        note = PackageNote(
            name=manifest.name,
            version=manifest.version,
            description=manifest.description,
            licence=manifest.licence,
            timing=manifest.timing,
            joints=manifest.joints,
            provenance=manifest.provenance,
            findings=manifest.findings,
            constants=manifest.constants,
            metadata=metadata,
        )
        return {**configs, NOTE: msgspec.to_builtins(note)}

    def _system(self) -> dict[str, Any]:
        from ashore import __version__

        version, about = {"leapp config version": CONFIG_VERSION}, self._about()
        return {**about["system"], **version} if about else {**version, OWN_VERSION: __version__}

    def _about(self) -> dict[str, Any] | None:
        """What reading a LEAPP file put into the metadata, for a package that comes from one."""
        about = self._manifest.metadata.get("leapp")
        if not isinstance(about, dict) or about.keys() != {"system", "configs"}:
            return None
        return about if all(isinstance(part, dict) for part in about.values()) else None


def _array_problems(what: str, array: Port | State) -> Iterator[str]:
    if BATCH in array.shape:
        yield f"{what} has a symbolic batch; LEAPP has fixed shapes"
    if array.dtype not in DTYPES:
        yield f"{what} has dtype {array.dtype}, which LEAPP does not have"


def _joined(inner: Port, outer: Port) -> Port:
    """All that is known of a port: what the package says of it, and where that is silent what the stage says."""
    inner_says = {field: getattr(inner, field) for field in inner.__struct_fields__ if getattr(outer, field) is None}
    metadata = {**inner.metadata, **outer.metadata}
    return msgspec.structs.replace(outer, **inner_says, metadata=metadata, finite=inner.finite and outer.finite)


def _read_back(yaml: Path) -> None:
    try:
        convert(yaml)
    except AshoreError as error:
        raise ExportError(f"what was written cannot be read back, so it was not kept: {error}") from error
