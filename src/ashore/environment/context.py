"""The context manager: everything that was registered about one environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from ashore.environment.components import Component, Connection, Group, Input, Memory, Output
from ashore.errors import InputError

Hidden: TypeAlias = Callable[[], torch.Tensor | Sequence[torch.Tensor] | None]

RESERVED = ("actions", "obs")
"""Outputs that every file has by itself."""


class ContextManager:
    """Holds the components of an environment, and refuses names that would collide."""

    def __init__(self) -> None:
        self._components: list[Component] = []
        self._connections: list[Connection] = []
        self._groups: list[Group] = []
        self._modules: list[torch.nn.Module] = []
        self._hidden: list[Hidden] = []

    def add_component(self, component: Component | Connection) -> None:
        """Add one component."""
        if isinstance(component, Connection):
            self._connections.append(component)
            return
        if not isinstance(component, Input | Output):
            raise InputError(
                f"add_component: expected an Input, Output, Memory or Connection, got {type(component).__name__}"
            )
        self._check_free(component)
        self._components.append(component)

    def add_components(self, components: Sequence[Component | Connection]) -> None:
        """Add several components."""
        for component in components:
            self.add_component(component)

    def add_group(self, group: Group) -> None:
        """Add a group, with the groups in it."""
        if not isinstance(group, Group):
            raise InputError(f"add_group: expected a Group, got {type(group).__name__}")
        before = list(self._components), list(self._groups)
        try:
            self._add_group(group)
        except InputError:
            self._components, self._groups = before
            raise

    def _add_group(self, group: Group) -> None:
        if group.name in {one.name for one in (*self._groups, *self._components)}:
            raise InputError(f"the name {group.name!r} is taken already")
        for item in group.items:
            if isinstance(item, Group):
                self._add_group(item)
            else:
                self.add_component(item)
        self._groups.append(group)

    def add_module(self, module: torch.nn.Module) -> None:
        """Say that the observations use a module. Its weights are found anyway; it is put in evaluation mode."""
        if not isinstance(module, torch.nn.Module):
            raise InputError(f"add_module: expected a torch module, got {type(module).__name__}")
        if all(module is not known for known in self._modules):
            self._modules.append(module)

    def add_hidden(self, get_hidden_states: Hidden) -> None:
        """Name the hidden states of an actor, which may not be there before it was called."""
        self._hidden.append(get_hidden_states)

    @property
    def modules(self) -> tuple[torch.nn.Module, ...]:
        """The modules that were added."""
        return tuple(self._modules)

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups that were added."""
        return tuple(self._groups)

    def get_input_components(self) -> list[Input]:
        """Inputs and memories."""
        return [one for one in self._all() if isinstance(one, Input)]

    def get_output_components(self) -> list[Output]:
        """Outputs and memories."""
        return [one for one in self._all() if isinstance(one, Output)]

    def get_memory_components(self) -> list[Memory]:
        """Memories, with the hidden states that are there now."""
        return [one for one in self._all() if isinstance(one, Memory)]

    def get_connection_components(self) -> list[Connection]:
        """Connections."""
        return list(self._connections)

    def get_component_by_name(self, name: str) -> Component | None:
        """The component that has a name in the file, or None."""
        for one in self._all():
            if (isinstance(one, Input) and one.input_name == name) or (
                isinstance(one, Output) and one.output_name == name
            ):
                return one
        return None

    def read_inputs(self) -> None:
        """Read every input from the environment."""
        for one in self.get_input_components():
            one.read()

    def write_connections(self) -> None:
        """Hand on what connections hand on."""
        for one in self._connections:
            one.write()

    def get_inputs(self, to_numpy: bool = False) -> dict[str, torch.Tensor] | dict[str, np.ndarray]:
        """Name in the file -> what was read last."""
        if to_numpy:
            return {one.input_name: one.input_data_numpy for one in self.get_input_components()}
        return {one.input_name: one.input_data for one in self.get_input_components()}

    def get_outputs(self, to_numpy: bool = False) -> dict[str, torch.Tensor] | dict[str, np.ndarray]:
        """Name in the file -> what the environment has now."""
        if to_numpy:
            return {one.output_name: one.value_numpy for one in self.get_output_components()}
        return {one.output_name: one.value for one in self.get_output_components()}

    def get_input_names(self) -> list[str]:
        """Names of inputs and memories in the file."""
        return [one.input_name for one in self.get_input_components()]

    def get_output_names(self) -> list[str]:
        """Names of outputs and memories in the file."""
        return [one.output_name for one in self.get_output_components()]

    @property
    def metadata(self) -> dict[str, Any]:
        """Name of a component or group -> its metadata, where it has any."""
        named: list[Component | Group] = [*self._components, *self._groups]
        return {one.name: one.metadata for one in named if one.metadata is not None}

    def _all(self) -> list[Component]:
        return [*self._components, *hidden_memories(self._hidden)]

    def _check_free(self, component: Component) -> None:
        name, known = component.name, [one for one in self._components if one.name == component.name]
        if not isinstance(component, Memory) and name in RESERVED:
            raise InputError(f"the name {name!r} belongs to an output that every file has; choose another")
        # Memory has names of its own in the file, so it may share one.
        for one in known:
            if isinstance(one, Memory) == isinstance(component, Memory):
                raise InputError(f"the name {name!r} is taken already")
        if any(group.name == name for group in self._groups):
            raise InputError(f"the name {name!r} is taken already, by a group")


def hidden_memories(getters: Sequence[Hidden]) -> list[Memory]:
    """A memory for each hidden state that is there now."""
    found: list[Memory] = []
    for state in (get() for get in getters):
        for tensor in () if state is None else [state] if isinstance(state, torch.Tensor) else state:
            index = len(found)
            if not isinstance(tensor, torch.Tensor):
                raise InputError(f"hidden state {index}: expected a tensor, got {type(tensor).__name__}")
            found.append(Memory(f"actor_hidden_state_{index}", lambda tensor=tensor: tensor))
    return found
