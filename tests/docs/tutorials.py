"""Running a tutorial as it is written: its blocks one after the other, as parts of one file."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docs.pages import Block

# Runs blocks one after the other as parts of one file, and notes what each printed and raised.
_RUNNER = """
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
_WITHOUT_TORCH = """
import sys
sys.modules["torch"] = sys.modules["onnx"] = None  # importing them fails
"""


def play(blocks: Sequence[Block], folder: Path) -> dict[int, dict[str, Any]]:
    """Run the blocks of a page, but for those that run alone; line of a block in the page -> what became of it."""
    together = [block for block in blocks if block.mark != "alone"]
    lines = [""] * max(block.line + block.code.count("\n") for block in together)
    for block in together:
        code = block.code.splitlines()
        lines[block.line - 1 : block.line - 1 + len(code)] = code
    (folder / "tutorial.py").write_text("\n".join(lines))
    (folder / "blocks.json").write_text(json.dumps([dataclasses.asdict(block) for block in together]))
    _run(_RUNNER, folder)
    return {one["line"]: one for one in json.loads((folder / "told.json").read_text())}


def play_alone(block: Block, folder: Path) -> str:
    """Run a block by itself where torch cannot be imported; what it printed."""
    return _run(_WITHOUT_TORCH + block.code, folder)


def check_marks(page: str, blocks: Sequence[Block], told: dict[int, dict[str, Any]]) -> None:
    """Every block runs, or raises as it is marked."""
    for block in blocks:
        if block.mark == "alone":
            continue
        raised = told[block.line]["raised"]
        if block.mark is None or not block.mark.startswith("raises: "):
            assert raised is None, f"{page}:{block.line}: {raised}"
        else:
            assert raised, f"{page}:{block.line} raised nothing"
            assert raised.startswith(f"ashore.errors.{block.mark.removeprefix('raises: ')}: ")


def check_shown(page: str, blocks: Sequence[Block], told: dict[int, dict[str, Any]]) -> None:
    """What is shown below a marked block is what it prints or raises."""
    for block in blocks:
        if block.mark and block.mark != "alone":
            one = told[block.line]
            assert block.shown is not None, f"{page}:{block.line} shows nothing"
            assert plain(one["raised"] or one["printed"]) == plain(block.shown), f"{page}:{block.line}"


def plain(text: str) -> str:
    """A message without what differs between machines: line numbers, rounding errors, versions."""
    text = re.sub(r"\.py:\d+", ".py:LINE", text.strip())
    text = re.sub(r"largest error .*", "largest error …", text)
    text = re.sub(r"\b\de-\d+ rad", "… rad", text)
    return re.sub(r"onnxruntime [\d.]+", "onnxruntime", text)


def _run(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
