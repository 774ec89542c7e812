"""Where manifests of older schema versions become the current one.

`MIGRATIONS[n]` turns a parsed document of version n into version n + 1. When the schema changes: raise
`SCHEMA_VERSION`, add one function here, keep a package of the old version in ``tests/data`` and describe the change
in ``docs/format.md``. Version 1 is the first, so the table is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ashore.spec.manifest import SCHEMA_VERSION

Document = dict[str, Any]

MIGRATIONS: Mapping[int, Callable[[Document], Document]] = {}


def migrate(document: Document, version: int) -> Document:
    """Bring a parsed manifest from `version` to the current schema version."""
    for step in range(version, SCHEMA_VERSION):
        document = {**MIGRATIONS[step](document), "schema_version": step + 1}
    return document
