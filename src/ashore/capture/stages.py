"""A program cut into stages, one for each node.

What a node computed between its inputs and its outputs is its stage. Operations between nodes belong to the stage that
uses their results, so that no edge is ever lost. A stage that needs a value from inside another gets it by a port.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

import torch

from ashore.capture.findings import Finding
from ashore.capture.fingerprint import fingerprint
from ashore.capture.operations import Op
from ashore.capture.program import Program, Source, execute
from ashore.capture.tape import Name


@dataclass
class StageCut:
    """A stage: some operations of a program, what they need, and what is wanted of them."""

    name: str
    ops: list[Op] = field(default_factory=list)
    sources: dict[int, Source] = field(default_factory=dict)
    """Value that it starts with -> the input, state or constant that it is."""

    edges: dict[int, str] = field(default_factory=dict)
    """Value that it starts with -> the stage that gives it."""

    wanted: list[int] = field(default_factory=list)
    """Values that it gives, as they are when the step ends."""

    handed_on: list[int] = field(default_factory=list)
    """Values that it gives to other stages, as they are when its own operations are done."""


def cut(program: Program, nodes: list[str], edges: Collection[Name] = ()) -> tuple[list[StageCut], list[Finding]]:
    """Cut a program into stages.

    Args:
        program: what to cut.
        nodes: the names of the nodes, in the order in which they finished.
        edges: outputs that only go to another node.

    Returns:
        The stages, and what stands against cutting it so.
    """
    stages = {node: StageCut(node) for node in nodes}
    for (node, port), value in program.outputs.items():
        if (node, port) not in edges and value not in stages[node].wanted:
            stages[node].wanted.append(value)
    for value in program.next.values():
        home = stages[_home(program, nodes, value)]
        if value not in home.wanted:
            home.wanted.append(value)
    pending = True
    while pending:
        pending = False
        for stage in stages.values():
            _slice(program, nodes, stage)
            for value, giver in stage.edges.items():
                if value not in (*stages[giver].handed_on, *stages[giver].wanted):
                    stages[giver].handed_on.append(value)
                    pending = True
        for name, stage in stages.items():  # what was asked for on the way, and is not needed after all
            taken = {value for other in stages.values() for value, giver in other.edges.items() if giver == name}
            pending |= any(value not in taken for value in stage.handed_on)
            stage.handed_on = [value for value in stage.handed_on if value in taken]
    used = {value for stage in stages.values() for value in stage.sources}
    for (node, _), value in program.inputs.items():
        if value not in used:  # it was allowed to have no influence
            stages[node if node in stages else nodes[-1]].sources[value] = program.sources[value]
    return list(stages.values()), list(_entangled(stages))


def _home(program: Program, nodes: list[str], value: int) -> str:
    """The stage that gives a state its next value: where it is computed, else where it is read."""
    group = program.group(value)
    for op in reversed(program.ops):
        if group in op.makes(program.group):
            return op.region if op.region in nodes else nodes[-1]
    for op in program.ops:
        if value in op.reads() and op.region in nodes:
            return op.region
    for (node, _), given in program.inputs.items():
        if given == value:
            return node
    return nodes[-1]


def _slice(program: Program, nodes: list[str], stage: StageCut) -> None:
    """The operations that a stage needs for what is wanted of it, up to the borders of other stages."""
    needed, live = set(stage.wanted), {program.group(value) for value in stage.wanted}
    stage.ops, stage.edges = [], {}
    last = max((index for index, op in enumerate(program.ops) if op.region == stage.name), default=-1)
    if last < 0:
        needed, live = needed | set(stage.handed_on), live | {program.group(value) for value in stage.handed_on}
    for index in reversed(range(len(program.ops))):
        op = program.ops[index]
        if index == last:
            needed |= set(stage.handed_on)
            live |= {program.group(value) for value in stage.handed_on}
        made = op.makes(program.group)
        if not made & live and not needed.intersection(op.results):
            continue
        if op.region in nodes and op.region != stage.name:
            touched = made | {program.group(value) for value in op.results if value is not None}
            for value in [value for value in needed if program.group(value) in touched]:
                stage.edges[value] = op.region
                needed.discard(value)
            live -= touched
            continue
        stage.ops.append(op)
        reads = [value for value in op.reads() if value not in stage.edges]
        needed.difference_update(op.results)
        needed.update(reads)
        live -= made - op.mutates
        live |= {program.group(value) for value in reads}
    stage.ops.reverse()
    begins = dict.fromkeys(value for value in _read_first(stage) if value not in stage.edges)
    stage.sources = {value: program.sources[value] for value in begins if value in program.sources}


def _read_first(stage: StageCut) -> Iterator[int]:
    """What a stage reads before any operation of its own made it."""
    made: set[int | None] = set()
    for op in stage.ops:
        yield from (value for value in op.reads() if value not in made)
        made.update(op.results)
    yield from (value for value in (*stage.wanted, *stage.handed_on) if value not in made)


def _entangled(stages: dict[str, StageCut]) -> Iterator[Finding]:
    sorter = TopologicalSorter({name: set(stage.edges.values()) for name, stage in stages.items()})
    try:
        sorter.prepare()
    except CycleError as error:
        yield Finding("entangled_nodes", f"the nodes {', '.join(error.args[1][:-1])} need each other within a step")


class StageModule(torch.nn.Module):
    """A stage as a module: the values it starts with in, the wanted values out, all by position."""

    def __init__(
        self,
        program: Program,
        stage: StageCut,
        inputs: list[int],
        outputs: list[int],
        batch_axes: Mapping[int, int] | None = None,
    ) -> None:
        """Make a module.

        Args:
            program: what the stage is a part of.
            stage: its operations.
            inputs: the values it takes.
            outputs: the values it gives.
            batch_axes: position of an input -> the axis of its rows, where their number is open; without any, a
                program that was made for any number of rows gets one.
        """
        super().__init__()
        self._rows = next(iter((batch_axes or {}).items()), None)
        self._batch = None if program.batch is None else 1
        self._ops, self._inputs, self._outputs = stage.ops, inputs, outputs
        self._constants: dict[int, str] = {}
        names: dict[str, str] = {}
        for value, source in stage.sources.items():
            if source.kind == "constant":
                if source.name not in names:
                    names[source.name] = f"constant_{len(names)}"
                    self.register_buffer(names[source.name], program.constants[source.name])
                self._constants[value] = names[source.name]
        written = {group for op in stage.ops for group in op.mutates}
        self._copied = {value for value in (*inputs, *self._constants) if program.group(value) in written}

    def fingerprint(self) -> str | None:
        """A digest of what the module computes; None if that cannot be said."""
        constants = [(value, getattr(self, name)) for value, name in self._constants.items()]
        rows = (self._rows, self._batch)
        return fingerprint(self._ops, self._inputs, constants, self._outputs, copied=self._copied, rows=rows)

    def forward(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Run the stage; nothing that is given is written to."""
        values = dict(zip(self._inputs, given, strict=True))
        values |= {value: getattr(self, name) for value, name in self._constants.items()}
        values = {value: tensor.clone() if value in self._copied else tensor for value, tensor in values.items()}
        batch = given[self._rows[0]].shape[self._rows[1]] if self._rows else self._batch
        execute(self._ops, values, batch)
        return tuple(values[value].clone() for value in self._outputs)
