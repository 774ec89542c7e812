"""Operations said in simpler ones, where torch's own exporters have no word for them, or a slow or a wrong one."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

aten = torch.ops.aten
Tensor = torch.Tensor
_FEW = 64
_SMALL = 8


def _slice_scatter(
    base: Tensor, source: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Tensor:
    """A slice assignment as a concatenation."""
    length = base.shape[dim]
    first, last = _bound(start, 0, length), _bound(end, length, length)
    if step != 1:
        return aten.index_copy.default(base, dim, torch.arange(first, last, step), source)
    parts = [aten.slice.Tensor(base, dim, 0, first), source, aten.slice.Tensor(base, dim, last, length)]
    kept = [part for part, size in zip(parts, (first, last - first, length - last), strict=True) if size > 0]
    return kept[0].clone() if len(kept) == 1 else aten.cat.default(kept, dim)


def _select_scatter(base: Tensor, source: Tensor, dim: int, index: int) -> Tensor:
    place = index + base.shape[dim] if index < 0 else index
    return _slice_scatter(base, aten.unsqueeze.default(source, dim), dim, place, place + 1)


def _bound(value: Any, default: Any, length: Any) -> Any:
    if value is None:
        return default
    return max(0, min(length, value + length if value < 0 else value))


def _zero(tensor: Tensor) -> Tensor:
    """Tracing leaves out arguments of what torch itself would put here, and then does not know it any more."""
    return torch.full(tensor.shape, 0, dtype=tensor.dtype)


def _copy(target: Tensor, source: Tensor, _: bool = False) -> Tensor:
    if source.dtype != target.dtype:
        source = aten._to_copy.default(source, dtype=target.dtype)
    return source.clone() if source.shape == target.shape else aten.expand.default(source, target.shape)


def _scatter_at(base: Tensor, source: Tensor, places: Tensor) -> Tensor:
    """Write into a tensor at places counted row by row."""
    flat = aten.scatter.src(base.reshape(-1), 0, places.reshape(-1), source.reshape(-1))
    return flat.reshape(base.shape)


def _diagonal_scatter(base: Tensor, source: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    places = torch.arange(base.numel()).reshape(base.shape).diagonal(offset, dim1, dim2)
    return _scatter_at(base, source, places)


def _as_strided_scatter(base: Tensor, source: Tensor, size: Any, stride: Any, storage_offset: Any = None) -> Tensor:
    places = torch.as_strided(torch.arange(base.numel()), size, stride, storage_offset or 0)
    return _scatter_at(base, source, places)


def _put(base: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    flat, count = base.reshape(-1), base.numel()
    places = torch.where(index < 0, index + count, index).reshape(-1)
    write = aten.scatter_add.default if accumulate else aten.scatter.src
    return write(flat, 0, places, source.reshape(-1)).reshape(base.shape)


def _where(condition: Tensor, yes: Tensor, no: Tensor) -> Any:
    """A choice between truth values, which ONNX Runtime does not have."""
    if yes.dtype != torch.bool or no.dtype != torch.bool:
        return NotImplemented
    return (condition & yes) | (~condition & no)


def _median(tensor: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    values, indices = torch.sort(tensor, dim=dim)
    middle = (tensor.shape[dim] - 1) // 2
    found = values.narrow(dim, middle, 1), indices.narrow(dim, middle, 1)
    return found if keepdim else (found[0].squeeze(dim), found[1].squeeze(dim))


def _median_of_all(tensor: Tensor) -> Tensor:
    return _median(tensor.reshape(-1), 0)[0]


def _searchsorted(
    edges: Tensor,
    values: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Any:
    if sorter is not None:
        return NotImplemented
    low, high = edges.unsqueeze(-2), values.unsqueeze(-1)
    before = low <= high if right or side == "right" else low < high
    return before.sum(-1).to(torch.int32 if out_int32 else torch.int64)


def _bucketize(values: Tensor, edges: Tensor, *, out_int32: bool = False, right: bool = False) -> Any:
    return _searchsorted(edges, values, out_int32=out_int32, right=right)


def _copysign(size: Tensor, sign: Tensor) -> Tensor:
    negative = torch.where(sign == 0, 1.0 / sign < 0, sign < 0) if sign.is_floating_point() else sign < 0
    return torch.where(negative, -size.abs(), size.abs())


def _amax(tensor: Tensor, dim: Any = (), keepdim: bool = False) -> Any:
    return NotImplemented if len(dim) else aten.amax.default(tensor, list(range(tensor.dim())), keepdim)


def _amin(tensor: Tensor, dim: Any = (), keepdim: bool = False) -> Any:
    return NotImplemented if len(dim) else aten.amin.default(tensor, list(range(tensor.dim())), keepdim)


def _aminmax(tensor: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    axes = list(range(tensor.dim())) if dim is None else [dim]
    return aten.amin.default(tensor, axes, keepdim), aten.amax.default(tensor, axes, keepdim)


def _prod(tensor: Tensor, *, dtype: torch.dtype | None = None) -> Any:
    return _prod_along(tensor.reshape(-1), 0, dtype=dtype)


def _prod_along(tensor: Tensor, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    if not 0 < tensor.shape[dim] <= _FEW:
        return NotImplemented
    wide = torch.int64 if not tensor.is_floating_point() else tensor.dtype
    parts = tensor.to(dtype or wide).unbind(dim)
    total = functools.reduce(torch.mul, parts)
    return total.unsqueeze(dim) if keepdim else total.clone()


def _cumprod(tensor: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    if not 0 < tensor.shape[dim] <= _FEW:
        return NotImplemented
    parts = list(tensor.to(dtype or (tensor.dtype if tensor.is_floating_point() else torch.int64)).unbind(dim))
    for place in range(1, len(parts)):
        parts[place] = parts[place - 1] * parts[place]
    return torch.stack(parts, dim)


def _atan2(y: Tensor, x: Tensor) -> Any:
    if not (y.is_floating_point() and x.is_floating_point()):
        return NotImplemented
    half = torch.atan(y / torch.where(x == 0, 1.0, x))
    below = torch.where(y == 0, 1.0 / y < 0, y < 0)
    turned = half + torch.where(x < 0, torch.where(below, -math.pi, math.pi), 0.0)
    upright = torch.where(below, -math.pi / 2, math.pi / 2)
    left = torch.where(1.0 / x < 0, math.pi, 0.0)  # x is a zero with a sign
    flat = torch.where(y == 0, torch.where(below, -left, left), upright)
    return torch.where(x == 0, flat, turned).to(torch.promote_types(y.dtype, x.dtype))


def _remainder(a: Tensor, b: Any) -> Any:
    """As torch defines it for floats; the exporters' own form is off by a whole period for large numbers."""
    if not a.is_floating_point() or (isinstance(b, Tensor) and not b.is_floating_point()):
        return NotImplemented
    rest = torch.fmod(a, b)
    return torch.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


def _floor_divide(a: Tensor, b: Any, *, rounding_mode: str | None = "floor") -> Any:
    """As torch defines it for floats: 1.0 // 0.1 is 9."""
    if rounding_mode != "floor" or not a.is_floating_point() or (isinstance(b, Tensor) and not b.is_floating_point()):
        return NotImplemented
    rest = torch.fmod(a, b)
    times = (a - rest) / b
    times = torch.where((rest != 0) & ((b < 0) != (rest < 0)), times - 1, times)
    whole = torch.floor(times)
    return torch.where(times - whole > 0.5, whole + 1, whole)


def _log1p(x: Tensor) -> Any:
    if not x.is_floating_point():
        return NotImplemented
    more = 1.0 + x
    return torch.where(more == 1.0, x, torch.log(more) * x / torch.where(more == 1.0, 1.0, more - 1.0))


def _expm1(x: Tensor) -> Any:
    if not x.is_floating_point():
        return NotImplemented
    half = torch.tanh(x / 2.0)
    return torch.where(x.abs() < 1.0, 2.0 * half / (1.0 - half), torch.exp(x) - 1.0)


def _logaddexp(a: Tensor, b: Tensor) -> Any:
    top = torch.maximum(a, b)
    apart = torch.where(a == b, 0.0, -(a - b).abs())
    return top + torch.log(1.0 + torch.exp(apart))


def _index(tensor: Tensor, indices: Sequence[Tensor | None]) -> Any:
    """Indices that are no int64 make a file that no runtime takes."""
    if all(one is None or one.dtype in (torch.int64, torch.bool) for one in indices):
        return NotImplemented
    wide = [one if one is None or one.dtype == torch.bool else one.to(torch.int64) for one in indices]
    return aten.index.Tensor(tensor, wide)


def _solve(matrix: Tensor, right: Tensor) -> Tensor:
    """Solve small systems by elimination, the largest pivot first."""
    size = matrix.shape[-1]
    both = torch.cat((matrix, right), dim=-1)
    rows = torch.arange(size)
    for column in range(size):
        pivot = both[..., column:, column].abs().argmax(-1, keepdim=True) + column
        order = torch.where(rows == column, pivot, torch.where(rows == pivot, column, rows))
        both = both.gather(-2, order.unsqueeze(-1).expand(both.shape))
        row = both[..., column : column + 1, :] / both[..., column : column + 1, column : column + 1]
        factors = torch.where((rows == column).unsqueeze(-1), 0.0, both[..., column : column + 1])
        both = torch.where((rows == column).unsqueeze(-1), row, both - factors * row)
    return both[..., size:]


def _inv_ex(matrix: Tensor, *, check_errors: bool = False) -> Any:
    del check_errors
    if matrix.shape[-1] > _SMALL:
        return NotImplemented
    right = torch.eye(matrix.shape[-1], dtype=matrix.dtype).expand(matrix.shape)
    return _solve(matrix, right), torch.zeros(matrix.shape[:-2], dtype=torch.int32)


def _solve_ex(matrix: Tensor, right: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    del check_errors
    size = matrix.shape[-1]
    if size > _SMALL or not left:
        return NotImplemented
    vector = right.dim() == 1 or (right.dim() == matrix.dim() - 1 and right.shape == matrix.shape[:-1])
    wide = right.unsqueeze(-1) if vector else right
    wide = wide.expand(*torch.broadcast_shapes(matrix.shape[:-2], wide.shape[:-2]), *wide.shape[-2:])
    found = _solve(matrix.expand(*wide.shape[:-2], size, size), wide)
    nothing = torch.zeros(matrix.shape[:-1], dtype=torch.int32)
    return found.squeeze(-1) if vector else found, matrix.clone(), nothing, nothing[..., 0]


def _cummax(tensor: Tensor, dim: int) -> Any:
    return _running(tensor, dim, torch.ge)


def _cummin(tensor: Tensor, dim: int) -> Any:
    return _running(tensor, dim, torch.le)


def _running(tensor: Tensor, dim: int, better: Callable[[Tensor, Tensor], Tensor]) -> Any:
    """The best element so far along an axis, and where it was."""
    if not 0 < tensor.shape[dim] <= _FEW:
        return NotImplemented
    parts = list(tensor.unbind(dim))
    places = [torch.zeros_like(parts[0], dtype=torch.int64)]
    for place in range(1, len(parts)):
        taken = better(parts[place], parts[place - 1])
        places.append(torch.where(taken, place, places[-1]))
        parts[place] = torch.where(taken, parts[place], parts[place - 1])
    return torch.stack(parts, dim), torch.stack(places, dim)


def _fmax(a: Tensor, b: Tensor) -> Tensor:
    return torch.where(a.isnan(), b, torch.where(b.isnan(), a, torch.maximum(a, b)))


def _fmin(a: Tensor, b: Tensor) -> Tensor:
    return torch.where(a.isnan(), b, torch.where(b.isnan(), a, torch.minimum(a, b)))


def _sort(tensor: Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
    """ONNX puts the first of equal values first, whether that was asked for or not."""
    del stable
    return aten.sort.default(tensor, dim, descending)


def _hypot(a: Tensor, b: Tensor) -> Tensor:
    return (a * a + b * b).sqrt()


def _shift_right(number: Tensor, places: Any) -> Tensor:
    return torch.div(number, _power_of_two(number, places), rounding_mode="floor")


def _shift_left(number: Tensor, places: Any) -> Tensor:
    return number * _power_of_two(number, places)


def _power_of_two(number: Tensor, places: Any) -> Any:
    if not isinstance(places, Tensor):
        return 2**places
    return torch.pow(torch.full((), 2, dtype=torch.float64), places.to(torch.float64)).to(number.dtype)


def _index_put(base: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool = False) -> Any:
    """A write through a mask as a choice, where the same is written everywhere."""
    masks = [axis for axis, index in enumerate(indices) if index is not None]
    mask = indices[masks[0]] if len(masks) == 1 else None
    if mask is None or mask.dtype != torch.bool or accumulate:
        return NotImplemented
    behind = base.dim() - masks[0] - mask.dim()
    if values.dim() > behind:
        chosen = values.dim() - behind - 1
        if values.shape[chosen] != 1:
            return NotImplemented
        shape = list(values.shape)
        values = values.reshape(shape[:chosen] + [1] * mask.dim() + shape[chosen + 1 :])
    return torch.where(mask.reshape([*mask.shape, *[1] * behind]), values.to(base.dtype), base)


def _cdist(a: Tensor, b: Tensor, p: float, _: int | None = None) -> Any:
    apart = (a.unsqueeze(-2) - b.unsqueeze(-3)).abs()
    if p == 1.0:
        return apart.sum(-1)
    return apart.square().sum(-1).sqrt() if p == 2.0 else NotImplemented


def _det(matrix: Tensor) -> Any:
    """The determinant of a small matrix, by its minors."""
    size = matrix.shape[-1]
    if size > 4:
        return NotImplemented
    if size == 1:
        return matrix[..., 0, 0]
    total = None
    for column in range(size):
        others = [other for other in range(size) if other != column]
        minor = torch.stack([matrix[..., 1:, other] for other in others], dim=-1)
        term = matrix[..., 0, column] * _det(minor)
        total = term if total is None else (total + term if column % 2 == 0 else total - term)
    return total


def _linalg_det(matrix: Tensor) -> Any:
    found = _det(matrix)
    return NotImplemented if found is NotImplemented else (found, matrix.clone(), matrix[..., 0].to(torch.int32))


DECOMPOSITIONS: Mapping[Any, Callable[..., Any]] = {
    aten.slice_scatter.default: _slice_scatter,
    aten.select_scatter.default: _select_scatter,
    aten.diagonal_scatter.default: _diagonal_scatter,
    aten.as_strided_scatter.default: _as_strided_scatter,
    aten.put.default: _put,
    aten.zero.default: _zero,
    aten.copy.default: _copy,
    aten.where.self: _where,
    aten.median.dim: _median,
    aten.median.default: _median_of_all,
    aten.searchsorted.Tensor: _searchsorted,
    aten.bucketize.Tensor: _bucketize,
    aten.copysign.Tensor: _copysign,
    aten.amax.default: _amax,
    aten.amin.default: _amin,
    aten.aminmax.default: _aminmax,
    aten.prod.default: _prod,
    aten.prod.dim_int: _prod_along,
    aten.cumprod.default: _cumprod,
    aten.cummax.default: _cummax,
    aten.cummin.default: _cummin,
    aten.atan2.default: _atan2,
    aten.remainder.Tensor: _remainder,
    aten.remainder.Scalar: _remainder,
    aten.floor_divide.default: _floor_divide,
    aten.div.Tensor_mode: _floor_divide,
    aten.div.Scalar_mode: _floor_divide,
    aten.log1p.default: _log1p,
    aten.expm1.default: _expm1,
    aten.logaddexp.default: _logaddexp,
    aten.linalg_inv_ex.default: _inv_ex,
    aten.index.Tensor: _index,
    aten._linalg_solve_ex.default: _solve_ex,
    aten.hypot.default: _hypot,
    aten.fmax.default: _fmax,
    aten.fmin.default: _fmin,
    aten.sort.stable: _sort,
    aten.__rshift__.Tensor: _shift_right,
    aten.__rshift__.Scalar: _shift_right,
    aten.bitwise_right_shift.Tensor: _shift_right,
    aten.bitwise_right_shift.Tensor_Scalar: _shift_right,
    aten.__lshift__.Tensor: _shift_left,
    aten.__lshift__.Scalar: _shift_left,
    aten.bitwise_left_shift.Tensor: _shift_left,
    aten.bitwise_left_shift.Tensor_Scalar: _shift_left,
    aten.index_put.default: _index_put,
    aten._cdist_forward.default: _cdist,
    aten._linalg_det.default: _linalg_det,
}
"""Operation -> what it is in others; NotImplemented leaves it as it is."""
