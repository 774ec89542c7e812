"""Recognising the parts of an environment's own step: where it observes, takes a decision, and acts on it.

The adapter says what these parts are, by methods that hand on to the environment. The environment's step calls the same
functions in its own order, with its simulator and its resets in between. So the adapter's methods are run once to see
what they call, and while a step runs, the interpreter says when the same functions are called again, on the same
objects. Nothing is patched.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, Literal, TypeAlias, cast

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from ashore.capture.lines import is_users, user_frame

PartName: TypeAlias = Literal["observe", "process", "apply"]
_PLAIN = (str, bytes, int, float, bool, type(None))


@dataclass(frozen=True)
class Call:
    """A function, called on certain objects."""

    code: CodeType
    arguments: tuple[tuple[str, object], ...]
    """Plain values as they are, other objects by their identity; tensors are left out, and so is what is not given."""

    @classmethod
    def of(cls, frame: FrameType) -> Call:
        """The call that a frame is. What a function is closed over tells one decorated function from another."""
        code, values = frame.f_code, frame.f_locals
        count = code.co_argcount + code.co_kwonlyargcount
        further = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
        found: list[tuple[str, object]] = []
        for name in (*code.co_varnames[: count + further], *code.co_freevars):
            value = values.get(name)
            several = name in code.co_varnames[count : count + further]
            for place, one in enumerate(tree_flatten(value)[0] if several else [value]):
                if one is not None and not isinstance(one, torch.Tensor):
                    found.append((f"{name}{place}", one if isinstance(one, _PLAIN) else id(one)))
        return cls(code, tuple(found))


@dataclass
class Part:
    """How a part of a step is recognised."""

    name: PartName
    whole: Call | None = None
    """The adapter's own method, should the step call it."""

    inner: list[Call] = field(default_factory=list)
    """What the method calls, in order; empty where it computes something itself."""

    recipe: list[tuple[int, int]] | None = None
    """For each tensor that the method gives: which of the calls gave it, and where among what that gave."""

    structure: Any = None

    def starts_with(self, call: Call) -> bool:
        """Whether a call is the beginning of this part."""
        return call == self.whole or call in self.inner[:1]

    def result(self, given: Sequence[Any]) -> Any:
        """What the adapter's method would have given, made of what the calls gave."""
        flat = [tree_flatten(one)[0] for one in given]
        return tree_unflatten([flat[call][leaf] for call, leaf in self.recipe or ()], self.structure)


def learn(name: PartName, method: Callable[[], Any], before: Sequence[Callable[[], object]] = ()) -> Part:
    """Run a method of an adapter, and see what it calls.

    Args:
        name: of the part.
        method: the method.
        before: functions that belong to the part, and are called before it.
    """
    outer: list[FrameType] = []
    wholes: list[Call] = []
    inner: list[_Heard] = []
    own = _OwnOperations()

    def hear(frame: FrameType, event: str, given: Any) -> None:
        if event == "return":
            for one in inner:
                if one.frame is frame:
                    one.result, one.worked = given, one.worked or own.count > one.since
        if event != "call" or frame.f_back is None:
            return
        if frame.f_back.f_code is _run.__code__:
            outer.append(frame)
            wholes.append(Call.of(frame))
        called = outer and is_users(frame.f_code.co_filename) and _called_by(frame, outer[-1])
        if (called and len(outer) > len(before)) or frame in outer[: len(before)]:
            takes = any(isinstance(value, torch.Tensor) for value in frame.f_locals.values())
            inner.append(_Heard(frame, Call.of(frame), own.count, worked=takes))

    with listening(hear), own:
        result = _run(before, method)
    part = Part(name, None if before else wholes[-1])
    if not own.happened_in(outer[-1].f_code):
        # What takes no tensor and does nothing to any, such as a property, is no sign of anything.
        telling = [one for one in inner if one.worked] or inner[-1:]
        part.inner = [one.call for one in telling]
        part.recipe, part.structure = _recipe(result, [one.result for one in telling])
    return part


@dataclass
class _Heard:
    """A call that was heard while a method ran."""

    frame: FrameType
    call: Call
    since: int
    """How many operations had been done when it began."""

    worked: bool
    """Whether it takes a tensor or works on one."""

    result: Any = None


def _called_by(frame: FrameType, method: FrameType) -> bool:
    """Whether a method called a function, perhaps past those of torch, such as ``@torch.no_grad()`` puts in between."""
    found = frame.f_back
    while found is not None and found is not method and not is_users(found.f_code.co_filename):
        found = found.f_back
    return found is method


def _run(before: Sequence[Callable[[], object]], method: Callable[[], Any]) -> Any:
    for one in before:
        one()
    return method()


def _recipe(result: Any, given: Sequence[Any]) -> tuple[list[tuple[int, int]] | None, Any]:
    """Where each part of a result comes from, among what several calls gave."""
    leaves, structure = tree_flatten(result)
    flat = [tree_flatten(one)[0] for one in given]
    found: list[tuple[int, int]] = []
    for leaf in leaves:
        places = [(call, index) for call, ones in enumerate(flat) for index, one in enumerate(ones) if one is leaf]
        if not places:
            return None, None
        found.append(places[-1])
    return found, structure


class _OwnOperations(TorchDispatchMode):
    """Remembers in which of the user's functions tensors were worked on."""

    def __init__(self) -> None:
        super().__init__()
        self._codes: set[CodeType] = set()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        frame, self.count = user_frame(), self.count + 1
        if frame is not None:
            self._codes.add(frame.f_code)
        return func(*args, **(kwargs or {}))

    def happened_in(self, code: CodeType) -> bool:
        """Whether a function worked on tensors itself."""
        return code in self._codes


class Recognition:
    """Hears when parts of a step begin and end, while it listens.

    Args:
        parts: what to recognise.
        enter: called when a part begins.
        leave: called when it ends, with what the adapter's method would have given.
        aside: called with True and False around what does not belong to a part in the middle of it: a function of the
            part that is called for something else, such as another group of observations.
        watched: further functions that somebody wants to hear of, by their code; what they do does not belong to a part
            if the answer is True.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        enter: Callable[[PartName], object],
        leave: Callable[[PartName, Any], object],
        aside: Callable[[bool], object],
        watched: Mapping[CodeType, Callable[[FrameType], object]],
    ) -> None:
        self._parts, self._enter, self._leave, self._aside, self._watched = parts, enter, leave, aside, watched
        self._besides: FrameType | None = None
        self._open: tuple[Part, bool, list[FrameType], list[Any]] | None = None
        self._codes = {call.code for part in parts for call in (part.whole, *part.inner) if call is not None}

    @contextmanager
    def listen(self) -> Iterator[None]:
        """Listen while the block runs."""
        self._open = self._besides = None
        with listening(self._hear):
            yield

    def _hear(self, frame: FrameType, event: str, given: Any) -> None:
        if event == "call":
            code = frame.f_code
            if code in self._watched and self._watched[code](frame) and self._open and self._besides is None:
                self._besides = frame
                self._aside(True)
            if code in self._codes:
                self._called(frame)
        elif event == "return" and frame is self._besides:
            self._besides = None
            self._aside(False)
        elif event == "return" and self._open is not None and self._open[2] and frame is self._open[2][-1]:
            self._returned(given)

    def _called(self, frame: FrameType) -> None:
        code = frame.f_code
        if self._open is None:
            for part in self._parts:
                if any(code is call.code for call in (part.whole, *part.inner[:1]) if call is not None):
                    call = Call.of(frame)
                    if part.starts_with(call):
                        self._open = part, call == part.whole, [frame], []
                        self._enter(part.name)
                        return
            return
        part, whole, frames, results = self._open
        if not whole and not frames and self._besides is None and len(results) < len(part.inner):
            wanted = part.inner[len(results)]
            if code is wanted.code and Call.of(frame) == wanted:
                frames.append(frame)
            elif self._besides is None and any(code is one.code for one in part.inner):
                self._besides = frame
                self._aside(True)

    def _returned(self, given: Any) -> None:
        part, whole, frames, results = cast("tuple[Part, bool, list[FrameType], list[Any]]", self._open)
        frames.pop()
        results.append(given)
        if whole or len(results) == len(part.inner):
            self._open = None
            result = given if whole else part.result(results) if part.recipe is not None else None
            self._leave(part.name, result)


@contextmanager
def listening(hear: Callable[[FrameType, str, Any], None]) -> Iterator[None]:
    """Have the interpreter tell of every call of a Python function, as profilers do; another profiler waits."""
    before: Any = sys.getprofile()
    sys.setprofile(hear)
    try:
        yield
    finally:
        sys.setprofile(before if callable(before) else None)
        if before is not None and not callable(before):  # a profiler written in C
            before.enable()
