"""Which counters of an environment its terms could look at: a number in Python leaves no trace in a recording."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import CodeType, FunctionType, MethodType
from typing import Any


def idle_counters(counters: Sequence[str], terms: Iterable[Any]) -> list[str]:
    """The counters that no function of some terms names, nor any function that these call by name.

    Args:
        counters: attributes that count.
        terms: functions, or objects whose methods are called.
    """
    named: set[str] = set()
    seen: set[CodeType] = set()
    pending = [function for term in terms for function in _functions(term)]
    while pending:
        function = pending.pop()
        if function.__code__ in seen:
            continue
        seen.add(function.__code__)
        names = set(_names(function.__code__))
        named |= names
        found = (function.__globals__.get(name) for name in names)
        pending += [one for one in found if isinstance(one, FunctionType)]
    return [one for one in counters if one not in named]


def _functions(term: Any) -> Iterator[FunctionType]:
    """The functions that a term consists of: itself, or the methods of its class."""
    term = getattr(term, "func", term) if hasattr(term, "keywords") else term  # of a partial
    if isinstance(term, MethodType):
        yield from _functions(term.__self__)
    elif isinstance(term, FunctionType):
        yield term
    else:
        for kind in type(term).__mro__:
            for value in vars(kind).values():
                function = value.fget if isinstance(value, property) else value
                if isinstance(function, FunctionType):
                    yield function


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _names(one)
