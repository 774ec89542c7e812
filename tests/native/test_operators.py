"""Every operator against ONNX Runtime, on ordinary and on odd inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from harness import native
from models import Case, Constant, Model, case, ints

QUICK = ("-O1", "-fno-math-errno", "-fno-trapping-math", "-fsanitize=undefined", "-fno-sanitize-recover=all")


def real(*shape: int, scale: float = 1.0, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed + sum(shape)).standard_normal(shape) * scale).astype(np.float32)


def weights(*shape: int) -> Constant:
    return Constant(real(*shape, scale=0.3, seed=7))


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


WIDE = np.concatenate([np.linspace(-100, 100, 257), [0.0, -0.0, 1e-30, -1e-30, 3e38, -3e38]]).astype(np.float32)
ODD = f32(np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.5)
POSITIVE = np.geomspace(1e-6, 1e6, 65).astype(np.float32)
UNIT = np.linspace(-1, 1, 33).astype(np.float32)
WHOLE = i64(-7, -3, -1, 0, 1, 2, 9)
BITS = np.array([0, 1, 0, 1], np.bool_), np.array([0, 0, 1, 1], np.bool_)

UNARY = [
    *(case(op, WIDE) for op in ("Abs", "Neg", "Sign", "Relu", "LeakyRelu", "Sigmoid", "Tanh", "Elu", "Selu", "Celu")),
    *(case(op, WIDE) for op in ("Softplus", "Softsign", "HardSigmoid", "HardSwish", "Mish", "Floor", "Ceil", "Round")),
    *(case(op, UNIT) for op in ("Asin", "Acos", "Atan", "Atanh", "Sinh", "Cosh", "Asinh", "Exp", "Tan", "Erf")),
    *(case(op, real(40, scale=20)) for op in ("Sin", "Cos", "Erf", "Atan")),
    *(case(op, POSITIVE) for op in ("Sqrt", "Log", "Reciprocal")),
    case("Acosh", POSITIVE + 1),
    case("Exp", f32(-200, -104, -103.5, -90, -88, -87.4, -1e-8, 0, 1e-8, 1, 20, 88, 88.7, 89, 200), rtol=1e-6, atol=0),
    case("Elu", WIDE, alpha=0.5),
    case("LeakyRelu", WIDE, alpha=0.2),
    case("ThresholdedRelu", WIDE, alpha=3.0),
    case("HardSigmoid", WIDE, alpha=0.1, beta=0.4),
    *(case(op, ODD) for op in ("Abs", "Neg", "Exp", "Tanh", "Sigmoid", "Sqrt", "IsNaN", "IsInf", "Round", "Floor")),
    case("IsInf", ODD, detect_negative=0),
    case("IsInf", ODD, detect_positive=0),
    *(case(op, WHOLE) for op in ("Abs", "Neg", "Sign")),
    *(case(op, np.linspace(-3, 3, 9)) for op in ("Tanh", "Exp", "Sigmoid", "Relu", "Abs", "Sqrt")),
    case("Not", BITS[0]),
]
A, B = real(4, 5), real(4, 5, seed=3)
BINARY = [
    *(case(op, A, B) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean")),
    *(case(op, A, B[0]) for op in ("Add", "Sub", "Mul", "Div")),
    *(case(op, A, Constant(B[:, :1])) for op in ("Add", "Sub", "Mul", "Div")),
    *(case(op, Constant(f32(2.0)[0]), A) for op in ("Add", "Sub", "Mul", "Div")),
    *(case(op, A, B, real(4, 5, seed=9)) for op in ("Max", "Min", "Sum", "Mean")),
    *(case(op, A.round(), B.round()) for op in ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")),
    *(case(op, *BITS) for op in ("And", "Or", "Xor", "Equal")),
    *(case("Pow", np.abs(A), Constant(f32(power))) for power in (0.5, 1, 2, 3, -1, 0.3)),
    case("Pow", np.abs(A), np.abs(B)),
    *(case(op, WHOLE, i64(2, -2, 3, 4, -5, 1, 4)) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min")),
    case("Mod", WHOLE, i64(2, -2, 3, 4, -5, 1, 4)),
    case("Mod", WHOLE, i64(2, -2, 3, 4, -5, 1, 4), fmod=1),
    case("Mod", A, B, fmod=1),
    case("Add", i64(2**62, -(2**63)), i64(2**62, -1)),
    case("BitShift", np.array([1, 3, 250], np.uint8), np.array([1, 2, 3], np.uint8), direction="LEFT"),
    case("BitShift", np.array([1, 3, 250], np.uint8), np.array([1, 2, 3], np.uint8), direction="RIGHT"),
    case("BitwiseAnd", WHOLE, i64(5, 5, 5, 5, 5, 5, 5)),
    case("Clip", WIDE, Constant(f32(-2.0)[0]), Constant(f32(3.0)[0])),
    case("Clip", WIDE, None, Constant(f32(3.0)[0])),
    case("Clip", WHOLE, Constant(i64(-2)[0]), Constant(i64(3)[0])),
    case("Clip", A, f32(-0.3)[0], f32(0.4)[0]),
    case("Where", A > 0, A, B),
    case("Where", A[:, :1] > 0, A, Constant(f32(0.0)[0])),
    case("Where", A > 0, WHOLE[0], WHOLE[1]),
    case("PRelu", A, Constant(f32(0.1, 0.2, 0.3, 0.4, 0.5))),
    *(case("Cast", f32(-2.7, -0.5, 0, 0.5, 2.7, 100), to=to) for to in (1, 3, 5, 6, 7, 9, 11)),
    *(case("Cast", WHOLE, to=to) for to in (1, 3, 6, 9, 11, 2)),
    case("Cast", BITS[0], to=1),
    case("CastLike", WHOLE, A),
]
X = real(2, 3, 4)
PLACES = np.random.default_rng(0).integers(0, 3, (2, 2, 4))
MOVEMENT = [
    case("Transpose", X, perm=[2, 0, 1]),
    case("Transpose", X),
    case("Reshape", X, ints(4, -1)),
    case("Reshape", X, ints(0, 12)),
    case("Flatten", X, axis=2),
    case("Squeeze", X[:1], ints(0)),
    case("Unsqueeze", X, ints(1, -1)),
    case("Slice", X, ints(0, 1), ints(2, 3), ints(0, 2)),
    case("Slice", X, ints(-1), ints(-5), ints(2), ints(-2)),
    case("Slice", X, ints(1), ints(2**63 - 1), ints(1)),
    case("Concat", X, X[:, :1], axis=1),
    case("Concat", X, Constant(X), axis=-1),
    case("Split", X, ints(1, 2), outputs=2, axis=1),
    case("Split", X, outputs=2, axis=2, num_outputs=2),
    case("Expand", X[:, :1], ints(2, 3, 4)),
    case("Tile", X, ints(2, 1, 3)),
    *(case("Pad", X, ints(0, 1, 0, 1, 0, 2), mode=mode) for mode in ("edge", "reflect", "constant")),
    case("Pad", X, ints(0, -1, 1, 0, 0, -2), Constant(f32(7.0)[0])),
    case("Gather", X, ints(1, 2, 0), axis=1),
    case("Gather", X, Constant(i64(-1)[0]), axis=2),
    case("Gather", X, i64(-1, 0, 2), axis=1),
    case("Gather", X, Constant(i64(0, 2, 1, 0)[None]), axis=-2),
    case("Gather", real(60, 2), Constant(np.random.default_rng(0).permutation(60))),
    case("GatherElements", X, PLACES, axis=1),
    case("GatherND", X, Constant(np.array([[0, 1], [1, 2]]))),
    case("GatherND", X, np.array([[1], [2]]), batch_dims=1),
    case("ScatterElements", X, PLACES, real(2, 2, 4), axis=1),
    case("ScatterElements", X, PLACES % 2, real(2, 2, 4), axis=1, reduction="add"),
    case("ScatterND", X, Constant(np.array([[0, 1], [1, 2]])), real(2, 4)),
    case("ScatterND", X, np.array([[0, 1], [0, 1]]), real(2, 4), reduction="add"),
    case("OneHot", i64(0, 2, -1), ints(3), Constant(f32(0, 1)), axis=-1),
    case("OneHot", i64(0, 2, 5), ints(3), f32(2, 5), axis=0),
    case("Trilu", X, upper=0),
    case("Trilu", X, Constant(i64(1)[0])),
    case("EyeLike", A, k=1),
    case("Identity", X),
    case("DepthToSpace", real(1, 8, 2, 3), blocksize=2),
    case("DepthToSpace", real(1, 8, 2, 3), blocksize=2, mode="CRD"),
    case("SpaceToDepth", real(1, 2, 4, 6), blocksize=2),
]
ROWS = [
    *(case(f"Reduce{op}", X, ints(1)) for op in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare")),
    *(case(f"Reduce{op}", X, ints(-1), keepdims=0) for op in ("Sum", "Mean", "Max", "Min", "L2", "LogSumExp")),
    *(case(f"Reduce{op}", real(2, 70), ints(1)) for op in ("Sum", "Mean", "Max", "L1", "L2", "SumSquare")),
    *(case(f"Reduce{op}", X, keepdims=0) for op in ("Sum", "Mean", "Max")),
    case("ReduceLogSum", np.abs(X), ints(0, 2)),
    case("ReduceSum", X, ints(0, 2)),
    case("ReduceSum", WHOLE),
    case("ReduceMax", WHOLE, ints(0), keepdims=0),
    case("ReduceMean", real(2, 3, 4).astype(np.float64), ints(2)),
    *(case("Softmax", real(3, 37, scale=5), axis=axis) for axis in (0, 1)),
    case("Softmax", A.astype(np.float64)),
    case("LogSoftmax", A),
    *(case(op, X, axis=1, keepdims=keep) for op in ("ArgMax", "ArgMin") for keep in (0, 1)),
    case("ArgMax", i64(1, 3, 3, 2), axis=0, select_last_index=1),
    case("TopK", X, ints(2), outputs=2, axis=1),
    case("TopK", f32(3, 1, 3, 2, 3), ints(3), outputs=2, largest=0),
    case("CumSum", X, Constant(i64(1)[0])),
    case("CumSum", X, Constant(i64(2)[0]), exclusive=1, reverse=1),
    case("CumSum", WHOLE, Constant(i64(0)[0]), reverse=1),
    case("LayerNormalization", real(5, 40, scale=3), weights(40), weights(40)),
    case("LayerNormalization", real(2, 3, 6), weights(3, 6), axis=1, epsilon=1e-3),
    case("BatchNormalization", real(2, 3, 4), weights(3), weights(3), weights(3), Constant(f32(1, 2, 3))),
    case("InstanceNormalization", real(2, 3, 8), weights(3), weights(3)),
]
LEFT = real(3, 70)
PRODUCTS = [
    case("MatMul", LEFT, weights(70, 300), atol=3e-6),
    case("MatMul", LEFT[0], weights(70, 12), atol=3e-6),
    case("MatMul", real(1, 600), weights(600, 49), atol=5e-6),
    case("MatMul", real(7, 20), weights(20, 130), atol=3e-6),
    case("MatMul", real(2, 4, 9), real(2, 9, 21)),
    case("MatMul", real(2, 4, 9), real(9, 5)),
    case("MatMul", real(3, 1, 4, 9), real(2, 9, 5)),
    case("MatMul", weights(4, 9), real(9, 5)),
    case("MatMul", real(9), real(9)),
    case("MatMul", i64(1, 2, 3).reshape(1, 3), i64(4, 5, 6).reshape(3, 1)),
    case("MatMul", real(2, 3).astype(np.float64), Constant(real(3, 4).astype(np.float64))),
    case("Gemm", LEFT, weights(70, 17), weights(17), atol=3e-6),
    case("Gemm", LEFT, weights(17, 70), weights(17), transB=1, alpha=0.5, beta=2.0, atol=3e-6),
    case("Gemm", LEFT.T, weights(70, 17), real(3, 17), transA=1, atol=3e-6),
    case("Gemm", real(3, 5), real(5, 4), real(4), alpha=2.0, beta=0.5),
    case("Gemm", real(3, 5), real(4, 5), transB=1),
    case("Einsum", real(2, 3, 4), real(2, 5, 4), equation="bik,bjk->bij"),
    case("Einsum", real(2, 3, 4), real(4, 5), equation="bik,kj->jbi"),
]


def recurrent(op: str, gates: int, *extra: np.ndarray, steps: int = 1, rows: int = 1, **attributes: object) -> Case:
    hidden, width, both = 20, 9, 2 if attributes.get("direction") == "bidirectional" else 1
    operands = [real(steps, rows, width)]
    operands += [weights(both, gates * hidden, size) for size in (width, hidden)]  # type: ignore[list-item]
    operands += [weights(both, 2 * gates * hidden)]  # type: ignore[list-item]
    first = [] if attributes.pop("cold", False) else [None, *[real(both, rows, hidden)] * (1 + (op == "LSTM"))]
    return case(op, *operands, *first, outputs=2 + (op == "LSTM"), hidden_size=hidden, **attributes)


RECURRENT = [
    *(recurrent(op, gates, steps=3, rows=2) for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))),
    recurrent("LSTM", 4),
    recurrent("LSTM", 4, steps=4, direction="bidirectional"),
    recurrent("LSTM", 4, steps=2, cold=True),
    recurrent("GRU", 3, steps=3, direction="reverse", linear_before_reset=1),
    recurrent("GRU", 3, linear_before_reset=1),
    recurrent("GRU", 3, rows=3),
    recurrent("RNN", 1, activations=["Relu"], steps=2),
]
IMAGE = real(2, 4, 9, 11)
WINDOWS = [
    case("Conv", IMAGE, weights(6, 4, 3, 3), weights(6), atol=3e-6),
    case("Conv", IMAGE, weights(6, 4, 3, 2), strides=[2, 3], pads=[1, 0, 2, 1], atol=3e-6),
    case("Conv", IMAGE, weights(6, 2, 3, 3), group=2, auto_pad="SAME_UPPER", atol=3e-6),
    case("Conv", IMAGE, weights(6, 4, 3, 3), dilations=[2, 3], pads=[1, 3, 1, 3], atol=3e-6),
    case("Conv", IMAGE, weights(4, 1, 3, 3), group=4, auto_pad="SAME_LOWER", strides=[2, 2], atol=3e-6),
    case("Conv", real(1, 3, 20), weights(5, 3, 4), strides=[2], pads=[1, 2], atol=3e-6),
    case("ConvTranspose", IMAGE, weights(4, 3, 3, 3), weights(3), strides=[2, 1], pads=[1, 0, 0, 1], atol=3e-6),
    case("ConvTranspose", IMAGE, weights(4, 2, 2, 2), group=2, output_padding=[1, 0], strides=[2, 2], atol=3e-6),
    case("MaxPool", IMAGE, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]),
    case("MaxPool", IMAGE, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    case("AveragePool", IMAGE, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]),
    case("AveragePool", IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
    case("GlobalAveragePool", IMAGE),
    case("GlobalMaxPool", IMAGE),
    case("Resize", IMAGE, None, Constant(f32(1, 1, 2, 2)), mode="nearest", nearest_mode="floor",
         coordinate_transformation_mode="asymmetric"),
    case("Resize", IMAGE, None, None, ints(2, 4, 5, 17), mode="linear", atol=3e-6),
    case("Resize", IMAGE, None, None, ints(2, 4, 5, 17), mode="linear", coordinate_transformation_mode="align_corners"),
    case("Resize", IMAGE, None, None, ints(2, 4, 14, 5), mode="nearest"),
    case("Resize", IMAGE, None, Constant(f32(1, 1, 0.5, 1.5)), mode="linear",
         coordinate_transformation_mode="pytorch_half_pixel"),
]  # fmt: skip
GROUPS = {
    "unary": UNARY,
    "binary": BINARY,
    "movement": MOVEMENT,
    "rows": ROWS,
    "products": PRODUCTS,
    "recurrent": RECURRENT,
    "windows": WINDOWS,
}


@pytest.mark.parametrize("group", GROUPS)
def test_operators_compute_what_onnx_runtime_computes(group: str, tmp_path: Path) -> None:
    model = Model(GROUPS[group])
    policy = native(model.package(tmp_path / "package"), tmp_path / "c", flags=QUICK)
    model.check(policy.step(model.inputs))
