"""Finding out what an environment reads and writes: by listening to it, once, before anything is recorded.

The interpreter tells of every call, so also of every property that is read from the data of an entity, a sensor or a
command, and of every target that is written. Nothing is patched, and no proxy stands between a term and its data.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import CodeType, FrameType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ashore.deploy.arrays import follow
from ashore.environment.recognition import listening
from ashore.errors import ExportError
from ashore.integrations.buffers import unheard
from ashore.integrations.framework import Framework, Write
from ashore.integrations.semantics import Meaning


@dataclass(frozen=True)
class Owner:
    """Something in the scene that has properties to read."""

    connection: str
    """The beginning of the connection of what is read from it, such as ``state:robot``."""

    thing: Any
    """The entity, sensor or command term."""

    data: Any
    """The object that has the properties."""

    forwards: bool = False
    """Whether a property may only hand on what it reads elsewhere; then that is what is read."""


@dataclass(frozen=True)
class Read:
    """A value that is read from outside."""

    connection: str
    owner: Owner
    name: str
    """The property, or the path of an attribute."""

    get: Callable[[], torch.Tensor]
    holder: Any = None
    """The object that has the attribute, where it is not the owner's own."""

    meaning: Meaning | None = None
    """What it means, where the framework says so."""


@dataclass(frozen=True)
class Written:
    """A target that is written to an entity."""

    entity: str
    method: str
    ids: tuple[int, ...] | None
    """Which joints, in order; None is all of them."""

    write: Write = field(compare=False)


@dataclass
class Found:
    """What was heard."""

    reads: dict[str, Read] = field(default_factory=dict[str, Read])
    writes: dict[Written, None] = field(default_factory=dict[Written, None])


class Surroundings:
    """What there is to read and to write around a manager-based environment."""

    def __init__(self, env: Any, framework: Framework) -> None:
        self.env, self.framework = env, framework
        self.entities = dict(framework.entities(env))
        self.sensors = dict(framework.sensors(env))

    @cached_property
    def owners(self) -> list[Owner]:
        """Everything with properties to read."""
        found = [Owner(f"state:{name}", entity, entity.data) for name, entity in self.entities.items()]
        for name, sensor in self.sensors.items():
            found.append(Owner(f"state:{name}", sensor, sensor))
            data = sensor.data
            if data is not None and self.framework.tensor(data) is None:
                found.append(Owner(f"state:{name}", sensor, data))
        for name, term in commands(self.env).items():
            found.append(Owner(f"command:{name}", term, term, forwards=True))
        return found

    @cached_property
    def write_codes(self) -> dict[CodeType, tuple[str, Write]]:
        """Code of a method that writes a target -> its name, and what it writes."""
        found: dict[CodeType, tuple[str, Write]] = {}
        for entity in self.entities.values():
            for name, write in self.framework.writes.items():
                method = getattr(type(entity), name, None)
                code = _code(method)
                if code is not None:
                    found[code] = name, write
        return found

    @cached_property
    def read_codes(self) -> dict[CodeType, str]:
        """Code of a property -> its name, of everything but commands."""
        return _property_codes([owner for owner in self.owners if not owner.forwards])

    def is_read(self, frame: FrameType) -> bool:
        """Whether a call reads a property of something that is in the scene."""
        return id(frame.f_locals.get(frame.f_code.co_varnames[0])) in self._data

    @cached_property
    def _data(self) -> set[int]:
        return {id(owner.data) for owner in self.owners if not owner.forwards}

    def written(self, frame: FrameType) -> tuple[Written, torch.Tensor] | None:
        """The target that a call writes, if the call is one that does."""
        if frame.f_back is not None and frame.f_back.f_code in self.write_codes:
            return None  # an older name of the method calls the newer one
        method, write = self.write_codes[frame.f_code]
        values = frame.f_locals
        this = values.get(frame.f_code.co_varnames[0])
        name = next((name for name, entity in self.entities.items() if entity is this), None)
        value = next((self.framework.tensor(values[one]) for one in write.value if one in values), None)
        if name is None or value is None:
            return None
        ids = next((values[one] for one in write.ids if one in values), None)
        with unheard():  # these indices are looked at here, not by the environment
            rows, columns = indices(values.get("env_ids")), indices(ids)
        if rows is not None and len(rows) != self.env.num_envs:
            raise ExportError(f"{method}: only environments {list(rows)} are given a target; give one to each")
        return Written(name, method, columns, write), value


def indices(ids: Any) -> tuple[int, ...] | None:
    """Which elements indices mean, or None for all."""
    if ids is None or (isinstance(ids, slice) and ids == slice(None)):
        return None
    if isinstance(ids, slice):
        return tuple(range(ids.stop)[ids])
    if isinstance(ids, torch.Tensor):
        flat = ids.reshape(-1).tolist()
    else:
        flat = ids.numpy().reshape(-1).tolist() if hasattr(ids, "numpy") else list(ids)
    if any(isinstance(one, bool) for one in flat):
        raise ExportError("a target is written to joints that a mask selects; write it to joints by their indices")
    return tuple(int(one) for one in flat)


def commands(env: Any) -> Mapping[str, Any]:
    """Name -> the command terms of an environment."""
    manager = getattr(env, "command_manager", None)
    return dict(getattr(manager, "_terms", None) or {})


def listen(surroundings: Surroundings, call: Callable[[], object]) -> Found:
    """Run something, and tell what it reads and writes."""
    hearing = _Hearing(surroundings)
    with listening(hearing.hear), hearing:
        call()
    return hearing.found


@dataclass
class _Open:
    """A property that is being read."""

    frame: FrameType
    owner: Owner
    name: str
    inner: bool = False
    """Whether something else was read in it."""


class _Hearing(TorchDispatchMode):
    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__()
        self.found = Found()
        self._around, self._framework = surroundings, surroundings.framework
        self._owners = {id(owner.data): owner for owner in surroundings.owners}
        self._codes = _property_codes(surroundings.owners)
        self._open: list[_Open] = []
        self._attributes: dict[int, list[tuple[torch.Size, Read]]] = {}
        self._know(_attributes(surroundings))

    # --- properties, and methods that write ---------------------------------------------------------------------------

    def hear(self, frame: FrameType, event: str, given: Any) -> None:
        if event == "call":
            self._called(frame)
        elif event == "return" and self._open and self._open[-1].frame is frame:
            self._returned(self._open.pop(), given)

    def _called(self, frame: FrameType) -> None:
        code = frame.f_code
        if code in self._around.write_codes:
            with unheard():
                written = self._around.written(frame)
            if written is not None:
                self.found.writes[written[0]] = None
        name = self._codes.get(code)
        if name is None or (self._open and not self._open[-1].owner.forwards):
            return
        owner = self._owners.get(id(frame.f_locals.get(code.co_varnames[0])))
        if owner is not None:
            self._open.append(_Open(frame, owner, name))

    def _returned(self, read: _Open, given: Any) -> None:
        owner, name = read.owner, read.name
        tensor = self._framework.tensor(given)
        if tensor is None:
            self._know(_fields(self._framework, owner, name, given))
            return
        if read.inner:  # it only hands on
            return
        for _, attribute in self._attributes.pop(_memory(tensor), ()) if owner.forwards else ():
            self.found.reads.pop(attribute.connection, None)  # what the property gives is the attribute itself
        if self._open:
            self._open[-1].inner = not read.owner.forwards
        whole = owner.data is owner.thing and owner.connection.startswith("state:") and name == "data"
        connection = owner.connection if whole else f"{owner.connection}:{name}"
        self.found.reads.setdefault(connection, Read(connection, owner, name, _getter(self._framework, owner, name)))

    # --- tensors that are no properties -------------------------------------------------------------------------------

    def _know(self, reads: Iterable[Read]) -> None:
        for read in reads:
            tensor = read.get()
            known = self._attributes.setdefault(_memory(tensor), [])
            known[:] = [one for one in known if one[1].connection != read.connection] + [(tensor.shape, read)]

    def _known(self, tensor: torch.Tensor) -> Read | None:
        """What a tensor is; an image may share its memory with another, which has one channel more."""
        known = self._attributes.get(_memory(tensor), ())
        return next((read for shape, read in known if shape == tensor.shape), known[-1][1] if known else None)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self._open or self._open[-1].owner.forwards:
            for one in tree_leaves((args, kwargs)):
                read = self._known(one) if isinstance(one, torch.Tensor) else None
                if read is not None and not (self._open and read.owner is self._open[-1].owner):
                    self.found.reads.setdefault(read.connection, read)
        return func(*args, **(kwargs or {}))


def _getter(framework: Framework, owner: Owner, *path: str) -> Callable[[], torch.Tensor]:
    def get() -> torch.Tensor:
        # A sensor looks whether its data are up to date when it is asked for them.
        value = follow(owner.thing if owner.data is owner.thing else owner.thing.data, path)
        tensor = framework.tensor(value)
        if tensor is None:
            raise TypeError(f"{owner.connection}: {'.'.join(path)} is no tensor any more, but {type(value).__name__}")
        return tensor

    return get


def _fields(framework: Framework, owner: Owner, name: str, given: Any) -> Iterator[Read]:
    """The tensors in a dataclass or a dict that a property gives."""
    if isinstance(given, Mapping):
        for key, one in given.items():
            value = framework.tensor(one)
            if value is not None and value.numel():
                path = f"{name}.{key}"
                yield Read(f"{owner.connection}:{path}", owner, path, _getter(framework, owner, name, str(key)))
        return
    if not dataclasses.is_dataclass(given):
        return
    for one in dataclasses.fields(given):
        value = framework.tensor(getattr(given, one.name, None))
        if value is not None and value.numel():
            get = _getter(framework, owner, name, one.name)
            yield Read(f"{owner.connection}:{one.name}", owner, one.name, get, given)


def _attributes(around: Surroundings) -> Iterator[Read]:
    """Tensors that a term may read without a property: of command terms, of the environment, of the simulator."""
    framework, env = around.framework, around.env
    for owner in around.owners:
        if owner.forwards:
            for name, value in vars(owner.thing).items():
                tensor = framework.tensor(value)
                if tensor is not None and tensor.numel():
                    get = _getter(framework, owner, name)
                    yield Read(f"{owner.connection}:{name}", owner, name, get)
    here = Owner("env", env, env)
    for name, value in vars(env).items():
        tensor = framework.tensor(value)
        if tensor is not None and tensor.numel():
            yield Read(f"env:{name}", here, name, _getter(framework, here, name))
    for path, value in framework.arrays(env).items():
        if value.numel():
            yield Read(f"sim:{path}", here, path, lambda value=value: value)


def _property_codes(owners: list[Owner]) -> dict[CodeType, str]:
    found: dict[CodeType, str] = {}
    for owner in owners:
        for kind in type(owner.data).__mro__:
            for name, value in vars(kind).items():
                getter = value.fget if isinstance(value, property) else getattr(value, "func", None)
                code = _code(getter)
                if code is not None:
                    found[code] = name
    return found


def _code(function: Any) -> CodeType | None:
    """The code of a function itself, not that of a decorator around it, which others may share."""
    return getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
