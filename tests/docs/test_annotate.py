"""The tutorial runs as it is written, and prints what it shows."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ashore.backends import PROFILES
from ashore.backends.exporting import ALIASES, EXPORTERS
from ashore.capture.options import ExportOptions
from docs.pages import DOCS, blocks

PAGE = (DOCS / "annotate.md").read_text()
BLOCKS = list(blocks(PAGE))
ALONE = [block for block in BLOCKS if block.mark == "alone"]

# Runs blocks one after the other as parts of one file, and notes what each printed and raised.
RUNNER = """
import contextlib, io, json, pathlib, traceback

names, told = {"__name__": "__main__"}, []
for block in json.loads(pathlib.Path("blocks.json").read_text()):
    printed, raised = io.StringIO(), None
    code = compile("\\n" * (block["line"] - 1) + block["code"], str(pathlib.Path("tutorial.py").resolve()), "exec")
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            exec(code, names)
        except Exception as error:
            raised = "".join(traceback.format_exception_only(error))
    told.append({"line": block["line"], "printed": printed.getvalue(), "raised": raised})
pathlib.Path("told.json").write_text(json.dumps(told))
"""
WITHOUT_TORCH = """
import sys
sys.modules["torch"] = sys.modules["onnx"] = None  # importing them fails
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tutorial")
    together = [block for block in BLOCKS if block.mark != "alone"]
    lines = [""] * PAGE.count("\n")
    for block in together:
        code = block.code.splitlines()
        lines[block.line - 1 : block.line - 1 + len(code)] = code
    (folder / "tutorial.py").write_text("\n".join(lines))
    (folder / "blocks.json").write_text(json.dumps([dataclasses.asdict(block) for block in together]))
    run(RUNNER, folder)
    return folder


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[int, dict[str, Any]]:
    """Line of a block in the page -> what became of it."""
    return {one["line"]: one for one in json.loads((folder / "told.json").read_text())}


def run(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def plain(text: str) -> str:
    """A message without what differs between machines: line numbers, rounding errors, versions."""
    text = re.sub(r"\.py:\d+", ".py:LINE", text.strip())
    text = re.sub(r"largest error .*", "largest error …", text)
    return re.sub(r"onnxruntime [\d.]+", "onnxruntime", text)


def test_every_block_runs_or_raises_as_marked(told: dict[int, dict[str, Any]]) -> None:
    for block in BLOCKS:
        if block.mark == "alone":
            continue
        raised = told[block.line]["raised"]
        if block.mark is None or not block.mark.startswith("raises: "):
            assert raised is None, f"annotate.md:{block.line}: {raised}"
        else:
            assert raised, f"annotate.md:{block.line} raised nothing"
            assert raised.startswith(f"ashore.errors.{block.mark.removeprefix('raises: ')}: ")
    assert sum(block.mark == "raises: ExportError" for block in BLOCKS) == 2


def test_what_is_shown_below_a_block_is_what_it_prints_or_raises(told: dict[int, dict[str, Any]]) -> None:
    shown = [block for block in BLOCKS if block.shown is not None]
    assert [block for block in BLOCKS if block.mark and block.mark != "alone"] == shown
    for block in shown:
        one = told[block.line]
        assert plain(one["raised"] or one["printed"]) == plain(block.shown or ""), f"annotate.md:{block.line}"


@pytest.mark.parametrize("block", ALONE, ids=lambda block: f"line {block.line}")
def test_a_package_runs_where_torch_cannot_be_imported(block: Any, folder: Path) -> None:
    assert run(WITHOUT_TORCH + block.code, folder).startswith("[[")


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
