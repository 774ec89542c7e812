"""What a person registers about an environment: what goes in, what comes out, what is remembered.

Each component has a callback that reads its tensor from the environment. Nothing is read when it is made, so that it
may name a tensor that only exists after the first call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from ashore.capture.contract import PortInfo
from ashore.capture.lines import Line, user_line
from ashore.errors import InputError
from ashore.spec import RATES, Rate

Getter: TypeAlias = Callable[[], torch.Tensor]

STEP_COUNT = "ctx.step_count"
"""The input of the one-file form that counts ticks."""


class Component:
    """Something with a name, a callback and metadata."""

    def __init__(self, name: str, get_from_env_cb: Getter, metadata: Any = None) -> None:
        """Describe a tensor of the environment.

        Args:
            name: what it is called in the file.
            get_from_env_cb: reads it: the tensor itself, a part of it, or something computed from it.
            metadata: any JSON value, kept in the file.
        """
        _check_name(name)
        if not callable(get_from_env_cb):
            raise InputError(f"{name!r}: expected a callback that gives a tensor, got {type(get_from_env_cb).__name__}")
        self._name, self._get, self._metadata = name, get_from_env_cb, check_json(f"{name!r}: metadata", metadata)
        self._grouped = False
        self.line: Line = user_line()
        """Where it was made."""

        self.info: PortInfo | None = None
        """What it means, where that is known better than its name and metadata say it."""

    @property
    def name(self) -> str:
        """Its name, with those of the groups it is in."""
        return self._name

    @property
    def metadata(self) -> Any:
        """What the user said about it."""
        return self._metadata

    @property
    def get_from_env_cb(self) -> Getter:
        """The callback."""
        return self._get

    @property
    def value(self) -> torch.Tensor:
        """What the environment has now."""
        return check_tensor(self._name, self._get())

    @property
    def value_numpy(self) -> np.ndarray:
        """The same as an array of its own."""
        return self.value.detach().cpu().numpy().copy()

    def join(self, group: str) -> None:
        """Put the name of a group before its own."""
        if self._grouped:
            raise InputError(f"{self._name!r} is in a group already, and cannot be in {group!r} too")
        self._grouped = True
        self.prefix(group)

    def prefix(self, group: str) -> None:
        """Put the name of a group that holds its group before its own."""
        name = f"{group}.{self._name}"
        _check_name(name)
        self._name = name


class Input(Component):
    """A tensor that comes from outside: from sensors, an estimator, an operator."""

    _data: torch.Tensor | None = None
    rates: Collection[Rate] = RATES
    """At which rates it is read."""

    @property
    def input_name(self) -> str:
        """Its name as an input of the file."""
        return self.name

    @property
    def input_data(self) -> torch.Tensor:
        """What was read last."""
        return self.value if self._data is None else self._data

    @property
    def input_data_numpy(self) -> np.ndarray:
        """The same as an array of its own."""
        return self.input_data.detach().cpu().numpy().copy()

    def read(self) -> None:
        """Read it from the environment."""
        self.take(self.value.clone())

    def take(self, data: torch.Tensor) -> None:
        """Say what was read."""
        self._data = data


class Output(Component):
    """A tensor that the environment computes and a robot needs."""

    @property
    def output_name(self) -> str:
        """Its name as an output of the file."""
        return self.name


class Memory(Input, Output):
    """A tensor that the environment keeps from one call to the next. Naming it is enough: the rest is found."""

    def __init__(self, name: str, get_from_env_cb: Getter) -> None:
        """Describe a tensor that is kept."""
        super().__init__(name, get_from_env_cb)

    @property
    def input_name(self) -> str:
        """Its name as an input of the file."""
        return f"memory.{self.name}.in"

    @property
    def output_name(self) -> str:
        """Its name as an output of the file."""
        return f"memory.{self.name}.out"


class Connection:
    """Hands a value on before observations are computed: ``setter(getter())``."""

    def __init__(self, name: str, getter: Getter, setter: Callable[[torch.Tensor], object]) -> None:
        """Connect a source to a place in the environment."""
        _check_name(name)
        for what, given in (("getter", getter), ("setter", setter)):
            if not callable(given):
                raise InputError(f"connection {name!r}: expected a {what} to call, got {type(given).__name__}")
        self._name, self._getter, self._setter = name, getter, setter

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    def write(self) -> None:
        """Hand the value on."""
        self._setter(self._getter())


class Group:
    """Components that belong together; their names get the name of the group before them."""

    def __init__(self, name: str, items: Sequence[Component | Group], metadata: Any = None) -> None:
        """Put components, or groups of them, together."""
        _check_name(name)
        self._name, self._items = name, list(items)
        self._metadata = check_json(f"group {name!r}: metadata", metadata)
        self._grouped = False
        for item in self._items:
            if not isinstance(item, Component | Group):
                raise InputError(f"group {name!r}: expected inputs, outputs or groups, got {type(item).__name__}")
        for item in self._items:
            item.join(name)

    @property
    def name(self) -> str:
        """Its name, with those of the groups it is in."""
        return self._name

    @property
    def items(self) -> list[Component | Group]:
        """What is in it."""
        return self._items

    @property
    def metadata(self) -> Any:
        """What the user said about it."""
        return self._metadata

    def join(self, group: str) -> None:
        """Put it into another group."""
        if self._grouped:
            raise InputError(f"group {self._name!r} is in a group already, and cannot be in {group!r} too")
        self._grouped = True
        self.prefix(group)

    def prefix(self, group: str) -> None:
        """Put the name of a group before its own, and before those of all that is in it."""
        self._name = f"{group}.{self._name}"
        for item in self._items:
            item.prefix(group)


def check_json(where: str, value: Any) -> Any:
    """A copy of a JSON value; refuses what JSON does not have, before anything is written."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{where}: expected a JSON value, got {value!r}: {error}") from None


def check_tensor(name: str, value: Any) -> torch.Tensor:
    """Refuse what a callback must not give."""
    if not isinstance(value, torch.Tensor):
        raise InputError(f"{name!r}: its callback gave {type(value).__name__}, expected a tensor")
    return value


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name or name != name.strip() or "/" in name:
        raise InputError(f"expected a name without '/' and without blanks around it, got {name!r}")
    if name == STEP_COUNT or name.startswith("memory."):
        raise InputError(f"{name!r}: this name belongs to the file itself; choose another")
