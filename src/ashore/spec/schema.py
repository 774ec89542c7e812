"""The JSON Schema of the manifest, for tools that are not Python. Committed as ``docs/manifest.schema.json``."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

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
