"""Every operator in numpy: for what is known when compiling, and for the shapes of everything else.

A graph is gone through once. Operators whose inputs are all known are computed here, and are constants from then on.
The others run on zeros, for the dtype and shape of what they give; what their values decide must be known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ashore.backends.c.graph import Node, axis_of
from ashore.backends.c.onnx_file import DTYPES
from ashore.errors import BackendError
from ashore.package import Array

Evaluate: TypeAlias = Callable[[Node, "list[Any]"], "Array | Sequence[Array | None]"]


def evaluate(node: Node) -> list[Array | None]:
    """What a node gives, one array for each output.

    Raises:
        BackendError: the operator is unknown, or its inputs do not fit it.
    """
    run = EVALUATE.get(node.op)
    if node.op in _LENGTHS:
        raise BackendError(f"{node.where}: only its values decide how long its result is; the backend 'c' refuses it")
    if run is None:
        raise BackendError(f"{node.where}: the backend 'c' does not know this operator")
    inputs = [
        None if value is None else (np.zeros(value.shape, value.dtype) if value.data is None else value.data)
        for value in node.inputs
    ]
    try:
        with np.errstate(all="ignore"):
            results = run(node, inputs)
    except (ValueError, IndexError, TypeError, KeyError, AttributeError) as error:
        raise BackendError(f"{node.where}: its inputs or attributes do not fit: {error}") from error
    many = [results] if isinstance(results, np.ndarray | np.generic) else results
    return [None if array is None else np.asarray(array) for array in many]


def _plain(function: Callable[..., Any]) -> Evaluate:
    """Elementwise: the result has the dtype of the first input."""

    def run(node: Node, x: list[Any]) -> Array:
        return np.asarray(function(*x)).astype(x[0].dtype, copy=False)

    return run


def _test(function: Callable[..., Any]) -> Evaluate:
    def run(node: Node, x: list[Any]) -> Array:
        return np.asarray(function(*x)).astype(np.bool_, copy=False)

    return run


def _unary(function: Callable[[Node, Any], Any]) -> Evaluate:
    def run(node: Node, x: list[Any]) -> Array:
        return np.asarray(function(node, x[0])).astype(x[0].dtype, copy=False)

    return run


def _many(function: Callable[[Any, Any], Any]) -> Evaluate:
    def run(node: Node, x: list[Any]) -> Array:
        total = x[0]
        for other in x[1:]:
            total = function(total, other)
        return np.asarray(total).astype(x[0].dtype, copy=False)

    return run


def _div(a: Any, b: Any) -> Any:
    if a.dtype.kind == "f":
        return a / b
    safe = np.where(b == 0, 1, b)
    quotient = np.abs(a) // np.abs(safe) if a.dtype.kind == "i" else a // safe
    return quotient * (np.sign(a) * np.sign(safe)) if a.dtype.kind == "i" else quotient


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x) if x.size else x


def _gelu(node: Node, x: Any) -> Any:
    if node.get("approximate", "none") == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def _softplus(x: Any) -> Any:
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


def _hard_sigmoid(node: Node, x: Any) -> Any:
    return np.clip(node.get("alpha", 0.2) * x + node.get("beta", 0.5), 0, 1)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _clip(node: Node, x: list[Any]) -> Array:
    low, high = limits_of(node, x)
    value = x[0]
    if low is not None:
        value = np.maximum(value, np.asarray(low).reshape(()))
    if high is not None:
        value = np.minimum(value, np.asarray(high).reshape(()))
    return value.astype(x[0].dtype, copy=False)


def limits_of(node: Node, x: Sequence[Any]) -> tuple[Any, Any]:
    """The limits of a `Clip`, which are attributes in old opsets."""
    low = x[1] if len(x) > 1 and x[1] is not None else node.attributes.get("min")
    high = x[2] if len(x) > 2 and x[2] is not None else node.attributes.get("max")
    return low, high


def _mod(node: Node, x: list[Any]) -> Array:
    safe = x[1] if x[0].dtype.kind == "f" else np.where(x[1] == 0, 1, x[1]).astype(x[1].dtype)
    return np.asarray(np.fmod(x[0], safe) if node.get("fmod", 0) else np.mod(x[0], safe)).astype(x[0].dtype)


def _cast(node: Node, x: list[Any]) -> Array:
    return x[0].astype(cast_target(node))


def cast_target(node: Node) -> np.dtype[Any]:
    """The dtype that a `Cast` or `CastLike` gives."""
    if node.op == "CastLike":
        return node.value(1).dtype
    kind = node.get("to", 0)
    if kind not in DTYPES:
        raise BackendError(f"{node.where}: casts to the ONNX dtype {kind}, which the backend 'c' does not know")
    return np.dtype(DTYPES[kind])


def _shift(node: Node, x: list[Any]) -> Array:
    operation = np.left_shift if node.attributes["direction"] == "LEFT" else np.right_shift
    return operation(x[0], x[1]).astype(x[0].dtype)


def _pow(node: Node, x: list[Any]) -> Array:
    return np.power(x[0].astype(np.float64), x[1].astype(np.float64)).astype(x[0].dtype)


def _gather(node: Node, x: list[Any]) -> Array:
    axis = axis_of(node, node.get("axis", 0), x[0].ndim)
    return np.take(x[0], x[1], axis=axis) if x[0].size else np.zeros((0,), x[0].dtype)


def _gather_elements(node: Node, x: list[Any]) -> Array:
    return np.take_along_axis(x[0], x[1], axis=axis_of(node, node.get("axis", 0), x[0].ndim))


def _gather_nd(node: Node, x: list[Any]) -> Array:
    data, index, rows = x[0], x[1], node.get("batch_dims", 0)
    if rows:
        shape = data.shape[:rows]
        flat = [data[at][tuple(np.moveaxis(index[at], -1, 0))] for at in np.ndindex(*shape)]
        return np.stack(flat).reshape(*shape, *flat[0].shape)
    return data[tuple(np.moveaxis(index, -1, 0))]


def _scatter_elements(node: Node, x: list[Any]) -> Array:
    if node.get("reduction", "none") != "none" and all(
        value is None or value.data is not None for value in node.inputs
    ):
        raise BackendError(f"{node.where}: a reduction of constants is not known to the backend 'c'")
    result = x[0].copy()
    np.put_along_axis(result, x[1], x[2], axis=axis_of(node, node.get("axis", 0), x[0].ndim))
    return result


def _scatter_nd(node: Node, x: list[Any]) -> Array:
    if node.get("reduction", "none") != "none" and all(
        value is None or value.data is not None for value in node.inputs
    ):
        raise BackendError(f"{node.where}: a reduction of constants is not known to the backend 'c'")
    result = x[0].copy()
    result[tuple(np.moveaxis(x[1], -1, 0))] = x[2]
    return result


def slices_of(node: Node) -> tuple[slice, ...]:
    """What a `Slice` cuts, one slice for each axis."""
    rank = len(node.value(0).shape)
    starts, ends = node.ints("starts", 1), node.ints("ends", 2)
    if starts is None or ends is None:
        raise BackendError(f"{node.where}: says no starts or ends")
    axes = node.ints("axes", 3) or list(range(len(starts)))
    steps = node.ints("steps", 4) or [1] * len(starts)
    cut = [slice(None)] * rank
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        at = axis_of(node, axis, rank)
        size = node.value(0).shape[at]
        first = start + size if start < 0 else start
        last = end + size if end < 0 else end
        if step > 0:
            cut[at] = slice(min(max(first, 0), size), min(max(last, 0), size), step)
        else:
            first, last = min(max(first, 0), size - 1), min(max(last, -1), size - 1)
            cut[at] = slice(first, None if last < 0 else last, step)
    return tuple(cut)


def _slice(node: Node, x: list[Any]) -> Array:
    return x[0][slices_of(node)]


def _concat(node: Node, x: list[Any]) -> Array:
    return np.concatenate(x, axis=axis_of(node, node.attributes["axis"], x[0].ndim))


def split_sizes(node: Node) -> list[int]:
    """The lengths of the parts of a `Split`."""
    shape = node.value(0).shape
    size = shape[axis_of(node, node.get("axis", 0), len(shape))]
    sizes = node.ints("split", 1)
    if sizes is not None:
        return sizes
    parts = node.get("num_outputs", len(node.outputs))
    each = -(-size // parts)
    return [min(each, size - start) for start in range(0, each * parts, each)]


def _split(node: Node, x: list[Any]) -> list[Array]:
    return np.split(x[0], np.cumsum(split_sizes(node))[:-1], axis=axis_of(node, node.get("axis", 0), x[0].ndim))


def _expand(node: Node, x: list[Any]) -> Array:
    shape = [int(size) for size in _known(node, 1)]
    return np.broadcast_to(x[0], np.broadcast_shapes(x[0].shape, tuple(shape)))


def _known(node: Node, index: int) -> Array:
    data = node.constant(index)
    if data is None:
        raise BackendError(f"{node.where}: input {index} is missing")
    return data


def _reshape(node: Node, x: list[Any]) -> Array:
    shape = [int(size) for size in _known(node, 1)]
    if not node.get("allowzero", 0):
        shape = [x[0].shape[axis] if size == 0 else size for axis, size in enumerate(shape)]
    return x[0].reshape(shape)


def _flatten(node: Node, x: list[Any]) -> Array:
    axis = node.get("axis", 1)
    axis += x[0].ndim if axis < 0 else 0
    return x[0].reshape(math.prod(x[0].shape[:axis]), -1)


def _squeeze(node: Node, x: list[Any]) -> Array:
    axes = node.ints("axes", 1)
    return np.squeeze(x[0], None if axes is None else tuple(axes))


def _unsqueeze(node: Node, x: list[Any]) -> Array:
    return np.expand_dims(x[0], tuple(node.ints("axes", 1) or ()))


def _transpose(node: Node, x: list[Any]) -> Array:
    return np.transpose(x[0], node.attributes.get("perm"))


def pads_of(node: Node) -> list[tuple[int, int]]:
    """How much a `Pad` adds before and after each axis; negative where it cuts."""
    rank = len(node.value(0).shape)
    pads = node.ints("pads", 1) or []
    axes = node.constant(3)
    chosen = list(range(rank)) if axes is None else [axis_of(node, int(axis), rank) for axis in axes]
    found: list[tuple[int, int]] = [(0, 0)] * rank
    for place, axis in enumerate(chosen):
        found[axis] = pads[place], pads[place + len(chosen)]
    return found


def _pad(node: Node, x: list[Any]) -> Array:
    modes = {"constant": "constant", "edge": "edge", "reflect": "reflect", "wrap": "wrap"}
    mode, pads = modes[node.get("mode", "constant")], pads_of(node)
    cut = tuple(slice(max(-a, 0), size - max(-b, 0)) for (a, b), size in zip(pads, x[0].shape, strict=True))
    added = [(max(a, 0), max(b, 0)) for a, b in pads]
    if mode != "constant":
        return np.pad(x[0][cut], added, mode=mode)  # type: ignore[call-overload]
    value = x[2] if len(x) > 2 and x[2] is not None else node.get("value", 0)
    return np.pad(x[0][cut], added, constant_values=np.asarray(value).reshape(()).astype(x[0].dtype))


def _tile(node: Node, x: list[Any]) -> Array:
    return np.tile(x[0], [int(count) for count in _known(node, 1)])


def _range(node: Node, x: list[Any]) -> Array:
    start, limit, delta = (_known(node, index).reshape(()) for index in range(3))
    count = max(math.ceil((limit - start) / delta), 0)
    return (start + np.arange(count) * delta).astype(start.dtype)


def _shape(node: Node, x: list[Any]) -> Array:
    return np.array(node.value(0).shape, np.int64)[slice(node.get("start", 0), node.get("end", None))]


def _constant_of_shape(node: Node, x: list[Any]) -> Array:
    value = node.get("value", np.zeros(1, np.float32))
    return np.full([int(size) for size in _known(node, 0)], value.reshape(-1)[0], value.dtype)


def _constant(node: Node, x: list[Any]) -> Array:
    given = node.attributes
    if "value" in given:
        return given["value"]
    kinds = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    for name, dtype in kinds.items():
        if name in given:
            return np.asarray(given[name], dtype)
    raise BackendError(f"{node.where}: a constant of {sorted(given)} is not known to the backend 'c'")


def _trilu(node: Node, x: list[Any]) -> Array:
    k = int(_known(node, 1).reshape(())) if node.optional(1) is not None else 0
    return np.triu(x[0], k) if node.get("upper", 1) else np.tril(x[0], k)


def _cumsum(node: Node, x: list[Any]) -> Array:
    axis = axis_of(node, int(_known(node, 1).reshape(())), x[0].ndim)
    value = np.flip(x[0], axis) if node.get("reverse", 0) else x[0]
    total = np.cumsum(value, axis, dtype=x[0].dtype)
    if node.get("exclusive", 0):
        total = total - value
    return np.flip(total, axis) if node.get("reverse", 0) else total


def _top_k(node: Node, x: list[Any]) -> list[Array]:
    axis, k = axis_of(node, node.get("axis", -1), x[0].ndim), int(_known(node, 1).reshape(()))
    key = -x[0] if node.get("largest", 1) else x[0]
    order = np.take(np.argsort(key, axis, kind="stable"), range(k), axis)
    return [np.take_along_axis(x[0], order, axis), order.astype(np.int64)]


def _arg(function: Callable[..., Any]) -> Evaluate:
    def run(node: Node, x: list[Any]) -> Array:
        axis = axis_of(node, node.get("axis", 0), x[0].ndim)
        value = np.flip(x[0], axis) if node.get("select_last_index", 0) else x[0]
        found = function(value, axis)
        found = x[0].shape[axis] - 1 - found if node.get("select_last_index", 0) else found
        return np.expand_dims(found, axis) if node.get("keepdims", 1) else found

    return run


def _one_hot(node: Node, x: list[Any]) -> Array:
    depth = int(_known(node, 1).reshape(-1)[0])
    axis = node.get("axis", -1)
    axis += x[0].ndim + 1 if axis < 0 else 0
    index = np.expand_dims(np.where(x[0] < 0, x[0] + depth, x[0]), axis)
    places = np.arange(depth).reshape([-1 if at == axis else 1 for at in range(x[0].ndim + 1)])
    return np.where(index == places, x[2][1], x[2][0]).astype(x[2].dtype)


def reduced_axes(node: Node) -> tuple[int, ...]:
    """The axes that a reduction is over, in order."""
    rank = len(node.value(0).shape)
    axes = node.ints("axes", 1)
    if not axes:
        return () if node.get("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(sorted(axis_of(node, axis, rank) for axis in axes))


def _reduce(function: Callable[..., Any]) -> Evaluate:
    def run(node: Node, x: list[Any]) -> Array:
        axes = reduced_axes(node)
        return np.asarray(function(x[0], axis=axes, keepdims=bool(node.get("keepdims", 1)))).astype(x[0].dtype)

    return run


def _softmax(node: Node, x: list[Any]) -> Array:
    axis = axis_of(node, node.get("axis", -1), x[0].ndim)
    raised = np.exp(x[0] - np.max(x[0], axis, keepdims=True))
    return raised / np.sum(raised, axis, keepdims=True)


def _log_softmax(node: Node, x: list[Any]) -> Array:
    return np.log(_softmax(node, x))


def _gemm(node: Node, x: list[Any]) -> Array:
    a = x[0].T if node.get("transA", 0) else x[0]
    b = x[1].T if node.get("transB", 0) else x[1]
    product = node.get("alpha", 1.0) * (a @ b)
    if len(x) > 2 and x[2] is not None:
        product = product + node.get("beta", 1.0) * x[2]
    return product.astype(x[0].dtype)


def _matmul(node: Node, x: list[Any]) -> Array:
    return np.matmul(x[0], x[1])


def _einsum(node: Node, x: list[Any]) -> Array:
    return np.einsum(node.attributes["equation"], *x).astype(x[0].dtype)


def _recurrent(gates: int) -> Evaluate:
    def run(node: Node, x: list[Any]) -> list[Array | None]:
        sequence = x[0]
        directions, hidden = x[1].shape[0], x[2].shape[2]
        if node.get("layout", 0):
            raise BackendError(f"{node.where}: layout 1 is not known to the backend 'c'")
        if x[1].shape[1] != gates * hidden or x[1].shape[2] != sequence.shape[2]:
            raise ValueError(f"weights {x[1].shape} for an input {sequence.shape}")
        last = np.zeros((directions, sequence.shape[1], hidden), sequence.dtype)
        every = np.zeros((sequence.shape[0], directions, sequence.shape[1], hidden), sequence.dtype)
        return [every, last, last]

    return run


def _layer_norm(node: Node, x: list[Any]) -> list[Array]:
    axis = axis_of(node, node.get("axis", -1), x[0].ndim)
    axes = tuple(range(axis, x[0].ndim))
    mean = x[0].mean(axes, keepdims=True)
    inverse = 1 / np.sqrt(x[0].var(axes, keepdims=True) + node.get("epsilon", 1e-5))
    result = (x[0] - mean) * inverse * x[1]
    result = result + x[2] if len(x) > 2 and x[2] is not None else result
    return [result.astype(x[0].dtype), mean.astype(x[0].dtype), inverse.astype(x[0].dtype)]


def _rms_norm(node: Node, x: list[Any]) -> Array:
    axis = axis_of(node, node.get("axis", -1), x[0].ndim)
    axes = tuple(range(axis, x[0].ndim))
    scale = 1 / np.sqrt((x[0] ** 2).mean(axes, keepdims=True) + node.get("epsilon", 1e-5))
    return (x[0] * scale * x[1]).astype(x[0].dtype)


def _same(node: Node, x: list[Any]) -> Array:
    return x[0]


def _shape_only(function: Callable[[Node, list[Any]], Array]) -> Evaluate:
    """For operators that are never computed here: their weights may be constants, their input may not."""

    def run(node: Node, x: list[Any]) -> Array:
        if node.value(0).data is not None:
            raise BackendError(
                f"{node.where}: its input is a constant; the backend 'c' does not compute this beforehand"
            )
        return function(node, x)

    return run


def window_of(node: Node, size: tuple[int, ...]) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
    """Kernel, strides, dilations and the padding before and after of a convolution or a pooling.

    Args:
        node: the operator.
        size: the lengths of the axes that the window moves along.
    """
    count = len(size)
    kernel = list(node.get("kernel_shape", ())) or list(node.value(1).shape[2:])
    strides = list(node.get("strides", ())) or [1] * count
    dilations = list(node.get("dilations", ())) or [1] * count
    pads = list(node.get("pads", ())) or [0] * (2 * count)
    mode = node.get("auto_pad", "NOTSET")
    before, after = pads[:count], pads[count:]
    if mode.startswith("SAME"):
        for axis in range(count):
            whole = (kernel[axis] - 1) * dilations[axis] + 1
            total = max((-(-size[axis] // strides[axis]) - 1) * strides[axis] + whole - size[axis], 0)
            small, large = total // 2, total - total // 2
            before[axis], after[axis] = (small, large) if mode == "SAME_UPPER" else (large, small)
    return kernel, strides, dilations, before, after


def _windowed(node: Node, size: tuple[int, ...]) -> list[int]:
    kernel, strides, dilations, before, after = window_of(node, size)
    found: list[int] = []
    for axis, length in enumerate(size):
        room = length + before[axis] + after[axis] - ((kernel[axis] - 1) * dilations[axis] + 1)
        steps = -(-room // strides[axis]) if node.get("ceil_mode", 0) else room // strides[axis]
        if node.get("ceil_mode", 0) and steps * strides[axis] >= length + before[axis]:
            steps -= 1  # a window may not start in the padding after
        found.append(steps + 1)
    return found


def _conv(node: Node, x: list[Any]) -> Array:
    return np.zeros((x[0].shape[0], x[1].shape[0], *_windowed(node, x[0].shape[2:])), x[0].dtype)


def _conv_transpose(node: Node, x: list[Any]) -> Array:
    size = x[0].shape[2:]
    if node.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or "output_shape" in node.attributes:
        raise BackendError(f"{node.where}: only explicit padding is known to the backend 'c'")
    kernel, strides, dilations, before, after = window_of(node, size)
    extra = list(node.get("output_padding", ())) or [0] * len(size)
    found = [
        strides[axis] * (length - 1)
        + extra[axis]
        + (kernel[axis] - 1) * dilations[axis]
        + 1
        - before[axis]
        - after[axis]
        for axis, length in enumerate(size)
    ]
    return np.zeros((x[0].shape[0], x[1].shape[1] * node.get("group", 1), *found), x[0].dtype)


def _pool(node: Node, x: list[Any]) -> Array:
    return np.zeros((*x[0].shape[:2], *_windowed(node, x[0].shape[2:])), x[0].dtype)


def resized(node: Node) -> dict[int, tuple[Array, Array, Array]]:
    """What a `Resize` mixes: axis -> (lower places, upper places, weight of the upper), one for each result.

    Axes that keep their length are left out.
    """
    shape = node.value(0).shape
    scales, sizes, chosen = node.constant(2), node.constant(3), node.get("axes", range(len(shape)))
    mode, place = node.get("mode", "nearest"), node.get("coordinate_transformation_mode", "half_pixel")
    policy = node.get("keep_aspect_ratio_policy", "stretch")
    if mode not in ("nearest", "linear") or node.get("antialias", 0) or place not in _PLACES or policy != "stretch":
        raise BackendError(f"{node.where}: the mode {mode!r} with {place!r} is not known to the backend 'c'")
    found: dict[int, tuple[Array, Array, Array]] = {}
    for index, axis in enumerate(chosen):
        size = shape[axis]
        if sizes is not None and sizes.size:
            count = int(sizes[index])
            scale = np.float32(count) / np.float32(size)
        elif scales is not None:
            scale = np.float32(scales[index])
            count = math.floor(size * scale)
        else:
            raise BackendError(f"{node.where}: says neither scales nor sizes")
        if count == size and (mode == "nearest" or scale == 1):
            continue
        found[axis] = _mixture(node, np.arange(count), size, count, float(scale), mode, place)
    return found


_PLACES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric")


def _mixture(
    node: Node, index: Array, size: int, count: int, scale: float, mode: str, place: str
) -> tuple[Array, Array, Array]:
    if place == "align_corners":
        at = index * ((size - 1) / (count - 1)) if count > 1 else index * 0.0
    elif place == "asymmetric":
        at = index / scale
    elif place == "pytorch_half_pixel" and count == 1:
        at = index * 0.0
    else:
        at = (index + 0.5) / scale - 0.5
        if place == "half_pixel_symmetric":
            at += size / 2 * (1 - count / (scale * size))
    if mode == "nearest":
        rounding = {
            "round_prefer_floor": lambda value: np.ceil(value - 0.5),
            "round_prefer_ceil": lambda value: np.floor(value + 0.5),
            "floor": np.floor,
            "ceil": np.ceil,
        }[node.get("nearest_mode", "round_prefer_floor")]
        whole = np.clip(rounding(at.astype(np.float32)), 0, size - 1).astype(np.int64)
        return whole, whole, np.zeros(count)
    inside = np.clip(at, 0, size - 1)
    lower = np.floor(inside).astype(np.int64)
    return lower, np.minimum(lower + 1, size - 1), inside - lower


def _resize(node: Node, x: list[Any]) -> Array:
    tables = resized(node)
    return np.zeros(
        [len(tables[axis][0]) if axis in tables else size for axis, size in enumerate(x[0].shape)], x[0].dtype
    )


def _depth(node: Node, x: list[Any]) -> Array:
    (rows, channels, height, width), block = x[0].shape, node.attributes["blocksize"]
    if node.op == "SpaceToDepth":
        return np.zeros((rows, channels * block**2, height // block, width // block), x[0].dtype)
    return np.zeros((rows, channels // block**2, height * block, width * block), x[0].dtype)


def _eye(node: Node, x: list[Any]) -> Array:
    rows, columns = node.value(0).shape
    kind = node.attributes.get("dtype")
    return np.eye(rows, columns, node.get("k", 0), node.value(0).dtype if kind is None else np.dtype(DTYPES[kind]))


def _global_pool(node: Node, x: list[Any]) -> Array:
    return np.zeros((*x[0].shape[:2], *[1] * (x[0].ndim - 2)), x[0].dtype)


EVALUATE: Mapping[str, Evaluate] = {
    # elementwise
    "Abs": _plain(np.abs),
    "Acos": _plain(np.arccos),
    "Acosh": _plain(np.arccosh),
    "Add": _plain(np.add),
    "And": _test(np.logical_and),
    "Asin": _plain(np.arcsin),
    "Asinh": _plain(np.arcsinh),
    "Atan": _plain(np.arctan),
    "Atanh": _plain(np.arctanh),
    "BitShift": _shift,
    "BitwiseAnd": _plain(np.bitwise_and),
    "BitwiseNot": _plain(np.bitwise_not),
    "BitwiseOr": _plain(np.bitwise_or),
    "BitwiseXor": _plain(np.bitwise_xor),
    "Cast": _cast,
    "CastLike": _cast,
    "Ceil": _plain(np.ceil),
    "Celu": _unary(
        lambda n, x: np.maximum(x, 0) + np.minimum(0, n.get("alpha", 1.0) * np.expm1(x / n.get("alpha", 1.0)))
    ),
    "Clip": _clip,
    "Cos": _plain(np.cos),
    "Cosh": _plain(np.cosh),
    "Div": _plain(_div),
    "Elu": _unary(lambda n, x: np.where(x > 0, x, n.get("alpha", 1.0) * np.expm1(np.minimum(x, 0)))),
    "Equal": _test(np.equal),
    "Erf": _plain(_erf),
    "Exp": _plain(np.exp),
    "Floor": _plain(np.floor),
    "Gelu": _unary(_gelu),
    "Greater": _test(np.greater),
    "GreaterOrEqual": _test(np.greater_equal),
    "HardSigmoid": _unary(_hard_sigmoid),
    "HardSwish": _plain(lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "IsInf": _test(np.isinf),
    "IsNaN": _test(np.isnan),
    "LeakyRelu": _unary(lambda n, x: np.where(x >= 0, x, n.get("alpha", 0.01) * x)),
    "Less": _test(np.less),
    "LessOrEqual": _test(np.less_equal),
    "Log": _plain(np.log),
    "Max": _many(np.maximum),
    "Mean": lambda node, x: np.asarray(sum(x[1:], x[0]) / len(x)).astype(x[0].dtype),
    "Min": _many(np.minimum),
    "Mish": _plain(lambda x: x * np.tanh(_softplus(x))),
    "Mod": _mod,
    "Mul": _plain(np.multiply),
    "Neg": _plain(np.negative),
    "Not": _test(np.logical_not),
    "Or": _test(np.logical_or),
    "PRelu": _plain(lambda x, slope: np.where(x >= 0, x, slope * x)),
    "Pow": _pow,
    "Reciprocal": _plain(lambda x: 1 / x),
    "Relu": _plain(lambda x: np.maximum(x, 0)),
    "Round": _plain(np.rint),
    "Selu": _unary(
        lambda n, x: (
            n.get("gamma", 1.05070102214813232421875)
            * np.where(x > 0, x, n.get("alpha", 1.67326319217681884765625) * np.expm1(np.minimum(x, 0)))
        )
    ),
    "Sigmoid": _plain(_sigmoid),
    "Sign": _plain(np.sign),
    "Sin": _plain(np.sin),
    "Sinh": _plain(np.sinh),
    "Softplus": _plain(_softplus),
    "Softsign": _plain(lambda x: x / (1 + np.abs(x))),
    "Sqrt": _plain(np.sqrt),
    "Sub": _plain(np.subtract),
    "Sum": _many(np.add),
    "Swish": _unary(lambda n, x: x * _sigmoid(n.get("alpha", 1.0) * x)),
    "Tan": _plain(np.tan),
    "Tanh": _plain(np.tanh),
    "ThresholdedRelu": _unary(lambda n, x: np.where(x > n.get("alpha", 1.0), x, 0)),
    "Where": lambda node, x: np.where(*x).astype(x[1].dtype, copy=False),
    "Xor": _test(np.logical_xor),
    # where things are
    "Concat": _concat,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Dropout": _same,
    "Expand": _expand,
    "EyeLike": _eye,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Identity": _same,
    "OneHot": _one_hot,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Shape": _shape,
    "Size": lambda node, x: np.array(node.value(0).count, np.int64),
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Trilu": _trilu,
    "Unsqueeze": _unsqueeze,
    # over axes
    "ArgMax": _arg(np.argmax),
    "ArgMin": _arg(np.argmin),
    "CumSum": _cumsum,
    "LogSoftmax": _log_softmax,
    "ReduceL1": _reduce(lambda x, **k: np.sum(np.abs(x), **k)),
    "ReduceL2": _reduce(lambda x, **k: np.sqrt(np.sum(x * x, **k))),
    "ReduceLogSum": _reduce(lambda x, **k: np.log(np.sum(x, **k))),
    "ReduceLogSumExp": _reduce(lambda x, **k: np.log(np.sum(np.exp(x), **k))),
    "ReduceMax": _reduce(np.max),
    "ReduceMean": _reduce(np.mean),
    "ReduceMin": _reduce(np.min),
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
    "ReduceSumSquare": _reduce(lambda x, **k: np.sum(x * x, **k)),
    "Softmax": _softmax,
    "TopK": _top_k,
    # products
    "Einsum": _einsum,
    "Gemm": _gemm,
    "MatMul": _matmul,
    # networks
    "AveragePool": _shape_only(_pool),
    "BatchNormalization": _shape_only(_same),
    "Conv": _shape_only(_conv),
    "ConvTranspose": _shape_only(_conv_transpose),
    "DepthToSpace": _shape_only(_depth),
    "GRU": _recurrent(3),
    "GlobalAveragePool": _shape_only(_global_pool),
    "GlobalMaxPool": _shape_only(_global_pool),
    "GroupNormalization": _shape_only(_same),
    "InstanceNormalization": _shape_only(_same),
    "LSTM": _recurrent(4),
    "LayerNormalization": _layer_norm,
    "MaxPool": _shape_only(_pool),
    "RMSNormalization": _rms_norm,
    "RNN": _recurrent(1),
    "Resize": _shape_only(_resize),
    "SpaceToDepth": _shape_only(_depth),
}
"""Operator -> what computes it."""

_LENGTHS = frozenset({"NonZero", "Unique", "Compress", "NonMaxSuppression"})
"""Operators whose results have no length before they run."""

NEVER_FOLDED = frozenset({"LSTM", "GRU", "RNN"})
"""Operators whose values are not computed here even where all inputs are known."""

SHAPE_IS_ENOUGH = frozenset({"Shape", "Size", "EyeLike"})
"""Operators that look at no value, so that what they give is always known."""
