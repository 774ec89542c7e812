"""Plain files with the names that people's controllers already read, in one call.

`obs` → `actions`; `obs, ref_obs, ref_mask` → `actions`; `obs, h_in, c_in` → `actions, h_out, c_out`. Such a file is
made of a package, so it was recorded and proven like one, and then compared with the actor's decisions once more.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx_ir
import onnxruntime
import torch

from ashore.actor.recording import NODE, export_actor
from ashore.actor.resettable import resettable
from ashore.errors import ExportError, InputError
from ashore.interop.exploy.placing import check_place, place
from ashore.package import Array, Package
from ashore.spec import BATCH, concrete

METADATA = "ashore.actor"
_ATOL = _RTOL = 1e-5


def export_policy_as_onnx(
    actor_critic: Any,
    path: str | os.PathLike[str],
    normalizer: Any = None,
    filename: str = "policy.onnx",
    verbose: bool = False,
    *,
    dynamic_batch: bool = False,
    **options: Any,
) -> None:
    """Write an actor as one ONNX file. The actor is left as it was.

    Args:
        actor_critic: the trained actor-critic, or anything that `as_actor` knows.
        path: the folder; it is made if it is not there.
        normalizer: what is applied to observations before they reach the actor.
        filename: of the file.
        verbose: whether to print the log of the export.
        dynamic_batch: whether it takes any number of rows; else it takes one.
        options: as for `export_actor`, such as ``example_obs``, ``stochastic``, ``opset`` or ``backend``.
    """
    target = _target(path, filename, ".onnx")
    with tempfile.TemporaryDirectory() as scratch:
        write_onnx(_package(actor_critic, scratch, normalizer, verbose, dynamic_batch, "onnx", options), target)


def write_onnx(package: Package, target: Path) -> None:
    """Write the package of an actor as one ONNX file too, after comparing the file with what the actor decided.

    Args:
        package: as `export_actor` gives it.
        target: the file.
    """
    ports = _Ports.of(package)
    if "onnx" not in package.manifest.stages[NODE].artifacts:
        raise ExportError(f"{target}: the package has no ONNX file; export it with backend='onnx'")
    check_place(target)
    place({target: _rename(package, ports)}, lambda file, final: _check_onnx(file, final, package, ports))


def check_file_name(filename: str, suffix: str) -> None:
    """Raise `InputError` unless a name is one for a file of that kind."""
    if Path(filename).name != filename or Path(filename).suffix != suffix:
        raise InputError(f"filename: expected a name that ends in {suffix}, got {filename!r}")


def export_policy_as_jit(
    actor_critic: Any,
    normalizer: Any = None,
    path: str | os.PathLike[str] | None = None,
    filename: str = "policy.pt",
    *,
    dynamic_batch: bool = False,
    verbose: bool = False,
    **options: Any,
) -> None:
    """Write an actor as one TorchScript file, which remembers its hidden state and has ``reset()``.

    Args:
        actor_critic: the trained actor-critic, or anything that `as_actor` knows.
        normalizer: what is applied to observations before they reach the actor. Scripts that call it with the folder in
            second place are understood too.
        path: the folder; it is made if it is not there.
        filename: of the file.
        dynamic_batch: whether it takes any number of rows; an actor that remembers takes one.
        verbose: whether to print the log of the export.
        options: as for `export_actor`.
    """
    if path is None and isinstance(normalizer, str | os.PathLike):
        normalizer, path = None, normalizer
    if path is None:
        raise InputError("path: expected the folder to write the file into")
    target = _target(path, filename, ".pt")
    with tempfile.TemporaryDirectory() as scratch:
        package = _package(actor_critic, scratch, normalizer, verbose, dynamic_batch, "jit-script", options)
        ports = _Ports.of(package)
        if ports.states and dynamic_batch:
            raise InputError("dynamic_batch: a TorchScript file that remembers has the rows of one robot; leave it out")
        (artifact,) = package.manifest.stages[NODE].artifacts.values()
        body = torch.jit.load(io.BytesIO(package.read(artifact.path)), map_location="cpu")
        order = [[*(artifact.inputs or ())].index(port) for port in (*ports.inputs, *ports.reads)]
        outputs = [[*(artifact.outputs or ())].index(port) for port in (*ports.outputs, *ports.writes)]
        values = package.initial_state() if ports.states else {}
        initial = {name: torch.from_numpy(values[name]) for name in ports.states}
        example = [
            torch.zeros(concrete(port.shape, 1), dtype=getattr(torch, port.dtype))
            for port in package.manifest.inputs.values()
        ]
        module = resettable(body, example, initial, order, outputs)
        stream = io.BytesIO()
        torch.jit.save(module, stream)
        place({target: stream.getvalue()}, lambda file, final: _check_jit(file, final, package, ports))


class _Ports(NamedTuple):
    """The ports of the one stage that such a package has, in the order of a plain file."""

    inputs: list[str]
    outputs: list[str]
    states: list[str]
    reads: list[str]
    """The input that each state is read from."""

    writes: list[str]
    """The output that each state is written to."""

    @classmethod
    def of(cls, package: Package) -> _Ports:
        manifest = package.manifest
        if list(manifest.stages) != [NODE]:
            raise ExportError(f"a plain file holds one stage, and this actor has {sorted(manifest.stages)}")
        wires = [(wire.source, wire.target) for wire in manifest.wires]
        states = sorted(manifest.states, key=lambda name: (name not in ("h", "c"), name == "c"))
        reads = {source: target.partition("/")[2] for source, target in wires if source.startswith("states/")}
        writes = {target: source.partition("/")[2] for source, target in wires if target.startswith("states/")}
        return cls(
            list(manifest.inputs),
            list(manifest.outputs),
            states,
            [reads[f"states/{name}"] for name in states],
            [writes[f"states/{name}"] for name in states],
        )

    @property
    def file_inputs(self) -> list[str]:
        return [*self.inputs, *(f"{name}_in" for name in self.states)]

    @property
    def file_outputs(self) -> list[str]:
        return [*self.outputs, *(f"{name}_out" for name in self.states)]


def _target(path: str | os.PathLike[str], filename: str, suffix: str) -> Path:
    check_file_name(filename, suffix)
    target = Path(path) / filename
    check_place(target)
    return target


def _package(
    actor: Any,
    folder: str,
    normalizer: Any,
    verbose: bool,
    dynamic: bool,
    backend: str,
    options: Mapping[str, Any],
) -> Package:
    settings = {
        "backend": backend, "picture": False, "summary": False, "verbose": verbose,
        "batch": "dynamic" if dynamic else "recorded",
    }  # fmt: skip
    return export_actor(actor, Path(folder) / "policy", normalizer=normalizer, **{**settings, **options})


def _rename(package: Package, ports: _Ports) -> bytes:
    """The artifact with the ports of a plain file, in their order, and with what there is to know about it."""
    artifact = package.manifest.stages[NODE].artifacts["onnx"]
    model = onnx_ir.from_proto(_proto(package.read(artifact.path)))
    graph, proof = model.graph, package.manifest.verification
    renamed = (
        dict(zip((*ports.inputs, *ports.reads), ports.file_inputs, strict=True)),
        dict(zip((*ports.outputs, *ports.writes), ports.file_outputs, strict=True)),
    )
    given = {*(artifact.inputs or ()), *(artifact.outputs or ())}
    taken = {*ports.file_inputs, *ports.file_outputs} - given
    for node in onnx_ir.traversal.RecursiveGraphIterator(graph):
        for value in node.outputs:
            if value.name in taken:
                value.name = f"ashore_{value.name}_inside"
    for name in taken & graph.initializers.keys():
        value = graph.initializers.pop(name)
        value.name = f"ashore_{name}_inside"
        graph.initializers[value.name] = value
    for values, names, order in (
        (graph.inputs, renamed[0], ports.file_inputs),
        (graph.outputs, renamed[1], ports.file_outputs),
    ):
        for value in values:
            value.name = names[str(value.name)]
            if value.shape is not None:  # an exporter may have a name of its own for the batch
                value.shape = onnx_ir.Shape([one if isinstance(one, int) else BATCH for one in value.shape])
        ordered = sorted(values, key=lambda value: order.index(str(value.name)))
        values[:] = ordered
    note = {
        "opset": artifact.opset,
        "ir_version": artifact.ir_version,
        "exporter": artifact.exporter,
        **package.manifest.metadata["actor"],
        "verified_steps": 0 if proof is None else proof.steps,
    }
    model.metadata_props[METADATA] = json.dumps(note)
    return onnx_ir.to_proto(model).SerializeToString(deterministic=True)


def _proto(data: bytes) -> Any:
    import onnx

    return onnx.load_from_string(data)


def _check_onnx(file: Path, final: Path, package: Package, ports: _Ports) -> None:
    """Run the written file on what was recorded."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    given = [one.name for one in session.get_inputs()], [one.name for one in session.get_outputs()]
    if given != (ports.file_inputs, ports.file_outputs):
        raise ExportError(f"{final}: expected the ports {ports.file_inputs} → {ports.file_outputs}, got {given}")

    def run(inputs: list[Array], states: list[Array]) -> Sequence[Any]:
        return session.run(None, dict(zip(ports.file_inputs, [*inputs, *states], strict=True)))

    _check(final, package, ports, run)


def _check_jit(file: Path, final: Path, package: Package, ports: _Ports) -> None:
    module = torch.jit.load(str(file), map_location="cpu")

    def run(inputs: list[Array], _: list[Array]) -> Sequence[Any]:
        with torch.no_grad():
            made = module(*[torch.from_numpy(value) for value in inputs])
        made = made if isinstance(made, tuple) else (made,)
        return [one.numpy() for one in made]

    _check(final, package, ports, run, reset=module.reset)


def _check(final: Path, package: Package, ports: _Ports, run: Any, reset: Any = None) -> None:
    """Compare a file with what the actor decided, in one free run."""
    golden, initial = package.golden(), package.initial_state() if ports.states else {}
    states: list[Array] = []
    for tick in golden.ticks if golden is not None else ():
        if tick.reset:
            states = [_rows(initial[name], tick.states[name]) for name in ports.states]
            if reset is not None:
                reset()
        made = run([tick.inputs[name] for name in ports.inputs], states)
        wanted = [tick.outputs[name] for name in ports.outputs] + [tick.states[name] for name in ports.states]
        names = ports.file_outputs if len(made) == len(wanted) else ports.outputs
        for name, value, expected in zip(names, made, wanted, strict=False):
            if value.shape != expected.shape or not np.allclose(value, expected, rtol=_RTOL, atol=_ATOL):
                raise ExportError(
                    f"{final}: {name} differs from what the actor gave in step {tick.index}; nothing was written"
                )
        states = list(made[len(ports.outputs) :])


def _rows(initial: Array, like: Array) -> Array:
    """An initial value with as many rows as a recorded one."""
    return np.ascontiguousarray(np.broadcast_to(initial, like.shape))
