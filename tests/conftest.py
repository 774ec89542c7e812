from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

import support
from ashore.package import Package

settings.register_profile("ashore", deadline=None)  # machines are noisy, and a test is no measurement
settings.load_profile("ashore")

TOGETHER = {"integrations", "with_lerobot"}
"""Folders whose files are each run by one process."""


class Scheduling(LoadScopeScheduling):
    """Tests go to processes one by one; those that share exports of a simulator or a trainer, file by file.

    A scheduler of our own, since xdist's groups, which are written into node ids, are lost with pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        file, _, _ = nodeid.partition("::")
        return file if TOGETHER & set(Path(file).parts) else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    return Scheduling(config, log)


@pytest.fixture
def sum_package(tmp_path: Path) -> Package:
    return support.write_sum(tmp_path / "sum")


@pytest.fixture
def arm_package(tmp_path: Path) -> Package:
    return support.write_arm(tmp_path / "arm")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the figures that tests recorded in tables, also in the file that ASHORE_TABLE names."""
    reports = [one for kind in terminalreporter.stats.values() for one in kind if getattr(one, "when", "") == "call"]
    rows = [value for one in reports for name, value in one.user_properties if name == "figures"]
    if not rows:
        return
    table = ""
    for columns in dict.fromkeys(tuple(row) for row in rows):
        values = [" | ".join(row.values()) for row in rows if tuple(row) == columns]
        lines = [" | ".join(columns), "|".join("---" for _ in columns), *values]
        table += "\n" * bool(table) + "".join(f"| {line} |\n" for line in lines)
    terminalreporter.write("\n" + table)
    if "ASHORE_TABLE" in os.environ:
        Path(os.environ["ASHORE_TABLE"]).write_text(table)
