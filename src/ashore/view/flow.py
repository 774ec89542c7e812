"""Which column everything stands in: a package flows from left to right, and states bring values back.

Column 0 holds the package's inputs, the last one its outputs. A stage stands right of whatever feeds it. Values that
come from further than one column to the left run along lanes through the columns between.
"""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx

from ashore.spec import Endpoint, Manifest, Wiring


@dataclass(frozen=True)
class Flow:
    """The wires of a package, apart by what they are, and the columns of its stages."""

    columns: dict[str, int]
    """Stage -> its column, from 1."""

    last: int
    """The column of the package's outputs."""

    values: dict[Endpoint, list[Endpoint]]
    """Package input or stage output -> the stage inputs and package outputs that get its value in the same run."""

    writers: dict[str, list[Endpoint]]
    """State -> the stage outputs that write it."""

    readers: dict[str, list[Endpoint]]
    """State -> the stage inputs that read it on the next run."""

    def column(self, endpoint: Endpoint) -> int:
        """Where an input, an output or a port of a stage stands."""
        if endpoint.group == "inputs":
            return 0
        return self.last if endpoint.group == "outputs" else self.columns[endpoint.group]


def trace(manifest: Manifest) -> Flow:
    """Sort the wires of a checked manifest, and give every stage its column."""
    wires = list(dict.fromkeys(Wiring(manifest).wires.values()))
    writers: dict[str, list[Endpoint]] = {name: [] for name in manifest.states}
    readers: dict[str, list[Endpoint]] = {name: [] for name in manifest.states}
    values: dict[Endpoint, list[Endpoint]] = {}
    for source, target in wires:
        if source.group == "states":
            readers[source.name].append(target)
        elif target.group == "states":
            writers[target.name].append(source)
        else:
            values.setdefault(source, []).append(target)
    columns = _columns(manifest, values, writers, readers)
    return Flow(columns, max(columns.values(), default=0) + 1, values, writers, readers)


def _columns(
    manifest: Manifest,
    values: dict[Endpoint, list[Endpoint]],
    writers: dict[str, list[Endpoint]],
    readers: dict[str, list[Endpoint]],
) -> dict[str, int]:
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(manifest.stages)
    for source, targets in values.items():
        for target in targets:
            if source.group in graph and target.group in graph:
                graph.add_edge(source.group, target.group)
    joined = {
        (source.group, target.group): None
        for state in manifest.states
        for source in writers[state]
        for target in readers[state]
        if source.group != target.group
    }
    # What a decision leaves for its substeps flows on; the other way it comes back.
    for source, target in sorted(joined, key=lambda pair: manifest.stages[pair[0]].rate == "substep"):
        if not nx.has_path(graph, target, source):
            graph.add_edge(source, target)
    return {stage: column for column, layer in enumerate(nx.topological_generations(graph), 1) for stage in layer}
