"""Numbers of Python that the running code keeps: attributes of the objects at work, and globals.

They are no tensors, so nothing says what they do. One that changes from step to step may decide a branch later than the
recording lasts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

from ashore.capture.lines import Line

Number = int | float | bool
_MOST = 50


class Numbers:
    """The numbers that the functions of one step can see."""

    def __init__(self) -> None:
        self._seen: set[CodeType] = set()
        self._holders: list[tuple[dict[str, Any], str, Line, frozenset[str]]] = []

    def look(self, frame: FrameType) -> None:
        """Remember what a function that is running can see."""
        code = frame.f_code
        if code in self._seen or code.co_name == "<module>":  # a script's own loop, not what a step keeps
            return
        self._seen.add(code)
        line = Line(code.co_filename, frame.f_lineno)
        names = frozenset(code.co_names)
        self._holders.append((frame.f_globals, "", line, names))
        actor = frame.f_locals.get("self")
        attributes = getattr(actor, "__dict__", None)
        if isinstance(attributes, dict) and type(actor).__module__.split(".")[0] not in ("torch", "ashore"):
            self._holders.append((attributes, f"{type(actor).__name__}.", line, names))

    def read(self) -> dict[tuple[int, str], tuple[Number, str, Line]]:
        """(Holder, name) -> (number, what to call it, a line of a function that names it)."""
        return {(id(holder), name): found for holder, name, found in self._each()}

    def _each(self) -> Iterator[tuple[dict[str, Any], str, tuple[Number, str, Line]]]:
        for holder, prefix, line, names in self._holders:
            for name in names & holder.keys():
                for path, number in _numbers(holder[name]):
                    yield holder, name + path, (number, prefix + name + path, line)


def _numbers(value: Any, deeper: bool = True) -> Iterator[tuple[str, Number]]:
    """The numbers in a value: itself, those of a dict or an object, the length of a list."""
    if type(value) in (int, float, bool):
        yield "", value
    elif isinstance(value, list | deque) and deeper:
        yield " (its length)", len(value)
    elif isinstance(value, dict) and deeper:
        for key, child in list(value.items())[:_MOST]:
            yield from ((f"[{key!r}]{path}", number) for path, number in _numbers(child, deeper=False))
    elif deeper and type(value).__module__.split(".")[0] not in ("torch", "ashore", "numpy", "builtins"):
        attributes = getattr(value, "__dict__", None)
        for key, child in list(attributes.items())[:_MOST] if isinstance(attributes, dict) else ():
            yield from ((f".{key}{path}", number) for path, number in _numbers(child, deeper=False))
