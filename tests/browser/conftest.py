"""Tests in a real browser: `make test-browser`. `make test` leaves them out, for they need Debian's Chromium."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import support
from ashore.view.page import gather, make_page, write_page


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Collect only for whoever names this folder."""
    asked = any("browser" in Path(argument.partition("::")[0]).parts for argument in config.args)
    return None if asked else True


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Name of a package -> its page: an ordinary one, one of attacks, and the largest package of the tests."""
    from page_packages import write_hostile, write_large

    folder = tmp_path_factory.mktemp("pages")
    packages = {
        "arm": support.write_arm(folder / "packages" / "arm"),
        "hostile": write_hostile(folder / "packages" / "hostile"),
        "large": write_large(folder / "packages" / "large"),
    }
    for name, package in packages.items():
        write_page(make_page(package, gather(package, samples=200)), folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in packages}


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """The browser; all tests share one, and each opens its pages anew."""
    from browsing import MISSING, Browser

    paths = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in paths:
        pytest.fail(MISSING, pytrace=False)
    os.environ["SE_OFFLINE"] = os.environ["SE_AVOID_STATS"] = "true"
    browser = Browser(str(paths[0]), str(paths[1]), tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def browser(chromium: object) -> Iterator[object]:
    """The browser, as wide as a desk; whatever a page complains about fails the test."""
    from browsing import Browser

    assert isinstance(chromium, Browser)
    chromium.begin()
    yield chromium
    assert chromium.complaints() == []
