"""What has to hold for the wires: every end is something, everything flows somewhere, both ends agree, no cycles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import cast

from ashore.spec.manifest import Manifest, Stage, State
from ashore.spec.wiring import RESERVED, Endpoint, Wiring


def flow_problems(manifest: Manifest) -> Iterator[str]:
    """Yield what is wrong with the wires of a manifest."""
    graph = Wiring(manifest)
    yield from graph.problems()
    yield from _flow(manifest, graph)
    yield from _agreement(graph)
    yield from _rates(manifest, graph)


def _flow(manifest: Manifest, graph: Wiring) -> Iterator[str]:
    """Every input is used, everything that is read is written once, nothing ends nowhere."""
    for endpoint in _endpoints(manifest):
        into, out = graph.into(endpoint), graph.out_of(endpoint)
        match endpoint.group:
            case "inputs":
                if not out:
                    yield f"inputs.{endpoint.name}: no wire starts here, so this input would be ignored"
            case "outputs":
                if len(into) != 1:
                    yield f"outputs.{endpoint.name}: expected one wire to end here, got {len(into)}"
            case "states":
                if not out:
                    yield f"states.{endpoint.name}: no stage reads it"
                yield from _writers(manifest, endpoint, into)
            case _:
                yield from _stage_flow(manifest.stages[endpoint.group], endpoint, into, out)


def _stage_flow(stage: Stage, endpoint: Endpoint, into: list[Endpoint], out: list[Endpoint]) -> Iterator[str]:
    if stage.rate == "loop":
        if into or out:
            yield f"wires: {endpoint} belongs to a stage of a loop; its runner carries the values, and no wire does"
        return
    if endpoint.name in stage.inputs and len(into) != 1:
        path = f"stages.{endpoint.group}.inputs.{endpoint.name}"
        yield f"{path}: expected one wire to end here, got {len(into)}"
    if endpoint.name in stage.outputs and not out:
        yield f"stages.{endpoint.group}.outputs.{endpoint.name}: no wire starts here, so this output would be lost"


def _writers(manifest: Manifest, state: Endpoint, into: list[Endpoint]) -> Iterator[str]:
    if not into:
        yield f"states.{state.name}: no stage writes it"
    rates = Counter(manifest.stages[source.group].rate for source in into)
    for rate, count in rates.items():
        if count > 1:
            yield f"states.{state.name}: {count} wires of rate {rate!r} end here; a state has one writer per rate"


def _agreement(graph: Wiring) -> Iterator[str]:
    """Both ends of a wire have one dtype, one shape, one meaning."""
    for index, (source, target) in graph.wires.items():
        start, end = graph.array(source), graph.array(target)
        fields = ["dtype", "shape"]
        if not isinstance(start, State) and not isinstance(end, State):
            fields += ["kind", "element_names", "unit", "frame"]
        for field in fields:
            ours, theirs = getattr(start, field), getattr(end, field)
            if ours is not None and theirs is not None and ours != theirs:
                yield f"wires[{index}]: {source} has {field} {_plain(ours)}, {target} has {_plain(theirs)}"


def _rates(manifest: Manifest, graph: Wiring) -> Iterator[str]:
    for index, (source, target) in graph.wires.items():
        if source.group in manifest.stages and target.group in manifest.stages:
            rates = manifest.stages[source.group].rate, manifest.stages[target.group].rate
            if rates[0] != rates[1] and "loop" not in rates:  # those have no wires at all
                yield f"wires[{index}]: {source} runs at {rates[0]!r}, {target} at {rates[1]!r}; join them by a state"
    loop = graph.cycle()
    if loop:
        yield f"wires: a cycle without a state: {' -> '.join(loop)}"


def _endpoints(manifest: Manifest) -> Iterator[Endpoint]:
    for group in RESERVED:
        names: Iterable[str] = getattr(manifest, group)
        yield from (Endpoint(group, name) for name in names)
    for name, stage in manifest.stages.items():
        yield from (Endpoint(name, port) for port in stage.inputs)
        yield from (Endpoint(name, port) for port in stage.outputs)


def _plain(value: object) -> str:
    return str(list(cast("tuple[object, ...]", value))) if isinstance(value, tuple) else repr(value)
