"""Elementwise operators as expressions of C.

They are written so that a loop over them becomes vectors, and so that what is not a number stays that:
``x < 0 ? 0 : x`` is NaN for NaN. Whole numbers wrap around, and dividing them by zero gives zero, on every processor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from ashore.backends.c.code import C_TYPES, number
from ashore.backends.c.evaluate import cast_target
from ashore.backends.c.graph import Node
from ashore.errors import BackendError

Expression: TypeAlias = Callable[[Node, "np.dtype[Any]"], str]
"""The node, and the dtype of its first input -> an expression with ``{0}``, ``{1}`` for its inputs."""

_FAST = {"exp", "tanh", "erf"}
"""Functions of the C library that have a faster one of our own for float32."""


def call(name: str, dtype: np.dtype[Any], *arguments: str) -> str:
    """A call of a mathematical function."""
    if dtype.name == "float32":
        name = f"native_{name}" if name in _FAST else f"{name}f"
    return f"{name}({', '.join(arguments)})"


def _real(node: Node, dtype: np.dtype[Any]) -> None:
    if dtype.kind != "f":
        raise BackendError(f"{node.where}: expected floats, got {dtype}")


def _function(name: str) -> Expression:
    def expression(node: Node, dtype: np.dtype[Any]) -> str:
        _real(node, dtype)
        return call(name, dtype, "{0}")

    return expression


def _arithmetic(sign: str) -> Expression:
    def expression(node: Node, dtype: np.dtype[Any]) -> str:
        return arithmetic(sign, dtype)

    return expression


def arithmetic(sign: str, dtype: np.dtype[Any], left: str = "{0}", right: str = "{1}") -> str:
    """A sum, difference or product; whole numbers wrap around."""
    if dtype.kind == "f":
        return f"{left} {sign} {right}"
    wide = "uint64_t" if dtype.itemsize == 8 else "uint32_t"
    return f"({C_TYPES[dtype.name]})(({wide}){left} {sign} ({wide}){right})"


def _compare(sign: str) -> Expression:
    return lambda node, dtype: f"{{0}} {sign} {{1}}"


def _fixed(template: str) -> Expression:
    return lambda node, dtype: template


def _scaled(node: Node, name: str, default: float, dtype: np.dtype[Any]) -> str:
    shown = number(np.array(node.get(name, default), dtype)[()], dtype)
    return f"({shown})" if shown.startswith("-") else shown


def _div(node: Node, dtype: np.dtype[Any]) -> str:
    if dtype.kind == "f":
        return "{0} / {1}"
    kind = C_TYPES[dtype.name]
    if dtype.kind == "i":
        return f"{{1}} == 0 ? 0 : {{1}} == -1 ? {arithmetic('-', dtype, '0', '{0}')} : ({kind})({{0}} / {{1}})"
    return f"{{1}} == 0 ? 0 : ({kind})({{0}} / {{1}})"


def _mod(node: Node, dtype: np.dtype[Any]) -> str:
    if dtype.kind == "f":
        if not node.get("fmod", 0):
            raise BackendError(f"{node.where}: the remainder of floats is known to ONNX with fmod=1 only")
        return call("fmod", dtype, "{0}", "{1}")
    kind = C_TYPES[dtype.name]
    if dtype.kind == "u":
        return f"{{1}} == 0 ? 0 : ({kind})({{0}} % {{1}})"
    rest = "{0} % {1}" if node.get("fmod", 0) else "({0} % {1} + {1}) % {1}"
    return f"{{1}} == 0 || {{1}} == -1 ? 0 : ({kind})({rest})"


def _elu(node: Node, dtype: np.dtype[Any]) -> str:
    return f"{{0}} > {_zero(dtype)} ? {{0}} : {_scaled(node, 'alpha', 1.0, dtype)} * ({call('exp', dtype, '{0}')} - 1)"


def _selu(node: Node, dtype: np.dtype[Any]) -> str:
    alpha, gamma = _scaled(node, "alpha", 1.6732631921768188, dtype), _scaled(node, "gamma", 1.0507010221481323, dtype)
    return f"{gamma} * ({{0}} > {_zero(dtype)} ? {{0}} : {alpha} * ({call('exp', dtype, '{0}')} - 1))"


def _celu(node: Node, dtype: np.dtype[Any]) -> str:
    alpha = _scaled(node, "alpha", 1.0, dtype)
    return f"{{0}} > {_zero(dtype)} ? {{0}} : {alpha} * ({call('exp', dtype, f'{{0}} / {alpha}')} - 1)"


def _zero(dtype: np.dtype[Any]) -> str:
    return number(np.zeros((), dtype)[()], dtype)


def _one(dtype: np.dtype[Any]) -> str:
    return number(np.ones((), dtype)[()], dtype)


def _softplus(node: Node, dtype: np.dtype[Any]) -> str:
    # log1p keeps what exp leaves of a large negative number.
    small = call("log1p", dtype, call("exp", dtype, f"-{call('fabs', dtype, '{0}')}"))
    return f"({{0}} < {_zero(dtype)} ? {_zero(dtype)} : {{0}}) + {small}"


def _mish(node: Node, dtype: np.dtype[Any]) -> str:
    return f"{{0}} * {call('tanh', dtype, _softplus(node, dtype))}"


def sigmoid(dtype: np.dtype[Any], argument: str = "{0}") -> str:
    """The logistic function."""
    if dtype.name == "float32":
        return f"native_sigmoid({argument})"
    return f"1.0 / (1.0 + exp(-({argument})))"


def _sigmoid(node: Node, dtype: np.dtype[Any]) -> str:
    _real(node, dtype)
    return sigmoid(dtype)


def _gelu(node: Node, dtype: np.dtype[Any]) -> str:
    def real(value: float) -> str:
        return number(np.array(value, dtype)[()], dtype)

    if node.get("approximate", "none") == "tanh":
        inner = f"{real(0.7978845608028654)} * ({{0}} + {real(0.044715)} * {{0}} * {{0}} * {{0}})"
        return f"{real(0.5)} * {{0}} * ({real(1)} + {call('tanh', dtype, inner)})"
    return f"{real(0.5)} * {{0}} * ({real(1)} + {call('erf', dtype, f'{{0}} * {real(0.7071067811865476)}')})"


def _hard_sigmoid(node: Node, dtype: np.dtype[Any]) -> str:
    inner = f"{_scaled(node, 'alpha', 0.2, dtype)} * {{0}} + {_scaled(node, 'beta', 0.5, dtype)}"
    return _between(inner, dtype)


def _between(inner: str, dtype: np.dtype[Any]) -> str:
    """Something cut to 0 to 1."""
    zero, one = _zero(dtype), _one(dtype)
    return f"({inner}) < {zero} ? {zero} : ({inner}) > {one} ? {one} : ({inner})"


def _hard_swish(node: Node, dtype: np.dtype[Any]) -> str:
    sixth, half = number(np.array(1 / 6, dtype)[()], dtype), number(np.array(0.5, dtype)[()], dtype)
    return f"{{0}} * ({_between(f'{{0}} * {sixth} + {half}', dtype)})"


def _swish(node: Node, dtype: np.dtype[Any]) -> str:
    alpha = _scaled(node, "alpha", 1.0, dtype)
    return f"{{0}} * ({sigmoid(dtype, f'{alpha} * {{0}}')})"


def _abs(node: Node, dtype: np.dtype[Any]) -> str:
    if dtype.kind == "f":
        return call("fabs", dtype, "{0}")
    return "{0}" if dtype.kind in "ub" else f"{{0}} < 0 ? {arithmetic('-', dtype, '0', '{0}')} : {{0}}"


def _neg(node: Node, dtype: np.dtype[Any]) -> str:
    return "-{0}" if dtype.kind == "f" else arithmetic("-", dtype, "0", "{0}")


def _sign(node: Node, dtype: np.dtype[Any]) -> str:
    zero, one = _zero(dtype), _one(dtype)
    negative = "{0}" if dtype.kind == "u" else f"{{0}} < {zero} ? -{one} : {{0}}"
    return f"{{0}} > {zero} ? {one} : {negative}"


def _whole(name: str) -> Expression:
    return lambda node, dtype: call(name, dtype, "{0}") if dtype.kind == "f" else "{0}"


def _pow(node: Node, dtype: np.dtype[Any]) -> str:
    power = node.value(1).data
    if power is not None and power.size == 1 and dtype.kind == "f":
        match float(power.reshape(-1)[0]):
            case 1.0:
                return "{0}"
            case 2.0:
                return "{0} * {0}"
            case 3.0:
                return "{0} * {0} * {0}"
            case 0.5:
                return call("sqrt", dtype, "{0}")
            case _:
                pass
    if dtype.kind == "f":
        return call("pow", dtype, "{0}", "{1}")
    return cast("pow((double){0}, (double){1})", np.dtype(np.float64), dtype)


def larger(dtype: np.dtype[Any], left: str = "{0}", right: str = "{1}", *, sign: str = ">") -> str:
    """The larger of two, or what of them is NaN."""
    plain = f"{left} {sign} {right} ? {left} : {right}"
    return plain if dtype.kind != "f" else f"{left} != {left} ? {left} : ({plain})"


def cast(inner: str, source: np.dtype[Any], target: np.dtype[Any]) -> str:
    """Something of one dtype as another; floats that do not fit become the lowest number, as on x86."""
    kind = C_TYPES.get(target.name, "")
    if target.kind == "b":
        return f"({inner}) != 0"
    if source.kind == "f" and target.kind in "iu":
        wide = f"(double)({inner})"
        return f"({kind})native_whole{'64' if target.itemsize > 4 or target.name == 'uint32' else '32'}({wide})"
    return f"({kind})({inner})"


def _cast(node: Node, dtype: np.dtype[Any]) -> str:
    return cast("{0}", dtype, cast_target(node))


def _shift(node: Node, dtype: np.dtype[Any]) -> str:
    bits = dtype.itemsize * 8
    sign = "<<" if node.attributes["direction"] == "LEFT" else ">>"
    return f"{{1}} >= {bits} ? 0 : ({C_TYPES[dtype.name]})({{0}} {sign} {{1}})"


EXPRESSIONS: Mapping[str, Expression] = {
    "Abs": _abs,
    "Acos": _function("acos"),
    "Acosh": _function("acosh"),
    "Add": _arithmetic("+"),
    "And": _fixed("{0} & {1}"),
    "Asin": _function("asin"),
    "Asinh": _function("asinh"),
    "Atan": _function("atan"),
    "Atanh": _function("atanh"),
    "BitShift": _shift,
    "BitwiseAnd": lambda node, dtype: f"({C_TYPES[dtype.name]})({{0}} & {{1}})",
    "BitwiseNot": lambda node, dtype: f"({C_TYPES[dtype.name]})(~{{0}})",
    "BitwiseOr": lambda node, dtype: f"({C_TYPES[dtype.name]})({{0}} | {{1}})",
    "BitwiseXor": lambda node, dtype: f"({C_TYPES[dtype.name]})({{0}} ^ {{1}})",
    "Cast": _cast,
    "CastLike": _cast,
    "Ceil": _whole("ceil"),
    "Celu": _celu,
    "Cos": _function("cos"),
    "Cosh": _function("cosh"),
    "Div": _div,
    "Elu": _elu,
    "Equal": _compare("=="),
    "Erf": _function("erf"),
    "Exp": _function("exp"),
    "Floor": _whole("floor"),
    "Gelu": _gelu,
    "Greater": _compare(">"),
    "GreaterOrEqual": _compare(">="),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "IsNaN": _fixed("{0} != {0}"),
    "LeakyRelu": lambda node, dtype: f"{{0}} < {_zero(dtype)} ? {_scaled(node, 'alpha', 0.01, dtype)} * {{0}} : {{0}}",
    "Less": _compare("<"),
    "LessOrEqual": _compare("<="),
    "Log": _function("log"),
    "Mish": _mish,
    "Mod": _mod,
    "Mul": _arithmetic("*"),
    "Neg": _neg,
    "Not": _fixed("!{0}"),
    "Or": _fixed("{0} | {1}"),
    "PRelu": lambda node, dtype: f"{{0}} < {_zero(dtype)} ? {{1}} * {{0}} : {{0}}",
    "Pow": _pow,
    "Reciprocal": lambda node, dtype: f"{_one(dtype)} / {{0}}",
    "Relu": lambda node, dtype: f"{{0}} < {_zero(dtype)} ? {_zero(dtype)} : {{0}}",
    "Round": _whole("rint"),
    "Selu": _selu,
    "Sigmoid": _sigmoid,
    "Sign": _sign,
    "Sin": _function("sin"),
    "Sinh": _function("sinh"),
    "Softplus": _softplus,
    "Softsign": lambda node, dtype: f"{{0}} / ({_one(dtype)} + {call('fabs', dtype, '{0}')})",
    "Sqrt": _function("sqrt"),
    "Sub": _arithmetic("-"),
    "Swish": _swish,
    "Tan": _function("tan"),
    "Tanh": _function("tanh"),
    "ThresholdedRelu": lambda node, dtype: f"{{0}} > {_scaled(node, 'alpha', 1.0, dtype)} ? {{0}} : {_zero(dtype)}",
    "Where": _fixed("{0} ? {1} : {2}"),
    "Xor": _fixed("{0} ^ {1}"),
}
"""Operator -> its expression. `Clip`, `IsInf`, `Max`, `Mean`, `Min` and `Sum` take a step for each input."""
