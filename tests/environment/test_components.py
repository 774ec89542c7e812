"""What can be registered about an environment, and every way in which that is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ashore.environment import (
    Connection,
    ContextManager,
    ExportableActor,
    Group,
    Input,
    Memory,
    Output,
    add_actor_memory,
    make_exportable_actor,
)
from ashore.errors import InputError


def ones() -> torch.Tensor:
    return torch.ones(1, 2)


def refused(message: str) -> Any:
    """An input error that says this, word for word."""
    import re

    return pytest.raises(InputError, match=re.escape(message))


# --- one component ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Input, Output, Memory])
@pytest.mark.parametrize("name", ["", " a", "a ", "a/b", 3, None])
def test_a_name_that_no_file_can_have_is_refused(kind: Any, name: Any) -> None:
    with refused(f"expected a name without '/' and without blanks around it, got {name!r}"):
        kind(name, ones)


@pytest.mark.parametrize("kind", [Input, Output, Memory])
@pytest.mark.parametrize("name", ["ctx.step_count", "memory.a.in", "memory.x"])
def test_a_name_that_belongs_to_the_file_is_refused(kind: Any, name: str) -> None:
    with refused(f"{name!r}: this name belongs to the file itself; choose another"):
        kind(name, ones)


def test_groups_and_connections_have_the_same_rules_for_names() -> None:
    with refused("got 'a/b'"):
        Group("a/b", [])
    with refused("got 'a/b'"):
        Connection("a/b", ones, lambda _: None)
    with refused("belongs to the file itself"):
        Group("ctx", [Input("step_count", ones)])
    with refused("belongs to the file itself"):
        Group("memory", [Input("x", ones)])


@pytest.mark.parametrize("kind", [Input, Output, Memory])
def test_a_callback_that_is_none_is_refused(kind: Any) -> None:
    with refused("'x': expected a callback that gives a tensor, got Tensor"):
        kind("x", ones())


def test_a_connection_needs_two_callables() -> None:
    with refused("'c'"):
        Connection("c", ones(), lambda _: None)  # type: ignore[arg-type]
    with refused("'c'"):
        Connection("c", ones, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [None, 1.0, np.zeros(2), [1.0]])
def test_a_callback_that_gives_no_tensor_is_refused_when_it_is_read(value: Any) -> None:
    one = Input("x", lambda: value)
    with refused(f"'x': its callback gave {type(value).__name__}, expected a tensor"):
        one.read()
    with refused("'x': its callback gave"):
        _ = Output("x", lambda: value).value
    with refused("'x': its callback gave"):
        _ = Memory("x", lambda: value).value_numpy


@pytest.mark.parametrize("value", [object(), {1, 2}, float("nan"), {"a": torch.zeros(1)}, b"a", [np.float32(1)]])
def test_metadata_that_is_not_json_is_refused_where_it_is_given(value: Any) -> None:
    with refused("'x': metadata: expected a JSON value, got "):
        Input("x", ones, metadata=value)
    with refused("'y': metadata: expected a JSON value, got "):
        Output("y", ones, metadata=value)
    with refused("group 'g': metadata: expected a JSON value, got "):
        Group("g", [], metadata=value)


@pytest.mark.parametrize("value", [None, "text", 3, 2.5, True, [1, "a", None], {"a": {"b": [1]}}])
def test_metadata_of_any_json_type_is_kept(value: Any) -> None:
    manager = ContextManager()
    manager.add_component(Input("x", ones, metadata=value))
    assert manager.metadata == ({} if value is None else {"x": value})


def test_metadata_that_changes_afterwards_changes_nothing() -> None:
    about: dict[str, Any] = {"a": [1]}
    one = Input("x", ones, metadata=about)
    about["a"].append(object())
    assert one.metadata == {"a": [1]}


# --- names that are taken --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second"), [(Input, Input), (Output, Output), (Input, Output), (Memory, Memory)])
def test_a_name_is_taken_once(first: Any, second: Any) -> None:
    manager = ContextManager()
    manager.add_component(first("x", ones))
    with refused("the name 'x' is taken already"):
        manager.add_component(second("x", ones))


@pytest.mark.parametrize("other", [Input, Output])
def test_memory_may_share_a_name_since_the_file_calls_it_otherwise(other: Any) -> None:
    manager = ContextManager()
    manager.add_components([other("x", ones), Memory("x", ones)])
    assert manager.get_input_names()[-1] == "memory.x.in"
    assert manager.get_output_names()[-1] == "memory.x.out"


@pytest.mark.parametrize("name", ["actions", "obs"])
def test_names_of_outputs_that_every_file_has_are_left_to_them(name: str) -> None:
    for kind in (Input, Output):
        with refused(f"the name {name!r} belongs to an output that every file has; choose another"):
            ContextManager().add_component(kind(name, ones))
    ContextManager().add_component(Memory(name, ones))


def test_groups_and_components_share_their_names() -> None:
    manager = ContextManager()
    manager.add_group(Group("arm", [Input("q", ones)]))
    with refused("the name 'arm' is taken already, by a group"):
        manager.add_component(Input("arm", ones))
    with refused("the name 'arm.q' is taken already"):
        manager.add_component(Output("arm.q", ones))
    with refused("the name 'arm' is taken already"):
        manager.add_group(Group("arm", [Input("v", ones)]))


def test_a_group_that_is_refused_leaves_nothing_behind() -> None:
    manager = ContextManager()
    manager.add_component(Input("arm.v", ones))
    with refused("the name 'arm.v' is taken already"):
        manager.add_group(Group("arm", [Input("q", ones), Output("v", ones)]))
    assert manager.get_input_names() == ["arm.v"]
    assert manager.groups == ()


def test_what_is_no_component_is_refused() -> None:
    manager = ContextManager()
    with refused("add_component: expected an Input, Output, Memory or Connection, got Group"):
        manager.add_component(Group("g", []))  # type: ignore[arg-type]
    with refused("add_component: expected an Input, Output, Memory or Connection, got str"):
        manager.add_component("x")  # type: ignore[arg-type]
    with refused("add_group: expected a Group, got Input"):
        manager.add_group(Input("x", ones))  # type: ignore[arg-type]
    with refused("add_module: expected a torch module, got function"):
        manager.add_module(ones)  # type: ignore[arg-type]
    with refused("group 'g'"):
        Group("g", ["x"])  # type: ignore[list-item]


# --- groups ----------------------------------------------------------------------------------------------------------


def test_nested_groups_prefix_the_names_of_everything_in_them() -> None:
    manager = ContextManager()
    inner = Group("joints", [Input("pos", ones), Memory("last", ones)], metadata={"joint_names": ["a", "b"]})
    manager.add_group(Group("obj", [Group("robot", [inner, Output("torque", ones)]), Input("time", ones)]))
    assert manager.get_input_names() == ["obj.robot.joints.pos", "memory.obj.robot.joints.last.in", "obj.time"]
    assert manager.get_output_names() == ["memory.obj.robot.joints.last.out", "obj.robot.torque"]
    assert {group.name for group in manager.groups} == {"obj", "obj.robot", "obj.robot.joints"}
    assert manager.metadata == {"obj.robot.joints": {"joint_names": ["a", "b"]}}
    assert manager.get_component_by_name("obj.robot.joints.pos") is inner.items[0]
    assert manager.get_component_by_name("memory.obj.robot.joints.last.in") is inner.items[1]
    assert manager.get_component_by_name("pos") is None


def test_nothing_is_in_two_groups() -> None:
    item = Input("q", ones)
    group = Group("a", [item])
    with refused("'a.q' is in a group already, and cannot be in 'b' too"):
        Group("b", [item])
    Group("c", [group])
    with refused("group 'c.a' is in a group already, and cannot be in 'd' too"):
        Group("d", [group])
    assert item.name == "c.a.q"


def test_an_item_that_is_twice_in_a_group_is_refused() -> None:
    item = Input("q", ones)
    with refused("'a.q' is in a group already, and cannot be in 'a' too"):
        Group("a", [item, item])


# --- reading ---------------------------------------------------------------------------------------------------------


def test_inputs_are_what_was_read_last_and_outputs_are_what_is_there_now() -> None:
    tensor, manager = torch.zeros(1, 2), ContextManager()
    manager.add_components([Input("x", lambda: tensor), Output("y", lambda: tensor), Memory("m", lambda: tensor)])
    manager.read_inputs()
    tensor += 1.0
    assert {name: value.tolist() for name, value in manager.get_inputs().items()} == {
        "x": [[0.0, 0.0]],
        "memory.m.in": [[0.0, 0.0]],
    }
    assert {name: value.tolist() for name, value in manager.get_outputs(to_numpy=True).items()} == {
        "y": [[1.0, 1.0]],
        "memory.m.out": [[1.0, 1.0]],
    }
    arrays = manager.get_inputs(to_numpy=True)
    assert all(isinstance(value, np.ndarray) for value in arrays.values())
    arrays["x"][:] = 7.0  # an array of its own
    assert manager.get_inputs(to_numpy=True)["x"].tolist() == [[0.0, 0.0]]


def test_a_connection_hands_on_what_it_reads() -> None:
    manager, got = ContextManager(), list[torch.Tensor]()
    manager.add_component(Connection("c", ones, got.append))
    assert manager.get_input_names() == []
    assert [one.name for one in manager.get_connection_components()] == ["c"]
    manager.write_connections()
    assert [one.tolist() for one in got] == [[[1.0, 1.0]]]


def test_a_component_knows_the_line_that_made_it() -> None:
    one = Input("x", ones)
    assert one.line.file == __file__
    assert one.line.text == 'one = Input("x", ones)'


# --- actors ----------------------------------------------------------------------------------------------------------


def test_hidden_states_are_memory_as_soon_as_they_are_there() -> None:
    manager, states = ContextManager(), list[torch.Tensor]()
    add_actor_memory(manager, lambda: tuple(states) or None)
    assert manager.get_memory_components() == []
    states.extend([torch.zeros(1), torch.ones(1)])
    assert manager.get_input_names() == ["memory.actor_hidden_state_0.in", "memory.actor_hidden_state_1.in"]
    states[0] = torch.full((1,), 4.0)
    assert manager.get_memory_components()[0].value.item() == 4.0


def test_one_hidden_state_may_be_a_tensor_by_itself() -> None:
    manager = ContextManager()
    add_actor_memory(manager, ones)
    assert manager.get_output_names() == ["memory.actor_hidden_state_0.out"]


def test_hidden_states_of_two_actors_do_not_share_a_name() -> None:
    manager = ContextManager()
    add_actor_memory(manager, ones)
    try:
        add_actor_memory(manager, lambda: torch.zeros(1, 2))
    except InputError as error:
        assert "actor_hidden_state_0" in str(error)
        return
    names = manager.get_input_names()
    assert len(set(names)) == 2, names


def test_what_is_no_hidden_state_is_refused() -> None:
    manager = ContextManager()
    with refused("add_actor_memory: expected a callable, got Tensor"):
        add_actor_memory(manager, ones())  # type: ignore[arg-type]
    add_actor_memory(manager, lambda: (ones(), None))  # type: ignore[arg-type, return-value]
    with refused("hidden state 1: expected a tensor, got NoneType"):
        manager.get_memory_components()


def test_any_callable_becomes_an_actor() -> None:
    class Stateful(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.state = torch.ones(1, 1)
            self.told: list[bool] = []

        def forward(self, obs: torch.Tensor) -> torch.Tensor:
            return obs + self.state

        def reset(self, dones: torch.Tensor) -> None:
            self.told += dones.tolist()

        def get_state(self) -> tuple[torch.Tensor, ...]:
            return (self.state,)

    inner = Stateful()
    actor = make_exportable_actor(inner)
    assert isinstance(actor, ExportableActor)
    assert make_exportable_actor(actor) is actor
    assert actor(torch.ones(1, 1)).item() == 2.0
    actor.reset(torch.tensor([True, False]))
    assert inner.told == [True, False]
    assert actor.get_state() == (inner.state,)
    assert not actor.eval()._actor.training  # type: ignore[union-attr]
    plain = make_exportable_actor(lambda obs: obs * 3.0)
    assert plain(torch.ones(1)).item() == 3.0
    assert plain.get_state() is None
    assert plain.reset(torch.tensor([True])) is None
    with refused("make_exportable_actor: expected a module or another callable, got Tensor"):
        make_exportable_actor(torch.zeros(1))  # type: ignore[arg-type]
