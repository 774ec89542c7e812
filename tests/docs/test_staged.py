"""The page on policies of several stages runs as it is written, and prints what it shows."""

from __future__ import annotations

from typing import Any

import pytest

from docs.pages import DOCS, blocks
from docs.tutorials import check_marks, check_shown, play

BLOCKS = [block for block in blocks((DOCS / "staged.md").read_text()) if block.mark != "lerobot"]
"""Those that need LeRobot are run by tests/with_lerobot."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Any]]:
    """Line of a block in the page -> what became of it."""
    return play(BLOCKS, tmp_path_factory.mktemp("staged"))


def test_every_block_runs(told: dict[int, dict[str, Any]]) -> None:
    check_marks("staged.md", BLOCKS, told)
    assert len(BLOCKS) == 4


def test_what_is_shown_below_a_block_is_what_it_prints(told: dict[int, dict[str, Any]]) -> None:
    assert sum(block.shown is not None for block in BLOCKS) == 3
    check_shown("staged.md", BLOCKS, told)
