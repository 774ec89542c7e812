"""Actions relative to the state, and back: offsets from where the robot is, for the elements that a mask names."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ashore.errors import ManifestError
from ashore.package import Array, Arrays
from ashore.processors.contract import (
    FLOATS,
    Apply,
    Params,
    Read,
    expect,
    named,
    nothing_to_do,
    processor_of,
    read_params,
)
from ashore.spec import Stage


class RelativeParams(Params, frozen=True, kw_only=True):
    """What is relative."""

    mask: tuple[bool, ...]
    """One per element of an action: whether it is an offset from the state's."""


class Offset(NamedTuple):
    """A stage that moves actions by the state."""

    mask: Array
    """One or zero per element, in the dtype of the actions."""

    chunked: bool
    """Whether an action has a horizon, over all of which the state's offset is the same."""


def relative_actions(where: str, stage: Stage, read: Read) -> Apply:
    """``actions`` - ``state`` x mask, as ``relative``; [batch, D] or [batch, H, D]."""
    mask, chunked = read_offset(where, stage, "relative")

    def apply(inputs: Arrays) -> Arrays:
        offset = inputs["state"] * mask
        return {"relative": inputs["actions"] - (offset[:, None] if chunked else offset)}

    return apply


def absolute_actions(where: str, stage: Stage, read: Read) -> Apply:
    """``actions`` + ``state`` x mask, as ``absolute``; [batch, D] or [batch, H, D]."""
    mask, chunked = read_offset(where, stage, "absolute")

    def apply(inputs: Arrays) -> Arrays:
        offset = inputs["state"] * mask
        return {"absolute": inputs["actions"] + (offset[:, None] if chunked else offset)}

    return apply


def read_offset(where: str, stage: Stage, target: str) -> Offset:
    """Check a stage that is `relative_actions` or `absolute_actions`, whose output is `target`."""
    processor_of(where, stage)
    params = read_params(where, stage, RelativeParams)
    ports = named(where, stage, ("actions", "state"), (target,))
    actions = ports["actions"]
    if len(actions.shape) not in (2, 3):
        raise ManifestError(
            f"{where}: 'actions' has the shape {list(actions.shape)}; expected [batch, D] or [batch, H, D]"
        )
    expect(where, "actions", actions, FLOATS)
    expect(where, "state", ports["state"], (actions.dtype,), (actions.shape[0], actions.shape[-1]))
    expect(where, target, ports[target], (actions.dtype,), actions.shape)
    if len(params.mask) != actions.shape[-1]:
        raise ManifestError(
            f"{where}: params: mask has {len(params.mask)} entries; expected one for each of the {actions.shape[-1]} "
            f"elements of an action"
        )
    if not any(params.mask):
        raise nothing_to_do(where, "the mask is false everywhere")
    return Offset(np.array(params.mask, actions.dtype), len(actions.shape) == 3)
