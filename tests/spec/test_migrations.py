from __future__ import annotations

import pytest

from ashore.spec import SCHEMA_VERSION, migrations


def test_every_older_version_has_a_migration() -> None:
    assert sorted(migrations.MIGRATIONS) == list(range(1, SCHEMA_VERSION))


def test_the_current_version_is_left_alone() -> None:
    document = {"schema_version": SCHEMA_VERSION, "name": "x"}
    assert migrations.migrate(document, SCHEMA_VERSION) is document


def test_migrations_are_applied_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "SCHEMA_VERSION", 3)
    steps = {1: lambda d: {**d, "seen": [1]}, 2: lambda d: {**d, "seen": [*d["seen"], 2]}}
    monkeypatch.setattr(migrations, "MIGRATIONS", steps)
    assert migrations.migrate({"schema_version": 1}, 1) == {"schema_version": 3, "seen": [1, 2]}
