"""The table of the benchmarks says what the results say."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from docs.pages import ROOT

TABLE: dict[str, Any] = runpy.run_path(str(ROOT / "bench" / "table.py"))
RESULTS: dict[str, Any] = json.loads((ROOT / "bench" / "results.json").read_text())


@pytest.mark.parametrize("page", TABLE["PAGES"], ids=lambda page: page.name)
def test_a_page_has_the_table_of_the_results(page: Path) -> None:
    assert TABLE["written"](page, RESULTS) == page.read_text(), "python bench/table.py --write"


def test_the_counts_are_those_of_the_cases() -> None:
    cases = RESULTS["cases"]
    assert cases["cases"] == len(cases["rows"])
    for column, tool in ((1, "ashore"), (2, "leapp")):
        for outcome, count in cases["counts"][tool].items():
            assert count == sum(row[column] == outcome for row in cases["rows"]), (tool, outcome)


def test_nothing_is_exported_wrong_by_ashore() -> None:
    assert RESULTS["cases"]["counts"]["ashore"]["silently wrong"] == 0


def test_a_figure_that_changes_changes_the_table() -> None:
    changed = json.loads(json.dumps(RESULTS))
    changed["cases"]["counts"]["leapp"]["silently wrong"] += 1000
    assert TABLE["table"](changed) != TABLE["table"](RESULTS)
