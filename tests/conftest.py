from __future__ import annotations

from pathlib import Path

import pytest

import support
from ashore.package import Package


@pytest.fixture
def sum_package(tmp_path: Path) -> Package:
    return support.write_sum(tmp_path / "sum")


@pytest.fixture
def arm_package(tmp_path: Path) -> Package:
    return support.write_arm(tmp_path / "arm")
