"""What docs/staged.md says about LeRobot runs as it is written, on a folder like those of LeRobot's training."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from docs.pages import DOCS, blocks
from docs.tutorials import check_shown, play

BLOCKS = [block for block in blocks((DOCS / "staged.md").read_text()) if block.mark == "lerobot"]

BY_LEROBOT = "Loading weights from local directory\n"


@pytest.fixture(scope="module")
def told(saved: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Any]]:
    """Line of a block in the page -> what became of it."""
    folder = tmp_path_factory.mktemp("page")
    shutil.copytree(saved, folder / "outputs/train/act_pick/checkpoints/last/pretrained_model")
    told = play(BLOCKS, folder)
    for one in told.values():
        one["printed"] = one["printed"].replace(BY_LEROBOT, "")
    return told


@pytest.mark.parametrize("name", ["act"], indirect=True)
def test_blocks_run_and_print_what_is_shown_below_them(told: dict[int, dict[str, Any]]) -> None:
    assert len(BLOCKS) == 3
    for block in BLOCKS:
        assert told[block.line]["raised"] is None, told[block.line]
    check_shown("staged.md", BLOCKS, told)
