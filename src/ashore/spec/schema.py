"""The JSON Schema of the manifest, for tools that are not Python. Committed as ``docs/manifest.schema.json``."""

from __future__ import annotations

import msgspec

from ashore.spec.manifest import SCHEMA_VERSION, Manifest


def json_schema() -> bytes:
    """The schema as indented JSON, the same bytes each time."""
    schema = msgspec.json.schema(Manifest)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Ashore policy package manifest, schema version {SCHEMA_VERSION}",
    }
    return msgspec.json.format(msgspec.json.encode({**head, **schema}), indent=2) + b"\n"
