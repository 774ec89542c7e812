"""What the properties of a simulator's data classes mean: a registry that users extend.

A meaning is looked up by the class of the object that has the property, along its method resolution order. Classes are
named by text, so that no framework is imported here, and none has to know of Ashore.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

from ashore.errors import InputError
from ashore.spec.kinds import kind_problem
from ashore.spec.manifest import Source

ENTRY_POINTS = "ashore.semantics"
"""The group of entry points whose modules are imported before the first look-up, so that they can call `describe`."""

Names: TypeAlias = str | Sequence[str]
Role: TypeAlias = Literal["input", "constant", "target"]
_Getter = TypeVar("_Getter", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """What a property means."""

    kind: str | None = None
    """From the vocabulary of kinds, or ``custom/…``."""

    unit: str | Sequence[str] | Mapping[str, str] | None = None
    """One unit, one for each element, or ``{"revolute": "rad", "prismatic": "m"}`` for joints."""

    frame: str | None = None
    names: tuple[Names, ...] = ()
    """For the last axes, outermost first: names, or the attribute of the entity that has them, as ``"joint_names"``, or
    several, of which the first that is there counts, as ``"sensor_names|body_names"``."""

    source: Source | None = None
    role: Role = "input"
    """``"constant"``: a setting of the robot, frozen into the package. ``"target"``: what actions write."""

    finite: bool = True
    description: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        """Refuse what no port could be, where it is written down."""
        units = tuple(self.unit.values()) if isinstance(self.unit, Mapping) else self.unit
        given = (units,) if isinstance(units, str) else tuple(units or ())
        if self.kind is not None and (problem := kind_problem(self.kind, given)):
            raise InputError(f"describe: {problem}")


Described: TypeAlias = Meaning | Callable[[Any], Meaning]
"""A meaning, or what gives it for a certain object (a sensor that can be of several types)."""

_REGISTRY: dict[tuple[str, str], Described] = {}
_MARK = "__ashore_meaning__"
_loaded = False


def describe(owner: type | str, name: str, meaning: Described | None = None, **about: Any) -> None:
    """Say what a property of a class means.

    Args:
        owner: the class, or its full name as text, such as ``"mypackage.data.MyRobotData"``.
        name: of the property.
        meaning: a `Meaning`, or a function that gives one for the object; or, instead of it:
        about: the fields of `Meaning`.
    """
    if (meaning is None) == (not about):
        raise InputError(f"describe {name!r}: give a meaning or its fields, one of both")
    _REGISTRY[class_name(owner), name] = meaning or made(about)


def described(**about: Any) -> Callable[[_Getter], _Getter]:
    """Say what a property of your own class means, below its ``@property``.

    Args:
        about: the fields of `Meaning`.
    """
    meaning = made(about)

    def mark(getter: _Getter) -> _Getter:
        setattr(getter, _MARK, meaning)
        return getter

    return mark


def made(about: Mapping[str, Any]) -> Meaning:
    """A meaning of keyword arguments, refusing those that are none."""
    known = [one.name for one in dataclasses.fields(Meaning)]
    for key in about:
        if key not in known:
            raise InputError(f"describe: unknown argument {key!r}; there are {known}")
    return Meaning(**about)


def class_name(owner: type | str) -> str:
    """What a class is called here."""
    return owner if isinstance(owner, str) else f"{owner.__module__}.{owner.__qualname__}"


def meaning_of(thing: object, name: str) -> Meaning | None:
    """What a property of an object means, or None where nobody said it."""
    _load_entry_points()
    for owner in type(thing).__mro__:
        getter = getattr(vars(owner).get(name), "fget", None)
        found = getattr(getter, _MARK, None) or _REGISTRY.get((class_name(owner), name))
        if found is not None:
            return found if isinstance(found, Meaning) else found(thing)
    return None


def _load_entry_points() -> None:
    global _loaded
    if _loaded:
        return
    _loaded = True
    from importlib.metadata import entry_points

    for one in entry_points(group=ENTRY_POINTS):
        one.load()
