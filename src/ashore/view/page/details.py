"""What the page says about a port, a state or a stage that is clicked: ready texts, which the script only shows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ashore.package import Array
from ashore.spec import BATCH, RATES, Endpoint, Manifest, Port, Stage, State, Wiring, concrete
from ashore.view import words
from ashore.view.cleaning import clean
from ashore.view.page import elements
from ashore.view.page.ranges import Observed

MAX_ROWS = 256
"""So many elements of a port are listed one by one."""

MAX_ALL_ROWS = 8000
"""So many of all ports together, about half a megabyte; the more ports there are, the fewer of each."""


_GROUPS = {"inputs": "input", "outputs": "output", "states": "state"}

SOURCES = {
    "sensor": "measured on the robot",
    "estimator": "computed on the robot from what is measured",
    "command": "somebody asks for it",
    "reference": "a motion to follow",
    "privileged": "exists only in simulation",
}


@dataclass
class Detail:
    """One thing that can be clicked."""

    title: str
    what: str
    """In a few words: ``input of the package``."""

    facts: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    columns: list[str] = field(default_factory=list[str])
    rows: list[list[str]] = field(default_factory=list[list[str]])
    links: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """(what it is to this one, the id of the other)."""

    note: str = ""


def id_of(end: Endpoint, side: Literal["input", "output"] = "input") -> str:
    """How the page calls an endpoint; ``graph.js`` finds the same in the picture.

    Args:
        end: an input, an output or a state of the package, or a port of a stage.
        side: of the stage, which may call an input and an output the same.
    """
    if end.group in _GROUPS:
        return f"{_GROUPS[end.group]}:{clean(end.name)}"
    return f"port:{end.group}:{side}:{clean(end.name)}"


def details(
    manifest: Manifest, observed: Mapping[Endpoint, Observed], initial: Mapping[str, Array], batch: int
) -> dict[str, dict[str, Any]]:
    """Id -> what to say about it, for everything in a package.

    Args:
        manifest: of the package.
        observed: the ranges that its recording saw.
        initial: state name -> initial value.
        batch: the length of the symbolic batch axis in the recording.
    """
    graph = Wiring(manifest)
    found: dict[str, Detail] = {}
    longest = _longest(manifest)
    for group, ports in (("inputs", manifest.inputs), ("outputs", manifest.outputs)):
        for name, port in ports.items():
            end = Endpoint(group, name)
            detail = Detail(name, f"{group.removesuffix('s')} of the package", list(_port_facts(port)))
            detail.facts += _rate(graph, end)
            _list_elements(detail, port, observed.get(end), batch, longest)
            found[id_of(end)] = detail
    for name, state in manifest.states.items():
        end = Endpoint("states", name)
        detail = Detail(name, "state, kept from one run to the next", list(_state_facts(state)))
        _list_elements(detail, state, observed.get(end), batch, longest, initial.get(name))
        found[id_of(end)] = detail
    for stage_name, stage in manifest.stages.items():
        found[f"stage:{stage_name}"] = _stage(manifest, stage_name, stage)
        for side, ports in _sides(stage):
            for name, port in ports.items():
                end = Endpoint(stage_name, name)
                detail = Detail(name, f"{side} of the stage {stage_name}", list(_port_facts(port)))
                ends = _outside(graph, end)
                seen = next((observed[one] for one in ends if one in observed and one.group != "states"), None)
                if ends:  # its elements are listed there, and a link leads there
                    detail.facts += [("observed", seen.whole())] if seen else []
                    detail.note = f"Its elements are those of {ends[0]}."
                else:
                    _list_elements(detail, port, seen, batch, longest)
                found[id_of(end, side)] = detail
    for source, target in graph.wires.values():
        here, there = id_of(source, "output"), id_of(target, "input")
        found[here].links.append((f"goes to {target}", there))
        found[there].links.append((f"comes from {source}", here))
    return {id_: _plain(detail) for id_, detail in found.items()}


def _sides(stage: Stage) -> tuple[tuple[Literal["input", "output"], Mapping[str, Port]], ...]:
    return ("input", stage.inputs), ("output", stage.outputs)


def _plain(detail: Detail) -> dict[str, Any]:
    return {key: value for key, value in vars(detail).items() if value}


def _port_facts(port: Port) -> Iterator[tuple[str, str]]:
    yield "kind", port.kind or "not stated"
    yield "array", words.array(port)
    if port.unit:
        yield "unit", words.unit(port) or "-"
    if port.frame:
        yield "frame", port.frame
    if port.source:
        yield "source", f"{port.source}: {SOURCES[port.source]}"
    if port.limits:
        yield "limits", words.limits(port.limits)
    if not port.finite:
        yield "values", "may hold NaN and infinities"
    if port.connection:
        yield "connection", port.connection
    if port.description:
        yield "description", port.description
    if port.metadata:
        yield "metadata", json.dumps(port.metadata, ensure_ascii=False)


def _rate(graph: Wiring, end: Endpoint) -> Iterator[tuple[str, str]]:
    names = graph.inputs_of if end.group == "inputs" else graph.outputs_of
    rates = [rate for rate in RATES if end.name in names(rate)]
    if rates:
        yield "rate", " and ".join(rates)


def _state_facts(state: State) -> Iterator[tuple[str, str]]:
    yield "role", state.role.replace("_", " ")
    yield "array", words.array(state)
    yield "on a reset", {"initial": "gets its initial value", "keep": "is kept"}[state.reset]
    if not state.finite:
        yield "values", "may hold NaN and infinities"
    if state.description:
        yield "description", state.description


def _stage(manifest: Manifest, name: str, stage: Stage) -> Detail:
    detail = Detail(name, "stage", [("rate", words.rate(stage, manifest)), ("computed by", words.engine(stage))])
    for backend, artifact in stage.artifacts.items():
        size = manifest.files[artifact.path].size if artifact.path in manifest.files else 0
        opset = f", opset {artifact.opset}" if artifact.opset else ""
        detail.facts.append((backend, f"{artifact.path}, {size:,} bytes{opset}"))
    for part in (stage.processor, stage.runner):
        if part is not None and part.params:
            detail.facts.append(("parameters", json.dumps(part.params, ensure_ascii=False)))
    if stage.description:
        detail.facts.append(("description", stage.description))
    for side, ports in _sides(stage):
        detail.links += [(f"{side} {port}", id_of(Endpoint(name, port), side)) for port in ports]
    return detail


def _longest(manifest: Manifest) -> int:
    """How many elements of each port can be listed within `MAX_ALL_ROWS`."""
    sizes = [
        elements.count(one) for group in (manifest.inputs, manifest.outputs, manifest.states) for one in group.values()
    ]
    for most in (MAX_ROWS, 128, 64, 32, 16, 8):
        if sum(min(size, most) for size in sizes) <= MAX_ALL_ROWS:
            return most
    return 4


def _outside(graph: Wiring, end: Endpoint) -> list[Endpoint]:
    """The inputs, outputs and states of the package that a stage's port is wired to."""
    return [one for one in (*graph.into(end), *graph.out_of(end)) if one.group in _GROUPS]


def _list_elements(
    detail: Detail, array: Port | State, seen: Observed | None, batch: int, longest: int, initial: Array | None = None
) -> None:
    total = elements.count(array)
    rows = seen is not None and BATCH in array.shape and batch != 1
    if seen is not None:
        detail.facts.append(("observed", seen.whole()))
    if initial is not None and total > 1:
        detail.facts.append(("initial value", _range(initial)))
    port = array if isinstance(array, Port) else None
    has_units = port is not None and port.unit is not None and words.unit(port) not in (port.unit, port.unit[0])
    has_limits = port is not None and port.limits is not None
    detail.columns = ["element"]
    detail.columns += ["unit"] if has_units else []
    detail.columns += [">initial"] if initial is not None else []
    detail.columns += [">lower limit", ">upper limit"] if has_limits else []
    detail.columns += [">least seen", ">largest seen"] if seen is not None and not rows else []
    for place in range(min(total, longest)):
        row = [elements.name_of(array, place)]
        if port is not None and has_units:
            row.append(elements.unit_of(port, place) or "-")
        if initial is not None:
            row.append(words.number(float(initial.flat[place])))
        if port is not None and has_limits:
            row += [words.number(bound) for bound in elements.limits_of(port, place)]
        if seen is not None and not rows:
            row += seen.element(place)
        detail.rows.append(row)
    if total > longest:
        detail.note = f"The first {longest} of {total:,} elements."
    if concrete(array.shape, 1) == (1,) and len(detail.columns) == 1:
        detail.columns, detail.rows = [], []


def _range(values: Array) -> str:
    return words.span(words.number(float(values.min())), words.number(float(values.max())))
