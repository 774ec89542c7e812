"""The kept package that faults are planted in is what its script records, and a fresh one passes as well."""

from __future__ import annotations

import sys
from pathlib import Path

from ashore.package import read
from ashore.verify import compare, examine

FOLDER = Path(__file__).parents[1] / "data" / "walker"


def test_the_script_records_the_package_that_is_kept(tmp_path: Path) -> None:
    sys.path.insert(0, str(FOLDER))
    try:
        from build import build
    finally:
        sys.path.remove(str(FOLDER))
    build(tmp_path / "walker")
    fresh, stored = read(tmp_path / "walker"), read(FOLDER / "walker.ashore")
    found = examine(fresh, decisions=20, steps=20)
    assert found.passed
    assert found.problems == []
    assert compare(stored, fresh, atol=1e-5).contract == []
