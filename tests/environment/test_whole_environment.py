"""Every part that people put into an environment: each alone exact or refused by name, and all of them together."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import ashore
from ashore.environment import (
    Connection,
    ExportableActor,
    Group,
    Input,
    Memory,
    Output,
    SessionWrapper,
    add_actor_memory,
    evaluate,
    export_environment_as_onnx,
    make_exportable_actor,
)
from ashore.errors import ExportError
from environment.worlds import (
    FAST,
    QUIET,
    Adapter,
    Read,
    World,
    check_exact,
    check_one_file,
    check_package,
    export_world,
    linear,
    refuse,
    run_alone,
    same,
)


@torch.jit.script
def wrapped(angle: torch.Tensor, limit: float) -> torch.Tensor:
    turns = torch.floor((angle + limit) / (2.0 * limit))
    return angle - 2.0 * limit * turns


class GruActor(ExportableActor):
    """Its hidden state is there only after the first call."""

    def __init__(self, width: int) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.cell = torch.nn.GRU(width, 4)
        self.head = torch.nn.Linear(4, 2)
        self.hidden: torch.Tensor | None = None

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        seen, self.hidden = self.cell(obs.unsqueeze(0), self.hidden)
        return torch.tanh(self.head(seen.squeeze(0)))

    def reset(self, dones: torch.Tensor) -> None:
        if self.hidden is not None:
            self.hidden[:, dones] = 0.0

    def get_state(self) -> tuple[torch.Tensor, ...] | None:
        return None if self.hidden is None else (self.hidden,)


# --- the parts -------------------------------------------------------------------------------------------------------


class Ring(World):
    """A history of three positions, written at a place that Python counts."""

    def make(self) -> None:
        self.ring, self.place = torch.zeros(self.rows, 3, 2), 0

    def reset_parts(self) -> None:
        self.ring.zero_()
        self.place = 0

    def observe(self) -> torch.Tensor:
        self.ring[:, self.place] = self.q
        self.place = (self.place + 1) % 3
        return torch.cat([super().observe(), self.ring.flatten(1)], dim=-1)


class Shifted(World):
    """The same history, shifted in place."""

    def make(self) -> None:
        self.history = torch.zeros(self.rows, 3, 2)

    def reset_parts(self) -> None:
        self.history.zero_()

    def observe(self) -> torch.Tensor:
        self.history[:, :-1] = self.history[:, 1:].clone()
        self.history[:, -1] = self.q
        return torch.cat([super().observe(), self.history.flatten(1)], dim=-1)


def rebind(world: Filtered) -> None:
    world.smooth = 0.8 * world.smooth + (1.0 - 0.8) * world.target


def lerp(world: Filtered) -> None:
    world.smooth.lerp_(world.target, 0.2)


def slice_write(world: Filtered) -> None:
    world.smooth[:] = 0.8 * world.smooth + 0.2 * world.target


def multiply_add(world: Filtered) -> None:
    world.smooth.mul_(0.8).add_(world.target, alpha=0.2)


def copy_write(world: Filtered) -> None:
    world.smooth.copy_(0.8 * world.smooth + 0.2 * world.target)


def both_written(world: Filtered) -> None:
    world.smooth[:] = 0.8 * world.smooth + 0.2 * world.target
    world.torque[:] = world.smooth


SPELLINGS: list[Callable[[Any], None]] = [rebind, lerp, slice_write, multiply_add, copy_write, both_written]


class Filtered(World):
    """A low-pass filter over the actions, at the substep rate."""

    spelling: ClassVar[Callable[[Any], None]] = rebind

    def make(self) -> None:
        self.smooth = torch.full((self.rows, 2), 0.25)

    def reset_parts(self) -> None:
        if type(self).spelling is rebind:
            self.smooth = torch.full((self.rows, 2), 0.25)
        else:
            self.smooth[:] = 0.25

    def apply_actions(self) -> None:
        type(self).spelling(self)
        if type(self).spelling is not both_written:
            self.torque = self.smooth * 1.0


def spelled(spelling: Callable[[Any], None]) -> type[Filtered]:
    return type(f"Filtered_{spelling.__name__}", (Filtered,), {"spelling": staticmethod(spelling)})


class Delayed(World):
    """Targets arrive two substeps late."""

    def make(self) -> None:
        self.waiting = torch.zeros(self.rows, 2, 2)

    def reset_parts(self) -> None:
        self.waiting.zero_()

    def apply_actions(self) -> None:
        self.torque = self.waiting[:, 0].clone()
        self.waiting[:, 0] = self.waiting[:, 1].clone()
        self.waiting[:, 1] = self.target


class DelayedByDeque(World):
    """The same with a Python queue, which the same tensor joins several times."""

    def make(self) -> None:
        self.waiting = deque([torch.zeros(self.rows, 2) for _ in range(2)])

    def reset_parts(self) -> None:
        self.waiting = deque([torch.zeros(self.rows, 2) for _ in range(2)])

    def apply_actions(self) -> None:
        self.waiting.append(self.target)
        self.torque = self.waiting.popleft() * 1.0


class DelayedByCopies(DelayedByDeque):
    """The same, with a tensor of its own for each time."""

    def apply_actions(self) -> None:
        self.waiting.append(self.target.clone())
        self.torque = self.waiting.popleft() * 1.0


class DelayedByList(World):
    """The same with a Python list that is reset in place."""

    def make(self) -> None:
        self.waiting = [torch.zeros(self.rows, 2) for _ in range(2)]

    def reset_parts(self) -> None:
        self.waiting[:] = [torch.zeros(self.rows, 2) for _ in range(2)]

    def apply_actions(self) -> None:
        self.waiting.append(self.target.clone())
        self.torque = self.waiting.pop(0) + 0.0


class Constant(World):
    """A command that nobody changes while it is recorded."""

    def reset_simulation(self) -> None:
        super().reset_simulation()
        self.command[:] = 0.7


class Gain(World):
    """A Python number that changes in the middle of an episode."""

    gain = 1.0

    def reset_parts(self) -> None:
        self.gain = 1.0

    def process_actions(self, actions: torch.Tensor) -> None:
        if self.since_reset == 4:
            self.gain = 0.5
        super().process_actions(actions * self.gain)


class Scripted(World):
    """A scripted function in the observations."""

    def observe(self) -> torch.Tensor:
        return torch.cat([super().observe(), wrapped(self.q * 9.0, 3.14)], dim=-1)


class Encoded(World):
    """A module in the observations."""

    def make(self) -> None:
        torch.manual_seed(9)
        self.encoder = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ELU())

    def observe(self) -> torch.Tensor:
        return torch.cat([super().observe(), self.encoder(torch.cat([self.q, self.qd], dim=-1))], dim=-1)


class Whole(World):
    """Everything that can be exact, at once."""

    spelling = staticmethod(slice_write)

    def make(self) -> None:
        torch.manual_seed(9)
        self.encoder = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ELU())
        self.history = torch.zeros(self.rows, 3, 2)
        self.smooth = torch.full((self.rows, 2), 0.25)
        self.waiting = torch.zeros(self.rows, 2, 2)

    def reset_parts(self) -> None:
        self.history.zero_()
        self.smooth[:] = 0.25
        self.waiting.zero_()

    def reset_simulation(self) -> None:
        super().reset_simulation()
        self.command[:] = 0.7

    def observe(self) -> torch.Tensor:
        self.history[:, :-1] = self.history[:, 1:].clone()
        self.history[:, -1] = self.q
        return torch.cat(
            [
                super().observe(),
                self.history.flatten(1),
                wrapped(self.q * 9.0, 3.14),
                self.encoder(torch.cat([self.q, self.qd], dim=-1)),
                self.smooth,
            ],
            dim=-1,
        )

    def apply_actions(self) -> None:
        self.spelling(self)  # type: ignore[arg-type] # the same attributes
        self.torque = self.waiting[:, 0] - 0.1 * self.qd
        self.waiting[:, 0] = self.waiting[:, 1].clone()
        self.waiting[:, 1] = self.smooth


class WholeElsewhere(Whole):
    """The same with another command."""

    def reset_simulation(self) -> None:
        super().reset_simulation()
        self.command[:] = -0.4 + 0.1 * self.noise(1)


def width_of(make: Callable[..., Any]) -> int:
    return make(seed=0).observe().shape[-1]


def actor_for(make: Callable[..., Any]) -> Callable[[], Any]:
    width = width_of(make)
    return lambda: linear(3, width)


# --- each part alone -------------------------------------------------------------------------------------------------

EXACT = [World, Shifted, *map(spelled, SPELLINGS), Delayed, DelayedByCopies, DelayedByList, Scripted, Encoded]


@pytest.mark.parametrize("make", EXACT, ids=lambda make: make.__name__)
def test_a_part_alone_is_exact_at_both_rates(make: type[World], tmp_path: Path) -> None:
    check_exact(make, actor_for(make), tmp_path)


def test_a_ring_with_a_python_pointer_is_refused_by_name(tmp_path: Path) -> None:
    findings = refuse(Ring(seed=1), actor_for(Ring)(), tmp_path)
    assert findings[0].name in ("python_value", "control_flow")
    assert findings[0].line is not None
    assert findings[0].line.text == "self.ring[:, self.place] = self.q"
    assert findings[0].line.file == __file__


def test_a_queue_that_one_tensor_joins_several_times_is_refused_by_name(tmp_path: Path) -> None:
    findings = refuse(DelayedByDeque(seed=1), linear(), tmp_path)
    assert findings[0].name == "control_flow"
    assert findings[0].line is not None
    assert findings[0].line.text == "self.torque = self.waiting.popleft() * 1.0"


def test_a_python_gain_that_changes_is_refused_by_name(tmp_path: Path) -> None:
    findings = refuse(Gain(seed=1), actor_for(Gain)(), tmp_path)
    assert findings[0].name == "python_value"
    assert findings[0].line is not None
    assert findings[0].line.text == "super().process_actions(actions * self.gain)"


def test_a_command_that_stays_constant_while_recorded_is_an_input_all_the_same(tmp_path: Path) -> None:
    export_world(Constant(seed=1), linear(), tmp_path)
    alone = run_alone(World(seed=2), linear(), 20)
    assert len({float(one.inputs["command"][0, 0]) for one in alone}) > 2
    check_package(tmp_path / "policy", alone)
    check_one_file(tmp_path, alone)


def test_a_gru_whose_state_is_made_on_the_first_call_is_exact(tmp_path: Path) -> None:
    check_exact(World, lambda: GruActor(7), tmp_path)


# --- the whole -------------------------------------------------------------------------------------------------------


def test_the_whole_is_exact_over_two_hundred_decisions_with_resets(tmp_path: Path) -> None:
    width = width_of(Whole)
    package = export_world(Whole(seed=1), GruActor(width), tmp_path, **QUIET, backend="onnx-dynamo")
    for make in (Whole, WholeElsewhere):
        alone = run_alone(make(seed=2), GruActor(width), 200)
        assert sum(one.resets[0] for one in alone) > 20
        check_package(tmp_path / "policy", alone)
        check_one_file(tmp_path, alone)
    assert {"command"} <= set(package.manifest.inputs)


# --- what crosses between the rates ----------------------------------------------------------------------------------


class Controlled(World):
    """A controller that reads its inputs at every substep."""

    def apply_actions(self) -> None:
        self.torque = 20.0 * (self.target - self.q) - 0.5 * self.qd

    def simulate(self) -> None:
        self.qd[:] = 0.9 * self.qd + 0.005 * self.torque + 0.1 * self.noise(2)
        self.q[:] = 0.95 * self.q + 0.05 * self.qd


class Counting(World):
    """A counter of substeps, which a decision starts again."""

    def make(self) -> None:
        self.ticks = torch.zeros(self.rows, 1)

    def reset_parts(self) -> None:
        self.ticks.zero_()

    def process_actions(self, actions: torch.Tensor) -> None:
        super().process_actions(actions)
        self.ticks.zero_()

    def apply_actions(self) -> None:
        self.ticks += 1.0
        self.torque = self.target * self.ticks


class Ramp(World):
    """From one target to the next in equal parts: what the decision finds is what the substeps left."""

    def make(self) -> None:
        self.now, self.part = torch.zeros(self.rows, 2), torch.zeros(self.rows, 2)

    def reset_parts(self) -> None:
        self.now = torch.zeros(self.rows, 2)

    def process_actions(self, actions: torch.Tensor) -> None:
        super().process_actions(actions)
        self.part = (self.target - self.now) / self.decimation
        self.now = self.now * 0.99

    def apply_actions(self) -> None:
        self.now = self.now + self.part
        self.torque = self.now * 2.0


class Felt(Filtered):
    """The observations see what the substeps left in the filter."""

    def observe(self) -> torch.Tensor:
        return torch.cat([super().observe(), self.smooth], dim=-1)


class Timed(World):
    """A clock that never stops, over episodes too: what a reset keeps."""

    def make(self) -> None:
        self.clock = torch.zeros(self.rows, 1)

    def apply_actions(self) -> None:
        self.clock += 0.01
        self.torque = self.target * torch.cos(self.clock)


class Unread(World):
    """An output that is only written by decisions, and never by a substep."""

    outputs: ClassVar[Mapping[str, Read]] = {"target": lambda world: world.target}

    def apply_actions(self) -> None:
        pass


class Lagged(World):
    """Observations with the torque of the last substep."""

    def make(self) -> None:
        self.torque = torch.full((self.rows, 2), 0.4)

    def reset_parts(self) -> None:
        self.torque = torch.full((self.rows, 2), 0.4)

    def observe(self) -> torch.Tensor:
        return torch.cat([super().observe(), self.torque], dim=-1)


@pytest.mark.parametrize("make", [Controlled, Counting, Ramp, Felt, Lagged], ids=lambda make: make.__name__)
def test_what_crosses_between_the_rates_is_exact(make: type[World], tmp_path: Path) -> None:
    check_exact(make, actor_for(make), tmp_path)


@pytest.mark.parametrize(("make", "decimation"), [(Counting, 1), (Felt, 2), (Counting, 5)])
def test_any_decimation_is_exact(make: type[World], decimation: int, tmp_path: Path) -> None:
    kind = type(make.__name__, (make,), {"decimation": decimation})
    package = check_exact(kind, actor_for(kind), tmp_path)
    assert package.manifest.timing is not None
    assert package.manifest.timing.decimation == decimation


def test_an_output_that_only_decisions_write_is_there_at_every_substep(tmp_path: Path) -> None:
    check_exact(Unread, linear, tmp_path)


def test_a_clock_that_resets_keep_starts_where_it_was_and_goes_on(tmp_path: Path) -> None:
    check_exact(Timed, linear, tmp_path)


class Impatient(Filtered):
    """Refuses to go on for ever."""

    taken = 0

    def step(self, actions: torch.Tensor) -> tuple[Any, Any]:
        self.taken += 1
        assert self.taken < 1000, "the recording does not end"
        return super().step(actions)


@pytest.mark.parametrize("episode", [2, 30])
def test_episodes_of_any_length_are_exact(episode: int, tmp_path: Path) -> None:
    kind = type("Episodes", (Impatient,), {"episode": episode})
    export_world(kind(seed=1), linear(), tmp_path)
    alone = run_alone(kind(seed=2), linear(), 3 * episode + 5)
    check_package(tmp_path / "policy", alone)
    check_one_file(tmp_path, alone)


def test_a_recording_of_episodes_of_one_decision_ends(tmp_path: Path) -> None:
    kind = type("Episodes", (Impatient,), {"episode": 1})
    try:
        export_world(kind(seed=1), linear(), tmp_path)
    except ExportError as error:
        assert "self.actions" in str(error)
        return
    alone = run_alone(kind(seed=2), linear(), 5)
    check_package(tmp_path / "policy", alone)
    check_one_file(tmp_path, alone)


class Modes(World):
    """Inputs that are no floats."""

    inputs: ClassVar[Mapping[str, Read]] = {
        **World.inputs,
        "mode": lambda world: world.mode,
        "brake": lambda world: world.brake,
    }

    def make(self) -> None:
        self.mode = torch.zeros(self.rows, dtype=torch.int64)
        self.brake = torch.zeros(self.rows, 1, dtype=torch.bool)
        self.gains = torch.tensor([0.5, 1.0, 2.0])

    def simulate(self) -> None:
        super().simulate()
        self.mode = torch.randint(0, 3, (self.rows,), generator=self.generator)
        self.brake[:] = self.noise(1) > 0.0

    def apply_actions(self) -> None:
        self.torque = torch.where(self.brake, 0.0, self.target * self.gains[self.mode].unsqueeze(-1))


def test_inputs_of_other_dtypes_are_exact(tmp_path: Path) -> None:
    package = check_exact(Modes, linear, tmp_path)
    assert package.manifest.inputs["mode"].dtype == "int64"
    assert package.manifest.inputs["brake"].dtype == "bool"


DONES: dict[str, Callable[[bool], Any]] = {
    "a tensor": lambda done: torch.tensor([[done]]),
    "an array": lambda done: np.array([done]),
    "a number": float,
}


@pytest.mark.parametrize("form", DONES)
def test_a_step_may_say_in_many_ways_that_there_was_a_reset(form: str, tmp_path: Path) -> None:
    def step(self: World, actions: torch.Tensor) -> tuple[Any, Any]:
        obs, done = World.step(self, actions)
        return obs, DONES[form](done)

    check_exact(type("Saying", (World,), {"step": step}), linear, tmp_path)


# --- actors ----------------------------------------------------------------------------------------------------------


class PlainGru(torch.nn.Module):
    """A module that nobody made exportable, with a reset of its own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.cell, self.head = torch.nn.GRUCell(7, 4), torch.nn.Linear(4, 2)
        self.hidden: torch.Tensor | None = None

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        self.hidden = self.cell(obs, self.hidden)
        return self.head(self.hidden)

    def reset(self, dones: torch.Tensor | None = None) -> None:
        self.hidden = None


class Remembering(torch.nn.Module):
    """A buffer that is rebound."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.net = torch.nn.Linear(7, 2)
        self.register_buffer("kept", torch.zeros(1, 2))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        self.kept = 0.5 * self.kept + self.net(obs)
        return torch.tanh(self.kept)

    @torch.jit.export
    def reset(self, dones: torch.Tensor) -> None:
        self.kept = torch.zeros(1, 2)


class Unforgetting(torch.nn.Module):
    """The same without a reset: its memory goes on over episodes."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Remembering()

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.inner(obs)


class Leaky:
    """No module at all."""

    def __init__(self) -> None:
        self.net, self.last = linear(4), torch.zeros(1, 2)

    def __call__(self, obs: torch.Tensor) -> torch.Tensor:
        self.last = 0.9 * self.last + 0.1 * self.net(obs)
        return self.last

    def reset(self, dones: torch.Tensor) -> None:
        self.last = torch.zeros(1, 2)


def function(obs: torch.Tensor) -> torch.Tensor:
    return torch.tanh(obs[:, :2] - 0.3 * obs[:, 5:7])


def scripted() -> Any:
    return torch.jit.script(linear(4))


ACTORS: dict[str, Callable[[], Any]] = {
    "function": lambda: function,
    "scripted": scripted,
    "traced": lambda: torch.jit.trace(linear(4), torch.zeros(1, 7)),
    "wrapped": lambda: make_exportable_actor(linear(4)),
    "recurrent": PlainGru,
    "scripted, with memory": lambda: torch.jit.script(Remembering().eval()),
    "object with memory": Leaky,
    "never reset": lambda: Unforgetting().eval(),
}


@pytest.mark.parametrize("kind", ACTORS)
def test_any_actor_is_exact(kind: str, tmp_path: Path) -> None:
    check_exact(World, ACTORS[kind], tmp_path)


def test_hidden_states_that_are_named_before_they_exist_have_these_names(tmp_path: Path) -> None:
    adapter, actor = Adapter(World(seed=1)), GruActor(7)
    add_actor_memory(adapter.context_manager(), actor.get_state)
    package = export_environment_as_onnx(adapter, actor, tmp_path, **FAST)
    assert "actor_hidden_state_0" in package.manifest.states
    wrapper = SessionWrapper(tmp_path, "policy.onnx", actor, optimize=False)
    assert "memory.actor_hidden_state_0.in" in wrapper.input_names
    assert evaluate(adapter, adapter.context_manager(), wrapper, num_steps=30, verbose=False)[0]
    alone = run_alone(World(seed=2), GruActor(7), 24)
    check_package(tmp_path / "policy", alone)
    check_one_file(tmp_path, alone)


# --- observations ----------------------------------------------------------------------------------------------------


class Groups(World):
    """Observations in two groups, one of which the actor does not need."""

    def observe(self) -> dict[str, torch.Tensor]:
        return {"policy": torch.cat([self.q, self.command], dim=-1), "critic": torch.cat([self.qd, self.actions], -1)}


class ByGroups(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(8)
        self.net = torch.nn.Linear(3, 2)

    def forward(self, obs: dict[str, torch.Tensor]) -> torch.Tensor:
        return self.net(obs["policy"])


class ByBoth(ByGroups):
    def forward(self, obs: dict[str, torch.Tensor]) -> torch.Tensor:
        return self.net(obs["policy"]) + obs["critic"][:, 2:]


@pytest.mark.parametrize("actor", [ByGroups, ByBoth])
def test_observations_in_groups_are_exact(actor: type[torch.nn.Module], tmp_path: Path) -> None:
    package = check_exact(Groups, lambda: actor().eval(), tmp_path)
    assert {"obs.policy", "obs.critic", "actions"} <= set(package.manifest.outputs)


class ParentCalls(World):
    """Its step calls the adapter's own methods, as managers with a back reference do."""

    adapter: Adapter

    def step(self, actions: torch.Tensor) -> tuple[Any, Any]:
        self.adapter.process_actions(actions)
        for _ in range(self.decimation):
            self.adapter.apply_actions()
            self.simulate()
        self.since_reset += 1
        done = self.since_reset >= self.episode
        if done:
            self.since_reset = 0
            self.reset()
        return self.adapter.compute_observations(), done


def test_a_step_that_calls_the_adapters_methods_is_exact(tmp_path: Path) -> None:
    world = ParentCalls(seed=1)
    world.adapter = Adapter(world)
    export_environment_as_onnx(world.adapter, linear(), tmp_path, **FAST)
    alone = run_alone(World(seed=2), linear(), 24)
    check_package(tmp_path / "policy", alone)
    check_one_file(tmp_path, alone)


class Computing(Adapter):
    """An adapter that computes the observations itself."""

    def compute_observations(self) -> torch.Tensor:
        world = self.world
        return torch.cat([world.q, world.qd * 0.5, world.command, world.actions], dim=-1)


class ComputingAll(Computing):
    """And what is done with the actions too."""

    def process_actions(self, actions: torch.Tensor) -> None:
        self.world.actions[:] = actions
        self.world.target = 0.5 * actions + 0.1

    def apply_actions(self) -> None:
        self.world.torque = 3.0 * self.world.target - 0.2


@pytest.mark.parametrize("kind", [Computing, ComputingAll])
def test_an_adapter_that_computes_by_itself_is_exact(kind: type[Adapter], tmp_path: Path) -> None:
    export_environment_as_onnx(kind(World(seed=1)), linear(), tmp_path, **FAST)
    alone = run_alone(World(seed=2), linear(), 24)
    check_package(tmp_path / "policy", alone)
    check_one_file(tmp_path, alone)


def test_nested_groups_prefix_every_name(tmp_path: Path) -> None:
    world = type("Bare", (World,), {"inputs": {}, "outputs": {}})(seed=1)
    adapter = Adapter(world)
    adapter.context_manager().add_group(
        Group(
            "arm",
            [
                Group(
                    "joints",
                    [Input("q", lambda: world.q), Input("qd", lambda: world.qd)],
                    metadata={"joint_names": ["hip", "knee"]},
                ),
                Output("torque", lambda: world.torque),
                Memory("actions", lambda: world.actions),
            ],
        )
    )
    adapter.context_manager().add_component(Input("command", lambda: world.command))
    package = export_environment_as_onnx(adapter, linear(), tmp_path, **FAST)
    assert set(package.manifest.inputs) == {"arm.joints.q", "arm.joints.qd", "command"}
    assert set(package.manifest.outputs) == {"arm.torque", "actions", "obs"}
    assert package.manifest.inputs["arm.joints.q"].element_names == (None, ("hip", "knee"))
    wrapper = SessionWrapper(tmp_path, "policy.onnx", optimize=False)
    assert {"arm.joints.q", "memory.arm.actions.in"} <= set(wrapper.input_names)
    renames = {"arm.joints.q": "q", "arm.joints.qd": "qd", "command": "command"}
    policy = ashore.load(tmp_path / "policy")
    for one in run_alone(World(seed=2), linear(), 24):
        if one.resets[0]:
            policy.reset()
        policy.step({name: one.inputs[renames[name]] for name in policy.step_inputs})
        for _, after in one.ticks:
            same(policy.substep({}), {"arm.torque": after["torque"]}, "tick", 1e-5)


def test_a_connection_is_part_of_what_observations_are_computed_from(tmp_path: Path) -> None:
    class Estimated(World):
        inputs: ClassVar[Mapping[str, Read]] = {
            "measured": lambda world: world.q,
            "command": lambda world: world.command,
        }

        def make(self) -> None:
            self.estimate = torch.zeros(self.rows, 2)

        def observe(self) -> torch.Tensor:
            return torch.cat([self.estimate * 2.0, self.command, self.actions], dim=-1)

        def write(self, value: torch.Tensor) -> None:
            self.estimate[:] = value

        def step(self, actions: torch.Tensor) -> tuple[Any, Any]:
            _, done = super().step(actions)
            self.write(self.q)
            return self.observe(), done

    world = Estimated(seed=1)
    world.write(world.q)
    adapter = Adapter(world)
    adapter.context_manager().add_component(Connection("estimate", lambda: world.q, world.write))
    export_environment_as_onnx(adapter, linear(0, 5), tmp_path, **FAST)
    policy = ashore.load(tmp_path / "policy")
    for value in (0.2, -0.5):
        measured, command = np.full((1, 2), value, np.float32), np.full((1, 1), 0.1, np.float32)
        policy.reset()
        got = policy.step({"measured": measured, "command": command})["obs"]
        np.testing.assert_allclose(got, [[2 * value, 2 * value, 0.1, 0.0, 0.0]], atol=1e-6)


# --- several environments --------------------------------------------------------------------------------------------


class ByRow(Felt):
    """Each row ends its episodes by itself."""

    taken = 0

    def ended(self) -> torch.Tensor:
        return torch.tensor([(self.taken + row) % (5 + row) == 0 for row in range(self.rows)])

    def step(self, actions: torch.Tensor) -> tuple[Any, Any]:
        self.process_actions(actions)
        for _ in range(self.decimation):
            self.apply_actions()
            self.simulate()
        self.taken += 1
        assert self.taken < 1000, "the recording does not end"
        done = self.ended()
        self.actions[done] = 0.0
        self.smooth[done] = 0.25
        self.q[done] = 0.3 * self.noise(2)[done]
        return self.observe(), done


ByRowInPlace = type("ByRowInPlace", (ByRow,), {"spelling": staticmethod(slice_write)})


def three(kind: type[World]) -> Callable[..., World]:
    return lambda seed: kind(seed=seed, rows=3)


@pytest.mark.parametrize("kind", [ByRow, Whole], ids=lambda kind: kind.__name__)
def test_several_environments_become_a_package_for_one(kind: type[World], tmp_path: Path) -> None:
    make, actor = three(kind), actor_for(kind)
    package = export_world(make(seed=1), actor(), tmp_path)
    assert {port.shape[0] for port in package.manifest.inputs.values()} == {1}
    alone = run_alone(make(seed=2), actor(), 30)
    for row in range(3):
        assert sum(one.resets[row] for one in alone) >= 3
        check_package(tmp_path / "policy", alone, row)
        check_one_file(tmp_path, alone, row)


@pytest.mark.parametrize("kind", [ByRowInPlace, Whole], ids=lambda kind: kind.__name__)
def test_several_environments_become_a_symbolic_batch(kind: type[World], tmp_path: Path) -> None:
    make, actor = three(kind), actor_for(kind)
    package = export_world(make(seed=1), actor(), tmp_path, batch="dynamic")
    assert {port.shape[0] for port in package.manifest.inputs.values()} == {"batch"}
    alone = run_alone(make(seed=2), actor(), 30)
    policy = ashore.load(tmp_path / "policy", batch=3)
    for index, one in enumerate(alone):
        if any(one.resets):
            policy.reset(rows=np.array(one.resets))
        got = policy.step({name: one.inputs[name] for name in policy.step_inputs})
        same(got, {**one.obs, "actions": one.actions}, f"decision {index}", 1e-5)
        for before, after in one.ticks:
            same(policy.substep({name: before[name] for name in policy.substep_inputs}), after, f"{index}", 1e-5)


def test_several_environments_with_a_gru_are_exact_row_by_row(tmp_path: Path) -> None:
    make = three(ByRowInPlace)
    export_world(make(seed=1), GruActor(9), tmp_path)
    alone = run_alone(make(seed=2), GruActor(9), 30)
    for row in range(3):
        check_package(tmp_path / "policy", alone, row)
        check_one_file(tmp_path, alone, row)


class Restless(ByRow):
    """A row is reset at every decision, as among very many rows."""

    def ended(self) -> torch.Tensor:
        return torch.tensor([self.taken % self.rows == row for row in range(self.rows)])


class Crowd(ByRow):
    """So many rows that some end at nearly every decision, wherever chance in the simulator lets them."""

    def ended(self) -> torch.Tensor:
        return torch.rand(self.rows, generator=self.generator) < 0.1


@pytest.mark.parametrize(("kind", "rows"), [(Restless, 5), (Crowd, 64)])
def test_rows_of_which_some_are_always_being_reset_are_exact(kind: type[World], rows: int, tmp_path: Path) -> None:
    export_world(kind(seed=1, rows=rows), linear(3, 9), tmp_path)
    alone = run_alone(kind(seed=2, rows=rows), linear(3, 9), 30)
    for row in (0, rows - 1):
        check_package(tmp_path / "policy", alone, row)
        check_one_file(tmp_path, alone, row)


# --- afterwards ------------------------------------------------------------------------------------------------------


def everything(world: World, actor: Any) -> dict[str, Any]:
    """All that an export could have changed: tensors with their memory, attributes, weights, random numbers to come."""
    tensors = {
        name: (id(one), one.data_ptr(), one.tolist()) for name, one in vars(world).items() if torch.is_tensor(one)
    }
    plain = {name: one for name, one in vars(world).items() if isinstance(one, int | float | bool)}
    weights = {name: one.tolist() for name, one in actor.state_dict().items()}
    streams = (
        world.generator.get_state().tolist(),
        torch.get_rng_state().tolist(),
        random.getstate(),
        str(np.random.get_state()),
    )
    return {"tensors": tensors, "plain": plain, "weights": weights, "streams": streams, "hidden": actor.hidden}


def test_the_environment_is_afterwards_as_it_was(tmp_path: Path) -> None:
    world, actor = Whole(seed=1), GruActor(width_of(Whole))
    actor.train()
    before = everything(world, actor)
    adapter = Adapter(world)
    export_environment_as_onnx(adapter, actor, tmp_path, **FAST)
    assert everything(world, actor) == before
    assert actor.training
    assert actor.cell.training
    wrapper = SessionWrapper(tmp_path, "policy.onnx", actor, optimize=False)
    actor.eval()
    assert evaluate(adapter, adapter.context_manager(), wrapper, num_steps=20, verbose=False)[0]
    assert everything(world, actor) == before


def test_a_refused_export_leaves_the_environment_as_it_was(tmp_path: Path) -> None:
    world, actor = Ring(seed=1), GruActor(width_of(Ring))
    before = everything(world, actor)
    with pytest.raises(ExportError):
        export_world(world, actor, tmp_path)
    assert everything(world, actor) == before
