"""The tutorial runs as it is written, and prints what it shows."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from ashore.backends import PROFILES
from ashore.backends.exporting import ALIASES, EXPORTERS
from ashore.capture.options import ExportOptions
from docs.pages import DOCS, blocks
from docs.tutorials import check_marks, check_shown, play, play_alone

PAGE = (DOCS / "annotate.md").read_text()
BLOCKS = list(blocks(PAGE))
ALONE = [block for block in BLOCKS if block.mark == "alone"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tutorial")


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[int, dict[str, Any]]:
    """Line of a block in the page -> what became of it."""
    return play(BLOCKS, folder)


def test_every_block_runs_or_raises_as_marked(told: dict[int, dict[str, Any]]) -> None:
    check_marks("annotate.md", BLOCKS, told)
    assert sum(block.mark == "raises: ExportError" for block in BLOCKS) == 2


def test_what_is_shown_below_a_block_is_what_it_prints_or_raises(told: dict[int, dict[str, Any]]) -> None:
    assert [block for block in BLOCKS if block.mark and block.mark != "alone"] == [b for b in BLOCKS if b.shown]
    check_shown("annotate.md", BLOCKS, told)


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("block", ALONE, ids=lambda block: f"line {block.line}")
def test_a_package_runs_where_torch_cannot_be_imported(block: Any, folder: Path) -> None:
    assert play_alone(block, folder).startswith("[[")


@pytest.mark.usefixtures("told")
def test_the_picture_on_the_page_is_that_of_the_package(folder: Path) -> None:
    """As far as what is written in it goes."""
    drawn, shown = (
        re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text())
        for path in (folder / "packages" / "leg" / "graph.svg", DOCS / "leg.svg")
    )
    assert "last_action_next" in drawn
    assert drawn == shown, "copy graph.svg of the tutorial's package to docs/leg.svg"


def test_the_table_of_options_has_them_all() -> None:
    table = PAGE.split("## Options")[1].split("### ")[0]
    named = re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in table.splitlines() if row.startswith("| `")))
    assert sorted(named) == sorted(one.name for one in dataclasses.fields(ExportOptions))


def test_the_tables_of_backends_and_profiles_have_them_all() -> None:
    part = PAGE.split("### Backends")[1]
    rows = [
        re.findall(r"`([\w-]+)`", "".join(row.split("|")[1:3])) for row in part.splitlines() if row.startswith("| `")
    ]
    assert [row[0] for row in rows[1:]] == list(EXPORTERS)
    assert {row[1]: row[0] for row in rows[1:] if len(row) > 1} == ALIASES
    assert re.findall(r"`(ort-[\d.]+)`", part) == list(PROFILES)
