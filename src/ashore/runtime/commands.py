"""What whoever drives the robot asks of it, as the policy takes it."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ashore.errors import InputError
from ashore.package import Array
from ashore.spec import Port, concrete

Command: TypeAlias = Any
"""An array, a list of numbers, or a function without arguments that gives one whenever it is needed."""


def as_command(name: str, port: Port, value: Command) -> Array:
    """A command as the array of its port: nothing but a batch axis of one is added, and only the precision may change.

    Args:
        name: of the input.
        port: what it is.
        value: an array or a list, of the port's shape or of that shape without a leading batch axis.
    """
    shape = concrete(port.shape, 1)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InputError(f"command {name!r}: expected {list(shape[1:] or shape)} numbers, got {value!r}") from error
    if array.dtype.kind not in "biuf" or not np.can_cast(array.dtype, port.dtype, "same_kind"):
        raise InputError(f"command {name!r}: expected numbers that fit {port.dtype}, got {value!r}")
    if array.shape != shape and not (shape[:1] == (1,) and array.shape == shape[1:]):
        raise InputError(f"command {name!r}: expected shape {list(shape[1:] or shape)}, got {list(array.shape)}")
    return array.astype(port.dtype).reshape(shape)


def is_command(port: Port) -> bool:
    """Whether an input comes from whoever drives the robot, not from the robot."""
    if port.source is not None:
        return port.source in ("command", "reference")
    return (port.kind or "").startswith(("command/", "reference/"))
