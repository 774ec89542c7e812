"""Writes the pages of docs/ that are generated from the code; tests keep them current."""

import sys
from pathlib import Path

from ashore.spec import json_schema, kinds_page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests"))
    from docs.cases_page import cases_page

    (DOCS / "manifest.schema.json").write_bytes(json_schema())
    (DOCS / "kinds.md").write_text(kinds_page())
    (DOCS / "cases.md").write_text(cases_page())
