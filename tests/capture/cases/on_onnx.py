"""Which cases are proven on ONNX in every run: together they have every kind of operation that any case has.

The table says for each kind which case answers for it. A case is exported if it answers for a kind, or has one that
the table does not know, such as a new case has, or all cases with another version of torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

TABLE = Path(__file__).with_suffix(".txt")


def read_table() -> dict[str, str]:
    """Kind of operation -> the name of the case that answers for it."""
    table: dict[str, str] = {}
    for line in TABLE.read_text().splitlines():
        name, _, kinds = line.rpartition(" | ")
        table |= dict.fromkeys(kinds.split(), name)
    return table


def write_table(kinds_of: Mapping[str, set[str]]) -> int:
    """Choose cases that have all kinds, few of them, and write them down; how many there are."""
    pending, lines = set().union(*kinds_of.values()), []
    while pending:
        name = max(kinds_of, key=lambda name: len(kinds_of[name] & pending))
        lines.append(f"{name} | {' '.join(sorted(kinds_of[name] & pending))}")
        pending -= kinds_of[name]
    TABLE.write_text("\n".join(sorted(lines)) + "\n")
    return len(lines)
