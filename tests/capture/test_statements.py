"""What a line of code is for, told from its statement.

The line is the one that says ``# here`` in code such as

    print(
        "height",
        height.item(),  # here
    )

whose innermost statement is the call of `print`, which shows the value and decides nothing.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from ashore.capture.lines import Line
from ashore.capture.statements import is_assertion, is_declaration, is_logged, is_shown, is_tried


def lines_that_say(mark: str, folder: Path, source: str) -> list[Line]:
    """The lines of some code, in a file of its own, that bear a mark."""
    file = folder / "code.py"
    text = textwrap.dedent(source)
    file.write_text(text)
    return [Line(str(file), number) for number, line in enumerate(text.splitlines(), start=1) if mark in line]


def here(folder: Path, source: str) -> Line:
    (line,) = lines_that_say("# here", folder, source)
    return line


# --- shown -----------------------------------------------------------------------------------------------------------

SHOWN = {
    "print": "print(x.item())  # here",
    "over several lines": """
        print(
            "height",
            x.item(),  # here
        )
    """,
    "the last line of several": """
        print(
            "height",
            x.item())  # here
    """,
    "in a comprehension": "print([v.item() for v in x])  # here",
    "in an f-string": 'print(f"{x.item():.2f}")  # here',
    "in a nested call": """
        print(round(
            x.item(),  # here
        ))
    """,
    "a logger": 'logger.info("%s", x.item())  # here',
    "a logger that is asked for": 'logging.getLogger("walk").warning(x.item())  # here',
    "a warning": 'warnings.warn(f"{x.item()} is high")  # here',
    "a summary writer": 'writer.add_scalar("height", x.item(), 3)  # here',
    "a progress bar": "bar.set_postfix(height=x.item())  # here",
    "an error": "raise ValueError(x.item())  # here",
    "within a block": """
        with lock:
            for row in x:
                if verbose:
                    print(row.item())  # here
    """,
    "within a decorated function": """
        @torch.no_grad()
        def step(self, x):
            print(x.item())  # here
            return x
    """,
    "within a class within a function": """
        def make():
            class Policy:
                def step(self, x):
                    print(x.item())  # here
    """,
    "a branch that was decided before": """
        if verbose:
            print(x.item())  # here
        else:
            gain = 2
    """,
}

NOT_SHOWN = {
    "an assignment": "height = x.item()  # here",
    "an assignment of what print gives": "nothing = print(x.item())  # here",
    "a branch": """
        if x.item() > 5:  # here
            print("high")
    """,
    "a branch over several lines": """
        if (
            x.item() > 5  # here
        ):
            print("high")
    """,
    "another branch": """
        if ready:
            print("ready")
        elif x.item() > 5:  # here
            print("high")
    """,
    "a loop": """
        while x.item() > 5:  # here
            print("high")
    """,
    "a match": """
        match x.item():  # here
            case 5:
                print("high")
    """,
    "a returned value": """
        def height(x):
            return x.item()  # here
    """,
    "a sum": "total += x.item()  # here",
    "a call of something else": "self.update(x.item())  # here",
    "a call of something that begins like print": "printer(x.item())  # here",
    "a call of what is chosen": "(print if verbose else self.update)(x.item())  # here",
    "a name that is only read": "self.log  # here",
    "a conditional expression": "print(1) if x.item() > 5 else None  # here",
    "the head of a function": """
        def step(limit=x.item()):  # here
            print("step")
    """,
    "after what is shown": """
        print("height")
        height = x.item()  # here
    """,
    "a comment": "# here",
    "no Python": "if if  # here",
}


@pytest.mark.parametrize("source", SHOWN.values(), ids=SHOWN)
def test_a_value_that_is_printed_or_logged_or_raised_is_shown(tmp_path: Path, source: str) -> None:
    assert is_shown(here(tmp_path, source))
    assert is_logged(here(tmp_path, source))


@pytest.mark.parametrize("source", NOT_SHOWN.values(), ids=NOT_SHOWN)
def test_a_value_that_is_used_is_not_shown(tmp_path: Path, source: str) -> None:
    assert not is_shown(here(tmp_path, source))


@pytest.mark.parametrize("tell", [is_shown, is_logged, is_assertion, is_declaration])
def test_of_a_line_that_is_nowhere_nothing_is_told(tmp_path: Path, tell: object) -> None:
    assert callable(tell)
    assert not tell(Line(str(tmp_path / "missing.py"), 3))
    assert not tell(Line("<unknown>", 0))


# --- formatted -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        'text = f"{x}"  # here',
        'log = text = f"{x}"  # here',
        'catalog.append(f"{x}")  # here',
        'dialog = f"{x}"  # here',
        'self.names["log"] = f"{x}"  # here',
        'if "nan" in f"{x}":  # here\n    log = 1',
    ],
)
def test_text_that_is_kept_elsewhere_than_in_a_log_is_not_logged(tmp_path: Path, source: str) -> None:
    assert not is_logged(here(tmp_path, source))


# --- asserted --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "assert x.item() > 0  # here",
        'assert x.isfinite().all(), "the height is not finite"  # here',
        "assert (\n    low < x.item()  # here\n    < high\n)",
        "assert (\n    low < x.item()\n    < high), f'{low}'  # here",
        "def step(x):\n    if checking:\n        assert x.item() > 0  # here",
        "assert all(v.item() > 0 for v in x)  # here",
    ],
)
def test_a_check_that_can_only_fail_is_an_assertion(tmp_path: Path, source: str) -> None:
    assert is_assertion(here(tmp_path, source))


@pytest.mark.parametrize(
    "source",
    [
        "assert (height := x.item()) > 0  # here",
        "assert all((low := v.item()) > 0 for v in x)  # here",
        "if x.item() > 0:  # here\n    assert ready",
        "assertion = x.item()  # here",
        "self.assert_(x.item())  # here",
        "assert ready\nheight = x.item()  # here",
    ],
)
def test_what_keeps_a_value_or_branches_is_no_assertion(tmp_path: Path, source: str) -> None:
    assert not is_assertion(here(tmp_path, source))


# --- tried -----------------------------------------------------------------------------------------------------------

TRIED = {
    "the error itself": "try:\n    assert ok  # here\nexcept AssertionError:\n    pass",
    "everything": "try:\n    assert ok  # here\nexcept:\n    pass",
    "every exception": "try:\n    assert ok  # here\nexcept Exception as error:\n    pass",
    "one of several": "try:\n    assert ok  # here\nexcept (KeyError, ValueError):\n    pass",
    "the second handler": "try:\n    assert ok  # here\nexcept KeyError:\n    pass\nexcept BaseException:\n    pass",
    "the last line of the body": "try:\n    a = 1\n    assert (\n        ok)  # here\nexcept AssertionError:\n    pass",
    "a block in the body": "try:\n    if a:\n        assert ok  # here\nexcept AssertionError:\n    pass",
    "an outer try": """
        try:
            try:
                assert ok  # here
            except KeyError:
                gain = 1
        except AssertionError:
            gain = 2
    """,
    "a handler that is tried itself": """
        try:
            try:
                a = 1
            except KeyError:
                assert ok  # here
        except AssertionError:
            gain = 2
    """,
    "suppress": "with suppress(AssertionError):\n    assert ok  # here",
    "suppress by its module": "with contextlib.suppress(AssertionError):\n    assert ok  # here",
    "suppress among others": "with lock, contextlib.suppress(AssertionError):\n    assert ok  # here",
}

NOT_TRIED = {
    "another error": "try:\n    assert ok  # here\nexcept KeyError:\n    pass",
    "no handler": "try:\n    assert ok  # here\nfinally:\n    done = True",
    "the handler": "try:\n    a = 1\nexcept AssertionError:\n    assert ok  # here",
    "what is done otherwise": "try:\n    a = 1\nexcept AssertionError:\n    pass\nelse:\n    assert ok  # here",
    "what is done in the end": "try:\n    a = 1\nexcept AssertionError:\n    pass\nfinally:\n    assert ok  # here",
    "before it": "assert ok  # here\ntry:\n    a = 1\nexcept AssertionError:\n    pass",
    "after it": "try:\n    a = 1\nexcept AssertionError:\n    pass\nassert ok  # here",
    "another context": "with nullcontext():\n    assert ok  # here",
}


@pytest.mark.parametrize("source", TRIED.values(), ids=TRIED)
def test_a_check_is_tried_where_its_failure_is_caught(tmp_path: Path, source: str) -> None:
    assert is_tried([(here(tmp_path, source), 0)])


@pytest.mark.parametrize("source", NOT_TRIED.values(), ids=NOT_TRIED)
def test_a_check_is_not_tried_where_its_failure_goes_on(tmp_path: Path, source: str) -> None:
    assert not is_tried([(here(tmp_path, source), 0)])


CALLERS = """
    def check(x):
        assert x.item() > 0  # here

    def step(x):
        try:
            check(x)  # caller
        except AssertionError:
            return 2
"""


def test_a_check_is_tried_where_a_caller_catches_its_failure(tmp_path: Path) -> None:
    (check,), (caller,) = (lines_that_say(mark, tmp_path, CALLERS) for mark in ("# here", "# caller"))
    assert is_tried([(check, 0), (caller, 0)])
    assert not is_tried([(check, 0)])
    assert not is_tried([])


WHOLE_STEP = """
    try:
        rec.step()  # began
        assert x.item() > 0  # here
    except AssertionError:
        gain = 2
"""
PART_OF_A_STEP = """
    rec.step()  # began
    try:
        assert x.item() > 0  # here
    except AssertionError:
        gain = 2
"""


@pytest.mark.parametrize(("source", "tried"), [(WHOLE_STEP, False), (PART_OF_A_STEP, True)])
def test_what_is_tried_around_the_whole_step_is_no_part_of_it(tmp_path: Path, source: str, tried: bool) -> None:
    (began,), (check,) = (lines_that_say(mark, tmp_path, source) for mark in ("# began", "# here"))
    assert is_tried([(check, began.number)]) is tried


# --- declared --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        'x = rec.input("x", torch.tensor(float(x)))  # here',
        'y = net(rec.input("x", x.numpy()))  # here',
        'rec.state(\n    "h",\n    h.numpy(),  # here\n)',
        'x, y = annotate.input_tensors("policy", {"x": x.numpy()})  # here',
        'h = annotate.state_tensors("policy", {"h": h.numpy()})  # here',
    ],
)
def test_a_value_that_is_declared_where_it_is_read_is_a_declaration(tmp_path: Path, source: str) -> None:
    assert is_declaration(here(tmp_path, source))


@pytest.mark.parametrize(
    "source",
    [
        "state = x.item()  # here",
        "input = state + x.item()  # here",
        'rec.output("y", x.numpy())  # here',
        "self.input_size(x.item())  # here",
        "self.state[x.item()] = 1  # here",
        'rec.input("x", x)\ngain = x.item()  # here',
    ],
)
def test_what_only_sounds_like_a_declaration_is_none(tmp_path: Path, source: str) -> None:
    assert not is_declaration(here(tmp_path, source))
