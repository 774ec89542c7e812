"""Where in the user's code something happens, and what the user calls a tensor there.

Code is the user's unless its file is torch's, Ashore's or the interpreter's. A call that goes

    walk.py  ->  torch/nn/modules/linear.py  ->  ashore/capture/listening.py

happens, for the user, at the line of `walk.py`. Here such files are only names: `code_in` compiles a function under any
of them, which calls what it is given.
"""

from __future__ import annotations

import functools
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, TypeVar

import pytest
import torch

import ashore
from ashore.capture.lines import (
    NOWHERE,
    Line,
    attribute_path,
    called_by_user,
    inside,
    is_users,
    line_of,
    user_frame,
    user_frames,
    user_line,
)

Result = TypeVar("Result")

TORCH = Path(torch.__file__).parent
OWN = Path(ashore.__file__).parent
USERS = "/home/me/walk.py"


def code_in(file: Path | str, function: Callable[[], Result], name: str = "call") -> Callable[[], Result]:
    """A function of that name, in code that lies in that file, which calls another in line 4."""
    namespace: dict[str, Any] = {"function": function}
    exec(compile(f"\n\ndef {name}():\n    return function()", str(file), "exec"), namespace)
    return namespace[name]


# --- lines -----------------------------------------------------------------------------------------------------------


def test_a_line_is_told_by_its_path_below_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert str(Line(str(tmp_path / "envs" / "walk.py"), 12)) == str(Path("envs/walk.py:12"))


def test_a_line_elsewhere_is_told_by_the_name_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert str(Line(str(tmp_path / "envs" / "walk.py"), 12)) == "walk.py:12"
    assert str(NOWHERE) == "<unknown>:0"


def test_the_text_of_a_line_has_no_blanks_around_it(tmp_path: Path) -> None:
    file = tmp_path / "walk.py"
    file.write_text("def step(x):\n    return x + 1  \n")
    assert Line(str(file), 2).text == "return x + 1"
    assert Line(str(file), 3).text == ""
    assert Line(str(tmp_path / "missing.py"), 1).text == ""


@pytest.mark.parametrize(
    ("file", "users"),
    [
        (USERS, True),
        (TORCH / "nn" / "modules" / "linear.py", False),
        (TORCH.parent / "torchvision" / "ops.py", True),
        (OWN / "capture" / "tape.py", False),
        (OWN.parent / "ashore_plugin" / "walk.py", True),
        ("<stdin>", True),
        ("<string>", True),
        ("<ipython-input-3-0a1b2c>", True),
        ("<frozen importlib._bootstrap>", False),
        ("<eval_with_key>.0", False),
    ],
    ids=str,
)
def test_code_is_the_users_unless_it_is_torchs_or_ashores_or_the_interpreters(file: Path | str, users: bool) -> None:
    assert is_users(str(file)) is users


# --- frames ----------------------------------------------------------------------------------------------------------


def test_the_line_of_the_user_is_the_innermost_that_is_neither_torchs_nor_ashores() -> None:
    listening = code_in(OWN / "capture" / "listening.py", user_line)
    layer = code_in(TORCH / "nn" / "modules" / "linear.py", listening)
    assert code_in(USERS, layer)() == Line(USERS, 4)
    assert layer().file == __file__


def test_a_frame_that_is_none_is_nowhere() -> None:
    assert line_of(None) == NOWHERE
    frame = sys._getframe()
    assert line_of(frame) == Line(__file__, frame.f_lineno)


def test_a_function_of_torch_is_inside_its_folder_until_the_user_is_called_back() -> None:
    look = functools.partial(inside, "distributions")
    checks = TORCH / "distributions" / "normal.py"
    assert code_in(checks, look)()
    assert code_in(checks, code_in(TORCH / "functional.py", look))()
    assert code_in(checks, code_in(OWN / "capture" / "listening.py", look))()
    assert not code_in(TORCH / "nn" / "functional.py", look)()
    assert not code_in(checks, code_in(USERS, look))()
    assert not look()


def test_a_mode_knows_whether_the_user_called_the_function_it_was_asked_about() -> None:
    mode = OWN / "capture" / "listening.py"
    asked = code_in(mode, code_in(OWN / "capture" / "tape.py", called_by_user), "__torch_function__")
    assert code_in(USERS, asked)()
    assert not code_in(TORCH / "_tensor.py", asked)()
    assert not code_in(USERS, code_in(mode, called_by_user))()


class Recorder:
    """Remembers where a step began, as a session does."""

    frame: FrameType
    at: int

    def step(self) -> None:
        self.frame = sys._getframe(1)
        self.at = self.frame.f_lasti

    def frames(self) -> list[tuple[Line, int]]:
        return list(user_frames(self.frame, self.at))


def run(folder: Path, source: str) -> list[tuple[int, int]]:
    """What a script of the user finds when it looks: (line, line at which the step began), of its own frames."""
    file = folder / "walk.py"
    file.write_text(source)
    recorder = Recorder()
    namespace: dict[str, Any] = {"rec": recorder}
    exec(compile(source, str(file), "exec"), namespace)
    return [(line.number, began) for line, began in namespace["seen"] if line.file == str(file)]


def test_frames_are_told_up_to_the_one_in_which_the_step_began(tmp_path: Path) -> None:
    source = """
def look():
    return rec.frames()

def loop():
    rec.step()
    height = 3
    return look()

seen = loop()
"""
    assert run(tmp_path, source) == [(3, 0), (8, 6)]


def test_the_line_at_which_a_step_began_is_the_last_mark_before_the_line_that_runs(tmp_path: Path) -> None:
    source = """
def loop():
    rec.step()
    height = 3
    rec.step()
    frames = rec.frames()
    rec.step()
    return frames

seen = loop()
"""
    assert run(tmp_path, source) == [(6, 5)]


def test_where_a_step_began_nowhere_all_callers_are_told() -> None:
    frames = [line for line, began in user_frames(None, -1) if began == 0]
    assert frames[0] == Line(__file__, sys._getframe().f_lineno - 1)
    assert len(frames) > 1


def test_a_function_that_has_the_whole_step_done_has_no_part_in_it(tmp_path: Path) -> None:
    source = """
def whole():
    rec.frame, rec.at = frame, frame.f_lasti
    return rec.frames()

def export():
    global frame
    frame = sys._getframe()
    return whole()

import sys
seen = export()
"""
    assert run(tmp_path, source) == [(4, 0)]


# --- paths -----------------------------------------------------------------------------------------------------------


class Holder:
    """Keeps a tensor where no path leads to."""

    __slots__ = ("tensor",)


HIDDEN = Holder()
"""The tensor that is looked for, so that no local variable of a test holds it."""


@pytest.fixture(autouse=True)
def hide() -> None:
    HIDDEN.tensor = torch.zeros(2)


def find() -> str | None:
    return attribute_path(HIDDEN.tensor)


def path_in(robot: object) -> str | None:
    """What code calls the tensor that has one local variable."""
    return find()


def module() -> torch.nn.Module:
    net = torch.nn.Sequential(torch.nn.ELU(), torch.nn.BatchNorm1d(2))
    net[1].running_mean = HIDDEN.tensor
    return net


def parametrised() -> torch.nn.Module:
    net = torch.nn.Linear(1, 2)
    HIDDEN.tensor = net.bias
    return net


def nested(depth: int) -> SimpleNamespace:
    """The tensor that many attributes down."""
    child = SimpleNamespace(q=HIDDEN.tensor)
    for _ in range(depth - 1):
        child = SimpleNamespace(a=child)
    return child


def cyclic() -> SimpleNamespace:
    robot = SimpleNamespace()
    robot.me, robot.data = robot, SimpleNamespace(robot=robot, q=HIDDEN.tensor)
    return robot


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda: HIDDEN.tensor, "robot"),
        (lambda: SimpleNamespace(data=SimpleNamespace(joint_pos=HIDDEN.tensor)), "robot.data.joint_pos"),
        (lambda: {"q": HIDDEN.tensor}, "robot['q']"),
        (lambda: {3: HIDDEN.tensor}, "robot[3]"),
        (lambda: [torch.zeros(2), (HIDDEN.tensor,)], "robot[1][0]"),
        (lambda: SimpleNamespace(frames=deque([torch.zeros(2), HIDDEN.tensor])), "robot.frames[1]"),
        (module, "robot.1.running_mean"),
        (parametrised, "robot.bias"),
        (lambda: SimpleNamespace(long=SimpleNamespace(q=HIDDEN.tensor), q=HIDDEN.tensor), "robot.q"),
        (cyclic, "robot.data.q"),
        (lambda: nested(4), "robot.a.a.a.q"),
    ],
)
def test_a_tensor_is_called_by_the_shortest_path_to_it(make: Callable[[], object], path: str) -> None:
    assert path_in(make()) == path


def of_ashore() -> object:
    kept = type("Kept", (), {"__module__": "ashore.capture.tape"})()
    kept.q = HIDDEN.tensor
    return kept


def slotted() -> Holder:
    return HIDDEN


def hidden_in_a_class() -> type:
    return type("Robot", (), {"q": HIDDEN.tensor})


@pytest.mark.parametrize(
    "make",
    [
        lambda: SimpleNamespace(q=torch.zeros(2)),
        lambda: SimpleNamespace(q=HIDDEN.tensor[:]),
        lambda: {(1, 2): HIDDEN.tensor},
        lambda: [torch.zeros(2)] * 200 + [HIDDEN.tensor],
        lambda: nested(5),
        of_ashore,
        slotted,
        hidden_in_a_class,
    ],
)
def test_a_tensor_that_no_short_path_leads_to_has_no_name(make: Callable[[], object]) -> None:
    assert path_in(make()) is None


class Policy:
    """An object with two names in its method."""

    def __init__(self) -> None:
        self.q = HIDDEN.tensor

    def step(self) -> str | None:
        alias = self  # noqa: F841 - a local variable that sorts before `self`
        return find()


def test_self_goes_before_other_names() -> None:
    assert Policy().step() == "self.q"


def test_names_of_callers_are_looked_at_when_the_function_itself_has_none() -> None:
    def caller(q: object) -> str | None:
        return path_in(None)

    assert caller(HIDDEN.tensor) == "q"


def test_the_path_is_that_of_the_innermost_function_that_has_one() -> None:
    def caller(q: object) -> str | None:
        return path_in([q])

    assert caller(HIDDEN.tensor) == "robot[0]"


def test_the_users_frame_is_that_of_the_function_that_asks() -> None:
    assert user_frame() is sys._getframe()
