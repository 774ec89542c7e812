"""How one tensor that shares memory with another is made from it.

state = torch.zeros(2, 6)
q = state[:, 1:4]              slice(state, dim=1, start=1, end=4)
last = state[:, -1]            select(state, dim=1, index=5)
wide = state.t()               permute(state, [1, 0])
flat = state.view(12)[3:5]     view, slice, view
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from ashore.capture.views import Step, express

aten = torch.ops.aten


def follow(base: torch.Tensor, steps: list[Step]) -> torch.Tensor:
    for target, arguments in steps:
        base = target(base, *arguments)
    return base


def contiguous() -> torch.Tensor:
    return torch.arange(24.0).reshape(2, 3, 4)


def transposed() -> torch.Tensor:
    return contiguous().transpose(0, 2)


def with_gaps() -> torch.Tensor:
    return torch.arange(48.0).reshape(2, 6, 4)[:, ::2]


def within_a_larger_one() -> torch.Tensor:
    return torch.arange(40.0)[7:31].reshape(2, 3, 4)


def with_axes_of_one() -> torch.Tensor:
    return torch.arange(6.0).reshape(1, 6, 1)


def whole_numbers() -> torch.Tensor:
    return torch.arange(24).reshape(2, 3, 4)


BASES = [contiguous, transposed, with_gaps, within_a_larger_one, with_axes_of_one, whole_numbers]
VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "first": lambda base: base[0],
    "last": lambda base: base[..., -1],
    "one element": lambda base: base[0, 0, 0],
    "slice": lambda base: base[:, 1:3],
    "slice of one": lambda base: base[:, 1:2],
    "every second": lambda base: base[:, ::2],
    "from the second, every second": lambda base: base[:, 1::2],
    "slices of all": lambda base: base[:1, 1:3, :1],
    "new axis": lambda base: base[:, None],
    "new axes around": lambda base: base[None, ..., None],
    "transposed": lambda base: base.transpose(0, 1),
    "turned": lambda base: base.permute(2, 0, 1),
    "selected and transposed": lambda base: base[0].t(),
    "a new axis among turned ones": lambda base: base.permute(2, 0, 1)[:, None],
    "repeated": lambda base: base[:, :, None].expand(-1, -1, 5, -1),
    "repeated in front": lambda base: base.expand(2, *base.shape),
    "one element, repeated": lambda base: base[0, 0, :1].expand(7),
}
THROUGH_AN_INDEX: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "diagonal": lambda base: base.diagonal(dim1=0, dim2=1),
    "window": lambda base: base.unfold(1, 2, 1),
    "overlapping": lambda base: base.as_strided((2, 2), (1, 1)),
}


def same_elements(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors are the same elements of the same memory, in the same order."""
    strides = [
        [stride for stride, length in zip(tensor.stride(), tensor.shape, strict=True) if length > 1]
        for tensor in (left, right)
    ]
    shared = left.untyped_storage().data_ptr() == right.untyped_storage().data_ptr()
    return shared and left.shape == right.shape and left.data_ptr() == right.data_ptr() and strides[0] == strides[1]


@pytest.mark.parametrize("make", BASES)
@pytest.mark.parametrize("look", VIEWS.values(), ids=VIEWS)
def test_a_view_is_made_again_as_the_same_elements(
    make: Callable[[], torch.Tensor], look: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    base = make()
    view = look(base)
    steps = express(base, view)
    assert steps is not None
    assert same_elements(follow(base, steps), view)


@pytest.mark.parametrize("make", BASES)
@pytest.mark.parametrize("look", VIEWS.values(), ids=VIEWS)
def test_the_operations_do_the_same_to_another_tensor_of_that_shape(
    make: Callable[[], torch.Tensor], look: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    base = make()
    steps = express(base, look(base))
    assert steps is not None
    fresh = torch.randn(base.shape, generator=torch.Generator().manual_seed(0))
    assert torch.equal(follow(fresh, steps), look(fresh))


@pytest.mark.parametrize("make", [contiguous, transposed, within_a_larger_one])
@pytest.mark.parametrize("look", THROUGH_AN_INDEX.values(), ids=THROUGH_AN_INDEX)
def test_what_no_slices_give_is_read_by_an_index(
    make: Callable[[], torch.Tensor], look: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    base = make()
    view = look(base)
    steps = express(base, view)
    assert steps is not None
    assert torch.equal(follow(base, steps), view)
    assert aten.index_select.default in [target for target, _ in steps]


def test_ordinary_views_need_no_index() -> None:
    base = contiguous()
    for look in VIEWS.values():
        steps = express(base, look(base))
        assert steps is not None
        assert aten.index_select.default not in [target for target, _ in steps]


@pytest.mark.parametrize(
    ("look", "steps"),
    [
        (lambda base: base[1], [(aten.select.int, (0, 1))]),
        (lambda base: base[:, 1:3], [(aten.slice.Tensor, (1, 1, 3, 1))]),
        (lambda base: base[..., ::2], [(aten.slice.Tensor, (2, 0, 3, 2))]),
        (lambda base: base[:, 1, 2:], [(aten.select.int, (1, 1)), (aten.slice.Tensor, (1, 2, 4, 1))]),
        (lambda base: base.permute(2, 0, 1), [(aten.permute.default, ([2, 0, 1],))]),
        (lambda base: base[0, :, None], [(aten.select.int, (0, 0)), (aten.unsqueeze.default, (1,))]),
    ],
)
def test_the_operations_are_those_that_a_person_would_write(
    look: Callable[[torch.Tensor], torch.Tensor], steps: list[tuple[Any, Any]]
) -> None:
    base = contiguous()
    assert express(base, look(base)) == steps


@pytest.mark.parametrize("shape", [(24,), (6, 4), (2, 12), (4, 6), (2, 3, 2, 2)])
def test_a_contiguous_tensor_is_seen_in_another_shape(shape: tuple[int, ...]) -> None:
    base = contiguous()
    view = base.view(shape)
    steps = express(base, view)
    assert steps is not None
    assert same_elements(follow(base, steps), view)


def test_a_stretch_of_a_contiguous_tensor_is_seen_across_its_rows() -> None:
    base = contiguous()
    view = base.view(24)[5:11].view(2, 3)
    steps = express(base, view)
    assert steps is not None
    assert same_elements(follow(base, steps), view)


@pytest.mark.parametrize(
    ("base", "view"),
    [
        (torch.arange(6.0)[:3], lambda memory: memory[2:5]),
        (torch.arange(6.0)[1:4], lambda memory: memory[0:2]),
        (torch.arange(6.0)[::2], lambda memory: memory[0:2]),
        (torch.arange(6.0)[:3], lambda memory: memory),
    ],
)
def test_what_reaches_beyond_a_tensor_is_no_view_of_it(
    base: torch.Tensor, view: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    memory = base.as_strided((6,), (1,), 0)
    assert express(base, view(memory)) is None


def test_a_tensor_of_another_dtype_is_no_view() -> None:
    base = torch.zeros(4)
    assert express(base, base.view(torch.int32)) is None


def test_a_tensor_without_elements_is_no_view() -> None:
    base = torch.zeros(4)
    assert express(base, base[4:]) is None
    assert express(base[4:], base[4:]) is None


def test_single_numbers_are_views_of_each_other() -> None:
    number = torch.tensor(3.0)
    for view in (number.detach(), number[None], number[None, None]):
        steps = express(number, view)
        assert steps is not None
        assert same_elements(follow(number, steps), view)
    vector = torch.arange(3.0)
    assert express(vector, vector[2]) == [(aten.select.int, (0, 2))]


def test_of_a_tensor_that_repeats_elements_a_view_is_told_too() -> None:
    base = torch.arange(3.0)[:, None].expand(3, 4)
    for view in (base[1], base[:, 0], base[0, 0]):
        steps = express(base, view)
        assert steps is not None
        assert torch.equal(follow(base, steps), view)
