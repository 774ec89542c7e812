"""What a stage computes, in bytes: the same for the same code, another for whatever computes or says something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_flatten

from ashore.capture.fingerprint import fingerprint
from ashore.capture.lines import Line
from ashore.capture.operations import Op, Ref
from ashore.capture.program import Rows

aten = torch.ops.aten
torch.library.define("tests_fingerprint::own", "(Tensor x) -> Tensor")
FRAGMENT = torch.library.Library("aten", "FRAGMENT")
FRAGMENT.define("tests_fingerprint_own(Tensor x) -> Tensor")
HERE = Line("walk.py", 12)


def op(target: Any, *args: Any, gives: int, line: Line = HERE, **kwargs: Any) -> Op:
    leaves, structure = tree_flatten((args, kwargs))
    return Op(target, leaves, structure, [gives], line, None)


def of(ops: list[Op], inputs: list[int], outputs: list[int], constant: Any = (), **more: Any) -> str | None:
    return fingerprint(ops, inputs, constant, outputs, **more)


GAIN = torch.full((1, 4), 2.0)


def scaled(x: int, gain: int, y: int, tensor: torch.Tensor = GAIN, **more: Any) -> str | None:
    return of([op(aten.mul.Tensor, Ref(x), Ref(gain), gives=y, **more)], [x], [y], [(gain, tensor)])


def test_the_numbers_of_values_do_not_matter() -> None:
    digest = scaled(7, 3, 8)
    assert digest is not None
    assert digest == scaled(2, 9, 5) == scaled(0, 1, 2, tensor=torch.full((1, 4), 2.0))


@pytest.mark.parametrize(
    "other",
    [
        lambda: scaled(0, 1, 2, tensor=torch.full((1, 4), 2.5)),
        lambda: scaled(0, 1, 2, tensor=torch.full((4,), 2.0)),
        lambda: scaled(0, 1, 2, tensor=torch.full((1, 4), 2.0, dtype=torch.float64)),
        lambda: scaled(0, 1, 2, tensor=torch.full((1, 1), 2.0).expand(1, 4)),
        lambda: scaled(0, 1, 2, tensor=torch.full((1, 4), 2.0, requires_grad=True)),
        lambda: scaled(0, 1, 2, line=Line("walk.py", 13)),
        lambda: of([op(aten.div.Tensor, Ref(0), Ref(1), gives=2)], [0], [2], [(1, GAIN)]),
        lambda: of([op(aten.mul.Tensor, Ref(1), Ref(0), gives=2)], [0], [2], [(1, GAIN)]),
        lambda: of([op(aten.mul.Tensor, Ref(0), Ref(1), gives=2)], [0], [1], [(1, GAIN)]),
        lambda: of([op(aten.mul.Tensor, Ref(0), Ref(1), gives=2)], [0], [2], [(1, GAIN)], copied=[0]),
        lambda: of([op(aten.mul.Tensor, Ref(0), Ref(1), gives=2)], [0], [2], [(1, GAIN)], rows=(0, 0)),
        lambda: of([op(aten.mul.Tensor, Ref(0), Ref(1), gives=2)], [0, 1], [2]),
    ],
)
def test_whatever_computes_something_else_has_another(other: Callable[[], str | None]) -> None:
    assert other() is not None
    assert other() != scaled(0, 1, 2)


@pytest.mark.parametrize(
    "pair",
    [
        (1, 1.0),
        (0, False),
        (0.0, -0.0),
        (1.0, 1.0000000000000002),
        (None, "None"),
        (torch.float32, "torch.float32"),
        ([1, 2], (1, 2)),
        (Ref(0), 0),
        (Rows(2), 2),
        ((1, (2,)), ((1, 2),)),
    ],
    ids=repr,
)
def test_arguments_are_told_apart(pair: tuple[Any, Any]) -> None:
    digests = [of([op(aten.mul.Tensor, Ref(0), one, gives=1)], [0], [1]) for one in pair]
    assert None not in digests
    assert digests[0] != digests[1]


def test_constants_that_share_memory_are_told_from_equal_ones() -> None:
    ops = [op(aten.add.Tensor, Ref(0), Ref(1), gives=2)]
    twin = GAIN.clone()
    assert of(ops, [], [2], [(0, GAIN), (1, GAIN)]) != of(ops, [], [2], [(0, GAIN), (1, twin)])


def test_every_dtype_of_torch_is_told_by_its_bytes() -> None:
    for dtype in (torch.bool, torch.int8, torch.int64, torch.bfloat16, torch.float16, torch.complex64):
        zeros, ones = torch.zeros(3, dtype=dtype), torch.ones(3, dtype=dtype)
        digests = [of([], [], [0], [(0, tensor)]) for tensor in (zeros, ones)]
        assert None not in digests
        assert digests[0] != digests[1]
    empty, single = torch.zeros(0), torch.tensor(3.0)
    assert of([], [], [0], [(0, empty)]) != of([], [], [0], [(0, single)])


class Tagged(torch.Tensor):
    """A subclass, whose operations may do anything."""


def own(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@pytest.mark.parametrize(
    "stage",
    [
        lambda: of([op(own, Ref(0), gives=1)], [0], [1]),
        lambda: of([op(torch.mul, Ref(0), 2.0, gives=1)], [0], [1]),
        lambda: of([op(torch.ops.tests_fingerprint.own.default, Ref(0), gives=1)], [0], [1]),
        lambda: of([op(aten.tests_fingerprint_own.default, Ref(0), gives=1)], [0], [1]),
        lambda: of([op(aten.mul.Tensor, Ref(0), object(), gives=1)], [0], [1]),
        lambda: of([op(aten.mul.Tensor, Ref(0), torch.ones(1), gives=1)], [0], [1]),
        lambda: of([], [], [0], [(0, torch.ones(2).as_subclass(Tagged))]),
        lambda: of([], [], [0], [(0, torch.ones(2, 2).to_sparse())]),
        lambda: of([], [], [0], [(0, torch.ones(2, device="meta"))]),
    ],
)
def test_what_nobody_can_vouch_for_has_none(stage: Callable[[], str | None]) -> None:
    assert stage() is None
