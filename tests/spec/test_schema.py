from __future__ import annotations

import json
from pathlib import Path

from ashore.spec import json_schema, kinds_page

DOCS = Path(__file__).parents[2] / "docs"


def test_the_committed_schema_is_current() -> None:
    current = (DOCS / "manifest.schema.json").read_bytes()
    assert current == json_schema(), "run `make docs` to write docs/manifest.schema.json again"


def test_the_committed_table_of_kinds_is_current() -> None:
    assert (DOCS / "kinds.md").read_text() == kinds_page(), "run `make docs` to write docs/kinds.md again"


def test_the_schema_is_closed_to_unknown_keys() -> None:
    definitions = json.loads(json_schema())["$defs"]
    assert {"Manifest", "Port", "State", "Stage", "Wire"} <= definitions.keys()
    for name, definition in definitions.items():
        assert definition["additionalProperties"] is False, name
