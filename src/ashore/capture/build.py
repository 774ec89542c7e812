"""The program of an analysed recording."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

import torch
from torch.utils._pytree import tree_flatten

from ashore.capture.analysis import Analyses, Analysis, Carried
from ashore.capture.naming import unique
from ashore.capture.operations import Op, Ref
from ashore.capture.program import Program, Programs, ProgramState, Source, all_states
from ashore.capture.tape import Capture, Declared
from ashore.capture.tensors import Place
from ashore.capture.variables import Variable
from ashore.spec import Rate

aten = torch.ops.aten


def build(analyses: Analyses, owned: Mapping[int, str]) -> dict[Rate, Program]:
    """Make a program of the reference step of each rate. Their states have no initial values yet.

    Args:
        analyses: what is known about the steps.
        owned: id of a tensor -> its path, for the parameters and buffers of modules.
    """
    states: dict[str, ProgramState] = {}
    programs: dict[Rate, Program] = {
        rate: _Builder(analysis, owned, states).build() for rate, analysis in analyses.items()
    }
    _drop_unread_states(programs)
    return programs


def waiting(carried: Carried) -> list[str]:
    """The states that hand a value on, one a step; the last of them is the one that is read."""
    return [carried.name, *(f"{carried.name}_lag{lag}" for lag in range(2, carried.lag + 1))]


class _Builder:
    def __init__(self, analysis: Analysis, owned: Mapping[int, str], states: dict[str, ProgramState]) -> None:
        self._analysis, self._owned, self._states = analysis, owned, states
        self._tape = analysis.steps.reference.tape
        self._program = Program(groups=list(self._tape.groups))
        self._count = len(self._tape.groups)
        self._value_of: dict[Variable, int] = {}
        self._constant_names: dict[tuple[int, Place], str] = {}
        self._snapshots: dict[tuple[int, int], int] = {}

    def build(self) -> Program:
        tape, program, analysis = self._tape, self._program, self._analysis
        for variable, capture in analysis.constants.items():
            self._value_of[variable] = self._source("constant", self._constant(capture), variable)
        self._take_inputs()
        self._take_states()
        self._copy_ops()
        for name, declared in tape.outputs.items():
            program.outputs[name] = self._snapshots[declared.slot, declared.at]
        for name, declared in tape.updates.items():
            program.next["/".join(name)] = self._snapshots[declared.slot, declared.at]
        return program

    def _take_inputs(self) -> None:
        for name, declared in self._tape.inputs.items():
            if declared.inner or name in self._analysis.elsewhere:
                continue
            if name in self._analysis.feedback:
                output, key = self._tape.outputs[self._analysis.feedback[name]], "/".join(name)
                self._program.sources[declared.slot] = Source("state", key)
                self._program.states[key] = ProgramState(key, line=declared.line, declared=True)
                self._program.next[key] = output.slot
            else:
                self._program.inputs[name] = declared.slot
                self._program.sources[declared.slot] = Source("input", "/".join(name))

    def _take_states(self) -> None:
        for variable, carried in self._analysis.carried.items():
            self._value_of[variable] = self._source("state", waiting(carried)[-1], variable)
            self._add_states(carried)
        for carried, origin in self._analysis.writes().values():
            self._add_states(carried)
            value = self._value(origin.source)
            for name in waiting(carried):
                self._program.next[name] = value
                value = self._source("state", name)

        for carried, other in self._analysis.moves().values():
            self._add_states(carried)
            self._add_states(other)
            self._program.next[carried.name] = self._source("state", waiting(other)[-1])

    def _add_states(self, carried: Carried) -> None:
        for name in waiting(carried):
            known = self._states.setdefault(
                name,
                ProgramState(name, line=carried.line, path=carried.path, declared=carried.declared is not None),
            )
            self._program.states[name] = known

    def _copy_ops(self) -> None:
        """The operations that matter, reading values in place of captured slots, with copies of what is declared."""
        tape, live = self._tape, self._analysis.live
        declared = (*tape.outputs.values(), *tape.updates.values())
        for index in range(len(tape.ops) + 1):
            for one in declared:
                if one.at == index and (one.slot, index) not in self._snapshots:
                    self._snapshots[one.slot, index] = self._snapshot(one, index)
            if index in live.ops and index not in self._analysis.weights:
                op = tape.ops[index]
                leaves = [
                    Ref(self._read(leaf.slot, (index, argument))) if isinstance(leaf, Ref) else leaf
                    for argument, leaf in enumerate(op.leaves)
                ]
                results = [None if slot is None else self._whole(slot) for slot in op.results]
                self._program.ops.append(dataclasses.replace(op, leaves=leaves, results=results))

    def _snapshot(self, declared: Declared, index: int) -> int:
        """The value of a declared tensor at its moment: itself, or a copy if it is written to later."""
        value = self._read(declared.slot, (-1, 0))
        group = self._tape.groups[declared.slot]
        if not any(group in self._tape.ops[later].mutates for later in self._analysis.live.ops if later >= index):
            return value
        leaves, structure = tree_flatten(((Ref(value),), {}))
        copy = self._new()
        self._program.ops.append(Op(aten.clone.default, leaves, structure, [copy], declared.line, None))
        return copy

    def _read(self, slot: int, read: tuple[int, int]) -> int:
        """The value that stands where a slot is read."""
        capture = self._tape.captures.get(slot)
        if capture is None:
            return slot
        variable = self._analysis.variables.variable(self._analysis.steps.rate, slot, read)
        if variable not in self._value_of:  # it has to be there, but what it holds does not matter
            self._value_of[variable] = self._source("constant", self._constant(capture), variable)
        return self._value_of[variable]

    def _value(self, variable: Variable) -> int:
        return self._value_of.get(variable, variable.slot)

    def _whole(self, slot: int) -> int:
        return self._value_of.get(Variable(slot, None, self._analysis.steps.rate), slot)

    def _source(self, kind: Literal["state", "constant"], name: str, variable: Variable | None = None) -> int:
        """The value of a state or a constant; one that the step writes into keeps its slot."""
        if variable is None or variable.read is not None:
            for value, source in self._program.sources.items():
                if source == Source(kind, name) and value >= len(self._tape.groups):
                    return value
        value = variable.slot if variable is not None and variable.read is None else self._new()
        self._program.sources[value] = Source(kind, name)
        return value

    def _constant(self, capture: Capture) -> str:
        key = id(capture.tensor), capture.place
        if key not in self._constant_names:
            path = self._owned.get(id(capture.tensor)) or capture.path or "constant"
            name = unique(path, self._program.constants)
            self._constant_names[key] = name
            drawn = {slot for index in self._analysis.weights for slot in self._tape.ops[index].results}
            matters = capture.slot in drawn or self._tape.groups[capture.slot] in self._analysis.live.groups
            # What is overwritten before anything looks at it holds nothing.
            self._program.constants[name] = capture.value if matters else torch.zeros_like(capture.value)
        return self._constant_names[key]

    def _new(self) -> int:
        self._count += 1
        return self._count - 1


def _drop_unread_states(programs: Programs) -> None:
    """Remove states that nothing reads, and then those that only they had read."""
    while True:
        alive = {name for program in programs.values() for name in _states_read(program)}
        dead = {name for name, state in all_states(programs).items() if name not in alive and not state.declared}
        if not dead:
            return
        for program in programs.values():
            program.states = {name: state for name, state in program.states.items() if name not in dead}
            program.next = {name: value for name, value in program.next.items() if name not in dead}
            program.sources = {
                value: source
                for value, source in program.sources.items()
                if source.kind != "state" or source.name not in dead
            }


def _states_read(program: Program) -> set[str]:
    read = {value for op in program.ops for value in op.reads()}
    read |= {*program.outputs.values(), *program.next.values()}
    return {source.name for value, source in program.sources.items() if source.kind == "state" and value in read}
