"""Operations said in simpler ones: each gives what torch's own gives, or leaves the operation as it is.

slice_scatter(base, source, dim=0, start=2, end=4)    torch's own
cat((base[:2], source, base[4:]))                     the same in simpler ones
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch

from ashore.backends.decompositions import DECOMPOSITIONS

aten = torch.ops.aten
NAN, INF = float("nan"), float("inf")


def normal(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def whole(*shape: int, dtype: torch.dtype = torch.int64, seed: int = 0) -> torch.Tensor:
    return torch.randint(-9, 9, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def flags(*shape: int, seed: int = 0) -> torch.Tensor:
    return normal(*shape, seed=seed) > 0


def vector(*values: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


class Call(NamedTuple):
    """An operation on its arguments."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __str__(self) -> str:
        shown = [str(list(arg.shape)) if isinstance(arg, torch.Tensor) else str(arg) for arg in self.args]
        return f"{str(self.target).removeprefix('aten.')}({', '.join(shown)[:60]})"


def call(target: Any, *args: Any, **kwargs: Any) -> Call:
    return Call(target, args, kwargs)


def results_of(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple | list) else [result]


def check_same(one: Call, *, which: int | None = None, rtol: float | None = None, atol: float | None = None) -> None:
    """A decomposition gives what torch gives, of the same shape and dtype, and writes into nothing.

    Args:
        one: what is computed.
        which: the result that matters, where others may be anything.
        rtol: how far numbers may be apart, relative to them; left out, a few units in the last place.
        atol: how far they may be apart near zero.
    """
    copies = [arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in one.args]
    expected = results_of(one.target(*one.args, **one.kwargs))
    got = DECOMPOSITIONS[one.target](*copies, **one.kwargs)
    assert got is not NotImplemented
    pairs = list(zip(results_of(got), expected, strict=True))
    for found, wanted in pairs if which is None else [pairs[which]]:
        unit = torch.finfo(wanted.dtype).eps if wanted.is_floating_point() else 0.0
        apart = {"rtol": 8 * unit if rtol is None else rtol, "atol": 2 * unit if atol is None else atol}
        torch.testing.assert_close(found, wanted, equal_nan=True, **apart)
    for copy, arg in zip(copies, one.args, strict=True):
        if isinstance(arg, torch.Tensor):
            assert torch.equal(copy.nan_to_num(), arg.nan_to_num())


# --- writes into a part ----------------------------------------------------------------------------------------------


def slices() -> Iterator[Call]:
    base = normal(5, 6)
    scatter = aten.slice_scatter.default
    for dtype in (torch.float32, torch.float64, torch.int64, torch.bool):
        yield call(scatter, base.to(dtype), normal(2, 6, seed=1).to(dtype), 0, 1, 3)
    yield call(scatter, base, normal(5, 6, seed=1))
    yield call(scatter, base, normal(5, 6, seed=1), 1, 0, 2**63 - 1)
    yield call(scatter, base, normal(5, 2, seed=1), 1, -2)
    yield call(scatter, base, normal(5, 3, seed=1), -1, None, -3)
    yield call(scatter, base, normal(5, 1, seed=1), 1, 5, 100)
    yield call(scatter, base, normal(5, 2, seed=1), 1, -100, 2)
    yield call(scatter, base, normal(5, 3, seed=1), 1, 0, 6, 2)
    yield call(scatter, base, normal(5, 2, seed=1), 1, 1, 5, 3)
    yield call(scatter, base, normal(5, 0), 1, 2, 2)
    yield call(scatter, base, normal(5, 0), 1, 9, 12)
    yield call(scatter, base.t(), normal(6, 2, seed=1), 1, 0, 2)


def parts() -> Iterator[Call]:
    base = normal(3, 4, 5)
    yield call(aten.select_scatter.default, base, normal(4, 5, seed=1), 0, 0)
    yield call(aten.select_scatter.default, base, normal(3, 5, seed=1), 1, 3)
    yield call(aten.select_scatter.default, base, normal(3, 4, seed=1), 2, -1)
    yield call(aten.select_scatter.default, base, normal(3, 4, seed=1), -1, -5)
    yield call(aten.select_scatter.default, vector(1.0, 2.0), torch.tensor(7.0), 0, 1)
    yield call(aten.diagonal_scatter.default, normal(3, 4), normal(3, seed=1))
    yield call(aten.diagonal_scatter.default, normal(3, 4), normal(3, seed=1), 1)
    yield call(aten.diagonal_scatter.default, normal(3, 4), normal(2, seed=1), -1)
    yield call(aten.diagonal_scatter.default, base, normal(4, 3, seed=1), 0, 0, 2)
    yield call(aten.diagonal_scatter.default, whole(3, 3), whole(3, seed=1))
    yield call(aten.diagonal_scatter.default, normal(3, 4).t(), normal(3, seed=1))
    yield call(aten.as_strided_scatter.default, normal(3, 4), normal(2, 2, seed=1), [2, 2], [4, 1], 1)
    yield call(aten.as_strided_scatter.default, normal(12), normal(3, seed=1), [3], [5])
    yield call(aten.put.default, normal(2, 3), torch.tensor([0, -1, 4]), vector(7.0, 8.0, 9.0))
    yield call(aten.put.default, normal(2, 3), torch.tensor([[0, 4]]), vector(7.0, 8.0).reshape(1, 2))
    yield call(aten.put.default, normal(2, 3).t(), torch.tensor([1, 4]), vector(7.0, 8.0))
    yield call(aten.put.default, normal(2, 3), torch.tensor([1, 1, -5]), vector(7.0, 8.0, 9.0), True)
    yield call(aten.put.default, whole(4), torch.tensor([3]), torch.tensor([100]))


def copies() -> Iterator[Call]:
    for dtype in (torch.float32, torch.float16, torch.int32, torch.bool):
        yield call(aten.zero.default, normal(2, 3).to(dtype))
        yield call(aten.copy.default, torch.zeros(2, 3, dtype=dtype), normal(2, 3, seed=1))
    yield call(aten.zero.default, torch.tensor(3.0))
    yield call(aten.copy.default, torch.zeros(2, 3), normal(3))
    yield call(aten.copy.default, torch.zeros(2, 3), torch.tensor(2))
    yield call(aten.copy.default, torch.zeros(2, 3), normal(2, 1), True)


def chosen() -> Iterator[Call]:
    yield call(aten.where.self, flags(2, 3), flags(2, 3, seed=1), flags(2, 3, seed=2))
    yield call(aten.where.self, flags(2, 1), flags(3, seed=1), torch.tensor(True))
    put, mask = aten.index_put.default, vector(1, 0, 1, 0) > 0
    for base in (normal(4), whole(4), flags(4), normal(4, dtype=torch.float64)):
        yield call(put, base, [mask], torch.tensor(1, dtype=base.dtype))
    yield call(put, normal(4), [mask], vector(7.0))
    yield call(put, normal(4), [torch.zeros(4, dtype=torch.bool)], vector(7.0))
    yield call(put, normal(4), [vector(0, 1, 0, 0) > 0], vector(7.0))
    yield call(put, normal(4, 3), [mask], torch.tensor(7.0))
    yield call(put, normal(4, 3), [mask], normal(3, seed=1))
    yield call(put, normal(4, 3), [mask], normal(1, 3, seed=1))
    yield call(put, normal(4, 3), [mask], normal(1, 1, seed=1))
    yield call(put, normal(2, 4), [None, mask], torch.tensor(7.0))
    yield call(put, normal(2, 4), [None, mask], normal(2, 1, seed=1))
    yield call(put, normal(2, 4, 3), [None, mask], normal(3, seed=1))
    yield call(put, normal(2, 4, 3), [None, mask], normal(2, 1, 3, seed=1))
    yield call(put, normal(2, 4, 3), [flags(2, 4)], normal(3, seed=1))
    yield call(put, normal(2, 4, 3), [flags(2, 4)], normal(1, 3, seed=1))
    yield call(put, normal(5, 2, 4), [None, flags(2, 4)], normal(5, 1, seed=1))
    yield call(aten.index.Tensor, normal(4, 3), [torch.tensor([3, -1, 0], dtype=torch.int32)])
    yield call(aten.index.Tensor, normal(4, 3), [None, torch.tensor([2, 0], dtype=torch.int32)])
    yield call(aten.index.Tensor, normal(4, 3), [mask, torch.tensor([2, 0], dtype=torch.int32)])
    yield call(aten.index.Tensor, normal(4, 3), [torch.tensor([[3], [0]]), torch.tensor([2, 0], dtype=torch.int32)])


# --- order -----------------------------------------------------------------------------------------------------------


def ordered() -> Iterator[Call]:
    for values in (normal(3, 5), normal(3, 4), whole(3, 5), normal(3, 5, dtype=torch.float64)):
        distinct = values + torch.arange(values.numel()).reshape(values.shape) * 100
        for dim in (0, 1, -1):
            yield call(aten.median.dim, distinct, dim)
            yield call(aten.median.dim, distinct, dim, True)
        yield call(aten.median.default, values)
    yield call(aten.median.default, torch.tensor(3.0))
    yield call(aten.median.default, vector(1.0, 1.0, 1.0, 2.0))
    for stable in (True, False, None):
        for dim, descending in ((-1, False), (0, True)):
            yield call(aten.sort.stable, normal(4, 5), stable=stable, dim=dim, descending=descending)
    yield call(aten.sort.stable, vector(2.0, 1.0, 2.0, 1.0), stable=True)


def edges() -> Iterator[Call]:
    limits = vector(-1.0, 0.0, 0.0, 2.0)
    values = vector(-2.0, -1.0, 0.0, 0.5, 2.0, 3.0, INF, -INF)
    for more in ({}, {"right": True}, {"side": "left"}, {"side": "right"}, {"out_int32": True}):
        yield call(aten.searchsorted.Tensor, limits, values, **more)
        yield call(aten.searchsorted.Tensor, limits.long(), values[:6].long(), **more)
    yield call(aten.searchsorted.Tensor, limits, normal(2, 3, 4))
    yield call(aten.searchsorted.Tensor, normal(2, 5).sort(-1).values, normal(2, 3, seed=1))
    yield call(aten.searchsorted.Tensor, limits[:0], values)
    for more in ({}, {"right": True}, {"out_int32": True}):
        yield call(aten.bucketize.Tensor, values, limits, **more)
        yield call(aten.bucketize.Tensor, normal(2, 3), limits, **more)


def extremes() -> Iterator[Call]:
    for values in (normal(2, 3), whole(2, 3), flags(2, 3), vector(1.0, NAN), torch.tensor(3.0)):
        for target in (aten.amax.default, aten.amin.default):
            yield call(target, values)
            yield call(target, values, [], True)
        yield call(aten.aminmax.default, values)
        yield call(aten.aminmax.default, values, keepdim=True)
    for dim in (0, 1, -1):
        yield call(aten.aminmax.default, normal(2, 3), dim=dim)
        yield call(aten.aminmax.default, normal(2, 3), dim=dim, keepdim=True)
    odd = vector(1.0, NAN, NAN, INF, -INF, -0.0), vector(2.0, 3.0, NAN, NAN, 1.0, -1.0)
    for target in (aten.fmax.default, aten.fmin.default):
        yield call(target, *odd)
        yield call(target, *reversed(odd))
        yield call(target, normal(2, 3), normal(3, seed=1))
        yield call(target, whole(2, 3), whole(2, 3, seed=1))
    for target in (aten.cummax.default, aten.cummin.default):
        for values in (normal(3, 5), whole(3, 5), vector(1.0, 1.0, 0.0, 2.0, 2.0), vector(INF, -INF, 0.0)):
            for dim in (0, -1):
                yield call(target, values, dim)


# --- sums, products, systems -----------------------------------------------------------------------------------------


def products() -> Iterator[Call]:
    for values in (normal(3, 4), normal(3, 4, dtype=torch.float64), whole(3, 4, dtype=torch.int32), flags(3, 4)):
        yield call(aten.prod.default, values)
        yield call(aten.prod.default, values, dtype=torch.float64)
        for dim in (0, -1):
            yield call(aten.prod.dim_int, values, dim)
            yield call(aten.prod.dim_int, values, dim, True)
            yield call(aten.cumprod.default, values, dim)
            yield call(aten.cumprod.default, values, dim, dtype=torch.float64)
    yield call(aten.prod.default, torch.tensor(3.0))
    yield call(aten.prod.dim_int, normal(2, 1), 1)
    yield call(aten.prod.dim_int, normal(64), 0)
    yield call(aten.cumprod.default, vector(2.0, 0.0, NAN, 3.0), 0)


def distances() -> Iterator[Call]:
    for p in (1.0, 2.0):
        yield call(aten._cdist_forward.default, normal(3, 4), normal(5, 4, seed=1), p, None)
        yield call(aten._cdist_forward.default, normal(2, 3, 4), normal(2, 5, 4, seed=1), p, None)
        yield call(aten._cdist_forward.default, normal(3, 4), normal(3, 4), p, None)
    yield call(aten.hypot.default, vector(3.0, 0.0, -5.0, INF), vector(4.0, 0.0, 12.0, 1.0))
    yield call(aten.hypot.default, normal(2, 3), normal(3, seed=1))


def systems(size: int) -> torch.Tensor:
    return normal(2, size, size, dtype=torch.float64) + 2.0 * torch.eye(size, dtype=torch.float64)


PIVOTED = torch.tensor([[0.0, 1.0, 2.0], [3.0, 0.0, 1.0], [1.0, 2.0, 0.0]])


def inverses() -> Iterator[Call]:
    for size in (1, 2, 3, 8):
        yield call(aten.linalg_inv_ex.default, systems(size))
        yield call(aten.linalg_inv_ex.default, systems(size)[0])
    yield call(aten.linalg_inv_ex.default, PIVOTED)


def solutions() -> Iterator[Call]:
    for size in (1, 2, 3, 8):
        matrix, right = systems(size), normal(2, size, 3, dtype=torch.float64, seed=1)
        yield call(aten._linalg_solve_ex.default, matrix, right)
        yield call(aten._linalg_solve_ex.default, matrix, right[..., 0])
        yield call(aten._linalg_solve_ex.default, matrix[0], right[0])
        yield call(aten._linalg_solve_ex.default, matrix[0], right[0, :, 0])
        yield call(aten._linalg_solve_ex.default, matrix[0], right)
    yield call(aten._linalg_solve_ex.default, PIVOTED, normal(3, 1))


def determinants() -> Iterator[Call]:
    for size in (1, 2, 3, 4):
        yield call(aten._linalg_det.default, systems(size))
        yield call(aten._linalg_det.default, systems(size)[0].float())
    yield call(aten._linalg_det.default, PIVOTED)
    yield call(aten._linalg_det.default, torch.zeros(3, 3))


# --- single numbers --------------------------------------------------------------------------------------------------

GRID = torch.tensor([-3.5, -1.0, -0.5, -0.0, 0.0, 0.3, 1.0, 2.0, 7.5])
LEFT, RIGHT = (axis.flatten() for axis in torch.meshgrid(GRID, GRID, indexing="ij"))
NONZERO = RIGHT != 0


def angles() -> Iterator[Call]:
    upright = (LEFT != 0) | (RIGHT <= 0)  # the sign of a zero angle is another matter
    yield call(aten.atan2.default, LEFT[upright], RIGHT[upright])
    in_front = (LEFT != 0) & (RIGHT > 0)
    yield call(aten.atan2.default, LEFT[in_front].double(), RIGHT[in_front].double())
    yield call(aten.atan2.default, LEFT[in_front].double(), RIGHT[in_front])
    yield call(aten.atan2.default, normal(3, 1), normal(4, seed=1))
    yield call(aten.atan2.default, vector(INF, -INF, 1.0, -1.0, 1.0), vector(2.0, -2.0, -INF, -INF, INF))
    yield call(aten.atan2.default, vector(NAN, 1.0, NAN), vector(1.0, NAN, NAN))
    yield call(aten.atan2.default, vector(1e-30, 1e30), vector(1e30, -1e-30))


def divisions() -> Iterator[Call]:
    large = vector(1e7 + 1, -1e7 - 1, 123456.7)
    for dtype in (torch.float32, torch.float64):
        a, b = LEFT[NONZERO].to(dtype), RIGHT[NONZERO].to(dtype)
        yield call(aten.remainder.Tensor, a, b)
        yield call(aten.floor_divide.default, a, b)
        yield call(aten.div.Tensor_mode, a, b, rounding_mode="floor")
    for number in (2.0, -2.0, 0.1, 3):
        yield call(aten.remainder.Scalar, GRID, number)
        yield call(aten.div.Scalar_mode, GRID, number, rounding_mode="floor")
    yield call(aten.remainder.Tensor, large, vector(6.2831855))
    yield call(aten.remainder.Tensor, LEFT, RIGHT)
    yield call(aten.remainder.Tensor, vector(1.0, -1.0, INF, NAN), vector(INF, INF, 2.0, 2.0))
    yield call(aten.floor_divide.default, vector(1.0, 7.0, -7.0), vector(0.1, 0.1, 0.1))
    yield call(aten.floor_divide.default, vector(1.0, -1.0, INF, NAN), vector(INF, INF, 2.0, 2.0))


def logarithms() -> Iterator[Call]:
    small = vector(0.0, -0.0, 1e-9, -1e-9, 1e-4, -0.5, 0.5, 1.0, 3.0, 80.0)
    for dtype in (torch.float32, torch.float64):
        yield call(aten.log1p.default, torch.cat((small, vector(-1.0, -2.0, NAN, 1e5))).to(dtype))
        yield call(aten.expm1.default, torch.cat((small, -small, vector(INF, -INF, NAN, 100.0))).to(dtype))
    yield call(aten.logaddexp.default, LEFT, RIGHT)
    yield call(aten.logaddexp.default, vector(INF, -INF, INF, NAN, 100.0), vector(INF, -INF, -INF, 0.0, -100.0))
    yield call(aten.logaddexp.default, normal(3, 1), normal(4, seed=1))


def signs() -> Iterator[Call]:
    yield call(aten.copysign.Tensor, LEFT, RIGHT)
    yield call(aten.copysign.Tensor, vector(INF, NAN, -2.0), vector(-1.0, 1.0, INF))
    yield call(aten.copysign.Tensor, normal(2, 3), whole(3, seed=1))


def shifts() -> Iterator[Call]:
    for dtype in (torch.int64, torch.int32, torch.int8):
        numbers = torch.tensor([0, 1, 5, -1, -5, 100, -100], dtype=dtype)
        places = torch.tensor([0, 1, 2, 3, 1, 2, 6], dtype=dtype)
        for left, right in ((aten.__lshift__, aten.__rshift__), (aten.bitwise_left_shift, aten.bitwise_right_shift)):
            yield call(left.Tensor, numbers, places)
            yield call(right.Tensor, numbers, places)
        yield call(aten.__lshift__.Scalar, numbers, 2)
        yield call(aten.__rshift__.Scalar, numbers, 2)
        yield call(aten.bitwise_left_shift.Tensor_Scalar, numbers, 3)
        yield call(aten.bitwise_right_shift.Tensor_Scalar, numbers, 3)
    yield call(aten.bitwise_right_shift.Tensor_Scalar, torch.tensor([200, 7], dtype=torch.uint8), 1)
    yield call(aten.bitwise_left_shift.Tensor, torch.tensor([1, 3]), torch.tensor([62, 40]))


EXACT = [
    *slices(),
    *parts(),
    *copies(),
    *chosen(),
    *ordered(),
    *edges(),
    *extremes(),
    *divisions(),
    *signs(),
    *shifts(),
]
ROUNDED = [*products(), *angles(), *logarithms()]
ROUGH = [*distances(), *inverses()]
FIRST_RESULT = [*solutions(), *determinants()]


@pytest.mark.parametrize("one", EXACT, ids=str)
def test_what_only_moves_or_compares_numbers_gives_exactly_what_torch_gives(one: Call) -> None:
    check_same(one, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("one", ROUNDED, ids=str)
def test_what_computes_numbers_gives_what_torch_gives_to_rounding(one: Call) -> None:
    check_same(one)


@pytest.mark.parametrize("one", ROUGH, ids=str)
def test_what_adds_up_gives_what_torch_gives_to_the_order_of_additions(one: Call) -> None:
    check_same(one, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("one", FIRST_RESULT, ids=str)
def test_solutions_and_determinants_are_those_of_torch(one: Call) -> None:
    check_same(one, which=0, rtol=1e-5, atol=1e-6)


def test_the_sign_of_a_zero_is_kept() -> None:
    zeros = vector(0.0, -0.0)
    kept: list[tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = [
        (DECOMPOSITIONS[target], target, args)
        for target, args in (
            (aten.log1p.default, (zeros,)),
            (aten.expm1.default, (zeros,)),
            (aten.copysign.Tensor, (zeros, vector(-1.0, 1.0))),
            (aten.copysign.Tensor, (vector(1.0, 1.0), zeros)),
            (aten.remainder.Tensor, (vector(-4.0, 4.0), vector(2.0, 2.0))),
            (aten.atan2.default, (zeros, vector(-1.0, -1.0))),
            (aten.atan2.default, (zeros, zeros)),
        )
    ]
    for ours, theirs, args in kept:
        assert torch.equal(ours(*args).signbit(), theirs(*args).signbit())


# --- what is left alone ----------------------------------------------------------------------------------------------

LEFT_ALONE = [
    call(aten.where.self, flags(3), normal(3), normal(3)),
    call(aten.where.self, flags(3), flags(3), normal(3)),
    call(aten.searchsorted.Tensor, normal(3), normal(2), sorter=torch.tensor([0, 1, 2])),
    call(aten.amax.default, normal(2, 3), [0]),
    call(aten.amin.default, normal(2, 3), [1]),
    call(aten.prod.dim_int, normal(65), 0),
    call(aten.prod.default, normal(8, 9)),
    call(aten.prod.dim_int, normal(0), 0),
    call(aten.cumprod.default, normal(65), 0),
    call(aten.cummax.default, normal(65), 0),
    call(aten.cummin.default, normal(0), 0),
    call(aten.atan2.default, whole(3), whole(3)),
    call(aten.atan2.default, normal(3), whole(3)),
    call(aten.remainder.Tensor, whole(3), torch.tensor([2])),
    call(aten.remainder.Scalar, whole(3), 2),
    call(aten.remainder.Tensor, normal(3), torch.tensor([2])),
    call(aten.floor_divide.default, whole(3), torch.tensor([2])),
    call(aten.div.Tensor_mode, normal(3), normal(3), rounding_mode="trunc"),
    call(aten.div.Tensor_mode, normal(3), normal(3), rounding_mode=None),
    call(aten.log1p.default, whole(3)),
    call(aten.expm1.default, whole(3)),
    call(aten.index.Tensor, normal(3), [torch.tensor([0, 2])]),
    call(aten.index.Tensor, normal(3, 2), [None, flags(2)]),
    call(aten.linalg_inv_ex.default, systems(9)),
    call(aten._linalg_solve_ex.default, systems(9), normal(2, 9, 1)),
    call(aten._linalg_solve_ex.default, systems(3), systems(3), left=False),
    call(aten._linalg_det.default, systems(5)),
    call(aten._cdist_forward.default, normal(3, 4), normal(5, 4), 3.0, None),
    call(aten.index_put.default, normal(4), [torch.tensor([0, 2])], torch.tensor(7.0)),
    call(aten.index_put.default, normal(4), [flags(4)], vector(7.0), True),
    call(aten.index_put.default, normal(4), [vector(1, 0, 1, 0) > 0], vector(7.0, 8.0)),
    call(aten.index_put.default, normal(4, 3), [vector(1, 0, 1, 0) > 0], normal(2, 3)),
    call(aten.index_put.default, normal(4, 3), [flags(4), torch.tensor([1])], torch.tensor(7.0)),
]


@pytest.mark.parametrize("one", LEFT_ALONE, ids=str)
def test_what_has_no_simpler_form_is_left_as_it_is(one: Call) -> None:
    assert DECOMPOSITIONS[one.target](*one.args, **one.kwargs) is NotImplemented


def test_every_decomposition_is_tested() -> None:
    tested = {one.target for one in (*EXACT, *ROUNDED, *ROUGH, *FIRST_RESULT)}
    assert set(DECOMPOSITIONS) == tested
