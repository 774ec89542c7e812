"""Nested structures of tensors, leaf by leaf, under names joined with ``_``: ``{"leg": [a, b]}`` is leg_0 and leg_1."""

from __future__ import annotations

from collections import OrderedDict, UserDict, defaultdict
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from ashore.capture.nesting import each


class Pose(NamedTuple):
    """A structure with names of its own."""

    position: Any
    rotation: Any


class Chosen(dict):
    """A mapping that cannot be made of a dict."""

    def __init__(self) -> None:
        super().__init__(left=1)


def leaves(name: str, structure: Any) -> dict[str, Any]:
    """The leaves of a structure by their names."""
    found: list[tuple[str, Any]] = []
    each(name, structure, lambda leaf, value: found.append((leaf, value)))
    assert len(dict(found)) == len(found)
    return dict(found)


@pytest.mark.parametrize(
    ("name", "structure", "names"),
    [
        ("q", 1, {"q": 1}),
        ("q", None, {"q": None}),
        ("", 1, {"": 1}),
        ("q", "text", {"q": "text"}),
        ("leg", {"hip": 1, "knee": 2}, {"leg_hip": 1, "leg_knee": 2}),
        ("", {"hip": 1}, {"hip": 1}),
        ("leg", {3: 1}, {"leg_3": 1}),
        ("", {3: {"hip": 1}}, {"3_hip": 1}),
        ("leg", [1, 2], {"leg_0": 1, "leg_1": 2}),
        ("", (1, 2), {"0": 1, "1": 2}),
        ("leg", {"hip": [1, (2, {"a": 3})]}, {"leg_hip_0": 1, "leg_hip_1_0": 2, "leg_hip_1_1_a": 3}),
        ("pose", Pose(1, [2]), {"pose_0": 1, "pose_1_0": 2}),
        ("leg", {}, {}),
        ("leg", [], {}),
        ("leg", MappingProxyType({"hip": 1}), {"leg_hip": 1}),
    ],
    ids=str,
)
def test_every_leaf_has_the_names_on_the_way_to_it(name: str, structure: Any, names: dict[str, Any]) -> None:
    assert leaves(name, structure) == names
    assert list(leaves(name, structure)) == list(names)


def doubled(_: str, value: int) -> int:
    return 2 * value


@pytest.mark.parametrize(
    ("structure", "made"),
    [
        (1, 2),
        ({"hip": 1}, {"hip": 2}),
        ({3: 1}, {3: 2}),
        ([1, 2], [2, 4]),
        ((1, 2), (2, 4)),
        (Pose(1, 2), Pose(2, 4)),
        (OrderedDict(b=1, a=2), OrderedDict(b=2, a=4)),
        (UserDict(a=1), UserDict(a=2)),
        ({"a": [1, {"b": (2,)}]}, {"a": [2, {"b": (4,)}]}),
        ([], []),
    ],
    ids=str,
)
def test_the_structure_that_comes_back_is_of_the_same_kinds(structure: Any, made: Any) -> None:
    got = each("x", structure, doubled)
    assert got == made
    assert type(got) is type(made)
    if isinstance(made, Mapping):
        assert list(got) == list(made)


@pytest.mark.parametrize("structure", [defaultdict(int, left=1), Chosen()])
def test_a_mapping_that_cannot_be_made_anew_comes_back_as_a_dict(structure: Any) -> None:
    got = each("x", structure, doubled)
    assert got == {"left": 2}
    assert type(got) is dict


def test_what_is_given_is_not_changed() -> None:
    structure = {"a": [1, 2]}
    each("x", structure, doubled)
    assert structure == {"a": [1, 2]}
