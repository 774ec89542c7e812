"""Whether all steps declare the same things.

step      0            1            2
height    float32 [1]  float32 [1]  float32 [2]     changing_shape, at step 2
contact   bool [4]                  bool [4]        control_flow: not in step 1
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from tapes import NODE, declared

from ashore.capture.declarations import check_declarations
from ashore.capture.findings import Finding
from ashore.capture.lines import Line
from ashore.capture.steps import Step
from ashore.capture.tape import Declared, Tape
from ashore.spec import Rate

GROUPS = {"inputs": "input", "outputs": "output", "states": "state", "updates": "update of the state"}
OUTPUT = declared(9, value=torch.zeros(1))


def step(index: int, *, rate: Rate = "policy", **groups: Mapping[str, Declared]) -> Step:
    """A step that declares an output and, by group and name, other things."""
    named = {group: {(NODE, name): one for name, one in ports.items()} for group, ports in groups.items()}
    named["outputs"] = {(NODE, "y"): OUTPUT} | named.get("outputs", {})
    return Step(index, Tape(**named), reset=index == 0, rate=rate)  # type: ignore[arg-type]


def steps(group: str, *declarations: Declared | None) -> list[Step]:
    """Steps, each of which declares ``q`` so or not at all."""
    ports = [{} if one is None else {"q": one} for one in declarations]
    return [step(index, **{group: one}) for index, one in enumerate(ports)]


def findings(recorded: list[Step]) -> list[Finding]:
    return list(check_declarations(recorded))


def at(line: int, value: torch.Tensor, **fields: Any) -> Declared:
    return declared(0, value=value, line=Line("walk.py", line), **fields)


FOUR = torch.zeros(1, 4)


@pytest.mark.parametrize("group", GROUPS)
def test_steps_that_declare_the_same_are_in_order(group: str) -> None:
    assert findings(steps(group, at(1, FOUR), at(2, FOUR + 1), at(3, FOUR))) == []


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("missing", [0, 1, 2])
def test_what_is_not_declared_in_a_step_is_told_with_the_line_of_another(group: str, missing: int) -> None:
    declarations: list[Declared | None] = [at(number, FOUR) for number in (10, 11, 12)]
    declarations[missing] = None
    (finding,) = findings(steps(group, *declarations))
    first = 11 if missing == 0 else 10
    message = f"the {GROUPS[group]} q is declared in some steps, but not in step {missing}"
    assert finding == Finding("control_flow", message, Line("walk.py", first), "q")


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize(
    ("other", "words"),
    [
        (torch.zeros(1, 5), "float32 [1, 5]"),
        (torch.zeros(4), "float32 [4]"),
        (torch.zeros(1, 4, dtype=torch.float64), "float64 [1, 4]"),
        (torch.zeros(1, 4, dtype=torch.bool), "bool [1, 4]"),
    ],
)
def test_another_shape_or_dtype_is_told_with_its_line(group: str, other: torch.Tensor, words: str) -> None:
    (finding,) = findings(steps(group, at(10, FOUR), at(11, FOUR), at(12, other), at(13, other)))
    message = f"the {GROUPS[group]} q is float32 [1, 4] in one step and {words} in step 2"
    assert finding == Finding("changing_shape", message, Line("walk.py", 12), "q")


def test_an_input_that_is_computed_within_some_steps_only_is_told() -> None:
    (finding,) = findings(steps("inputs", at(10, FOUR, inner=True), at(11, FOUR, inner=True), at(12, FOUR)))
    message = "the input q is computed within some steps, and comes from outside in step 2"
    assert finding == Finding("control_flow", message, Line("walk.py", 12), "q")


def test_of_each_port_the_first_difference_is_told() -> None:
    recorded = [
        step(0, inputs={"p": at(1, FOUR), "q": at(2, FOUR)}),
        step(1, inputs={"p": at(3, torch.zeros(2))}),
        step(2, inputs={"p": at(4, torch.zeros(3)), "q": at(5, torch.zeros(3))}),
    ]
    assert [(finding.name, finding.tensor) for finding in findings(recorded)] == [
        ("changing_shape", "p"),
        ("control_flow", "q"),
    ]


def test_ports_of_the_same_name_of_two_nodes_are_two() -> None:
    left, right = {("left", "q"): at(1, FOUR)}, {("right", "q"): at(2, torch.zeros(2))}
    tapes = [Tape(inputs={**left, **right}, outputs={(NODE, "y"): OUTPUT}) for _ in range(2)]
    assert findings([Step(index, tape, reset=False) for index, tape in enumerate(tapes)]) == []


def test_a_recording_without_an_output_is_told() -> None:
    recorded = [Step(0, Tape(inputs={(NODE, "q"): at(1, FOUR)}), reset=True)]
    assert findings(recorded) == [Finding("unwritten_output", "no step declared an output")]


def test_substeps_need_no_output() -> None:
    recorded = [Step(0, Tape(inputs={(NODE, "q"): at(1, FOUR)}), reset=True, rate="substep")]
    assert findings(recorded) == []
