"""ACT's temporal ensembling: every decision is an average over all chunks that have something to say about it.

The average is kept online, as in LeRobot's `ACTTemporalEnsembler`: of the chunk that came i-th since an action was
first predicted, the weight is exp(-m i), so that the oldest weighs 1. What is remembered, the averages of the actions
to come and how many decisions there were, are states of the manifest.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ashore.errors import ManifestError
from ashore.package import Array, Arrays
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


class TemporalEnsembleParams(Params, frozen=True, kw_only=True):
    """How fast the weights fall."""

    coefficient: float
    """m: positive favours older predictions, negative newer ones, 0 none."""


class Ensemble(NamedTuple):
    """The constants of a stage that averages."""

    weights: Array
    """w_i, float32."""

    sums: Array
    """w_0 + … + w_i, float32."""

    remaining: Array
    """How many chunks at most have spoken about each of the actions to come, int64."""


def temporal_ensemble(where: str, stage: Stage, read: Read) -> Apply:
    """``chunk`` [batch, H, D] into ``average`` [batch, H-1, D], of which the first row is the ``action`` [batch, D].

    ``decided`` counts the decisions since the reset, up to H-1.
    """
    weights, sums, remaining = read_ensemble(where, stage)
    most = len(remaining)

    def apply(inputs: Arrays) -> Arrays:
        chunk, average, decided = inputs["chunk"], inputs["average"], inputs["decided"]
        check_count("decided", decided, most)
        spoken = np.minimum(decided[:, None], remaining)[..., None]
        merged = chunk.copy()
        known = merged[:, :-1]
        # Rounded operation by operation as LeRobot does; where nothing has spoken, the chunk stands.
        updated = (average * sums[spoken - 1] + known * weights[spoken]) / sums[spoken]
        np.copyto(known, updated, where=spoken > 0)
        return {
            "action": merged[:, 0],
            "average_next": merged[:, 1:],
            "decided_next": np.minimum(decided + 1, most),
        }

    return apply


def read_ensemble(where: str, stage: Stage) -> Ensemble:
    """Check a stage that is `temporal_ensemble`, and compute its weights."""
    processor_of(where, stage)
    params = read_params(where, stage, TemporalEnsembleParams)
    states = ("average", "decided")
    ports = named(where, stage, ("chunk", *states), ("action", *(f"{name}_next" for name in states)))
    chunk = ports["chunk"]
    expect_axes(where, "chunk", chunk, ("batch", "H", "D"))
    rows, horizon, dim = chunk.shape[0], length(where, "chunk", chunk, 1), chunk.shape[2]
    if horizon < 2:
        raise ManifestError(f"{where}: 'chunk' is {list(chunk.shape)}; chunks of one action leave nothing to average")
    expect(where, "chunk", chunk, ("float32",))
    expect(where, "action", ports["action"], ("float32",), (rows, dim))
    for name in ("average", "average_next"):
        expect(where, name, ports[name], ("float32",), (rows, horizon - 1, dim))
    expect_counter(where, ports, "decided", rows)
    with np.errstate(all="ignore"):
        # torch rounds the exponents to float32, the exponentials correctly or nearly so, and adds them in float64.
        exponents = np.float32(-params.coefficient) * np.arange(horizon, dtype=np.float32)
        weights = np.exp(exponents.astype(np.float64)).astype(np.float32)
        sums = np.cumsum(weights, dtype=np.float64).astype(np.float32)
    if not (math.isfinite(params.coefficient) and np.isfinite(sums).all()):
        raise ManifestError(f"{where}: params: coefficient {params.coefficient} gives weights that are not finite")
    return Ensemble(weights, sums, np.arange(horizon - 1, 0, -1, dtype=np.int64))
