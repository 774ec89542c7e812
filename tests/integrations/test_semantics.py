"""What properties mean is looked up along the class of whoever has them, and anybody may add to it."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ashore.errors import InputError
from ashore.integrations import Meaning, describe, described, semantics
from ashore.integrations.semantics import ENTRY_POINTS, meaning_of

RAD = {"revolute": "rad", "prismatic": "m"}


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test describes, nobody else knows."""
    monkeypatch.setattr(semantics, "_REGISTRY", dict(semantics._REGISTRY))
    return


class Data:
    @property
    def whiskers(self) -> float:
        return 1.0

    @property
    def tail(self) -> float:
        return 2.0


class FurtherData(Data):
    pass


class OtherData(Data):
    @property
    def whiskers(self) -> float:
        return 3.0


def test_what_nobody_described_means_nothing() -> None:
    assert meaning_of(Data(), "whiskers") is None


def test_a_property_is_described_by_its_class() -> None:
    describe(Data, "whiskers", kind="custom/whiskers", unit="m", names=(("left", "right"),), source="sensor")
    found = meaning_of(Data(), "whiskers")
    assert found == Meaning(kind="custom/whiskers", unit="m", names=(("left", "right"),), source="sensor")
    assert meaning_of(Data(), "tail") is None


def test_a_class_may_be_named_by_text_so_that_nothing_is_imported() -> None:
    describe(f"{__name__}.Data", "tail", Meaning(description="wags"))
    found = meaning_of(Data(), "tail")
    assert found is not None
    assert found.description == "wags"


def test_a_meaning_is_inherited_and_may_be_replaced() -> None:
    describe(Data, "whiskers", description="of any animal")
    assert meaning_of(FurtherData(), "whiskers") == meaning_of(Data(), "whiskers")
    describe(FurtherData, "whiskers", description="of a cat")
    found = meaning_of(FurtherData(), "whiskers")
    assert found is not None
    assert found.description == "of a cat"
    before = meaning_of(Data(), "whiskers")
    assert before is not None
    assert before.description == "of any animal"


def test_a_class_of_your_own_is_described_where_it_is_written() -> None:
    class Mine(Data):
        @property
        @described(kind="state/joint/position", unit=RAD, names=("joint_names",), source="sensor")
        def encoders(self) -> float:
            return 0.0

    found = meaning_of(Mine(), "encoders")
    assert found is not None
    assert (found.kind, found.unit, found.names) == ("state/joint/position", RAD, ("joint_names",))
    assert Mine().encoders == 0.0


def test_the_nearest_class_decides_whether_by_decorator_or_by_registry() -> None:
    class Mine(Data):
        @property
        @described(description="by decorator")
        def whiskers(self) -> float:
            return 0.0

    class Mines(Mine):
        pass

    describe(Data, "whiskers", description="by registry")
    found = meaning_of(Mines(), "whiskers")
    assert found is not None
    assert found.description == "by decorator"
    describe(Mines, "whiskers", description="nearer")
    found = meaning_of(Mines(), "whiskers")
    assert found is not None
    assert found.description == "nearer"


def test_a_meaning_may_depend_on_the_object() -> None:
    describe(Data, "whiskers", lambda data: Meaning(description=f"{type(data).__name__} has them"))
    found = meaning_of(OtherData(), "whiskers")
    assert found is not None
    assert found.description == "OtherData has them"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "describe 'whiskers': give a meaning or its fields, one of both"),
        ({"meaning": Meaning(), "unit": "m"}, "describe 'whiskers': give a meaning or its fields, one of both"),
        ({"units": "m"}, "describe: unknown argument 'units'; there are"),
        ({"kind": "state/joint/whiskers"}, "describe: .*state/joint/whiskers"),
        ({"kind": "state/joint/position", "unit": "m/s"}, "describe: .*m/s"),
        ({"kind": "state/joint/position", "unit": {"revolute": "N", "prismatic": "m"}}, "describe: .*N"),
    ],
)
def test_what_no_port_could_be_is_refused_where_it_is_written(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        describe(Data, "whiskers", **arguments)
    assert meaning_of(Data(), "whiskers") is None


def test_a_decorator_refuses_the_same() -> None:
    with pytest.raises(InputError, match="describe: unknown argument 'units'"):
        described(units="m")


MODULE = """
import ashore.integrations

loads = []
loads.append(1)
ashore.integrations.describe("{name}.Data", "tail", description="by an entry point")
"""


def test_an_installed_distribution_describes_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that an entry point names is imported before the first look-up, and never again."""
    (tmp_path / "my_robot_semantics.py").write_text(MODULE.format(name=__name__))
    about = tmp_path / "my_robot-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-robot\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\nmine = my_robot_semantics\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(semantics, "_loaded", False)
    importlib.invalidate_caches()
    assert "mine" in {one.name for one in importlib.metadata.entry_points(group=ENTRY_POINTS)}
    assert "my_robot_semantics" not in sys.modules
    try:
        for _ in range(2):
            found = meaning_of(Data(), "tail")
            assert found is not None
            assert found.description == "by an entry point"
        assert sys.modules["my_robot_semantics"].loads == [1]
    finally:
        sys.modules.pop("my_robot_semantics", None)


def test_describing_imports_no_framework() -> None:
    import support

    code = "import sys, ashore.integrations; print({'torch', 'mjlab', 'isaaclab', 'onnx'} & set(sys.modules))"
    assert support.run_python(code).stdout == "set()\n"
