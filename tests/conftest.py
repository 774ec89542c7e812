from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

import support
from ashore.package import Package

settings.register_profile("ashore", deadline=None)  # machines are noisy, and a test is no measurement
settings.load_profile("ashore")


@pytest.fixture
def sum_package(tmp_path: Path) -> Package:
    return support.write_sum(tmp_path / "sum")


@pytest.fixture
def arm_package(tmp_path: Path) -> Package:
    return support.write_arm(tmp_path / "arm")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the figures that tests recorded as a table, also in the file that ASHORE_TABLE names."""
    reports = [one for kind in terminalreporter.stats.values() for one in kind if getattr(one, "when", "") == "call"]
    rows = [value for one in reports for name, value in one.user_properties if name == "figures"]
    if not rows:
        return
    lines = [" | ".join(rows[0]), "|".join("---" for _ in rows[0]), *(" | ".join(row.values()) for row in rows)]
    table = "".join(f"| {line} |\n" for line in lines)
    terminalreporter.write("\n" + table)
    if "ASHORE_TABLE" in os.environ:
        Path(os.environ["ASHORE_TABLE"]).write_text(table)
