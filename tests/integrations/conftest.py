from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of a file share the exports that they need, so one process runs them all."""
    for item in items:
        if "integrations" in item.path.parts and not item.get_closest_marker("all_tasks"):
            item.add_marker(pytest.mark.xdist_group(item.path.name))
