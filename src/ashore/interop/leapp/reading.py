"""From a LEAPP directory to a package.

The model files are taken over byte for byte. Nodes become stages, flows become wires, feedback becomes states. What the
file leaves to chance is refused: an input that nothing feeds, a feedback without an initial value, a model that is not
the one that was exported.

The package gets no golden rollout. LEAPP keeps none, and one made by running the package itself would prove only that
it agrees with itself; `ashore verify` says that there is nothing to compare.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ashore.errors import ManifestError, PackageError
from ashore.interop.leapp.document import (
    LEAPP_BACKENDS,
    NOTE,
    OWN_VERSION,
    SUFFIXES,
    Document,
    Model,
    PackageNote,
    PortNote,
    StateNote,
    parse,
)
from ashore.interop.leapp.files import check_digests, find_yaml, read_beside, read_yaml_bytes
from ashore.interop.leapp.flows import Flows
from ashore.interop.leapp.ports import Described, understand
from ashore.interop.leapp.torch_files import check_torch_file
from ashore.interop.leapp.yaml_text import load_yaml
from ashore.interop.structs import as_struct
from ashore.package import Array, Package, load_arrays, write
from ashore.runtime import Options
from ashore.runtime.onnx import OnnxBackend, describe, open_session
from ashore.spec import (
    Artifact,
    Endpoint,
    Finding,
    Manifest,
    Port,
    Provenance,
    Role,
    Stage,
    State,
    Timing,
    Wire,
    decode,
    encode,
)


class Converted(NamedTuple):
    """A package that is not written yet."""

    manifest: Manifest
    files: dict[str, bytes]
    initial: dict[str, Array]


def from_leapp(source: str | os.PathLike[str], out: str | os.PathLike[str]) -> Package:
    """Turn a LEAPP directory into a package.

    Args:
        source: the directory, or its YAML file.
        out: the package to write: a directory, or a path that ends in ``.ashore``.

    Returns:
        The package. Its `findings` say what could not be carried over.

    Raises:
        PackageError: the directory is not what LEAPP writes, or leaves something to chance. Nothing was written.
    """
    converted = convert(Path(source))
    return write(out, converted.manifest, files=converted.files, initial=converted.initial)


def convert(source: Path) -> Converted:
    """Read a LEAPP directory and check all of it."""
    yaml = find_yaml(source)
    document = parse(load_yaml(read_yaml_bytes(yaml), str(yaml)), str(yaml))
    return _Reader(yaml, document).convert()


class _Node(NamedTuple):
    """A node, and how the stage that it becomes calls its ports."""

    stage: Stage
    inputs: dict[str, Described]
    outputs: dict[str, Described]
    names: dict[str, dict[str, str]]
    """``"inputs"`` or ``"outputs"`` -> port of the node -> port of the stage."""


class _Reader:
    def __init__(self, yaml: Path, document: Document) -> None:
        self._yaml, self._where, self._document = yaml, str(yaml), document
        self._findings: list[Finding] = []
        self._files: dict[str, bytes] = {}
        self._nodes = {name: self._node(name, model) for name, model in document.models.items()}
        inputs = {Endpoint(name, port): at for at, name in enumerate(self._nodes) for port in self._nodes[name].inputs}
        outputs = {
            Endpoint(name, port): at for at, name in enumerate(self._nodes) for port in self._nodes[name].outputs
        }
        self._flows = Flows(document.pipeline, inputs, outputs, self._where)
        self._check_notes()

    def convert(self) -> Converted:
        """The package, every rule of a manifest holding."""
        inputs, into = self._named("input", self._flows.inputs)
        outputs, out_of = self._named("output", self._flows.outputs)
        states, initial, loops = self._states()
        wires = [
            *(Wire(f"inputs/{name}", self._end("inputs", end)) for end, name in into.items()),
            *(Wire(self._end("outputs", source), self._end("inputs", target)) for source, target in self._flows.data),
            *loops,
            *(Wire(self._end("outputs", end), f"outputs/{name}") for end, name in out_of.items()),
        ]
        manifest = self._manifest(inputs, outputs, states, tuple(wires))
        try:
            decode(encode(manifest))
        except ManifestError as error:
            raise ManifestError(f"{self._where}: makes no package: {error}") from error
        for name, node in self._nodes.items():
            self._check_ports(name, node.stage)
        return Converted(manifest, self._files, initial)

    # --- nodes -------------------------------------------------------------------------------------------------------

    def _node(self, name: str, model: Model) -> _Node:
        where = f"{self._where}: models.{name}"
        inputs = self._ports(model.inputs, f"{where}.inputs")
        outputs = self._ports(model.outputs, f"{where}.outputs")
        backend, data = self._model_file(model, where)
        if backend == "onnx":
            names = _onnx_names(data, list(inputs), list(outputs), where)
        else:
            names = _apart(list(inputs), list(outputs), where)
        path = f"artifacts/{name}{SUFFIXES[LEAPP_BACKENDS[backend]]}"
        self._files[path] = data
        stage = Stage(
            rate="policy",
            inputs=self._stage_ports(inputs, names["inputs"], self._document.pipeline.inputs.get(name, [])),
            outputs=self._stage_ports(outputs, names["outputs"], self._document.pipeline.outputs.get(name, [])),
            artifacts={
                backend: Artifact(
                    path=path,
                    inputs=tuple(names["inputs"].values()),
                    outputs=tuple(names["outputs"].values()),
                    opset=model.parameters.opset_version,
                    exporter=f"leapp {self._document.system.get('leapp version') or 'of unknown version'}",
                )
            },
        )
        return _Node(stage, inputs, outputs, names)

    @staticmethod
    def _stage_ports(ports: dict[str, Described], names: dict[str, str], boundary: list[str]) -> dict[str, Port]:
        """The ports of a stage. What the ports of the package say, those at the boundary need not say again."""
        return {
            names[name]: Port(dtype=one.port.dtype, shape=one.port.shape) if name in boundary else one.port
            for name, one in ports.items()
        }

    def _ports(self, described: list[dict[str, Any]], where: str) -> dict[str, Described]:
        found: dict[str, Described] = {}
        for raw in described:
            one = understand(raw, where, self._findings)
            if one.name in found:
                raise PackageError(f"{where}: {one.name!r} stands twice")
            found[one.name] = one
        return found

    def _model_file(self, model: Model, where: str) -> tuple[str, bytes]:
        """The backend that opens a node's file, and the file."""
        parameters, where = model.parameters, f"{where}.parameters"
        backends = {theirs: ours for ours, theirs in LEAPP_BACKENDS.items()}
        if parameters.backend not in backends:
            raise PackageError(f"{where}.backend: {parameters.backend!r} is none of {sorted(backends)}")
        if parameters.warp_segments:
            raise PackageError(f"{where}.warp_segments: the model calls Warp kernels, which only LEAPP's runtime has")
        data = read_beside(self._yaml, parameters.model_path, f"{where}.model_path")
        check_digests(data, parameters, where)
        if parameters.backend != "onnx":
            check_torch_file(parameters.backend, data, f"{where}: {parameters.model_path}")
        return backends[parameters.backend], data

    def _check_ports(self, name: str, stage: Stage) -> None:
        """ONNX files are opened, so that a package that is written can be loaded; others need torch and are not."""
        artifact = stage.artifacts.get("onnx")
        if artifact is not None:
            OnnxBackend().open(f"{self._where}: {name}", artifact, [self._files[artifact.path]], stage, Options())

    # --- names -------------------------------------------------------------------------------------------------------

    def _end(self, group: str, end: Endpoint) -> str:
        """A port of a node as the end of a wire."""
        return f"{end.group}/{self._nodes[end.group].names[group][end.name]}"

    def _described(self, group: str, end: Endpoint) -> Described:
        node = self._nodes[end.group]
        return (node.inputs if group == "inputs" else node.outputs)[end.name]

    def _named(self, side: str, ends: list[Endpoint]) -> tuple[dict[str, Port], dict[Endpoint, str]]:
        """The ports of the package on one side, and the name that each end has there."""
        described = {end: self._described(f"{side}s", end) for end in ends}
        noted: dict[Endpoint, str] = {end: name for end in ends if (name := getattr(described[end].note, side))}
        plain = Counter([*set(noted.values()), *(end.name for end in ends if end not in noted)])
        names = {end: noted.get(end) or (end.name if plain[end.name] == 1 else str(end)) for end in ends}
        ports: dict[str, Port] = {}
        for end, name in names.items():
            port = described[end].port
            shared = side == "input" and end in noted
            if name in ports and not (shared and ports[name] == port):
                raise PackageError(f"{self._where}: two {side}s would be called {name!r}, and they differ")
            ports[name] = port
        return ports, names

    def _check_notes(self) -> None:
        """A note of Ashore's that does not fit the wiring was left there by somebody who changed it."""
        boundary = {*self._flows.inputs}, {*self._flows.outputs}
        fed_back = {target for _, target in self._flows.feedback}
        for name, node in self._nodes.items():
            for group, ports, outer in (("inputs", node.inputs, boundary[0]), ("outputs", node.outputs, boundary[1])):
                for port, one in ports.items():
                    end, note = Endpoint(name, port), one.note
                    side = note.input if group == "inputs" else note.output
                    stray = (note.output if group == "inputs" else note.input) is not None
                    stray |= (side is not None and end not in outer) or (note.state is not None and end not in fed_back)
                    if stray or (group == "outputs" and note.state is not None):
                        raise PackageError(
                            f"{self._where}: {end}: its {NOTE!r} note {_plain(note)} does not fit the pipeline"
                        )

    # --- states ------------------------------------------------------------------------------------------------------

    def _states(self) -> tuple[dict[str, State], dict[str, Array], list[Wire]]:
        """The states, their initial values, and the wires to and from them."""
        values = self._initial_values()
        targets = [target for _, target in self._flows.feedback]
        notes = {end: self._described("inputs", end).note.state for end in targets}
        named = {note.name for note in notes.values() if note}
        guesses = {end: _short(source, end) for source, end in self._flows.feedback if not notes[end]}
        counts = Counter([*named, *guesses.values()])
        states: dict[str, State] = {}
        initial: dict[str, Array] = {}
        writers: dict[str, Endpoint] = {}
        wires: list[Wire] = []
        for source, target in self._flows.feedback:
            note = notes[target]
            name = note.name if note else guesses[target] if counts[guesses[target]] == 1 else str(target)
            state = self._state(target, source, note)
            if name not in states:
                states[name], initial[name], writers[name] = state, values[target], source
                wires.append(Wire(self._end("outputs", source), f"states/{name}"))
            elif (states[name], writers[name]) != (state, source) or not _same(initial[name], values[target]):
                raise PackageError(f"{self._where}: two states would be called {name!r}, and they differ")
            wires.append(Wire(f"states/{name}", self._end("inputs", target)))
        return states, initial, wires

    def _state(self, target: Endpoint, source: Endpoint, note: StateNote | None) -> State:
        port = self._described("inputs", target).port
        if note is None:
            return State(dtype=port.dtype, shape=port.shape, role=self._role(source, port), finite=port.finite)
        return State(
            dtype=port.dtype, shape=port.shape, role=note.role, finite=note.finite, description=note.description
        )

    def _role(self, source: Endpoint, port: Port) -> Role:
        """What a feedback is, as far as its kind tells."""
        kind = self._described("outputs", source).port.kind or ""
        if kind == "action" or kind.startswith("target/"):
            return "last_action"
        whole = np.dtype(port.dtype).kind in "iu"
        return "counter" if whole and math.prod(dim for dim in port.shape if isinstance(dim, int)) == 1 else "memory"

    def _initial_values(self) -> dict[Endpoint, Array]:
        """Fed-back input -> its value before the first run."""
        file, ends = self._document.pipeline.initial_values, {str(end): end for _, end in self._flows.feedback}
        where = f"{self._where}: pipeline.initial_values"
        arrays = {} if file is None else load_arrays(read_beside(self._yaml, file, where), f"{where}: {file}")
        for name in sorted(arrays.keys() ^ ends.keys()):
            if name in ends:
                raise PackageError(f"{where}: there is none for {name}, so LEAPP would start at zero without a word")
            raise PackageError(f"{where}: {name!r} is there, but is not fed back")
        return {ends[name]: array for name, array in arrays.items()}

    # --- the rest ----------------------------------------------------------------------------------------------------

    def _manifest(
        self, inputs: dict[str, Port], outputs: dict[str, Port], states: dict[str, State], wires: tuple[Wire, ...]
    ) -> Manifest:
        configs = dict(self._document.pipeline.configs)
        raw = configs.pop(NOTE, None)
        note = PackageNote(name=_identifier(self._yaml.stem)) if raw is None else self._package_note(raw)
        system = {key: value for key, value in self._document.system.items() if value is not None}
        timing = _timing(configs.pop("frequency", None), note.timing, self._where)
        about = {"system": system, "configs": configs}
        return Manifest(
            name=note.name,
            version=note.version,
            description=note.description,
            licence=note.licence,
            provenance=_provenance(system) if raw is None else note.provenance,
            timing=timing,
            inputs=inputs,
            outputs=outputs,
            stages={name: node.stage for name, node in self._nodes.items()},
            wires=wires,
            states=states,
            joints=note.joints,
            findings=tuple(dict.fromkeys((*note.findings, *self._findings))),
            constants=note.constants,
            metadata={**note.metadata, "leapp": about} if configs or OWN_VERSION not in system else note.metadata,
        )

    def _package_note(self, raw: Any) -> PackageNote:
        return as_struct(raw, PackageNote, f"{self._where}: pipeline.configs.{NOTE}")


def _onnx_names(data: bytes, inputs: list[str], outputs: list[str], where: str) -> dict[str, dict[str, str]]:
    """Port of a node -> what the ONNX file calls it. LEAPP goes by position, Ashore by name."""
    found = describe(open_session(data, Options(), where), where)
    names: dict[str, dict[str, str]] = {}
    for group, ours, theirs in (("inputs", inputs, found.inputs), ("outputs", outputs, found.outputs)):
        file = [port.name for port in theirs]
        other = set(ours) ^ set(file)  # a name that both have must stand at the same place
        if len(file) != len(ours) or any(
            one != two and not {one, two} <= other for one, two in zip(ours, file, strict=True)
        ):
            raise PackageError(f"{where}: its {group} are {ours}, and those of its model are {file}, in that order")
        names[group] = dict(zip(ours, file, strict=True))
    return names


def _apart(inputs: list[str], outputs: list[str], where: str) -> dict[str, dict[str, str]]:
    """Port of a node -> port of the stage, where an input and an output of one node may have the same name."""
    both = set(inputs) & set(outputs)
    names = {
        group: {port: f"{port}{suffix}" if port in both else port for port in ports}
        for group, ports, suffix in (("inputs", inputs, "_in"), ("outputs", outputs, "_out"))
    }
    for name, count in Counter([*names["inputs"].values(), *names["outputs"].values()]).items():
        if count > 1:
            raise PackageError(f"{where}: {sorted(both)} are inputs and outputs, and {name!r} is taken too")
    return names


def _short(source: Endpoint, target: Endpoint) -> str:
    """``h`` for a feedback from ``h_out`` to ``h_in``, else the name of the input."""
    stem = target.name.removesuffix("_in")
    return stem if stem and source.name in (stem, f"{stem}_out") else target.name


def _same(left: Array, right: Array) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def _timing(frequency: Any, noted: Timing | None, where: str) -> Timing | None:
    if frequency is None:
        if noted is not None and noted.policy_dt_s is not None:
            raise PackageError(f"{where}: pipeline.configs: the frequency was taken out, but not the timing")
        return noted
    if type(frequency) not in (int, float) or not 0 < frequency < math.inf:
        raise PackageError(f"{where}: pipeline.configs.frequency: expected a number above 0 in Hz, got {frequency!r}")
    if noted is None:
        return Timing(policy_dt_s=1.0 / frequency)
    if noted.policy_dt_s is None or not math.isclose(noted.policy_dt_s * frequency, 1.0, rel_tol=1e-9):
        raise PackageError(
            f"{where}: pipeline.configs.frequency: {frequency} Hz, but {NOTE}.timing says {noted.policy_dt_s} s"
        )
    return noted


def _provenance(system: Mapping[str, Any]) -> Provenance:
    versions = {key.removesuffix(" version"): str(value) for key, value in system.items() if key.endswith(" version")}
    tools = {name: versions[name] for name in ("leapp", "torch", "warp") if name in versions}
    return Provenance(tools=tools, python=versions.get("python"))


def _identifier(text: str) -> str:
    """A name for a package, made from the name of a file."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text)[:128].lstrip(".-") or "leapp"


def _plain(note: PortNote) -> str:
    return ", ".join(f"{field}={value!r}" for field in note.__struct_fields__ if (value := getattr(note, field)))
