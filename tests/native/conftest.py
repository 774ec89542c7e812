"""Tests of compiled policies: `make test-native`. They need compilers, and fail where one is missing."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from ashore.backends.c import loading
from ashore.backends.c.foreign import Foreign
from native import handmade

Use = Callable[[handmade.Source], None]


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def cache(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that the tests of a process share, so that each does not compile the same again."""
    monkeypatch.setenv("ASHORE_CACHE", str(shared_cache))
    return shared_cache / "c"


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with nothing in it. The extension, once a process has loaded it, is not looked for again."""
    loading.caller()
    monkeypatch.setenv("ASHORE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "c"


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Have the generator give a source that was written by hand."""
    module = importlib.import_module("ashore.backends.c")

    def use(source: handmade.Source) -> None:
        monkeypatch.setattr(module, "generate", lambda package, *, batch, target: source, raising=False)

    use(handmade.arm())
    return use


@pytest.fixture(params=["extension", "ctypes"])
def called(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Calls by the extension, and as they are made where it cannot be compiled."""
    if request.param == "ctypes":
        monkeypatch.setattr(loading, "caller", lambda: Foreign)
    return request.param
