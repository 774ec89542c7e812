from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest

from ashore.errors import ManifestError
from processing import make, port, stage

MADE = stage("doubled", {"x": port(1, 2)}, {"y": port(1, 2)})


def doubled(where: str, made: Any, read: Any) -> Callable[..., Any]:
    return lambda inputs: {"y": inputs["x"] * 2}


def broken(where: str, made: Any, read: Any) -> Callable[..., Any]:
    raise KeyError("gone")


def refusing(where: str, made: Any, read: Any) -> Callable[..., Any]:
    raise ManifestError(f"{where}: not so")


def empty(where: str, made: Any, read: Any) -> object:
    return None


def install(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    entry = EntryPoint("doubled", f"test_registry:{name}", "ashore.processors")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [entry] * (group == entry.group))


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "test_registry", sys.modules[__name__])


def test_a_processor_of_another_package_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "doubled")
    np.testing.assert_array_equal(make(MADE)({"x": np.ones((1, 2), np.float32)})["y"], [[2, 2]])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "here: the processor 'doubled' of an installed package .* cannot be loaded: AttributeError"),
        ("broken", r"here: the processor 'doubled' cannot be made: KeyError\('gone'\)"),
        ("refusing", "^here: not so$"),
        ("empty", "here: the processor 'doubled' gave None; expected a function on named arrays"),
    ],
)
def test_one_that_is_broken_is_told(name: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, name)
    with pytest.raises(ManifestError, match=message):
        make(MADE)


def test_one_that_is_not_installed_is_told() -> None:
    with pytest.raises(ManifestError, match="here: unknown processor 'doubled'; this Ashore has"):
        make(MADE)
