"""What exporters print, log and warn, kept for the log of the package."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator

_TALKATIVE = (None, "torch", "torch.onnx", "onnxscript", "onnx_ir")
"""Loggers with handlers of their own."""


@contextlib.contextmanager
def overheard() -> Iterator[list[str]]:
    """Collect what exporters print, log and warn, instead of showing it."""
    messages: list[str] = []
    said, handler = io.StringIO(), _Collecting(messages)
    loggers = [logging.getLogger(name) for name in _TALKATIVE]
    before = [logger.handlers for logger in loggers]
    for logger in loggers:
        logger.handlers = [handler]
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as heard, contextlib.redirect_stdout(said):
            caught = heard
            warnings.simplefilter("always")
            yield messages
    finally:
        for logger, handlers in zip(loggers, before, strict=True):
            logger.handlers = handlers
        messages += [line for line in said.getvalue().splitlines() if line.strip()]
        messages += [f"{warning.category.__name__}: {warning.message}" for warning in caught]


class _Collecting(logging.Handler):
    def __init__(self, messages: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        self._messages.append(record.getMessage())
