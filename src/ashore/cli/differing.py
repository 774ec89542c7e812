"""``ashore diff``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ashore.cli.output import console, print_json, table
from ashore.package import read
from ashore.verify import Difference, compare

_SHOWN = 40


def run(before: Path, after: Path, *, atol: float, as_json: bool) -> bool:
    """Compare two packages, print what changed, and say whether they are the same."""
    found = compare(read(before), read(after), atol=atol)
    if as_json:
        print_json({**asdict(found), "same": found.same})
    else:
        _print(found)
    return found.same


def _print(found: Difference) -> None:
    out = console()
    out.print(f"A: {found.before}\nB: {found.after}")
    _print_part("contract", [change.message for change in found.contract])
    _print_part("weights", [change.message for change in found.weights])
    _print_part("graphs", found.graphs)
    _print_part("initial states", [change.message for change in found.states])
    _print_part("files", [change.message for change in found.files])
    shown = table("outputs, both free-running on recorded inputs", "recorded by", "port", ">max |difference|", "first")
    for one in found.outputs:
        shown.add_row(one.recorded_by, one.port, f"{one.max_abs_difference:.4g}", one.first or "same")
    if shown.row_count:
        out.print(shown)
    for message in found.not_compared:
        out.print(f"not compared: {message}", style="yellow")
    if found.about:
        out.print(f"also changed, without an effect: {', '.join(change.where for change in found.about)}")
    if found.same:
        out.print("the same policy", style="green")
    else:
        out.print("different", style="red")


def _print_part(title: str, messages: Sequence[str]) -> None:
    if not messages:
        return
    out = console()
    out.print(title, style="bold")
    for message in messages[:_SHOWN]:
        out.print(f"  {message}")
    if len(messages) > _SHOWN:
        out.print(f"  and {len(messages) - _SHOWN} more; --json has all")
