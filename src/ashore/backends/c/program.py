"""What a package computes, as one graph for each rate, and where everything that it keeps comes from and goes.

The rules are those of `ashore.runtime.plan`: stages run in the order of the wires; a state is what its writer gave on
the last run; everything that must be finite is looked at before anything is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ashore.backends.c.code import C_TYPES, identifier
from ashore.backends.c.graph import Graph, Value
from ashore.backends.c.importing import import_graph
from ashore.backends.c.onnx_file import read_graph
from ashore.backends.c.processing import processor_graph
from ashore.errors import BackendError
from ashore.package import Array, Package
from ashore.spec import BATCH, CALLS, RATES, Endpoint, Manifest, Port, Rate, Stage, State, Wiring, concrete


@dataclass
class RateProgram:
    """What one call computes."""

    rate: Rate
    verb: str
    inputs: dict[str, Port]
    outputs: dict[str, Port]
    graph: Graph = field(default_factory=Graph)
    given: dict[str, Value] = field(default_factory=dict[str, Value])
    """Output -> its value."""

    kept: dict[str, Value] = field(default_factory=dict[str, Value])
    """State -> its next value, for those that this rate writes."""

    checks: list[tuple[str, Value]] = field(default_factory=list[tuple[str, Value]])
    """(``outputs/name`` or ``states/name``, what must be finite), in the order in which they are looked at."""


@dataclass
class Program:
    """A package as it will be compiled."""

    manifest: Manifest
    batch: int
    rates: dict[Rate, RateProgram]
    initial: dict[str, Array]
    fields: dict[str, dict[str, str]]
    """Group (`states`, `policy.in`, `policy.out`, `substep.in`, `substep.out`) -> name -> its field in C."""


def build_program(package: Package, batch: int) -> Program:
    """Read every stage of a package.

    Raises:
        BackendError: something in it cannot be compiled; the message says what.
    """
    manifest, where = package.manifest, str(package.path)
    wiring = Wiring(manifest)
    _check_arrays(manifest, where)
    fields: dict[str, dict[str, str]] = {"states": _fields(manifest.states)}
    for rate in RATES:
        fields[f"{rate}.in"] = _fields(wiring.inputs_of(rate))
        fields[f"{rate}.out"] = _fields(wiring.outputs_of(rate))
    rates: dict[Rate, RateProgram] = {}
    for rate in RATES:
        names = [name for name in wiring.order() if manifest.stages[name].rate == rate]
        if names:
            rates[rate] = _rate_program(package, wiring, rate, names, batch, fields)
    if "policy" not in rates:
        raise BackendError(f"{where}: has no stage of the rate 'policy', so there is no step to compile")
    initial = {
        name: np.repeat(value, batch, axis=manifest.states[name].shape.index(BATCH))
        if BATCH in manifest.states[name].shape
        else value
        for name, value in package.initial_state().items()
    }
    return Program(manifest, batch, rates, initial, fields)


def _fields(names: Mapping[str, object] | tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        found[name] = identifier(name, found.values())
    return found


def _check_arrays(manifest: Manifest, where: str) -> None:
    groups: Mapping[str, Mapping[str, Port | State]] = {
        "input": manifest.inputs,
        "output": manifest.outputs,
        "state": manifest.states,
    }
    for group, arrays in groups.items():
        for name, array in arrays.items():
            if array.dtype not in C_TYPES:
                raise BackendError(f"{where}: {group} {name!r} is {array.dtype}, which C has no type for")
            if len(array.shape) > 8:
                raise BackendError(f"{where}: {group} {name!r} has {len(array.shape)} axes; the backend 'c' knows 8")
    for name, stage in manifest.stages.items():
        if stage.runner is not None or stage.rate == "loop":
            kind = stage.runner.type if stage.runner else "loop"
            raise BackendError(
                f"{where}: stage {name!r} is run by {kind!r}, several times in a decision; the backend 'c' refuses it"
            )


def _rate_program(
    package: Package,
    wiring: Wiring,
    rate: Rate,
    stages: list[str],
    batch: int,
    fields: Mapping[str, Mapping[str, str]],
) -> RateProgram:
    manifest = package.manifest
    inputs = {name: manifest.inputs[name] for name in wiring.inputs_of(rate)}
    outputs = {name: manifest.outputs[name] for name in wiring.outputs_of(rate)}
    program = RateProgram(rate, CALLS[rate], inputs, outputs)
    found: dict[Endpoint, Value] = {}
    for name, port in inputs.items():
        home = f"in->{fields[f'{rate}.in'][name]}"
        found[Endpoint("inputs", name)] = _value(name, port, batch, home)
    for name, state in manifest.states.items():
        found[Endpoint("states", name)] = _value(name, state, batch, f"p->states.{fields['states'][name]}")
    for name in stages:
        stage = manifest.stages[name]
        ports = {port: found[wiring.into(Endpoint(name, port))[0]] for port in stage.inputs}
        for port, value in _stage(package, name, stage, program.graph, ports, batch).items():
            found[Endpoint(name, port)] = value
    for name in outputs:
        program.given[name] = found[wiring.into(Endpoint("outputs", name))[0]]
    for name in manifest.states:
        for source in wiring.into(Endpoint("states", name)):
            if source in found and source.group in stages:
                program.kept[name] = found[source]
    program.checks = _checks(manifest, wiring, stages, found)
    program.graph.results = [*program.given.values(), *program.kept.values()]
    return program


def _checks(
    manifest: Manifest, wiring: Wiring, stages: list[str], found: Mapping[Endpoint, Value]
) -> list[tuple[str, Value]]:
    """What a run must find finite: each result once, if anything that it feeds must be."""
    checks: list[tuple[str, Value]] = []
    for name, stage in manifest.stages.items():
        for port in stage.outputs if name in stages else ():
            source = Endpoint(name, port)
            ends = wiring.out_of(source)
            homes = [end for end in ends if end.group == "states"] + [end for end in ends if end.group == "outputs"]
            if found[source].dtype.kind == "f" and any(wiring.array(end).finite for end in homes):
                checks.append((str(homes[0]), found[source]))
    return checks


def _value(name: str, array: Port | State, batch: int, home: str | None = None) -> Value:
    return Value(name, np.dtype(array.dtype), concrete(array.shape, batch), None, home)


def _stage(
    package: Package, name: str, stage: Stage, graph: Graph, ports: Mapping[str, Value], batch: int
) -> dict[str, Value]:
    where = f"{package.path}: stage {name!r}"
    if stage.processor is not None:
        file = processor_graph(where, stage, package.read)
    else:
        artifact = stage.artifacts.get("onnx")
        if artifact is None:
            raise BackendError(
                f"{where}: has no ONNX artifact to compile, only {sorted(stage.artifacts)}; export it with onnx-dynamo"
            )
        where = f"{where} ({artifact.path})"
        file = read_graph(package.read(artifact.path), where)
    if set(file.inputs) - set(stage.inputs) or set(file.outputs) != set(stage.outputs):
        raise BackendError(
            f"{where}: the manifest says {sorted(stage.inputs)} and {sorted(stage.outputs)}, the artifact has "
            f"{sorted(file.inputs)} and {sorted(file.outputs)}"
        )
    results = import_graph(graph, file, ports, where, name)
    for port, value in results.items():
        expected = concrete(stage.outputs[port].shape, batch)
        if value.shape != expected or value.dtype != np.dtype(stage.outputs[port].dtype):
            raise BackendError(
                f"{where}: output {port!r} comes out as {value.dtype} {list(value.shape)}; the manifest says "
                f"{stage.outputs[port].dtype} {list(expected)}"
            )
    return results
