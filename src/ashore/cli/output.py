"""What the commands share when they print."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

_WIDTH_WITHOUT_TERMINAL = 120


def console() -> Console:
    """Where tables go. Text from a package is shown as it is: nothing in it counts as markup."""
    # A pipe has no width of its own, and tables folded to 80 columns are hard to read.
    width = None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
    return Console(width=width, highlight=False, markup=False, emoji=False)


def printable(text: str) -> str:
    """Text from a file nobody has checked, without what could drive a terminal."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "�" for letter in text)


def print_json(document: Any) -> None:
    """Print one JSON document."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def table(title: str, *columns: str) -> Table:
    """A table in the style of all others; columns whose name starts with ``>`` are aligned right."""
    made = Table(
        title=title or None, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False
    )
    for column in columns:
        made.add_column(column.removeprefix(">"), justify="right" if column.startswith(">") else "left")
    return made


@contextmanager
def progress(label: str, total: int) -> Generator[Progress]:
    """A progress bar on the error stream, shown only to people; its task is number 0."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
    with bar:
        bar.add_task(label, total=total)
        yield bar
