"""What a line of the user's code is for, told from its syntax: some values are read and decide nothing."""

from __future__ import annotations

import ast
import functools
import linecache
import re
from collections.abc import Iterable

from ashore.capture.lines import Line

_SHOWS = re.compile(
    r"p?print|log\w*|debug|info|warn\w*|error|exception|critical|write|add_(row|scalar\w*|text)|set_(description|postfix)\w*"
)
_LOG = re.compile(r"_?log(s|ger|ging|_\w+)?")


def is_assertion(line: Line) -> bool:
    """Whether a line belongs to an assertion that gives no name to a value."""
    statement = _statement(line)
    named = statement is not None and any(isinstance(part, ast.NamedExpr) for part in ast.walk(statement))
    return isinstance(statement, ast.Assert) and not named


def is_tried(frames: Iterable[tuple[Line, int]]) -> bool:
    """Whether what a line raises is caught: by the function itself, or by one that called it.

    Args:
        frames: where each of them is, innermost first, and the line from which on it counts.
    """
    return any(
        start <= line.number <= end and start > after for line, after in frames for start, end in _tried(line.file)
    )


def is_declaration(line: Line) -> bool:
    """Whether a line declares an input or a state: what is read there becomes one."""
    statement = _statement(line)
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)] if statement is not None else []
    return any(
        _dotted(call.func)[-1:] in (["input"], ["state"], ["input_tensors"], ["state_tensors"]) for call in calls
    )


def is_shown(line: Line) -> bool:
    """Whether a line hands something to people: it prints, logs or raises, and does nothing else."""
    statement = _statement(line)
    if isinstance(statement, ast.Raise):
        return True
    called = _called(statement)
    return bool(called) and _SHOWS.fullmatch(called[-1]) is not None


def is_logged(line: Line) -> bool:
    """Whether a line keeps text for people: it shows it, or puts it into something that is called a log."""
    statement = _statement(line)
    if isinstance(statement, ast.Assign):
        return all(any(map(_LOG.fullmatch, _dotted(target))) for target in statement.targets)
    return is_shown(line) or any(map(_LOG.fullmatch, _called(statement)))


def _called(statement: ast.stmt | None) -> list[str]:
    """The names in what a statement calls, if it is nothing but a call."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return []
    return _dotted(statement.value)


def _dotted(node: ast.expr) -> list[str]:
    """The names in ``self.log["y"].append``."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [*_dotted(node.value), node.attr]
    if isinstance(node, ast.Subscript):
        return _dotted(node.value)
    return _dotted(node.func) if isinstance(node, ast.Call) else []


def _statement(line: Line) -> ast.stmt | None:
    """The innermost statement that a line belongs to."""
    found = [
        statement
        for statement in _statements(line.file)
        if statement.lineno <= line.number <= (statement.end_lineno or statement.lineno)
    ]
    return max(found, key=lambda statement: (statement.lineno, -(statement.end_lineno or 0)), default=None)


@functools.lru_cache
def _statements(file: str) -> list[ast.stmt]:
    tree = _parse(file)
    return [] if tree is None else [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]


@functools.lru_cache
def _tried(file: str) -> list[tuple[int, int]]:
    """The first and the last line of what is tried, where a failed check would be caught."""
    tree = _parse(file)
    nodes = [] if tree is None else list(ast.walk(tree))
    bodies = [node.body for node in nodes if isinstance(node, ast.Try) and any(map(_catches, node.handlers))]
    bodies += [node.body for node in nodes if isinstance(node, ast.With) and any(map(_suppresses, node.items))]
    return [(body[0].lineno, body[-1].end_lineno or body[-1].lineno) for body in bodies]


_CAUGHT = ("AssertionError", "ValueError", "Exception", "BaseException")


def _catches(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or any(getattr(node, "id", None) in _CAUGHT for node in ast.walk(handler.type))


def _suppresses(item: ast.withitem) -> bool:
    return isinstance(item.context_expr, ast.Call) and _dotted(item.context_expr.func)[-1:] == ["suppress"]


def _parse(file: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None
