"""What everything in a package is called, and what is joined to what.

program      (policy, q) -> value 0 -> net -> value 3 -> (policy, target);  state ``left/h`` -> value 1 -> 4
package      inputs/q -> policy/q    policy/target -> outputs/target
             states/h -> policy/h    policy/h_next -> states/h
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pytest
import torch

from ashore.capture.layout import Layout, StageLayout, lay_out
from ashore.capture.program import Program, ProgramState, Source
from ashore.capture.stages import StageCut
from ashore.capture.tape import Name
from ashore.spec import Rate, Wire

Cuts = dict[Rate, list[StageCut]]


def program_of(
    inputs: Mapping[Name, int] | None = None,
    outputs: Mapping[Name, int] | None = None,
    states: Mapping[str, int] | None = None,
    following: Mapping[str, int] | None = None,
) -> Program:
    """A program of which only the borders are known.

    Args:
        inputs: (node, port) -> value.
        outputs: the same.
        states: name -> the value that it is when a step begins.
        following: name -> the value that it becomes.
    """
    program = Program(inputs=dict(inputs or {}), outputs=dict(outputs or {}), next=dict(following or {}))
    program.sources = {value: Source("input", "/".join(name)) for name, value in program.inputs.items()}
    program.sources |= {value: Source("state", name) for name, value in (states or {}).items()}
    program.states = {
        name: ProgramState(name, initial=torch.zeros(1)) for name in {**(states or {}), **(following or {})}
    }
    return program


def stage(
    program: Program,
    name: str,
    reads: Sequence[int] = (),
    *,
    wanted: Sequence[int] = (),
    handed_on: Sequence[int] = (),
    edges: Mapping[int, str] | None = None,
) -> StageCut:
    sources = {value: program.sources[value] for value in reads}
    return StageCut(name, [], sources, dict(edges or {}), list(wanted), list(handed_on))


def laid_out(program: Program, *stages: StageCut, edges: Collection[Name] = ()) -> Layout:
    return lay_out({"policy": program}, {"policy": list(stages)}, edges=edges)


def wires(layout: Layout) -> set[tuple[str, str]]:
    assert len(set(layout.wires)) == len(layout.wires)
    return {(wire.source, wire.target) for wire in layout.wires}


def ports(stage: StageLayout) -> tuple[dict[str, int], dict[str, int]]:
    return stage.inputs, stage.outputs


# --- one stage -------------------------------------------------------------------------------------------------------


def test_ports_of_one_node_have_its_names() -> None:
    program = program_of({("policy", "q"): 0}, {("policy", "target"): 3}, {"policy/h": 1}, {"policy/h": 4})
    layout = laid_out(program, stage(program, "policy", [0, 1], wanted=[3, 4]))
    assert ports(layout.stages["policy"]) == ({"q": 0, "h": 1}, {"target": 3, "h_next": 4})
    assert layout.states == {"policy/h": "h"}
    assert wires(layout) == {
        ("inputs/q", "policy/q"),
        ("policy/target", "outputs/target"),
        ("states/h", "policy/h"),
        ("policy/h_next", "states/h"),
    }


def test_a_package_input_is_found_by_its_name() -> None:
    program = program_of({("policy", "q"): 0, ("policy", "dq"): 1}, {("policy", "target"): 3})
    layout = laid_out(program, stage(program, "policy", [0, 1], wanted=[3]))
    assert layout.input_key("dq") == ("policy", "dq")


def test_an_output_that_is_a_state_too_is_one_port() -> None:
    program = program_of({("policy", "q"): 0}, {("policy", "action"): 3}, {"last": 1}, {"last": 3})
    layout = laid_out(program, stage(program, "policy", [0, 1], wanted=[3]))
    assert layout.stages["policy"].outputs == {"action": 3}
    assert ("policy/action", "states/last") in wires(layout)
    assert ("policy/action", "outputs/action") in wires(layout)


def test_a_value_that_is_two_outputs_is_two_ports() -> None:
    program = program_of({("policy", "q"): 0}, {("policy", "a"): 3, ("policy", "b"): 3})
    layout = laid_out(program, stage(program, "policy", [0], wanted=[3]))
    assert layout.stages["policy"].outputs == {"a": 3, "b": 3}
    assert {("policy/a", "outputs/a"), ("policy/b", "outputs/b")} <= wires(layout)


def test_a_port_that_is_an_input_and_an_output_has_two_names_in_the_stage_and_one_in_the_package() -> None:
    program = program_of({("policy", "h"): 0}, {("policy", "h"): 3})
    layout = laid_out(program, stage(program, "policy", [0], wanted=[3]))
    assert ports(layout.stages["policy"]) == ({"h": 0}, {"h_out": 3})
    assert wires(layout) == {("inputs/h", "policy/h"), ("policy/h_out", "outputs/h")}


def test_a_state_whose_name_is_that_of_a_port_has_another_port() -> None:
    program = program_of({("policy", "h"): 0}, {("policy", "h_next"): 3}, {"h": 1}, {"h": 4})
    layout = laid_out(program, stage(program, "policy", [0, 1], wanted=[3, 4]))
    assert ports(layout.stages["policy"]) == ({"h": 0, "h_2": 1}, {"h_next": 3, "h_next_2": 4})
    assert {("states/h", "policy/h_2"), ("policy/h_next_2", "states/h")} <= wires(layout)


def test_states_that_end_in_the_same_name_are_told_apart() -> None:
    states = {"left/h": 1, "right/h": 2}
    program = program_of({("policy", "q"): 0}, {("policy", "y"): 3}, states, {"left/h": 4, "right/h": 5})
    layout = laid_out(program, stage(program, "policy", [0, 1, 2], wanted=[3, 4, 5]))
    assert layout.states == {"left/h": "h", "right/h": "h_2"}
    assert layout.stages["policy"].inputs == {"q": 0, "h": 1, "h_2": 2}
    assert {("policy/h_next", "states/h"), ("policy/h_2_next", "states/h_2")} <= wires(layout)


def test_constants_have_no_ports() -> None:
    program = program_of({("policy", "q"): 0}, {("policy", "y"): 3})
    program.sources[7] = Source("constant", "gain")
    layout = laid_out(program, stage(program, "policy", [0, 7], wanted=[3]))
    assert layout.stages["policy"].inputs == {"q": 0}


# --- several stages --------------------------------------------------------------------------------------------------


def two_nodes() -> Program:
    return program_of(
        {("left", "x"): 0, ("right", "x"): 1, ("right", "gain"): 2}, {("left", "y"): 3, ("right", "z"): 4}
    )


def test_a_name_that_two_nodes_share_goes_with_its_node() -> None:
    program = two_nodes()
    cuts = stage(program, "left", [0], wanted=[3]), stage(program, "right", [1, 2], wanted=[4])
    layout = laid_out(program, *cuts)
    assert layout.inputs == {("left", "x"): "left/x", ("right", "x"): "right/x", ("right", "gain"): "gain"}
    assert layout.outputs == {("left", "y"): "y", ("right", "z"): "z"}
    assert {("inputs/left/x", "left/x"), ("inputs/right/x", "right/x"), ("inputs/gain", "right/gain")} <= wires(layout)


def test_a_stage_that_takes_an_output_of_another_knows_it_by_that_name() -> None:
    program = two_nodes()
    right = stage(program, "right", [1, 2], wanted=[4], edges={3: "left"})
    layout = laid_out(program, stage(program, "left", [0], wanted=[3]), right)
    assert layout.stages["right"].inputs == {"x": 1, "gain": 2, "y": 3}
    assert ("left/y", "right/y") in wires(layout)
    assert ("left/y", "outputs/y") in wires(layout)


def test_an_output_that_only_another_stage_takes_is_none_of_the_package() -> None:
    program = two_nodes()
    right = stage(program, "right", [1, 2], wanted=[4], edges={3: "left"})
    layout = laid_out(program, stage(program, "left", [0], handed_on=[3]), right, edges={("left", "y")})
    assert layout.outputs == {("right", "z"): "z"}
    assert ("left/y", "right/y") in wires(layout)
    assert not any(target == "outputs/y" for _, target in wires(layout))


def test_a_value_from_inside_a_stage_has_a_name_of_its_own() -> None:
    program = two_nodes()
    right = stage(program, "right", [1, 2], wanted=[4], edges={8: "left", 9: "left"})
    layout = laid_out(program, stage(program, "left", [0], wanted=[3], handed_on=[8, 9]), right)
    outputs = layout.stages["left"].outputs
    assert outputs["y"] == 3
    names = {value: name for name, value in outputs.items()}
    assert len(names) == len(outputs) == 3
    assert layout.stages["right"].inputs == {"x": 1, "gain": 2, names[8]: 8, names[9]: 9}
    assert {(f"left/{names[8]}", f"right/{names[8]}"), (f"left/{names[9]}", f"right/{names[9]}")} <= wires(layout)


def test_a_name_that_the_taking_stage_has_already_gets_a_number() -> None:
    program = program_of({("left", "q"): 0, ("right", "y"): 1}, {("left", "y"): 3, ("right", "z"): 4})
    right = stage(program, "right", [1], wanted=[4], edges={3: "left"})
    layout = laid_out(program, stage(program, "left", [0], wanted=[3]), right)
    assert layout.stages["right"].inputs == {"y": 1, "y_2": 3}
    assert ("left/y", "right/y_2") in wires(layout)


def test_an_input_of_another_node_bears_the_name_of_that_node() -> None:
    program = two_nodes()
    cuts = stage(program, "left", [0, 2], wanted=[3]), stage(program, "right", [1, 2], wanted=[4])
    layout = laid_out(program, *cuts)
    assert layout.stages["left"].inputs == {"x": 0, "right_gain": 2}
    assert {("inputs/gain", "left/right_gain"), ("inputs/gain", "right/gain")} <= wires(layout)


def test_a_state_that_two_stages_read_is_written_by_one() -> None:
    program = program_of({("left", "x"): 0}, {("left", "y"): 3, ("right", "z"): 4}, {"h": 1}, {"h": 5})
    cuts = stage(program, "left", [0, 1], wanted=[3, 5]), stage(program, "right", [1], wanted=[4, 5])
    layout = laid_out(program, *cuts)
    assert {("states/h", "left/h"), ("states/h", "right/h")} <= wires(layout)
    assert [source for source, target in wires(layout) if target == "states/h"] == ["left/h_next"]


# --- names of stages -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        (["policy"], ["policy"]),
        (["left leg"], ["left_leg"]),
        (["a/b", "a:b"], ["a_b", "a_b_2"]),
        (["Policy", "policy"], ["Policy", "policy_2"]),
        (["inputs"], ["inputs_2"]),
        (["Outputs"], ["Outputs_2"]),
        (["states", "states_2"], ["states_2", "states_2_2"]),
        (["con"], ["_con"]),
        ([".hidden"], ["_.hidden"]),
        (["größe"], ["gr__e"]),
        (["x" * 100, "x" * 101], ["x" * 60, "x" * 60 + "_2"]),
    ],
)
def test_a_stage_has_the_name_of_its_node_as_a_file_may_have_it(nodes: list[str], names: list[str]) -> None:
    program = program_of({(node, f"x{number}"): number for number, node in enumerate(nodes)})
    cuts = [stage(program, node, [number]) for number, node in enumerate(nodes)]
    layout = laid_out(program, *cuts)
    assert [layout.stages[node].name for node in nodes] == names
    assert {target for _, target in wires(layout)} == {f"{name}/x{number}" for number, name in enumerate(names)}


# --- two rates -------------------------------------------------------------------------------------------------------


def test_two_rates_share_inputs_and_states_by_name() -> None:
    decide = program_of({("policy", "q"): 0}, {("policy", "action"): 3}, {"held": 1}, {"held": 3})
    act = program_of({("substep", "q"): 0}, {("substep", "effort"): 3}, {"held": 1}, {"held": 4})
    cuts: Cuts = {
        "policy": [stage(decide, "policy", [0, 1], wanted=[3])],
        "substep": [stage(act, "substep", [0, 1], wanted=[3, 4])],
    }
    layout = lay_out({"policy": decide, "substep": act}, cuts, edges=())
    assert layout.inputs == {("policy", "q"): "q", ("substep", "q"): "q"}
    assert layout.input_key("q") == ("policy", "q")
    assert layout.states == {"held": "held"}
    assert {stage.rate for stage in layout.stages.values()} == {"policy", "substep"}
    assert wires(layout) == {
        ("inputs/q", "policy/q"),
        ("inputs/q", "substep/q"),
        ("states/held", "policy/held"),
        ("states/held", "substep/held"),
        ("policy/action", "outputs/action"),
        ("policy/action", "states/held"),
        ("substep/effort", "outputs/effort"),
        ("substep/held_next", "states/held"),
    }
    assert all(isinstance(wire, Wire) for wire in layout.wires)
