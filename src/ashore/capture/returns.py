"""What a function calls the things it returns."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import Any


def return_names(function: Callable[..., Any]) -> Callable[[Any], dict[str, Any]]:
    """A function that names what `function` returned: as its return statement does, else ``output``, ``output1``, …"""
    written = _last_return(function)

    def name(result: Any) -> dict[str, Any]:
        if isinstance(result, Mapping):
            return {str(key): value for key, value in result.items()}
        if hasattr(result, "_fields"):
            return dict(zip(result._fields, result, strict=True))
        if not isinstance(result, list | tuple):
            return {written[0] if len(written) == 1 and written[0] else "output": result}
        known = written if len(written) == len(result) else [None] * len(result)
        return {known[index] or f"output{index + 1}": value for index, value in enumerate(result)}

    return name


def _last_return(function: Callable[..., Any]) -> list[str | None]:
    """The names in the last return statement of a function; None for what is no plain name."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    except (OSError, TypeError, SyntaxError):
        return []
    body = tree.body[0]
    inner = {
        id(node)
        for other in ast.walk(body)
        if other is not body and isinstance(other, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(other)
    }
    returns = [node for node in ast.walk(body) if isinstance(node, ast.Return) and id(node) not in inner]
    if not returns or returns[-1].value is None:
        return []
    value = max(returns, key=lambda node: node.lineno).value
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    return [part.id if isinstance(part, ast.Name) else None for part in parts]
