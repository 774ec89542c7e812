"""Checking what a caller hands in, and saying what is wrong with it.

The fast path of a step only asks whether everything is as it should be. When something is not, it comes here: to be
told off with the whole story, or, for the rare forms that are right but unusual, to be let in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from ashore.errors import InputError, suggestion
from ashore.package import Array
from ashore.runtime.memory import Slot

_NO_ALIASES: Mapping[str, str] = {}


def admit(
    where: str, given: object, slots: Mapping[str, Slot], aliases: Mapping[str, str] = _NO_ALIASES
) -> dict[str, Array]:
    """Check named arrays against what is expected, exactly: nothing is converted, broadcast or left out.

    Args:
        where: what to call them in an error, such as ``"step: input"``.
        given: what the caller passed.
        slots: name -> expected dtype and shape.
        aliases: what else a name may be written as -> the name. None of them is a name itself.

    Returns:
        The arrays by name, each of exactly the expected dtype and shape.
    """
    if not isinstance(given, Mapping):
        raise InputError(f"{where}s: expected a mapping from name to array, got {type(given).__name__}")
    named = cast("Mapping[Any, Any]", given)
    unknown = [key for key in named if key not in slots and key not in aliases]
    keys = _keys(where, named, aliases)
    missing = [name for name in slots if name not in keys and name not in named]
    if unknown:
        spellings = [*missing, *(alias for alias, name in aliases.items() if name in missing)]
        hint = suggestion(str(unknown[0]), spellings or slots, f"; there are {sorted(slots)}")
        raise InputError(f"{where} {unknown[0]!r} is unknown{hint}")
    if missing:
        raise InputError(f"{where} {missing[0]!r} is missing; expected {sorted(slots)}, got {sorted(map(str, named))}")
    try:
        return {name: _array(f"{where} {name!r}", named[keys.get(name, name)], slot) for name, slot in slots.items()}
    except LookupError as error:
        raise InputError(f"{where}s: a mapping that says it has {error} but does not") from error


def _keys(where: str, named: Mapping[Any, Any], aliases: Mapping[str, str]) -> dict[str, str]:
    """Name -> the key that it was given by, for those that were given by an alias."""
    keys: dict[str, str] = {}
    for key in named if aliases else ():
        name = aliases.get(key)
        if name is None:
            continue
        if name in keys or name in named:
            raise InputError(
                f"{where} {name!r} is given twice, as {keys.get(name, name)!r} and as {key!r}; give it once"
            )
        keys[name] = key
    return keys


def _array(where: str, value: Any, slot: Slot) -> Array:
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(f"{where}: a masked array would lose its mask; fill it first")
    if not isinstance(value, np.ndarray | np.generic):
        raise InputError(f"{where}: expected a numpy array of {slot.dtype}, got {_describe(value)}")
    array = np.asarray(cast("Array", value))
    if array.dtype != np.dtype(slot.dtype):
        raise InputError(f"{where}: expected dtype {slot.dtype}, got {array.dtype}; use .astype(np.{slot.dtype})")
    if array.shape != slot.shape:
        raise InputError(
            f"{where}: expected shape {list(slot.shape)}, got {list(array.shape)}{_shape_hint(array, slot)}"
        )
    return array


def _describe(value: object) -> str:
    kind = type(value)
    if kind.__module__.split(".")[0] == "torch":
        return "a torch tensor; use .numpy()"
    return f"{kind.__name__}; use np.asarray(…, np.float32)" if kind in (list, tuple, float, int) else kind.__name__


def _shape_hint(array: Array, slot: Slot) -> str:
    if array.shape == slot.shape[1:] and slot.shape[:1] == (1,):
        return "; a batch axis is missing, use [None]"
    return ""
