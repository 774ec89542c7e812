"""The tutorial about environments runs as it is written, and prints what it shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ashore.environment
from ashore.environment import ExportableEnvironment
from docs.pages import DOCS, blocks
from docs.tutorials import check_marks, check_shown, play, play_alone

NAME = "environment.md"
PAGE = (DOCS / NAME).read_text()
BLOCKS = list(blocks(PAGE))
ALONE = [block for block in BLOCKS if block.mark == "alone"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tutorial")


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[int, dict[str, Any]]:
    return play(BLOCKS, folder)


def test_every_block_runs_or_raises_as_marked(told: dict[int, dict[str, Any]]) -> None:
    check_marks(NAME, BLOCKS, told)
    assert sum(block.mark == "raises: ExportError" for block in BLOCKS) == 2


def test_what_is_shown_below_a_block_is_what_it_prints_or_raises(told: dict[int, dict[str, Any]]) -> None:
    check_shown(NAME, BLOCKS, told)


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("block", ALONE, ids=lambda block: f"line {block.line}")
def test_package_and_file_run_where_torch_cannot_be_imported(block: Any, folder: Path) -> None:
    number = re.compile(r"-?\d+\.\d+")
    printed, shown = play_alone(block, folder), block.shown
    assert number.sub("N", printed).split() == number.sub("N", shown).split()
    values, expected = ([float(one) for one in number.findall(text)] for text in (printed, shown))
    np.testing.assert_allclose(values, expected, atol=1e-4)


@pytest.mark.usefixtures("told")
def test_the_table_of_files_has_them_all(folder: Path) -> None:
    table = PAGE.split("| on disk |")[1].split("\n\n")[0]
    named = re.findall(r"^\| `exported/(leg|leg\.onnx|debug)/?` \|", table, re.MULTILINE)
    assert named == ["leg", "leg.onnx", "debug"]
    assert all((folder / "exported" / name).exists() for name in named)


def test_the_page_ends_with_the_package_in_a_loop() -> None:
    assert "policy.substep(" in BLOCKS[-1].code
    assert "assert worst < 1e-5" in BLOCKS[-1].code


def test_the_table_of_the_adapter_has_every_method() -> None:
    table = PAGE.split("| method | what it says |")[1].split("\n\n")[0]
    rows = "".join(row.split("|")[1] for row in table.splitlines() if row.startswith("| `"))
    asked = {name for name, one in vars(ExportableEnvironment).items() if getattr(one, "__isabstractmethod__", False)}
    assert set(re.findall(r"`(\w+)`", rows)) == asked - {"decimation"}


def test_the_table_of_imports_names_what_there_is() -> None:
    table = PAGE.split("| Exploy | Ashore |")[1].split("\n\n")[0]
    names = [name for row in table.splitlines() if "exploy." in row for name in re.findall(r"`([A-Za-z_]+)`", row)]
    assert sorted(names) == sorted(set(ashore.environment.__all__) - {"export_environment"})
