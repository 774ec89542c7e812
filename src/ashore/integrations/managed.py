"""A manager-based environment as the recorder sees it: mjlab's and Isaac Lab's, with nothing annotated.

The environment runs by its own `step`. What its terms read from entities, sensors and commands becomes inputs, what its
actions write becomes outputs; everything between is recorded as it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any

import torch

from ashore.capture.contract import PortInfo
from ashore.capture.findings import Finding
from ashore.capture.lines import Line
from ashore.environment import ExportableEnvironment, Input, Memory, Output
from ashore.environment.keeping import kept
from ashore.errors import ExportError
from ashore.integrations.buffers import unheard
from ashore.integrations.framework import Framework
from ashore.integrations.reads import Found, Owner, Read, Surroundings, Written, listen
from ashore.integrations.semantics import Meaning, meaning_of
from ashore.spec import Rate

_RESETS_AT = (8, 11)
"""Decisions after which an episode is ended, so that a recording has resets in it, and a long episode before them."""


class ManagedEnvironment(ExportableEnvironment):
    """An adapter for environments with an observation manager and an action manager.

    Args:
        env: the environment itself, not a wrapper.
        framework: where it keeps things.
        groups: the observation groups that the actor reads.
        drop: connections that are read, but decide nothing.
    """

    def __init__(self, env: Any, framework: Framework, groups: Sequence[str], drop: Iterable[str] = ()) -> None:
        super().__init__()
        self._env, self._framework = env, framework
        known = list(env.observation_manager.active_terms)
        for group in groups:
            if group not in known:
                raise ExportError(f"the actor reads the observation group {group!r}, the environment has {known}")
        self._groups = [group for group in known if group in groups]
        self._around = Surroundings(env, framework)
        self._values: dict[Written, torch.Tensor] = {}
        self._since = 0
        self.findings: list[Finding] = []
        """What stands against an export, or should be known."""

        self.addresses: list[int] = []
        """Where what is read lies, if a framework shows memory of its simulator to torch anew each time."""

        self.writes: list[Written] = []
        """The targets that actions write."""

        self._elsewhere = list(framework.elsewhere(env))
        with kept(env, *self._elsewhere), torch.no_grad():
            self._env.reset()
            self.findings += [one for one in framework.prepare(env) if not self._is_of_others(one)]
            histories = list(framework.histories(env, self._groups))
            found = self._listen()
        self._register(found, set(drop))
        for name in histories:
            for part in ("frames", "count"):
                memory = Memory(f"{name}.{part}", lambda name=name, part=part: self._history(name, part))
                self.context_manager().add_component(memory)

    def _is_of_others(self, finding: Finding) -> bool:
        """Whether a finding is about an observation group that the actor does not read."""
        group, slash, _ = (finding.tensor or "").partition("/")
        return bool(slash) and group in self._env.observation_manager.active_terms and group not in self._groups

    def _history(self, name: str, part: str) -> torch.Tensor:
        return getattr(self._framework.histories(self._env, self._groups)[name], part)

    @property
    def terms(self) -> list[Any]:
        """The functions of the actor's observations, and the terms that actions go through."""
        manager = self._env.observation_manager
        observed = [term.func for group in self._groups for term in manager._group_obs_term_cfgs[group]]
        return [*observed, *self._env.action_manager._terms.values()]

    # --- what it reads and writes -------------------------------------------------------------------------------------

    def _listen(self) -> dict[Rate, Found]:
        def decide() -> None:
            self.compute_observations()
            self.process_actions(self.empty_actions())

        heard: dict[Rate, Found] = {
            "policy": listen(self._around, decide),
            "substep": listen(self._around, self.apply_actions),
        }
        for connection, thing, get, meaning in self._framework.computed(self._env):
            read = Read(
                connection, Owner(connection, thing, thing), connection.rpartition(":")[2], get, meaning=meaning
            )
            heard["substep"].reads[connection] = read
        return heard

    def _register(self, heard: Mapping[Rate, Found], drop: set[str]) -> None:
        context, framework = self.context_manager(), self._framework
        found = Found({**heard["substep"].reads, **heard["policy"].reads}, heard["substep"].writes)
        if framework.apart:
            self.addresses = [read.get().untyped_storage().data_ptr() for read in found.reads.values()]
        self.writes = list(found.writes)
        if not self.writes:
            raise ExportError(
                f"no action writes a target: none of {sorted(self._framework.writes)} was called; give the environment"
                " an action that does, or mark it by hand with ashore.annotate"
            )
        driven = {one.entity for one in self.writes}
        for connection, read in found.reads.items():
            meaning = read.meaning or meaning_of(read.owner.data, read.name) or meaning_of(read.holder, read.name)
            meaning = meaning or framework.meaning(self._env, read.owner.thing, read.name)
            if (meaning is not None and meaning.role != "input") or connection in drop:
                continue
            name = self._port_name(read, driven)
            get = unheard()(read.get) if framework.apart else read.get
            component = _Input(name, get, self._info(read, meaning or self._guess(read, name)), read)
            component.rates = [rate for rate, one in heard.items() if connection in one.reads]
            context.add_component(component)
        ports = [one.write.port for one in self.writes]
        for written in self.writes:
            single = ports.count(written.write.port) == 1
            name = written.write.port if single else f"{written.entity}.{written.write.port}.{self._place(written)}"
            context.add_component(_Output(name, self._target(written), self._output_info(written)))

    def _target(self, written: Written) -> Callable[[], torch.Tensor]:
        """How to get what is written, in the unit that its port has."""
        entity, names = self._around.entities[written.entity], self._target_names(written)
        scale = self._framework.target_scale(self._env, entity, written.method, names)
        if scale is None:
            return lambda: self._values[written]
        factor = torch.tensor(scale, device=self._env.device)
        return lambda: self._values[written] * factor

    def _target_names(self, written: Written) -> list[str]:
        every = [str(one) for one in getattr(self._around.entities[written.entity], written.write.names)]
        return every if written.ids is None else [every[one] for one in written.ids]

    def _place(self, written: Written) -> str:
        same = [one for one in self.writes if one.write.port == written.write.port]
        return str(same.index(written))

    def _guess(self, read: Read, name: str) -> Meaning:
        """What is known about something that nobody described."""
        if read.connection.startswith("command:"):
            return Meaning(source="command")
        message = f"{read.connection} is read, and nothing says what it means; it is the input {name!r}"
        self.findings.append(Finding("no_semantics", message, tensor=read.connection))
        return Meaning()

    @staticmethod
    def _port_name(read: Read, driven: set[str]) -> str:
        where, _, path = read.connection.partition(":")
        owner, _, name = path.partition(":")
        owner = owner.replace("/", ".")
        if where == "command":
            return owner if name == "command" else f"{owner}.{name}"
        if where != "state":
            return path.replace("/", ".").replace(":", ".")
        short = next((owner[len(one) + 1 :] for one in driven if owner.startswith(f"{one}.")), owner)
        return (name if owner in driven else f"{short}.{name}") if name else short

    def _info(self, read: Read, meaning: Meaning) -> PortInfo:
        shape = read.get().shape
        source = "command" if read.connection.startswith("command:") and meaning.source is None else meaning.source
        if source == "privileged":
            message = f"{read.connection} is only known in a simulation, and the actor reads it"
            self.findings.append(Finding("privileged_input", message, tensor=read.connection))
        names = self._names(read, meaning, shape)
        return PortInfo(
            kind=meaning.kind,
            unit=self._unit(read.owner.thing, meaning.unit, names[-1] if names else None),
            frame=meaning.frame,
            element_names=names,
            source=source,
            finite=meaning.finite,
            connection=read.connection,
            description=meaning.description,
            metadata={**self._framework.metadata(read.owner.thing), **meaning.metadata},
        )

    def _names(self, read: Read, meaning: Meaning, shape: Sequence[int]) -> list[list[str] | None] | None:
        found: list[list[str] | None] = []
        for names in meaning.names:
            given = _attribute(read.owner.thing, names) if isinstance(names, str) else names
            found.append(None if given is None else [str(one) for one in given])
        axes = [None] * (len(shape) - len(found)) + found
        fits = len(axes) == len(shape) and all(
            names is None or len(names) == length for names, length in zip(axes, shape, strict=True)
        )
        return axes if found and fits and any(axes) else None

    def _unit(self, entity: Any, unit: Any, names: Sequence[str] | None) -> Any:
        if not isinstance(unit, Mapping):
            return unit
        types = self._framework.joint_types(self._env, entity)
        known = names is not None and all(name in types for name in names)
        return [unit[types[name]] for name in names or ()] if known else None

    def _output_info(self, written: Written) -> PortInfo:
        entity, write = self._around.entities[written.entity], written.write
        names = self._target_names(written)
        return PortInfo(
            kind=write.kind,
            unit=self._unit(entity, write.unit, names),
            element_names=names,
            connection=f"write:{written.entity}:{written.method}",
        )

    # --- what the recorder asks for -----------------------------------------------------------------------------------

    def compute_observations(self) -> Mapping[str, torch.Tensor]:
        """The observations of the actor's groups."""
        return {one: self._env.observation_manager.compute_group(one, update_history=True) for one in self._groups}

    def process_actions(self, actions: torch.Tensor) -> None:
        """Take a decision."""
        self._env.action_manager.process_action(actions)

    def apply_actions(self) -> None:
        """Act on it."""
        self._env.action_manager.apply_action()

    def step(self, actions: torch.Tensor) -> tuple[Mapping[str, torch.Tensor], torch.Tensor]:
        """One step of the environment. Now and then it is told that the episode has lasted long enough."""
        self._since += 1
        ending = self._since in _RESETS_AT
        if ending:
            self._env.episode_length_buf[:] = self._env.max_episode_length
        obs, _, terminated, truncated, _ = self._env.step(actions)
        done = terminated | truncated
        if ending and not bool(done.all()):
            obs, done = self._env.reset()[0], torch.ones_like(done)
        return self._of_actor(obs), done

    def observations_reset(self) -> Mapping[str, torch.Tensor]:
        """The observations after a reset."""
        return self._of_actor(self._env.reset()[0])

    def _of_actor(self, obs: Mapping[str, Any]) -> dict[str, Any]:
        return {one: obs[one] for one in self._groups}

    @property
    def decimation(self) -> int:
        """Substeps in a decision."""
        return int(self._env.cfg.decimation)

    def prepare_export(self) -> None:
        """Switch off noise, and put stand-ins where buffers have a pointer."""
        self._framework.prepare(self._env)

    def empty_actor_observations(self) -> Mapping[str, torch.Tensor]:
        """Observations of the right shape."""
        return self._of_actor(self._env.observation_manager.compute())

    def empty_actions(self) -> torch.Tensor:
        """Actions of the right shape."""
        return torch.zeros_like(self._env.action_manager.action)

    def metadata(self) -> dict[str, Any]:
        """How fast the environment runs, and what its terms are."""
        manager = self._env.observation_manager
        terms = {group: list(manager.active_terms[group]) for group in self._groups}
        actions = list(self._env.action_manager.active_terms)
        sim_dt = self._framework.physics_dt(self._env)
        return {"framework": self._framework.name, "sim_dt": sim_dt, "observations": terms, "actions": actions}

    def register_evaluation_hooks(self, *args: Any, **kwargs: Any) -> None:
        """Nothing needs it."""

    def get_observation_names(self) -> list[str]:
        """Groups have names of their own."""
        return []

    def watched_calls(self) -> Mapping[CodeType, Callable[[FrameType], object]]:
        """The methods that write targets: what they are given is an output."""
        reads = dict.fromkeys(self._around.read_codes, self._around.is_read) if self._framework.apart else {}
        foreign = {one.__code__: lambda _: True for one in self._framework.foreign()}
        return {**reads, **foreign, **dict.fromkeys(self._around.write_codes, self._note)}

    def _note(self, frame: FrameType) -> bool:
        found = self._around.written(frame)
        if found is not None:
            self._values[found[0]] = found[1]
        return self._framework.apart


class _Input(Input):
    def __init__(self, name: str, get: Callable[[], torch.Tensor], info: PortInfo, read: Read) -> None:
        super().__init__(name, get)
        self.info = info
        getter = getattr(getattr(type(read.owner.data), read.name, None), "fget", None)
        if getter is not None:
            self.line = Line(getter.__code__.co_filename, getter.__code__.co_firstlineno)


class _Output(Output):
    def __init__(self, name: str, get: Callable[[], torch.Tensor], info: PortInfo) -> None:
        super().__init__(name, get)
        self.info = info


def _attribute(thing: Any, names: str) -> Any:
    """The first that something has of attributes such as ``"sensor_names|body_names"``."""
    return next((getattr(thing, name) for name in names.split("|") if hasattr(thing, name)), None)
