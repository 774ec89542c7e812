"""The wires of a manifest as a graph: who feeds whom, and in which order stages can run.

Both the checks of a manifest and the runtime's plan ask these questions, so they are answered in one place.
"""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from ashore.errors import suggestion
from ashore.spec.manifest import Manifest, Port, Rate, State

RESERVED = ("inputs", "outputs", "states")
"""Endpoint groups that are not stages, so no stage may have their names."""


class Endpoint(NamedTuple):
    """One end of a wire: ``inputs/joint_pos``, ``states/h``, ``policy/obs``. Only `name` may contain a slash."""

    group: str
    name: str

    def __str__(self) -> str:
        return f"{self.group}/{self.name}"


class Wiring:
    """The wires that make sense, and the problems of those that do not."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self.wires: dict[int, tuple[Endpoint, Endpoint]] = {}
        """Index in the manifest -> its two ends; wires with problems are left out."""

        self.problems: list[str] = []
        sources, targets = _ends(manifest)
        for index, wire in enumerate(manifest.wires):
            source = self._end(f"wires[{index}].source", wire.source, sources)
            target = self._end(f"wires[{index}].target", wire.target, targets)
            if source is None or target is None:
                continue
            if target.group in ("states", "outputs") and source.group not in manifest.stages:
                self.problems.append(
                    f"wires[{index}]: {target} is written by {source}; only a stage output may write it"
                )
                continue
            self.wires[index] = source, target
        self._into: dict[Endpoint, list[Endpoint]] = {}
        self._out_of: dict[Endpoint, list[Endpoint]] = {}
        for source, target in self.wires.values():
            self._into.setdefault(target, []).append(source)
            self._out_of.setdefault(source, []).append(target)

    def into(self, target: Endpoint) -> list[Endpoint]:
        """Where the wires that end at `target` start."""
        return self._into.get(target, [])

    def out_of(self, source: Endpoint) -> list[Endpoint]:
        """Where the wires that start at `source` end."""
        return self._out_of.get(source, [])

    def array(self, endpoint: Endpoint) -> Port | State:
        """The port or state at an endpoint of one of `wires`."""
        manifest, (group, name) = self._manifest, endpoint
        if group in RESERVED:
            arrays: Mapping[str, Port | State] = getattr(manifest, group)
            return arrays[name]
        stage = manifest.stages[group]
        return stage.inputs[name] if name in stage.inputs else stage.outputs[name]

    def inputs_of(self, rate: Rate) -> tuple[str, ...]:
        """Names of the package inputs that stages of a rate read, in the order of the manifest."""
        return tuple(
            name
            for name in self._manifest.inputs
            if any(self._rate(target) == rate for target in self.out_of(Endpoint("inputs", name)))
        )

    def outputs_of(self, rate: Rate) -> tuple[str, ...]:
        """Names of the package outputs that stages of a rate write, in the order of the manifest."""
        return tuple(
            name
            for name in self._manifest.outputs
            if any(self._rate(source) == rate for source in self.into(Endpoint("outputs", name)))
        )

    def _rate(self, endpoint: Endpoint) -> Rate:
        return self._manifest.stages[endpoint.group].rate

    def order(self) -> tuple[str, ...]:
        """Stage names in an order in which each runs after those that feed it; raises `CycleError`.

        Stages that do not depend on each other keep their order by name, so that the order of keys in a file never
        decides anything.
        """
        sorter: TopologicalSorter[str] = TopologicalSorter({name: [] for name in sorted(self._manifest.stages)})
        for source, target in self.wires.values():
            if source.group in self._manifest.stages and target.group in self._manifest.stages:
                sorter.add(target.group, source.group)
        return tuple(sorter.static_order())

    def cycle(self) -> list[str] | None:
        """The stages of a loop that no state breaks, or None."""
        try:
            self.order()
        except CycleError as error:
            return list(error.args[1])
        return None

    def _end(self, path: str, text: str, known: set[Endpoint]) -> Endpoint | None:
        group, slash, name = text.partition("/")
        endpoint = Endpoint(group, name)
        if slash and endpoint in known:
            return endpoint
        side, hint = path.rpartition(".")[2], suggestion(text, map(str, known))
        self.problems.append(f"{path}: {text!r} is nothing that a wire can have as its {side}{hint}")
        return None


def _ends(manifest: Manifest) -> tuple[set[Endpoint], set[Endpoint]]:
    states = {Endpoint("states", name) for name in manifest.states}
    sources = states | {Endpoint("inputs", name) for name in manifest.inputs}
    targets = states | {Endpoint("outputs", name) for name in manifest.outputs}
    for stage_name, stage in manifest.stages.items():
        sources |= {Endpoint(stage_name, port) for port in stage.outputs}
        targets |= {Endpoint(stage_name, port) for port in stage.inputs}
    return sources, targets
