"""What other packages add to Ashore, found by name: entry points.

A distribution adds, say, a backend by a line of its own metadata,

    [project.entry-points."ashore.backends"]
    mine = "my_package.backend:MyBackend"

and nothing here has to know of it. The metadata of what is installed is read only when somebody asks for a name that
Ashore does not have, since reading it takes longer than starting does.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ashore.errors import AshoreError, suggestion

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def load_object(place: str) -> Any:
    """Import what a ``module:attribute`` names."""
    module, _, attribute = place.partition(":")
    return getattr(importlib.import_module(module), attribute)


@dataclass(frozen=True)
class Plugins:
    """One kind of thing that others can add."""

    group: str
    """The entry-point group, such as ``ashore.backends``."""

    noun: str
    """What an error calls one of them."""

    error: type[AshoreError]

    def installed(self, own: Collection[str], aliases: Collection[str] = ()) -> dict[str, EntryPoint]:
        """What is installed, by name; a name that Ashore has itself, or that two packages claim, is an error.

        Args:
            own: the names that Ashore has itself.
            aliases: what else they are called.
        """
        from importlib.metadata import entry_points

        found: dict[str, EntryPoint] = {}
        for entry in entry_points(group=self.group):
            if entry.name in own or entry.name in aliases:
                raise self.error(
                    f"{_owner(entry)} adds a {self.noun} {entry.name!r} ({entry.value}), and Ashore has one of that "
                    f"name itself; rename it, or uninstall {_owner(entry)}"
                )
            other = found.setdefault(entry.name, entry)
            if other.value != entry.value:
                raise self.error(
                    f"{_owner(other)} and {_owner(entry)} both add a {self.noun} {entry.name!r} "
                    f"({other.value}, {entry.value}); uninstall one of them"
                )
        return found

    def find(self, name: str, own: Collection[str], aliases: Collection[str] = ()) -> EntryPoint:
        """The one of that name, which Ashore does not have itself. Nothing of it is imported."""
        installed = self.installed(own, aliases)
        if name not in installed:
            known = sorted({*own, *installed})
            raise self.error(f"unknown {self.noun} {name!r}{suggestion(name, known, f'; this Ashore has {known}')}")
        return installed[name]

    def load(self, name: str, own: Collection[str], aliases: Collection[str] = ()) -> Any:
        """Import the one of that name, and give what its entry point names."""
        entry = self.find(name, own, aliases)
        try:
            return entry.load()
        except Exception as error:  # the module is somebody else's, and may raise anything at all
            raise self.error(
                f"the {self.noun} {name!r} of {_owner(entry)} ({entry.value}) cannot be loaded: "
                f"{type(error).__name__}: {error}"
            ) from error


def _owner(entry: EntryPoint) -> str:
    return "an installed package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
