"""docs/cases.md, written from the list in tests/capture/cases. ``tools/write_docs.py`` writes it."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import capture.cases
from ashore.capture import KINDS
from capture.cases.registry import CASES, EXACT, Case, Code

DOCS_PAGE = Path(__file__).parents[2] / "docs" / "cases.md"
HEAD = """# Cases

What environment code does, in as many spellings as people write it, and what becomes of each. Every case is a short
piece of code in `tests/capture/cases`, recorded over a few steps with a reset among them. The package is then run
beside a fresh instance of the same code, with resets, on inputs that were not recorded.

**Exact** means that the two agreed in every step: to {tolerance:g}, relative to values above one, or to what the table
says. Otherwise the export fails with a [finding](findings.md), and nothing is written.

{count} cases, {exact} of them exact ({share:.1%}). None is exported and wrong. {spellings} more are other spellings
of a value that leaves for Python; they have a table of their own at the end.
"""


def all_cases() -> list[Case]:
    """Every case there is, sorted by topic and title."""
    for module in pkgutil.iter_modules(capture.cases.__path__):
        importlib.import_module(f"capture.cases.{module.name}")
    return sorted(CASES, key=lambda case: (case.topic, case.title))


def cases_page() -> str:
    """The page."""
    cases = [case for case in all_cases() if not case.spelling]
    spellings = [case for case in all_cases() if case.spelling]
    exact = sum(case.outcome == EXACT for case in cases)
    head = {"count": len(cases), "exact": exact, "share": exact / len(cases), "spellings": len(spellings)}
    lines = [HEAD.format(tolerance=Code.tolerance, **head)]
    for topic in dict.fromkeys(case.topic for case in cases):
        lines += _table(topic.capitalize(), [case for case in cases if case.topic == topic])
    lines += _table("More spellings of a leak", spellings)
    return "\n".join(lines)


def _table(title: str, cases: list[Case]) -> list[str]:
    rows = [f"| {_cell(case.title)} | {_outcome(case)} |" for case in cases]
    return [f"## {title}", "", "| what the code does | outcome |", "|---|---|", *rows, ""]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("_", "\\_").replace("*", "\\*").replace("<", "&lt;")


def _outcome(case: Case) -> str:
    if case.outcome == EXACT:
        return EXACT if case.make.tolerance == Code.tolerance else f"{EXACT}, to {case.make.tolerance:g}"
    assert case.outcome in KINDS, f"{case.title}: {case.outcome!r} is no finding"
    return f"[`{case.outcome}`](findings.md#{case.outcome})"
