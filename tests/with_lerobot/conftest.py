"""Tests that need LeRobot's own environment: `make test-lerobot`.

The folder is not called lerobot: with tests/ on the path, it would be taken for the package where that is missing.
"""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from eager import Eager

    from ashore.package import Package

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"  # small networks, and as many processes as cores
NAMES = ["act", "act_ensembling", "ddpm", "ddim", "vqbet", "smolvla", "pi05"]

if importlib.util.find_spec("lerobot") is None:
    collect_ignore_glob = ["*.py"]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests of one policy stay in one process, since they share its checkpoint and its package."""
    from xdist.scheduler import LoadScopeScheduling

    class ByPolicy(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            found = re.search(rf"[\[-]({'|'.join(NAMES)})[\]-]", nodeid)
            return found[1] if found else nodeid

    return ByPolicy(config, log)


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


@pytest.fixture(scope="session")
def package(saved: Path, name: str, tmp_path_factory: pytest.TempPathFactory) -> Package:
    """The package that the folder becomes, with nothing added by hand."""
    import pi05_shaped  # noqa: F401  registers its policy

    from ashore.integrations.lerobot import export_lerobot

    return export_lerobot(saved, tmp_path_factory.mktemp("packages") / name, picture=False)
