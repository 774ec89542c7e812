"""A recording as a function: named inputs and states in, named outputs and next states out.

This is what is exported. It can also be run as it is, which is how a recording is checked against itself, and how the
exported files are checked against it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

import torch
from torch.fx.traceback import annotate, has_preserved_node_meta

from ashore.backends.functional import LINE
from ashore.capture.lines import NOWHERE, Line
from ashore.capture.operations import Op, Ref, is_random
from ashore.capture.tape import Name, Tape
from ashore.capture.tensors import snapshot
from ashore.spec.manifest import Rate, Role

Tensors: TypeAlias = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Source:
    """Where a value comes from that no operation of the program produces."""

    kind: Literal["input", "state", "constant"]
    name: str

    def is_state(self, name: str) -> bool:
        """Whether it is that state."""
        return self.kind == "state" and self.name == name


@dataclass
class ProgramState:
    """A state of a program."""

    name: str
    initial: torch.Tensor | None = None
    reset: Literal["initial", "keep"] = "initial"
    role: Role = "memory"
    line: Line | None = None
    path: str | None = None
    declared: bool = False

    @property
    def start(self) -> torch.Tensor:
        """Its initial value, once that is known."""
        return cast("torch.Tensor", self.initial)


@dataclass
class Program:
    """Operations on numbered values: what a step of one rate does."""

    ops: list[Op] = field(default_factory=list)
    sources: dict[int, Source] = field(default_factory=dict)
    """Value -> where it comes from."""

    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    inputs: dict[Name, int] = field(default_factory=dict)
    """(node, port) -> the value it is."""

    outputs: dict[Name, int] = field(default_factory=dict)
    states: dict[str, ProgramState] = field(default_factory=dict)
    """The states that it reads or writes."""

    next: dict[str, int] = field(default_factory=dict)
    """State -> the value that it becomes at the end of a step, for those that it writes."""

    groups: list[int] = field(default_factory=list)
    """Value -> the group of memory it lies in, for the values that the recording knew."""

    batch: int | None = None
    """How many rows were recorded, where the operations were made for any number of them."""

    def group(self, value: int) -> int:
        """The group of memory that a value lies in."""
        return self.groups[value] if value < len(self.groups) else value

    def run(
        self, inputs: Mapping[Name, torch.Tensor], states: Tensors
    ) -> tuple[dict[Name, torch.Tensor], dict[str, torch.Tensor]]:
        """Run the program once.

        Args:
            inputs: (node, port) -> tensor.
            states: name -> value at the start of the step, of every state, also of those it does not know.

        Returns:
            Outputs by (node, port), and every state at the end of the step.
        """
        values = self.values(inputs, states)
        outputs = {name: values[value].clone() for name, value in self.outputs.items()}
        return outputs, {**states, **{name: values[value].clone() for name, value in self.next.items()}}

    def values(self, inputs: Mapping[Name, torch.Tensor], states: Tensors) -> dict[int, torch.Tensor]:
        """Every value of the program when it has run once; arguments as for `run`."""
        named = {("input", "/".join(name)): tensor for name, tensor in inputs.items()}
        named |= {("state", name): tensor for name, tensor in states.items()}
        named |= {("constant", name): tensor for name, tensor in self.constants.items()}
        values = {value: named[source.kind, source.name].clone() for value, source in self.sources.items()}
        with torch.no_grad():
            execute(self.ops, values, self.batch)
        return values

    def next_value(self) -> int:
        """A number that no value of the program has."""
        made = (value or 0 for op in self.ops for value in op.results)
        return 1 + max([len(self.groups), *self.sources, *made])


class Rows:
    """A length among the arguments of an operation that grows with the batch: so many times as long."""

    __slots__ = ("times",)

    def __init__(self, times: int) -> None:
        self.times = times

    def __repr__(self) -> str:
        return f"{self.times} * batch"


def execute(ops: list[Op], values: dict[int, torch.Tensor], batch: Any = None) -> None:
    """Run operations in order, as they were executed, adding what they give to `values`.

    Args:
        ops: the operations.
        values: what they start with, by number.
        batch: how many rows there are, where the operations were made for any number of them.
    """
    noting = has_preserved_node_meta()  # a graph is being made that shall know its lines
    for op in ops:
        leaves: list[Any] = [_leaf(leaf, values, batch) for leaf in op.leaves]
        with annotate({LINE: str(op.line)}) if noting and op.line != NOWHERE else nullcontext():
            results = op.call(leaves)
        for value, result in zip(op.results, results, strict=True):
            if value is not None and value not in values:
                values[value] = result


def execute_again(tape: Tape, ops: Sequence[Op], values: dict[int, torch.Tensor]) -> None:
    """Run operations of a recorded step on other values; what was drawn at random stays what it was."""
    for op in ops:
        if is_random(op):
            values |= {slot: snapshot(tape.tensor(slot)) for slot in op.results if slot is not None}
        else:
            execute([op], values)


def _leaf(leaf: Any, values: dict[int, torch.Tensor], batch: Any) -> Any:
    if isinstance(leaf, Ref):
        return values[leaf.slot]
    return leaf.times * batch if isinstance(leaf, Rows) else leaf


Programs: TypeAlias = Mapping[Rate, Program]
"""Rate -> what its steps do. A state that both rates know is one object in both."""


def all_states(programs: Programs) -> dict[str, ProgramState]:
    """Every state of every rate."""
    return {name: state for program in programs.values() for name, state in program.states.items()}
