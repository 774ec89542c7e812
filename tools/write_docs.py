"""Writes the pages of docs/ that are generated from the code; a test keeps them current."""

from pathlib import Path

from ashore.spec import json_schema, kinds_page

DOCS = Path(__file__).parents[1] / "docs"

if __name__ == "__main__":
    (DOCS / "manifest.schema.json").write_bytes(json_schema())
    (DOCS / "kinds.md").write_text(kinds_page())
