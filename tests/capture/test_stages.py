"""A program cut into stages, one for each node.

    node  left          between the nodes      node  right
    h = x * 2           r = h + 1              y = r * h

`left` hands on `h`. Nobody but `right` needs `r`, so that it is computed there.
"""

from __future__ import annotations

from collections.abc import Collection

import pytest
import torch
from tapes import op

from ashore.capture.findings import Finding
from ashore.capture.operations import Op, Ref
from ashore.capture.program import Program, ProgramState, Rows, Source
from ashore.capture.stages import StageCut, StageModule, cut
from ashore.capture.tape import Name

aten = torch.ops.aten
X, STATE, GAIN = Ref(0), Ref(1), Ref(2)
LEFT_X, LEFT_H, RIGHT_X, RIGHT_Y = ("left", "x"), ("left", "h"), ("right", "x"), ("right", "y")
NODES = ["left", "right"]


def program_of(
    *ops: Op,
    outputs: dict[Name, int],
    following: dict[str, int] | None = None,
    groups: dict[int, int] | None = None,
    inputs: dict[Name, int] | None = None,
) -> Program:
    """A program whose values 0, 1 and 2 are an input, the state ``s`` and the constant ``gain``.

    Args:
        *ops: what it does.
        outputs: port -> the value that it gives.
        following: state -> the value that it becomes.
        groups: value -> the value whose memory it shares.
        inputs: port -> the value that it is, besides the input of the node `left`.
    """
    program = Program(ops=list(ops), groups=[(groups or {}).get(value, value) for value in range(20)])
    program.inputs = {LEFT_X: 0, **(inputs or {})}
    program.sources = {value: Source("input", "/".join(name)) for name, value in program.inputs.items()}
    program.sources |= {1: Source("state", "s"), 2: Source("constant", "gain")}
    program.constants = {"gain": torch.tensor([[3.0, 3.0]])}
    program.states = {"s": ProgramState("s", initial=torch.ones(1, 2))}
    program.outputs, program.next = outputs, following or {}
    return program


def times(left: int, right: int | float, *, gives: int, region: str | None) -> Op:
    other = Ref(right) if type(right) is int else right
    return op(aten.mul.Tensor, Ref(left), other, gives=gives, region=region)


def stages_of(
    program: Program, nodes: list[str] = NODES, edges: Collection[Name] = ()
) -> tuple[dict[str, StageCut], list[Finding]]:
    stages, findings = cut(program, nodes, edges)
    assert [stage.name for stage in stages] == nodes
    return {stage.name: stage for stage in stages}, findings


def run(
    program: Program, stages: dict[str, StageCut], x: torch.Tensor, state: torch.Tensor, other: torch.Tensor | None
) -> dict[int, torch.Tensor]:
    """Run stages one after another, as a runtime does; every value that any of them gives."""
    given = {Source("state", "s"): state} | {Source("input", "/".join(name)): x for name in [LEFT_X]}
    if other is not None:
        given[Source("input", "/".join(RIGHT_X))] = other
    values: dict[int, torch.Tensor] = {}
    pending = dict(stages)
    while pending:
        ready = [name for name, stage in pending.items() if stage.edges.keys() <= values.keys()]
        assert ready, "the stages wait for each other"
        stage = pending.pop(ready[0])
        inputs = [value for value, source in stage.sources.items() if source.kind != "constant"]
        outputs = [*stage.wanted, *stage.handed_on]
        module = StageModule(program, stage, [*inputs, *stage.edges], outputs)
        arguments = [given[stage.sources[value]] for value in inputs] + [values[value] for value in stage.edges]
        kept = [argument.clone() for argument in arguments]
        results = module(*arguments)
        assert all(torch.equal(now, before) for now, before in zip(arguments, kept, strict=True)), "an input changed"
        values |= dict(zip(outputs, results, strict=True))
    return values


def check_same(program: Program, stages: dict[str, StageCut]) -> None:
    """Stages that are run one after another give what the whole program gives."""
    generator = torch.Generator().manual_seed(0)
    x, state, other = (torch.randn(1, 2, generator=generator) for _ in range(3))
    inputs = {LEFT_X: x} | ({RIGHT_X: other} if RIGHT_X in program.inputs else {})
    outputs, states = program.run(inputs, {"s": state})
    values = run(program, stages, x, state, other)
    for name, value in program.outputs.items():
        assert torch.equal(values[value], outputs[name]), name
    for name, value in program.next.items():
        assert torch.equal(values[value], states[name]), name


# --- one node --------------------------------------------------------------------------------------------------------


def test_one_node_is_one_stage_with_all_that_matters() -> None:
    needed = [times(0, 2, gives=3, region="left"), times(3, 1, gives=4, region="left")]
    idle = times(0, 5.0, gives=5, region="left")
    program = program_of(needed[0], idle, needed[1], outputs={LEFT_H: 4}, following={"s": 3})
    stages, findings = stages_of(program, ["left"])
    assert findings == []
    stage = stages["left"]
    assert stage.ops == needed
    assert {source.name for source in stage.sources.values()} == {"left/x", "gain", "s"}
    assert (stage.wanted, stage.handed_on, stage.edges) == ([4, 3], [], {})
    check_same(program, stages)


def test_an_output_that_is_given_twice_is_wanted_once() -> None:
    program = program_of(
        times(0, 2, gives=3, region="left"), outputs={LEFT_H: 3, ("left", "again"): 3}, following={"s": 3}
    )
    stages, _ = stages_of(program, ["left"])
    assert stages["left"].wanted == [3]


def test_an_input_that_goes_straight_out_is_a_stage_without_operations() -> None:
    program = program_of(outputs={LEFT_H: 0}, following={"s": 1})
    stages, _ = stages_of(program, ["left"])
    assert stages["left"].ops == []
    assert {source.name for source in stages["left"].sources.values()} == {"left/x", "s"}
    check_same(program, stages)


def test_an_input_without_influence_belongs_to_its_node() -> None:
    ops = (times(0, 2.0, gives=3, region="left"), times(3, 2.0, gives=4, region="right"))
    program = program_of(*ops, outputs={RIGHT_Y: 4}, inputs={RIGHT_X: 6, ("gone", "x"): 7})
    stages, _ = stages_of(program)
    assert stages["right"].sources[6] == Source("input", "right/x")
    assert stages["right"].sources[7] == Source("input", "gone/x")


# --- several nodes ---------------------------------------------------------------------------------------------------


def chain() -> Program:
    ops = (
        times(0, 2.0, gives=3, region="left"),
        times(3, 3.0, gives=4, region=None),
        times(4, 3, gives=5, region="right"),
    )
    return program_of(*ops, outputs={RIGHT_Y: 5})


def test_what_is_computed_between_nodes_belongs_to_the_stage_that_uses_it() -> None:
    program = chain()
    stages, findings = stages_of(program)
    assert findings == []
    assert stages["left"].ops == program.ops[:1]
    assert stages["right"].ops == program.ops[1:]
    assert stages["left"].handed_on == [3]
    assert stages["right"].edges == {3: "left"}
    check_same(program, stages)


def test_what_is_computed_between_nodes_for_two_of_them_is_computed_in_each() -> None:
    between = times(0, 2.0, gives=3, region=None)
    left, right = times(3, 3.0, gives=4, region="left"), times(3, 4.0, gives=5, region="right")
    program = program_of(between, left, right, outputs={LEFT_H: 4, RIGHT_Y: 5})
    stages, findings = stages_of(program)
    assert findings == []
    assert stages["left"].ops == [between, left]
    assert stages["right"].ops == [between, right]
    check_same(program, stages)


def test_an_output_that_another_node_takes_is_handed_on_once() -> None:
    ops = (times(0, 2.0, gives=3, region="left"), times(3, 3.0, gives=4, region="right"))
    program = program_of(*ops, outputs={LEFT_H: 3, RIGHT_Y: 4})
    stages, _ = stages_of(program)
    assert (stages["left"].wanted, stages["left"].handed_on) == ([3], [])
    edged, _ = stages_of(program, edges={LEFT_H})
    assert (edged["left"].wanted, edged["left"].handed_on) == ([], [3])
    check_same(program, stages)


def test_a_value_from_inside_another_stage_goes_by_a_port() -> None:
    inner = times(0, 2.0, gives=3, region="left")
    ops = (inner, times(3, 2.0, gives=4, region="left"), times(3, 5.0, gives=5, region="right"))
    program = program_of(*ops, outputs={LEFT_H: 4, RIGHT_Y: 5})
    stages, findings = stages_of(program)
    assert findings == []
    assert stages["left"].handed_on == [3]
    check_same(program, stages)


def test_an_input_is_read_by_every_stage_that_needs_it() -> None:
    ops = (times(0, 2.0, gives=3, region="left"), times(0, 3, gives=4, region="right"))
    program = program_of(*ops, outputs={LEFT_H: 3, RIGHT_Y: 4})
    stages, _ = stages_of(program)
    assert stages["left"].sources[0] == stages["right"].sources[0] == Source("input", "left/x")
    check_same(program, stages)


def test_nodes_that_need_each_other_are_entangled() -> None:
    ops = (
        times(0, 2.0, gives=3, region="left"),
        times(3, 2.0, gives=4, region="right"),
        times(4, 2.0, gives=5, region="left"),
    )
    _, findings = stages_of(program_of(*ops, outputs={LEFT_H: 5, RIGHT_Y: 4}))
    (finding,) = findings
    assert finding.name == "entangled_nodes"
    assert "left" in finding.message
    assert "right" in finding.message


def test_a_node_that_is_not_the_last_hands_on_what_any_later_one_needs() -> None:
    ops = (
        times(0, 2.0, gives=3, region=None),
        times(3, 2.0, gives=4, region="left"),
        times(4, 2.0, gives=5, region="middle"),
        times(5, 4, gives=6, region="right"),
    )
    program = program_of(*ops, outputs={RIGHT_Y: 6})
    stages, findings = stages_of(program, ["left", "middle", "right"])
    assert findings == []
    assert stages["left"].handed_on == [4]
    assert stages["middle"].handed_on == [5]
    assert stages["right"].edges == {4: "left", 5: "middle"}
    check_same(program, stages)


# --- states ----------------------------------------------------------------------------------------------------------


def test_a_state_belongs_to_the_stage_that_computes_it() -> None:
    ops = (times(0, 1, gives=3, region="left"), times(3, 2.0, gives=4, region="right"))
    stages, _ = stages_of(program_of(*ops, outputs={RIGHT_Y: 4}, following={"s": 3}))
    assert stages["left"].wanted == [3]
    assert stages["right"].wanted == [4]


def test_a_state_that_is_computed_between_nodes_belongs_to_the_last() -> None:
    ops = (times(0, 2.0, gives=3, region="left"), times(3, 1, gives=4, region=None))
    program = program_of(*ops, outputs={LEFT_H: 3}, following={"s": 4})
    stages, _ = stages_of(program)
    assert stages["right"].wanted == [4]
    assert stages["right"].edges == {3: "left"}
    check_same(program, stages)


def test_a_state_that_is_handed_on_as_it_was_belongs_to_the_stage_that_reads_it() -> None:
    program = program_of(times(1, 2.0, gives=3, region="left"), outputs={LEFT_H: 3}, following={"s": 1})
    stages, _ = stages_of(program)
    assert stages["left"].wanted == [3, 1]
    check_same(program, {"left": stages["left"]})


def test_a_state_that_becomes_an_input_belongs_to_the_node_of_the_input() -> None:
    program = program_of(times(1, 2.0, gives=3, region="right"), outputs={RIGHT_Y: 3}, following={"s": 0})
    stages, _ = stages_of(program)
    assert stages["left"].wanted == [0]
    check_same(program, stages)


def writing() -> Program:
    """A buffer that one node writes a part of, and that another reads."""
    part = op(aten.slice.Tensor, STATE, 1, 0, 1, gives=3, region="left")
    write = op(aten.mul_.Tensor, Ref(3), 2.0, gives=3, region="left", writes=[1])
    read = times(1, 0, gives=4, region="right")
    return program_of(part, write, read, outputs={RIGHT_Y: 4}, following={"s": 1}, groups={3: 1})


def test_a_stage_gets_a_buffer_as_another_stage_has_written_it() -> None:
    program = writing()
    stages, findings = stages_of(program)
    assert findings == []
    assert stages["left"].wanted == [1]
    assert stages["right"].edges == {1: "left"}
    check_same(program, stages)


def test_what_was_done_before_another_stage_wrote_is_done_there_and_not_again() -> None:
    before = op(aten.add_.Tensor, STATE, 1.0, gives=1, region=None, writes=[1])
    write = op(aten.mul_.Tensor, STATE, 2.0, gives=1, region="left", writes=[1])
    program = program_of(before, write, times(1, 0, gives=3, region="right"), outputs={RIGHT_Y: 3}, following={"s": 1})
    stages, findings = stages_of(program)
    assert findings == []
    assert stages["left"].ops == [before, write]
    assert stages["right"].ops == program.ops[2:]
    check_same(program, stages)


def test_a_view_that_another_stage_made_goes_by_a_port() -> None:
    view = op(aten.slice.Tensor, X, 1, 0, 1, gives=3, region="left")
    program = program_of(view, times(3, 2, gives=4, region="right"), outputs={RIGHT_Y: 4}, groups={3: 0})
    stages, findings = stages_of(program)
    assert findings == []
    assert stages["left"].handed_on == [3]
    check_same(program, stages)


def test_a_buffer_that_is_read_before_and_after_a_write_is_what_it_was_at_each() -> None:
    before = times(1, 0, gives=3, region="left")
    write = op(aten.mul_.Tensor, STATE, 2.0, gives=1, region="left", writes=[1])
    after = times(1, 3, gives=4, region="left")
    program = program_of(before, write, after, outputs={LEFT_H: 4}, following={"s": 1})
    stages, _ = stages_of(program, ["left"])
    check_same(program, stages)


# --- modules ---------------------------------------------------------------------------------------------------------


def test_a_module_writes_into_nothing_that_it_is_given() -> None:
    write = op(aten.add_.Tensor, X, STATE, gives=0, region="left", writes=[0])
    gain = op(aten.add_.Tensor, GAIN, X, gives=2, region="left", writes=[2])
    program = program_of(write, gain, outputs={LEFT_H: 2})
    (stage,), _ = cut(program, ["left"])
    module = StageModule(program, stage, [0, 1], [2, 0])
    x, state = torch.ones(1, 2), torch.full((1, 2), 2.0)
    for _ in range(2):  # a second time as the first
        results = module(x, state)
        assert [result.tolist() for result in results] == [[[6.0, 6.0]], [[3.0, 3.0]]]
    assert x.tolist() == [[1.0, 1.0]]
    assert program.constants["gain"].tolist() == [[3.0, 3.0]]


def test_what_a_module_gives_is_its_own() -> None:
    program = program_of(outputs={LEFT_H: 0, ("left", "gain"): 2})
    (stage,), _ = cut(program, ["left"])
    module = StageModule(program, stage, [0], [0, 2, 0])
    x = torch.ones(1, 2)
    for result in module(x):
        result.add_(1)
    assert x.tolist() == [[1.0, 1.0]]
    assert program.constants["gain"].tolist() == [[3.0, 3.0]]


def test_values_go_in_and_out_by_position() -> None:
    program = program_of(op(aten.sub.Tensor, X, STATE, gives=3, region="left"), outputs={LEFT_H: 3}, following={"s": 0})
    (stage,), _ = cut(program, ["left"])
    x, state = torch.full((1, 2), 5.0), torch.full((1, 2), 2.0)
    assert [one[0, 0].item() for one in StageModule(program, stage, [0, 1], [3, 0])(x, state)] == [3.0, 5.0]
    assert [one[0, 0].item() for one in StageModule(program, stage, [1, 0], [0, 3])(state, x)] == [5.0, 3.0]


def test_a_module_with_too_few_values_is_refused() -> None:
    program = program_of(times(0, 1, gives=3, region="left"), outputs={LEFT_H: 3})
    (stage,), _ = cut(program, ["left"])
    with pytest.raises(ValueError, match="argument"):
        StageModule(program, stage, [0, 1], [3])(torch.ones(1, 2))


def test_constants_are_buffers_and_one_that_is_read_twice_is_one() -> None:
    program = program_of(times(0, 2, gives=3, region="left"), times(3, 6, gives=4, region="left"), outputs={LEFT_H: 4})
    program.sources[6] = Source("constant", "gain")
    (stage,), _ = cut(program, ["left"])
    module = StageModule(program, stage, [0], [4])
    assert [name for name, _ in module.named_buffers()] == ["constant_0"]
    assert module(torch.ones(1, 2))[0].tolist() == [[9.0, 9.0]]


def repeated() -> tuple[Program, StageCut]:
    """A program of one row that is repeated as often as there are rows."""
    ops = (
        op(aten.expand.default, GAIN, [Rows(1), 2], gives=3, region="left"),
        op(aten.add.Tensor, X, Ref(3), gives=4, region="left"),
        op(aten.zeros.default, [Rows(2), 1], gives=5, region="left"),
    )
    program = program_of(*ops, outputs={LEFT_H: 4, ("left", "zeros"): 5})
    program.batch = 4
    (stage,), _ = cut(program, ["left"])
    return program, stage


@pytest.mark.parametrize("rows", [1, 3])
def test_a_module_of_any_number_of_rows_has_as_many_as_it_is_given(rows: int) -> None:
    program, stage = repeated()
    module = StageModule(program, stage, [0], [4, 5], {0: 0})
    total, zeros = module(torch.ones(rows, 2))
    assert total.shape == (rows, 2)
    assert zeros.shape == (2 * rows, 1)


def test_a_module_of_any_number_of_rows_that_nobody_gives_has_one() -> None:
    program, stage = repeated()
    module = StageModule(program, stage, [0], [4, 5])
    total, zeros = module(torch.ones(1, 2))
    assert total.shape == (1, 2)
    assert zeros.shape == (2, 1)


def test_rows_are_counted_along_the_axis_that_is_said() -> None:
    program, stage = repeated()
    module = StageModule(program, stage, [1, 0], [5], {0: 1})
    (zeros,) = module(torch.ones(7, 3), torch.ones(3, 2))
    assert zeros.shape == (6, 1)
