"""One rate of a policy, ready to run: take the inputs, run the stages in order, check everything, commit.

This is the hot path. It is a closure, written out flat, because at a few microseconds a call each attribute and each
function call shows; all that can be decided once has been decided by `ashore.runtime.plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from ashore.errors import AshoreError, BackendError, InputError, NonFiniteError
from ashore.package import Array, Arrays
from ashore.runtime.inputs import admit
from ashore.runtime.memory import Bad, FiniteCheck, Memory, Slot, first_bad
from ashore.spec import Port

Run: TypeAlias = Callable[[Arrays], dict[str, Array]]
"""Named inputs to named outputs, with every check. Whatever goes wrong, the state stays what it was."""


class Contract(NamedTuple):
    """What callers of a rate hand in and get back."""

    verb: str
    """``"step"`` or ``"substep"``, for errors."""

    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]
    slots: Mapping[str, Slot]
    """Input name -> dtype and shape, batch axis given a length."""

    aliases: Mapping[str, str]
    """``stage/port`` that an input goes to -> the input's name; callers may write either."""


class Side(NamedTuple):
    """What a run does under one parity of the memory."""

    call: Callable[[], object]
    """Runs the stages in order, each on its buffers."""

    copies: tuple[tuple[Array, Array], ...]
    """(target, source): a value that goes into more than one state."""

    checks: tuple[FiniteCheck, ...]
    """At least one; the first covers nearly everything nearly always."""

    outputs: tuple[tuple[str, Callable[[], Array]], ...]
    """(name, what makes a copy of it)."""


def single_pass(
    contract: Contract,
    places: Mapping[str, Array],
    sides: tuple[Side, ...],
    memory: Memory,
    flip: int,
    mark: int,
    errors: tuple[type[Exception], ...],
) -> Run:
    """Make the function that runs a rate once.

    Args:
        contract: what goes in and comes out.
        places: input name -> where the stages read it.
        sides: parity -> what to do.
        memory: the states; its parity says which side is current.
        flip: the bits of the banks that this rate writes.
        mark: the bit that says that something was decided, for the rate that decides.
        errors: what the stages may raise.
    """
    ndarray, isfinite, count = np.ndarray, np.isfinite, len(contract.slots)
    fast = tuple((name, np.dtype(slot.dtype), slot.shape, places[name]) for name, slot in contract.slots.items())
    prepared = tuple((side.call, side.copies, *side.checks[0][:3], side.checks[1:], side.outputs) for side in sides)

    def run(inputs: Arrays) -> dict[str, Array]:
        # Only a plain dict is certain to have what it gives: a defaultdict would make up what is missing.
        regular = inputs.__class__ is dict and len(inputs) == count
        try:
            for name, dtype, shape, place in fast if regular else ():
                value = inputs[name]
                if value.shape != shape or value.dtype is not dtype or type(value) is not ndarray:
                    regular = False
                    break
                place[...] = value
        except (KeyError, AttributeError):
            regular = False
        if not regular:  # unusual, or wrong
            for name, value in admit(f"{contract.verb}: input", inputs, contract.slots, contract.aliases).items():
                places[name][...] = value
        parity = memory.parity
        call, copies, values, mask, find, more, outputs = prepared[parity]
        try:
            call()
        except errors as error:
            raise _failure(contract, sides[parity].checks, error) from error
        if copies:
            for target, source in copies:
                target[...] = source
        isfinite(values, mask)
        if find(0) >= 0 or (more and first_bad(more)):
            raise _bad_value(contract, sides[parity].checks)
        result: dict[str, Array] = {}
        for name, copy in outputs:
            result[name] = copy()
        memory.parity = parity ^ flip | mark
        return result

    return run


def _failure(contract: Contract, checks: tuple[FiniteCheck, ...], error: Exception) -> AshoreError:
    """What to say when a stage raised: a bad input explains it better than the backend does."""
    bad = first_bad(checks)
    if bad is not None and bad.where.group == "inputs":
        return _bad_value(contract, checks)
    return BackendError(f"{contract.verb}: the backend failed; the state is unchanged: {error}")


def _bad_value(contract: Contract, checks: tuple[FiniteCheck, ...]) -> AshoreError:
    bad = first_bad(checks)
    if bad is None:
        return NonFiniteError(f"{contract.verb}: a value was not finite; the state is unchanged")
    return not_finite(contract, bad)


def not_finite(contract: Contract, bad: Bad) -> AshoreError:
    """What to say of a value that is not finite."""
    group, name = bad.where
    port = {"inputs": contract.inputs, "outputs": contract.outputs}.get(group, {}).get(name)
    named = port.element_names[-1] if port is not None and port.element_names else None
    element = f" ({named[bad.element[-1]]})" if named and bad.element else ""
    story = f"{contract.verb}: {group[:-1]} {name!r}{list(bad.element)}{element} is {bad.value}; expected finite values"
    if group == "inputs":
        return InputError(f"{story}. The state is unchanged")
    return NonFiniteError(f"{story}. The state is unchanged; look at the inputs of this call")
