"""The wires of a manifest as a graph: who feeds whom, and in which order stages can run.

Both the checks of a manifest and the runtime's plan ask these questions, so they are answered in one place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
    """The wires of a manifest that make sense."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self.wires: dict[int, tuple[Endpoint, Endpoint]] = {}
        """Index in the manifest -> its two ends; those that `problems` tells of are left out."""

        self._sources, self._targets = _ends(manifest)
        for index, wire in enumerate(manifest.wires):
            source, target = _split(wire.source), _split(wire.target)
            if source in self._sources and target in self._targets and _may_write(manifest, source, target):
                self.wires[index] = source, target
        self._into: dict[Endpoint, list[Endpoint]] = {}
        self._out_of: dict[Endpoint, list[Endpoint]] = {}
        for source, target in self.wires.values():
            self._into.setdefault(target, []).append(source)
            self._out_of.setdefault(source, []).append(target)

    def problems(self) -> Iterator[str]:
        """What is wrong with the wires that are left out."""
        for index, wire in enumerate(self._manifest.wires):
            if index in self.wires:
                continue
            ends = (("source", wire.source, self._sources), ("target", wire.target, self._targets))
            dangling = [(side, text, known) for side, text, known in ends if _split(text) not in known]
            for side, text, known in dangling:
                hint = suggestion(text, map(str, known))
                yield f"wires[{index}].{side}: {text!r} is nothing that a wire can have as its {side}{hint}"
            if not dangling:
                yield f"wires[{index}]: {wire.target} is written by {wire.source}; only a stage output may write it"

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

    def aliases_of(self, rate: Rate) -> dict[str, str]:
        """``stage/port`` of a rate that a package input goes to -> the name of the input.

        What is the name of a package input, of whatever rate, means that input and nothing else.
        """
        inputs = self._manifest.inputs
        return {
            str(target): name
            for name in inputs
            for target in self.out_of(Endpoint("inputs", name))
            if self._rate(target) == rate and str(target) not in inputs
        }

    def outputs_of(self, rate: Rate) -> tuple[str, ...]:
        """Names of the package outputs that stages of a rate write, in the order of the manifest."""
        return tuple(
            name
            for name in self._manifest.outputs
            if any(self._rate(source) == rate for source in self.into(Endpoint("outputs", name)))
        )

    def feeding(self, targets: Iterable[Endpoint]) -> set[str]:
        """Names of the stages that what ends at `targets` comes from within a run, near and far."""
        found: set[str] = set()
        waiting = [source.group for target in targets for source in self.into(target)]
        while waiting:
            name = waiting.pop()
            stage = self._manifest.stages.get(name)
            if stage is None or name in found:
                continue
            found.add(name)
            waiting += (source.group for port in stage.inputs for source in self.into(Endpoint(name, port)))
        return found

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


def _split(text: str) -> Endpoint:
    group, _, name = text.partition("/")
    return Endpoint(group, name)


def _may_write(manifest: Manifest, source: Endpoint, target: Endpoint) -> bool:
    return target.group not in ("states", "outputs") or source.group in manifest.stages


def _ends(manifest: Manifest) -> tuple[set[Endpoint], set[Endpoint]]:
    states = {Endpoint("states", name) for name in manifest.states}
    sources = states | {Endpoint("inputs", name) for name in manifest.inputs}
    targets = states | {Endpoint("outputs", name) for name in manifest.outputs}
    for stage_name, stage in manifest.stages.items():
        if stage_name in RESERVED:
            continue
        sources |= {Endpoint(stage_name, port) for port in stage.outputs}
        targets |= {Endpoint(stage_name, port) for port in stage.inputs}
    return sources, targets
