"""Elementwise operators as loops."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ashore.backends.c.code import number
from ashore.backends.c.evaluate import limits_of
from ashore.backends.c.expressions import EXPRESSIONS, arithmetic, larger
from ashore.backends.c.graph import Node, constant
from ashore.backends.c.kernel import Literal, Step
from ashore.backends.c.lower import Lowerer, Lowering
from ashore.errors import BackendError


def elementwise(lowerer: Lowerer, node: Node) -> None:
    """An operator that is one expression."""
    target = lowerer.output(node)
    values = [node.value(index) for index in range(len(node.inputs))]
    if node.op == "CastLike":
        values = values[:1]
    # Where's first input says which, and is no operand of the arithmetic.
    dtype = values[1].dtype if node.op == "Where" else values[0].dtype
    if node.op in _ALIKE and any(value.dtype != values[0].dtype for value in values):
        raise BackendError(f"{node.where}: its inputs have the dtypes {[str(value.dtype) for value in values]}")
    expression = EXPRESSIONS[node.op](node, dtype)
    operands = tuple(lowerer.operand(value, target.shape) for value in values)
    lowerer.loop(node.label, target, [Step(target.dtype, expression, operands)])


_ALIKE = frozenset({"Add", "Sub", "Mul", "Div", "Mod", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"})


def _clip(lowerer: Lowerer, node: Node) -> None:
    target = lowerer.output(node)
    values = [node.optional(index) for index in range(3)]
    value, low, high = values[0], values[1], values[2]
    if value is None:
        raise BackendError(f"{node.where}: input 0 is missing")
    dtype = value.dtype
    if len(node.inputs) < 2:  # attributes, in old opsets
        limits = limits_of(node, [None])
        low, high = (None if limit is None else constant("", np.array(limit, dtype)) for limit in limits)
    steps = [Step(dtype, "{0}", (lowerer.operand(value, target.shape),))]
    for limit, sign in ((low, "<"), (high, ">")):
        if limit is None:
            continue
        if limit.data is not None:
            other = Literal(limit.data.reshape(-1)[0], dtype)
        else:
            other = lowerer.operand(limit, target.shape)
        steps.append(Step(dtype, f"{{0}} {sign} {{1}} ? {{1}} : {{0}}", (len(steps) - 1, other)))
    lowerer.loop(node.label, target, steps)


def _folded(lowerer: Lowerer, node: Node) -> None:
    """`Max`, `Min`, `Sum` and `Mean`, of any number of inputs."""
    target = lowerer.output(node)
    dtype = target.dtype
    templates = {
        "Max": larger(dtype),
        "Min": larger(dtype, sign="<"),
        "Sum": arithmetic("+", dtype),
        "Mean": arithmetic("+", dtype),
    }
    operands = [lowerer.operand(node.value(index), target.shape) for index in range(len(node.inputs))]
    steps = [Step(dtype, "{0}", (operands[0],))]
    for operand in operands[1:]:
        steps.append(Step(dtype, templates[node.op], (len(steps) - 1, operand)))
    if node.op == "Mean":
        count = Literal(np.array(len(operands), dtype)[()], dtype)
        steps.append(Step(dtype, "{0} / {1}", (len(steps) - 1, count)))
    lowerer.loop(node.label, target, steps)


def _is_inf(lowerer: Lowerer, node: Node) -> None:
    target, value = lowerer.output(node), node.value(0)
    most = number(np.finfo(value.dtype).max, value.dtype)
    tests = [f"{{0}} > {most}"] * bool(node.get("detect_positive", 1))
    tests += [f"{{0}} < -{most}"] * bool(node.get("detect_negative", 1))
    operand = lowerer.operand(value, target.shape)
    lowerer.loop(node.label, target, [Step(target.dtype, " || ".join(tests) or "0", (operand,))])


ARITHMETIC: Mapping[str, Lowering] = {
    **dict.fromkeys(EXPRESSIONS, elementwise),
    **dict.fromkeys(("Max", "Min", "Sum", "Mean"), _folded),
    "Clip": _clip,
    "IsInf": _is_inf,
}
