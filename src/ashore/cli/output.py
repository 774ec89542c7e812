"""What the commands share when they print."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from ashore.spec import Manifest, plain

_WIDTH_WITHOUT_TERMINAL = 200


def console() -> Console:
    """Where tables go. Text from a package is shown as it is: nothing in it counts as markup."""
    # A pipe has no width of its own, and tables folded to 80 columns are hard to read.
    width = None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
    return Console(width=width, highlight=False, markup=False, emoji=False)


def evidence(manifest: Manifest, *, substeps: bool = False) -> dict[str, Any]:
    """What an export found and proved about its package, for machines.

    Args:
        manifest: of the package.
        substeps: whether it may have them.
    """
    proof, told = manifest.verification, None
    if proof is not None:
        told = {
            "status": proof.status,
            "steps": proof.steps,
            **({"substeps": proof.substeps} if substeps else {}),
            "resets": proof.resets,
            "max_abs_error": max((one.max_abs_error_free_running for one in proof.results), default=None),
        }
    return {"findings": [f"{one.severity}: {one.message}" for one in manifest.findings], "verification": told}


def print_json(document: Any) -> None:
    """Print one JSON document. NaN and infinities, which JSON does not have, become text."""
    sys.stdout.write(json.dumps(plain(document), indent=2, allow_nan=False) + "\n")


def table(title: str, *columns: str) -> Table:
    """A table in the style of all others.

    A column whose name starts with ``>`` is aligned right, one with ``!`` is folded last. Nothing is ever cut.
    """
    made = Table(title=title or None, title_justify="left", title_style="bold", header_style="dim", box=None)
    made.pad_edge = False
    for column in columns:
        right, whole = column.startswith(">"), column.startswith("!")
        made.add_column(column.lstrip(">!"), justify="right" if right else "left", overflow="fold", no_wrap=whole)
    return made


@contextmanager
def progress(label: str, total: int | None) -> Generator[Progress]:
    """A progress bar on the error stream, shown only to people; its task is number 0. Its length may be unknown."""
    known = (MofNCompleteColumn(), TimeRemainingColumn()) if total is not None else (TimeElapsedColumn(),)
    columns = (TextColumn("{task.description}"), BarColumn(), *known)
    bar = Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
    with bar:
        bar.add_task(label, total=total)
        yield bar
