"""Where in the user's code something happened, and what the user calls a tensor there."""

from __future__ import annotations

import inspect
import linecache
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NamedTuple

import torch

_TORCH = str(Path(torch.__file__).parent) + os.sep
_OWN = str(Path(__file__).parent.parent) + os.sep
_MAX_DEPTH = 4
_MAX_OBJECTS = 4000


class Line(NamedTuple):
    """A line of the user's code."""

    file: str
    number: int

    def __str__(self) -> str:
        """``file.py:12``, relative to the working directory where the file lies below it."""
        path = Path(self.file)
        try:
            return f"{path.relative_to(Path.cwd())}:{self.number}"
        except ValueError:
            return f"{path.name}:{self.number}"

    @property
    def text(self) -> str:
        """The source of the line."""
        return linecache.getline(self.file, self.number).strip()


NOWHERE = Line("<unknown>", 0)


def is_users(filename: str) -> bool:
    """Whether a file belongs to neither torch nor the recorder nor the interpreter."""
    return not filename.startswith((_TORCH, _OWN, "<")) or filename.startswith(("<stdin>", "<ipython", "<string>"))


def user_frame() -> FrameType | None:
    """The innermost frame of the user's code."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def user_line() -> Line:
    """The line of the user's code that is running."""
    return line_of(user_frame())


def user_frames(begun: FrameType | None, begun_at: int) -> Iterator[tuple[Line, int]]:
    """Where the user's functions are, from the innermost to the one in which a step began.

    A function that is still at the same instruction called something that does the whole step, such as an export: it
    has no part in the step, and is left out.

    Args:
        begun: the frame in which the step began.
        begun_at: the instruction at which it was then.

    Yields:
        The line of each, and for the last the line at which the step began, else 0.
    """
    frame = user_frame()
    while frame is not None:
        if frame is begun:
            if frame.f_lasti != begun_at:
                yield line_of(frame), _began_at(frame)
            return
        if is_users(frame.f_code.co_filename):
            yield line_of(frame), 0
        frame = frame.f_back


def _began_at(frame: FrameType) -> int:
    """The last line of a function before the one it is at that marks a step."""
    lines = linecache.getlines(frame.f_code.co_filename)[: frame.f_lineno]
    marks = [number for number, text in enumerate(lines, start=1) if ".step()" in text or "input_tensors(" in text]
    return max(marks, default=0)


def line_of(frame: FrameType | None) -> Line:
    """The line that a frame is at."""
    return NOWHERE if frame is None else Line(frame.f_code.co_filename, frame.f_lineno)


def inside(folder: str) -> bool:
    """Whether the innermost Python frame outside the recorder is in that folder of torch."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    while frame is not None and not is_users(frame.f_code.co_filename):
        if frame.f_code.co_filename.startswith(_TORCH + folder):
            return True
        frame = frame.f_back
    return False


def called_by_user() -> bool:
    """Whether the function that a mode of the recorder was asked about was called by the user's code itself."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        if frame.f_code.co_name == "__torch_function__":
            return frame.f_back is not None and is_users(frame.f_back.f_code.co_filename)
        frame = frame.f_back
    return False


def attribute_path(tensor: torch.Tensor) -> str | None:
    """What the running user code could call `tensor`, such as ``self.robot.data.joint_pos``."""
    frame = user_frame()
    for _ in range(8):
        if frame is None:
            return None
        if is_users(frame.f_code.co_filename) and (found := _search(frame.f_locals, tensor)):
            return found
        frame = frame.f_back
    return None


def _search(names: dict[str, Any], tensor: torch.Tensor) -> str | None:
    """Look for a tensor breadth first, so that the shortest path is found."""
    first = sorted(names.items(), key=lambda item: item[0] != "self")
    queue: deque[tuple[str, Any, int]] = deque((name, value, 0) for name, value in first)
    seen: set[int] = set()
    while queue and len(seen) < _MAX_OBJECTS:
        path, value, depth = queue.popleft()
        if value is tensor:
            return path
        if id(value) in seen or depth >= _MAX_DEPTH:
            continue
        seen.add(id(value))
        queue.extend((f"{path}{step}", child, depth + 1) for step, child in _children(value))
    return None


def _children(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, torch.Tensor | str | bytes | int | float | ModuleType | type):
        return []
    if isinstance(value, dict):
        return [(f"[{key!r}]", child) for key, child in list(value.items())[:200] if isinstance(key, str | int)]
    if isinstance(value, list | tuple | deque):
        return [(f"[{index}]", child) for index, child in enumerate(list(value)[:200])]
    if type(value).__module__.split(".")[0] == "ashore":
        return []
    try:
        attributes = dict(vars(value))
    except TypeError:
        return []
    if isinstance(value, torch.nn.Module):
        for group in ("_parameters", "_buffers", "_modules"):
            attributes |= attributes.pop(group, None) or {}
    return [(f".{name}", child) for name, child in list(attributes.items())[:200] if not name.startswith("__")]
