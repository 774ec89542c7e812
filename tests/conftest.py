"""How tests are run: from which seeds, in which process, in which order, and what a run tells at its end."""

from __future__ import annotations

import gc
import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

import support
from ashore.package import Package

ROOT = Path(__file__).parents[1]
SEED = 20261119

# Stages that were exported before are found here again; each is proven like a new one. `make test-all` does without.
os.environ.setdefault("ASHORE_CACHE", str(ROOT / ".cache" / "tests"))

# Machines are noisy, and a test is no measurement. Examples are the same in every run, but for `make test-all`.
settings.register_profile("ashore", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("ashore")

SLOW_FIRST = ("integrations", "examples", "docs", "environment", "interop", "actor", "staged", "cli", "view")
"""Folders whose files take long, so that no process is left alone with one of them at the end."""

NEEDS_TORCH = (
    "cli/test_published_checkpoints.py",
    "cli/test_trainers.py",
    "examples/test_walk.py",
    "interop/policy_package/test_policy_package_of_modules.py",
)
"""Files of folders that `make test` runs without torch, and that need it all the same."""

BESIDE_TORCH = ("runtime/test_backend.py", "runtime/test_loading.py", "runtime/test_torch_free.py")
"""Files that say something else where torch could be imported than where it could not: they run in both places."""

WITHOUT_TORCH = "ASHORE_NO_TORCH" in os.environ
collect_ignore = list(NEEDS_TORCH) if WITHOUT_TORCH else []

ONE_BY_ONE = ("capture/test_cases.py",)
"""Files of many tests that share nothing: they come last, and go to whichever process is free."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough", action="store_true", help="Prove every case of the table on ONNX, not one of a kind."
    )
    parser.addoption(
        "--elsewhere", default="", metavar="PATHS", help="What is run without torch: here only what needs torch of it."
    )


def _is_elsewhere(file: Path, paths: str) -> bool:
    """Whether a file of tests is one that the environment without torch runs, and has nothing to say here."""
    if str(file).endswith((*NEEDS_TORCH, *BESIDE_TORCH)):
        return False
    return any(file.is_relative_to(ROOT / path) for path in paths.split())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what is run elsewhere; None leaves the decision to others."""
    is_test = collection_path.name.startswith("test_")
    return True if is_test and _is_elsewhere(collection_path, config.getoption("--elsewhere")) else None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Without torch nothing may be skipped: nobody else would run it."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if WITHOUT_TORCH and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _reseed() -> None:
    random.seed(SEED)
    np.random.seed(SEED)
    if (torch := sys.modules.get("torch")) is not None:
        torch.default_generator.manual_seed(SEED)  # torch.manual_seed also notes its stack, for a GPU to come


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup() -> None:
    """Whatever a fixture draws, it draws the same in every run, whatever ran before it."""
    _reseed()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    """And so does a test."""
    _reseed()


def pytest_collection_finish() -> None:
    """Leave what was imported out of every search for what is alive: an export looks for modules and lists of the code.

    With all simulators and trainers imported there are a million objects, and looking takes as long as exporting.
    """
    gc.collect()
    gc.freeze()


class Scheduling(LoadScopeScheduling):
    """Files go to processes one by one, since the tests of a file share what takes long to make.

    A scheduler of our own, since xdist's groups, which are written into node ids, are lost with pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        file, _, _ = nodeid.partition("::")
        return nodeid if file.endswith(ONE_BY_ONE) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    config.option.loadscopereorder = False  # they are in order
    return Scheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what takes long first, and what fills any gap last."""
    for item in items:
        if " at 0x" in item.nodeid:
            raise pytest.UsageError(f"{item.nodeid}: an address is another one in every process; give it ids")

    def rank(item: pytest.Item) -> int:
        path = item.path.relative_to(ROOT / "tests") if item.path.is_relative_to(ROOT / "tests") else item.path
        if str(path).endswith(ONE_BY_ONE):
            return len(SLOW_FIRST) + 1
        return SLOW_FIRST.index(path.parts[0]) if path.parts[0] in SLOW_FIRST else len(SLOW_FIRST)

    items.sort(key=rank)


@pytest.fixture
def sum_package(tmp_path: Path) -> Package:
    return support.write_sum(tmp_path / "sum")


@pytest.fixture
def arm_package(tmp_path: Path) -> Package:
    return support.write_arm(tmp_path / "arm")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what must not be skipped; and show the figures of tests in tables, also in the file ASHORE_TABLE names."""
    if WITHOUT_TORCH:
        for report in terminalreporter.stats.get("skipped", []):
            terminalreporter.write_line(f"FAILED {report.nodeid}: skipped without torch, so nobody runs it", red=True)
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
