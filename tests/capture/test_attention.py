"""Attention with masks, where a query that may look at no key gets zeros, as torch says.

mask          scores              softmax of an exporter    torch
keys 1, 1     0.3   0.1           0.55 0.45                 the same
keys 0, 0     -inf  -inf          nan  nan                  zeros
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
from tapes import HERE, NODE, declared, op

from ashore.capture.attention import guard_attention
from ashore.capture.operations import Op, Ref
from ashore.capture.program import Program, ProgramState, Source
from ashore.capture.steps import Step
from ashore.capture.tape import Name, Tape

aten = torch.ops.aten
attend = aten.scaled_dot_product_attention.default
Q, MASK = Ref(0), Ref(1)
QUERY, MASKS, OUTPUT = (NODE, "q"), (NODE, "mask"), (NODE, "y")
QUERIES = torch.randn(1, 2, 3, 4, generator=torch.Generator().manual_seed(0))
HALF = torch.tensor([[True, True, False], [False, False, False], [True, False, False]])
ALL = torch.ones(3, 3, dtype=torch.bool)


def added(mask: torch.Tensor, far: float = -math.inf) -> torch.Tensor:
    """A mask of truth values as one that is added to the scores."""
    return torch.zeros(mask.shape).masked_fill(~mask, far)


def softmax_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor, **_: Any) -> torch.Tensor:
    """Attention as exporters write it."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(-1) @ v


class Attention:
    """A program of one attention, of a query that is an input and a mask that is one too or a constant."""

    def __init__(self, mask: torch.Tensor, *, fixed: bool = False, ops: list[Op] | None = None) -> None:
        self.inputs: dict[Name, torch.Tensor] = {QUERY: QUERIES}
        self.program = Program(groups=list(range(4)))
        self.program.ops = ops or [op(attend, Q, Q, Q, MASK, gives=3)]
        self.program.sources = {0: Source("input", "/".join(QUERY))}
        self.program.inputs = {QUERY: 0}
        self.program.outputs = {OUTPUT: self.program.ops[-1].results[0] or 0}
        if fixed:
            self.program.sources[1] = Source("constant", "mask")
            self.program.constants = {"mask": mask}
        else:
            self.program.sources[1] = Source("input", "/".join(MASKS))
            self.program.inputs[MASKS] = 1
            self.inputs[MASKS] = mask
        tape = Tape(inputs={name: declared(0, value=value) for name, value in self.inputs.items()})
        self.step = Step(0, tape, reset=True)

    def guard(self) -> bool:
        """Guard the program; whether that changed it."""
        before = list(self.program.ops)
        guard_attention(self.program, self.step)
        return self.program.ops != before

    def run(self, target: Any = None) -> torch.Tensor:
        """What the program gives, its attentions computed by another function if one is given."""
        program = self.program
        if target is not None:
            ops = [dataclasses.replace(one, target=target) if one.target is attend else one for one in program.ops]
            program = dataclasses.replace(program, ops=ops)
        outputs, _ = program.run(self.inputs, {})
        return outputs[OUTPUT]


MASKED = {
    "truth values": HALF,
    "numbers": added(HALF),
    "per head": torch.stack((HALF, ALL)).unsqueeze(0),
    "numbers per head": added(torch.stack((HALF, ALL))).unsqueeze(0),
    "the same for every query": torch.tensor([[False, False, False]]),
    "nothing masked": ALL,
    "far away, but not out of reach": added(HALF, -1e9),
}


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("mask", MASKED.values(), ids=MASKED)
def test_a_guarded_attention_gives_what_torch_gives(mask: torch.Tensor, fixed: bool) -> None:
    attention = Attention(mask, fixed=fixed)
    expected = attention.run()
    attention.guard()
    torch.testing.assert_close(attention.run(), expected)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("mask", MASKED.values(), ids=MASKED)
def test_a_guarded_attention_gives_the_same_by_a_softmax(mask: torch.Tensor, fixed: bool) -> None:
    attention = Attention(mask, fixed=fixed)
    expected = attention.run()
    attention.guard()
    torch.testing.assert_close(attention.run(softmax_attention), expected)


def test_without_a_guard_a_softmax_gives_no_number() -> None:
    assert Attention(HALF).run(softmax_attention)[0, 0, 1].isnan().all()
    assert Attention(HALF).run()[0, 0, 1].eq(0).all()


def test_a_guard_serves_masks_that_were_not_recorded() -> None:
    attention = Attention(ALL)
    assert attention.guard()
    attention.inputs[MASKS] = HALF
    assert attention.run(softmax_attention)[0, :, 1].eq(0).all()
    assert attention.run(softmax_attention)[0, :, 0].ne(0).all()


@pytest.mark.parametrize(
    ("mask", "guarded"),
    [
        (ALL, False),
        (HALF[:1], False),
        (added(ALL), False),
        (added(HALF, -1e9), False),
        (HALF, True),
        (added(HALF), True),
    ],
)
def test_a_mask_that_never_changes_is_guarded_only_where_it_hides_all_keys(mask: torch.Tensor, guarded: bool) -> None:
    assert Attention(mask, fixed=True).guard() is guarded


def test_an_attention_without_a_mask_is_left_alone() -> None:
    causal = op(attend, Q, Q, Q, None, 0.0, True, gives=3)
    other = op(aten.add.Tensor, Q, Ref(3), gives=4)
    assert not Attention(HALF, ops=[causal, other]).guard()


def test_a_mask_that_is_given_by_name_is_guarded_too() -> None:
    attention = Attention(HALF, ops=[op(attend, Q, Q, Q, attn_mask=MASK, scale=0.5, gives=3)])
    expected = attention.run()
    assert attention.guard()
    torch.testing.assert_close(attention.run(), expected)


def test_several_attentions_are_guarded_each_by_itself() -> None:
    first, second = op(attend, Q, Q, Q, MASK, gives=3), op(attend, Ref(3), Q, Ref(3), MASK, gives=5)
    between = op(aten.add.Tensor, Ref(5), Q, gives=6)
    attention = Attention(HALF, ops=[first, second, between])
    expected = attention.run()
    assert attention.guard()
    torch.testing.assert_close(attention.run(), expected)
    made = [value for one in attention.program.ops for value in one.results]
    assert len(set(made)) == len(made)
    assert set(made).isdisjoint(attention.program.sources)


def test_a_mask_that_the_program_computes_is_guarded() -> None:
    near = op(aten.lt.Scalar, MASK, 0.5, gives=2)
    ops = [near, op(attend, Q, Q, Q, Ref(2), gives=3)]
    distances = torch.tensor([[0.0, 1.0, 1.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    attention = Attention(distances, ops=ops)
    expected = attention.run()
    assert attention.guard()
    torch.testing.assert_close(attention.run(softmax_attention), expected)


def test_a_mask_that_is_a_state_is_guarded() -> None:
    attention = Attention(HALF)
    attention.program.sources[1] = Source("state", "mask")
    attention.program.states = {"mask": ProgramState("mask", initial=ALL)}
    del attention.program.inputs[MASKS]
    assert attention.guard()
    outputs, _ = attention.program.run({QUERY: QUERIES}, {"mask": HALF})
    assert outputs[OUTPUT][0, :, 1].eq(0).all()


def test_what_stands_in_for_an_attention_is_where_it_was() -> None:
    attention = Attention(HALF, ops=[op(attend, Q, Q, Q, MASK, gives=3, region="left")])
    attention.guard()
    assert {(one.line, one.region) for one in attention.program.ops} == {(HERE, "left")}
    assert attention.program.ops[-1].results == [3]


def test_guarding_changes_no_mask_and_no_constant() -> None:
    attention = Attention(added(HALF), fixed=True)
    attention.guard()
    assert torch.equal(attention.program.constants["mask"], added(HALF))
    assert torch.equal(attention.step.tape.inputs[QUERY].value, QUERIES)
