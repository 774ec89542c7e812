"""Tests that need LeRobot's own environment: `make test-lerobot`.

The folder is not called lerobot: with tests/ on the path, it would be taken for the package where that is missing.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from eager import Eager

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"  # small networks, and as many processes as cores
NAMES = ["act", "act_ensembling", "ddpm", "ddim", "vqbet", "smolvla", "pi05"]

if importlib.util.find_spec("lerobot") is None:
    collect_ignore_glob = ["*.py"]


@pytest.fixture(scope="session", params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def saved(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that LeRobot's training could have written, for each of the policies."""
    import policies

    folder = tmp_path_factory.mktemp("saved") / name
    policies.POLICIES[name](folder)
    return folder


@pytest.fixture(scope="session")
def eager(saved: Path) -> Eager:
    """The policy, loaded from that folder by LeRobot."""
    from eager import Eager

    return Eager(saved)
