"""What is generated from the code for readers outside it: the JSON Schema and the table of kinds, both in ``docs/``."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from ashore.spec.kinds import CUSTOM_PREFIX, KINDS
from ashore.spec.manifest import SCHEMA_VERSION, Manifest


def json_schema() -> bytes:
    """The schema as indented JSON, the same bytes each time."""
    schema = msgspec.json.schema(Manifest)
    definitions: dict[str, dict[str, Any]] = schema["$defs"]
    for definition in definitions.values():
        # Python 3.13 strips the indentation of docstrings itself.
        definition["description"] = inspect.cleandoc(definition["description"])
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Ashore policy package manifest, schema version {SCHEMA_VERSION}",
    }
    return msgspec.json.format(msgspec.json.encode({**head, **schema}), indent=2) + b"\n"


def kinds_page() -> str:
    """The vocabulary of kinds as a page of Markdown."""
    rows = [f"| `{kind}` | {', '.join(f'`{unit}`' for unit in units) or 'any'} |" for kind, units in KINDS.items()]
    return "\n".join(
        (
            "# Kinds",
            "",
            "What a port means, and the units its elements may be in; `1` is a value without unit. A port may give one",
            "unit for all elements or a list with one for each. Kinds of your own start with",
            f"`{CUSTOM_PREFIX}` and may have any unit.",
            "",
            "| kind | units |",
            "|---|---|",
            *rows,
            "",
        )
    )
