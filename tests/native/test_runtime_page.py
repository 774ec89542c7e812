"""What docs/runtime.md says of compiled C, run."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

import support

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "runtime.md").read_text()
SECTION = PAGE.partition("### Compiled C\n")[2].partition("\n### ")[0]


def test_the_code_of_the_section_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["first_package", "demo/first"])
    runpy.run_path(str(ROOT / "examples" / "first_package.py"), run_name="__main__")
    blocks = [PAGE.partition("```python\n")[2].partition("```")[0], *re.findall(r"```py\n(.*?)```", SECTION, re.DOTALL)]
    assert len(blocks) == 2
    done = support.run_python("\n".join(blocks))
    first, second = done.stdout.splitlines()
    assert first == second, done.stderr
