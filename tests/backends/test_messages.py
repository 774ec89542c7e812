"""What exporters print, log and warn is kept for the log of the package, and is not shown."""

from __future__ import annotations

import io
import logging
import sys
import warnings
from collections.abc import Iterator

import pytest

from ashore.backends.messages import overheard

LOGGERS = (None, "torch", "torch.onnx", "onnxscript", "onnx_ir")


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")


@pytest.fixture
def screen() -> Iterator[io.StringIO]:
    """What the loggers that talk would show."""
    shown = io.StringIO()
    handler = logging.StreamHandler(shown)
    loggers = [logging.getLogger(name) for name in LOGGERS]
    for logger in loggers:
        logger.addHandler(handler)
    yield shown
    for logger in loggers:
        logger.removeHandler(handler)


def test_what_is_printed_is_kept_line_by_line_and_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with overheard() as messages:
        say("exporting")
        say("\n  two nodes\n\n")
        sys.stdout.write("done")
    assert messages == ["exporting", "  two nodes", "done"]
    assert capsys.readouterr().out == ""


def test_what_is_warned_is_kept_with_its_kind() -> None:
    with overheard() as messages:
        warnings.warn("slow", UserWarning, stacklevel=1)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        for _ in range(2):
            warnings.warn("again", RuntimeWarning, stacklevel=1)
    expected = ["UserWarning: slow", "DeprecationWarning: old", "RuntimeWarning: again", "RuntimeWarning: again"]
    assert messages == expected


@pytest.mark.parametrize("name", [*LOGGERS, "somebody.else"])
def test_what_is_logged_as_a_warning_or_worse_is_kept_and_not_shown(name: str | None, screen: io.StringIO) -> None:
    logger = logging.getLogger(name)
    with overheard() as messages:
        logger.warning("%d nodes", 2)
        logger.error("no shape")
        logger.info("started")
        logger.debug("looking")
    assert set(messages) == {"2 nodes", "no shape"}
    assert screen.getvalue() == ""


def test_nothing_was_heard_where_nothing_was_said() -> None:
    with overheard() as messages:
        pass
    assert messages == []


def test_what_is_said_afterwards_is_shown_again(screen: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    before = {name: list(logging.getLogger(name).handlers) for name in LOGGERS}
    with overheard() as messages:
        pass
    assert {name: logging.getLogger(name).handlers for name in LOGGERS} == before
    logging.getLogger("onnx_ir").warning("shown")
    say("shown")
    with pytest.warns(UserWarning, match="shown"):
        warnings.warn("shown", stacklevel=1)
    assert messages == []
    assert "shown" in screen.getvalue()
    assert capsys.readouterr().out == "shown\n"


def test_what_an_exporter_that_fails_has_said_is_kept(screen: io.StringIO) -> None:
    before = list(logging.getLogger().handlers)
    with pytest.raises(RuntimeError, match="no such operator"), overheard() as messages:
        say("exporting")
        warnings.warn("odd", stacklevel=1)
        logging.getLogger("torch.onnx").error("no shape")
        raise RuntimeError("no such operator")
    assert logging.getLogger().handlers == before
    assert sorted(set(messages)) == ["UserWarning: odd", "exporting", "no shape"]
    assert screen.getvalue() == ""


def test_warnings_that_are_errors_are_kept_all_the_same() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with overheard() as messages:
            warnings.warn("odd", stacklevel=1)
    assert messages == ["UserWarning: odd"]


def test_what_is_overheard_within_is_kept_there() -> None:
    with overheard() as outer:
        say("before")
        with overheard() as inner:
            say("within")
            logging.getLogger("torch").warning("careful")
        say("after")
    assert set(inner) == {"careful", "within"}
    assert outer == ["before", "after"]
