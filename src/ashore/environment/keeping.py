"""Leaving everything as it was: what an environment holds is kept before it is run, and put back afterwards.

Everything that can be reached from the given objects is looked at: attributes, lists, dicts, tensors, arrays, random
generators, what closures refer to. Tensors are put back in place, so that whoever holds them sees them as they were,
and so are arrays of other libraries that show their memory, such as Warp's.
What classes hold is looked at where it is asked for, with `Statics`; what lives outside Python, such as the state of a
simulator in C, is not reached; parameters are not copied, since
nothing here trains.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from types import BuiltinFunctionType, CellType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

_PLAIN = (str, bytes, int, float, complex, bool, type(None), type, ModuleType, CodeType, FrameType)
_PLAIN += (BuiltinFunctionType, torch.dtype, torch.device, torch.Size, range, slice)

_METHODS = (FunctionType, classmethod, staticmethod, property)

_SHARED = ("__array_interface__", "__cuda_array_interface__")
"""How an array of another library shows its memory."""


class Statics:
    """Stands for what a class itself holds, such as a simulator of which there is only one; give it to `kept`.

    Args:
        owner: the class; what it inherits belongs to it.
    """

    def __init__(self, owner: type) -> None:
        self.classes = [one for one in owner.__mro__ if one.__module__ not in ("builtins", "abc")]


@contextmanager
def kept(*roots: object) -> Iterator[None]:
    """Put back everything that can be reached from some objects, and the random numbers to come, after the block."""
    undo = _Keeper().keep(roots)
    random_state, numpy_state, torch_state = random.getstate(), np.random.get_state(), torch.random.get_rng_state()
    try:
        yield
    finally:
        with torch.inference_mode():  # where every tensor may be written to
            for one in undo:
                one()
        random.setstate(random_state)
        np.random.set_state(numpy_state)
        torch.random.set_rng_state(torch_state)


class _Keeper:
    def __init__(self) -> None:
        self._seen: dict[int, object] = {}
        self._memories: set[int] = set()
        self._undo: list[Callable[[], object]] = []

    def keep(self, roots: Iterable[object]) -> list[Callable[[], object]]:
        """What has to be called to put everything back."""
        pending = list(roots)
        while pending:
            thing = pending.pop()
            if isinstance(thing, _PLAIN) or id(thing) in self._seen:
                continue
            self._seen[id(thing)] = thing
            pending += self._look(thing)
        return self._undo

    def _look(self, thing: Any) -> list[object]:
        """Keep one object; what it refers to."""
        if isinstance(thing, torch.Tensor):
            self._keep_tensor(thing)
            return []
        if isinstance(thing, np.ndarray):
            if thing.flags.writeable:
                copy = thing.copy()
                self._undo.append(lambda: np.copyto(thing, copy))
            return list(thing.flat) if thing.dtype == object else []
        if any(hasattr(type(thing), name) for name in _SHARED):
            self._keep_shared(thing)
            return []
        if isinstance(thing, bytearray):
            held = bytes(thing)
            self._undo.append(lambda: thing.__setitem__(slice(None), held))
            return []
        if isinstance(thing, CellType):
            content = thing.cell_contents
            self._undo.append(lambda: setattr(thing, "cell_contents", content))
            return [content]
        if isinstance(thing, FunctionType):
            cells = [cell for cell in thing.__closure__ or () if _is_filled(cell)]
            return [*cells, *(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()]
        if isinstance(thing, MethodType):
            return [thing.__self__, thing.__func__]
        if isinstance(thing, partial):
            return [thing.func, *thing.args, *thing.keywords.values()]
        if isinstance(thing, torch.jit.ScriptModule):
            return self._look_into_script(thing)
        if isinstance(thing, Statics):
            return self._look_into_classes(thing)
        return [] if self._keep_generator(thing) else self._look_into(thing)

    def _keep_shared(self, thing: Any) -> None:
        """Keep an array of another library, such as a simulator's, in place: it shows its memory."""
        try:
            view: Any = np.asarray(thing) if getattr(thing, _SHARED[0], None) is not None else torch.as_tensor(thing)
        except (AttributeError, TypeError, ValueError, RuntimeError):  # nothing is in it, or it is of structures
            return
        if isinstance(view, torch.Tensor):
            self._keep_tensor(view)
        elif view.size and view.flags.writeable:
            copy = view.copy()
            self._undo.append(lambda: np.copyto(view, copy))

    def _keep_generator(self, thing: Any) -> bool:
        """Keep the random numbers to come of a generator; whether it is one."""
        if isinstance(thing, torch.Generator):
            state = thing.get_state()
            self._undo.append(lambda: thing.set_state(state))
        elif isinstance(thing, np.random.Generator):
            held = thing.bit_generator.state
            self._undo.append(lambda: setattr(thing.bit_generator, "state", held))
        elif isinstance(thing, np.random.RandomState):
            old = thing.get_state()
            self._undo.append(lambda: thing.set_state(old))
        elif isinstance(thing, random.Random):
            drawn = thing.getstate()
            self._undo.append(lambda: thing.setstate(drawn))
        else:
            return False
        return True

    def _look_into_script(self, module: Any) -> list[object]:
        """Keep the tensors of a scripted module, which keeps them outside Python."""
        found: list[object] = [module.__dict__]
        for name, value in module.named_buffers(recurse=False):
            self._undo.append(lambda name=name, value=value: setattr(module, name, value))
            found.append(value)
        return [*found, *module.children()]

    def _look_into_classes(self, statics: Statics) -> list[object]:
        """Keep what classes hold, except for their methods."""
        found: list[object] = []
        for owner in statics.classes:
            for name, value in dict(vars(owner)).items():
                if not name.startswith(("__", "_abc_")) and not isinstance(value, _METHODS):
                    self._undo.append(lambda owner=owner, name=name, value=value: _put_static(owner, name, value))
                    found.append(value)
        return found

    def _look_into(self, thing: Any) -> list[object]:
        """Keep what an object holds."""
        found: list[object] = []
        if isinstance(thing, dict):
            held = dict(thing)
            self._undo.append(lambda: _put_back(thing, held))
            found += held.values()
        elif isinstance(thing, list | deque):
            items = tuple(thing)  # the recorder looks for lists that hold tensors, and must not find this one
            self._undo.append(lambda: _same_things(thing, items) or (thing.clear(), thing.extend(items)))
            found += items
        elif isinstance(thing, set):
            members = set(thing)
            self._undo.append(lambda: thing == members or (thing.clear(), thing.update(members)))
            found += members
        elif isinstance(thing, tuple | frozenset):
            found += thing
        attributes = getattr(thing, "__dict__", None)
        if isinstance(attributes, dict):
            saved = dict(attributes)
            self._undo.append(lambda: _put_back(attributes, saved))
            found += saved.values()
        for name in (slot for kind in type(thing).__mro__ for slot in _slots(kind)):
            if hasattr(thing, name):
                value = getattr(thing, name)
                self._undo.append(lambda name=name, value=value: object.__setattr__(thing, name, value))
                found.append(value)
            else:
                self._undo.append(lambda name=name: hasattr(thing, name) and object.__delattr__(thing, name))
        return found

    def _keep_tensor(self, tensor: torch.Tensor) -> None:
        trained = isinstance(tensor, torch.nn.Parameter) and tensor.requires_grad
        if trained or tensor.layout is not torch.strided or tensor.is_meta:
            return
        storage = tensor.untyped_storage()
        if storage._cdata in self._memories:  # pyright: ignore[reportPrivateUsage]
            return
        self._memories.add(storage._cdata)  # pyright: ignore[reportPrivateUsage]
        whole = tensor.detach().as_strided((storage.nbytes() // tensor.element_size(),), (1,), 0)
        copy = whole.clone()
        self._undo.append(lambda: whole.copy_(copy))


def _put_back(mapping: dict[Any, Any], saved: dict[Any, Any]) -> None:
    """Undo what changed, and touch nothing else."""
    if list(mapping) != list(saved):
        mapping.clear()
    for key, value in saved.items():
        if key not in mapping or mapping[key] is not value:
            mapping[key] = value


def _put_static(owner: type, name: str, value: object) -> None:
    if vars(owner).get(name) is not value:
        setattr(owner, name, value)


def _same_things(held: Iterable[object], items: tuple[object, ...]) -> bool:
    now = list(held)
    return len(now) == len(items) and all(one is other for one, other in zip(now, items, strict=True))


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty cell raises
    except ValueError:
        return False
    return True


def _slots(kind: type) -> Iterable[str]:
    slots = vars(kind).get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    private = {name: f"_{kind.__name__.lstrip('_')}{name}" for name in names if name.startswith("__")}
    return [private.get(name, name) for name in names if name not in ("__dict__", "__weakref__")]
