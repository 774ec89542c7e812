"""Executing a chunk of actions, one a decision, before the next is computed.

A pure function: the queue and what is left of it are states of the manifest. While something is left, the chunk is not
looked at, so that the stages that compute it need not run.
"""

from __future__ import annotations

import numpy as np

from ashore.errors import ManifestError
from ashore.package import Arrays
from ashore.processors.contract import (
    FLOATS,
    Apply,
    Params,
    Read,
    expect,
    expect_axes,
    length,
    named,
    processor_of,
    read_params,
)
from ashore.processors.counting import check_count, expect_counter
from ashore.spec import Stage


def action_queue(where: str, stage: Stage, read: Read) -> Apply:
    """The next ``action`` [batch, D] of ``queue`` [batch, n, D], or of the first n of ``chunk`` [batch, H, D].

    ``left`` counts the actions of the queue that are still to come, 0 after a reset.
    """
    steps = read_queue(where, stage)

    def apply(inputs: Arrays) -> Arrays:
        chunk, queue, left = inputs["chunk"], inputs["queue"], inputs["left"]
        check_count("left", left, steps)
        empty = left == 0
        if empty.any():
            queue = np.where(empty[:, None, None], chunk[:, :steps], queue)
            left = np.where(empty, steps, left)
        place = np.broadcast_to(steps - left, (len(queue),))  # one counter may serve all rows
        return {"action": queue[np.arange(len(queue)), place], "queue_next": queue, "left_next": left - 1}

    return apply


def read_queue(where: str, stage: Stage) -> int:
    """Check a stage that is `action_queue`, and give how many actions it executes of a chunk."""
    processor_of(where, stage)
    read_params(where, stage, Params)
    states = ("queue", "left")
    ports = named(where, stage, ("chunk", *states), ("action", *(f"{name}_next" for name in states)))
    chunk, queue = ports["chunk"], ports["queue"]
    for name in ("chunk", "queue"):
        expect_axes(where, name, ports[name], ("batch", "H" if name == "chunk" else "n", "D"))
    steps, horizon = length(where, "queue", queue, 1), length(where, "chunk", chunk, 1)
    if steps > horizon:
        raise ManifestError(f"{where}: 'queue' holds {steps} actions; expected at most the {horizon} of 'chunk'")
    rows, _, dim = chunk.shape
    expect(where, "chunk", chunk, FLOATS)
    for name in ("queue", "queue_next"):
        expect(where, name, ports[name], (chunk.dtype,), (rows, steps, dim))
    expect(where, "action", ports["action"], (chunk.dtype,), (rows, dim))
    expect_counter(where, ports, "left", rows)
    return steps
