"""The names and wires of a package: how stages, states, inputs and outputs of a program are called and joined."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ashore.capture.naming import unique
from ashore.capture.program import Program, Programs, all_states
from ashore.capture.stages import StageCut
from ashore.capture.tape import Name
from ashore.spec import Rate, Wire
from ashore.spec.paths import path_problem
from ashore.spec.wiring import RESERVED

_LONGEST = 60


@dataclass
class StageLayout:
    """A stage with named ports."""

    cut: StageCut
    name: str
    """What it is called in the package: the name of its node, with odd characters replaced."""

    rate: Rate = "policy"

    inputs: dict[str, int] = field(default_factory=dict)
    """Port name -> the value it carries."""

    outputs: dict[str, int] = field(default_factory=dict)


@dataclass
class Layout:
    """What everything is called, and what is joined to what."""

    inputs: dict[Name, str] = field(default_factory=dict)
    """(node, port) -> the name of the package input; two rates may share one."""

    outputs: dict[Name, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    """State of the program -> its name in the package."""

    stages: dict[str, StageLayout] = field(default_factory=dict)
    """Node -> its stage."""

    wires: list[Wire] = field(default_factory=list)

    def input_key(self, label: str) -> Name:
        """The first (node, port) that a package input goes to."""
        return next(key for key, other in self.inputs.items() if other == label)


def lay_out(programs: Programs, cuts: Mapping[Rate, list[StageCut]], *, edges: Collection[Name]) -> Layout:
    """Name everything and join it.

    Args:
        programs: what is exported.
        cuts: the stages of each rate.
        edges: outputs that only go to another stage, and are no outputs of the package.
    """
    layout = Layout()
    for rate, program in programs.items():
        layout.inputs |= _own_names(program.inputs)
        layout.outputs |= _own_names([name for name in program.outputs if name not in edges])
        for one in cuts[rate]:
            layout.stages[one.name] = StageLayout(one, _stage_name(one.name, layout), rate)
    for state in all_states(programs):
        layout.states[state] = unique(state.rpartition("/")[2], layout.states.values())
    for stage in layout.stages.values():
        _name_outputs(programs[stage.rate], layout, stage)
    for stage in layout.stages.values():
        _name_inputs(programs[stage.rate], layout, stage)
    return layout


def _stage_name(node: str, layout: Layout) -> str:
    """A name for a stage, and for its file: two must not differ by case alone."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", node)[:_LONGEST]
    name = name if path_problem(f"{name}.onnx") is None else f"_{name}"
    taken = {*RESERVED, *(stage.name.lower() for stage in layout.stages.values())}
    number = unique(name.lower(), taken)[len(name) :]
    return name + number


def _own_names(ports: Collection[Name]) -> dict[Name, str]:
    """A port's own name, with its node where two nodes share one."""
    names = [port for _, port in ports]
    return {(node, port): port if names.count(port) == 1 else f"{node}/{port}" for node, port in ports}


def _name_outputs(program: Program, layout: Layout, stage: StageLayout) -> None:
    name = stage.name
    for (node, port), value in program.outputs.items():
        if node == stage.cut.name and value in (*stage.cut.wanted, *stage.cut.handed_on):
            label = unique(f"{port}_out", _taken(program, stage)) if (node, port) in program.inputs else port
            stage.outputs[label] = value
            if (node, port) in layout.outputs:
                layout.wires.append(Wire(f"{name}/{label}", f"outputs/{layout.outputs[node, port]}"))
    for key, value in program.next.items():
        if value not in stage.cut.wanted or _is_written(layout, key, stage.rate):
            continue
        port = _port_of(stage, value) or unique(f"{layout.states[key]}_next", _taken(program, stage))
        stage.outputs[port] = value
        layout.wires.append(Wire(f"{name}/{port}", f"states/{layout.states[key]}"))
    for value in (*stage.cut.wanted, *stage.cut.handed_on):
        if _port_of(stage, value) is None:
            stage.outputs[unique(f"value_{len(stage.outputs)}", _taken(program, stage))] = value


def _is_written(layout: Layout, key: str, rate: Rate) -> bool:
    """Whether a stage of a rate writes a state already."""
    target = f"states/{layout.states[key]}"
    stages = {stage.name for stage in layout.stages.values() if stage.rate == rate}
    return any(wire.target == target and wire.source.partition("/")[0] in stages for wire in layout.wires)


def _port_of(stage: StageLayout, value: int) -> str | None:
    return next((port for port, other in stage.outputs.items() if other == value), None)


def _taken(program: Program, stage: StageLayout) -> set[str]:
    """Names that a further port of a stage must not have."""
    own = {port for node, port in (*program.inputs, *program.outputs) if node == stage.cut.name}
    return own | stage.inputs.keys() | stage.outputs.keys()


def _name_inputs(program: Program, layout: Layout, stage: StageLayout) -> None:
    name = stage.name
    for value, source in stage.cut.sources.items():
        if source.kind == "input":
            key = next(key for key, other in program.inputs.items() if other == value)
            port = key[1] if key[0] == stage.cut.name else unique("_".join(key), _taken(program, stage))
            layout.wires.append(Wire(f"inputs/{layout.inputs[key]}", f"{name}/{port}"))
        elif source.kind == "state":
            state = layout.states[source.name]
            port = unique(state, _taken(program, stage))
            layout.wires.append(Wire(f"states/{state}", f"{name}/{port}"))
        else:
            continue
        stage.inputs[port] = value
    for value, giver in stage.cut.edges.items():
        given = _port_of(layout.stages[giver], value)
        port = unique(given or "value", _taken(program, stage))
        stage.inputs[port] = value
        layout.wires.append(Wire(f"{layout.stages[giver].name}/{given}", f"{name}/{port}"))
