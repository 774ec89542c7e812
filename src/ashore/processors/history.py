"""The last observations of a policy that looks at more than one.

A pure function: the window is a state of the manifest, which the stage reads and gives back. After a reset there is
nothing in it yet, and it is filled with copies of the first frame, as in LeRobot's `populate_queues`.
"""

from __future__ import annotations

import numpy as np

from ashore.package import Arrays
from ashore.processors.contract import (
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


def history(where: str, stage: Stage, read: Read) -> Apply:
    """``frame`` [batch, …] onto the end of ``window`` [batch, n, …], whose oldest frame goes.

    ``filled`` counts the frames that were seen since the reset, up to n.
    """
    steps = read_steps(where, stage)

    def apply(inputs: Arrays) -> Arrays:
        frame, window, filled = inputs["frame"], inputs["window"], inputs["filled"]
        check_count("filled", filled, steps)
        moved = np.empty_like(window)
        moved[:, :-1], moved[:, -1] = window[:, 1:], frame
        first = np.broadcast_to(filled == 0, (len(frame),))  # one counter may serve all rows
        if first.any():
            moved[first] = frame[first, None]
        return {"window_next": moved, "filled_next": np.minimum(filled + 1, steps)}

    return apply


def read_steps(where: str, stage: Stage) -> int:
    """Check a stage that is `history`, and give the length of its window."""
    processor_of(where, stage)
    read_params(where, stage, Params)
    ports = named(where, stage, ("frame", "window", "filled"), ("window_next", "filled_next"))
    frame, window = ports["frame"], ports["window"]
    axes = tuple(f"frame[{axis}]" for axis in range(1, len(frame.shape)))
    expect_axes(where, "frame", frame, ("batch", *axes))
    expect_axes(where, "window", window, ("batch", "n", *axes))
    steps = length(where, "window", window, 1)
    for name in ("window", "window_next"):
        expect(where, name, ports[name], (frame.dtype,), (frame.shape[0], steps, *frame.shape[1:]))
    expect_counter(where, ports, "filled", frame.shape[0])
    return steps
