"""Runners of stages by name: how a stage that runs other stages is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from ashore.errors import ManifestError, suggestion
from ashore.runtime.backend import Session
from ashore.runtime.loops.body import Body
from ashore.runtime.loops.diffusion import ddim, ddpm
from ashore.runtime.loops.flow import flow
from ashore.spec import Stage

LoopBuilder: TypeAlias = Callable[[str, Stage, Sequence[Body]], Session]
"""What to call the stage in an error, the stage, and what it runs -> a session like that of any other stage."""

LOOPS: Mapping[str, LoopBuilder] = {"ddim": ddim, "ddpm": ddpm, "flow": flow}


def open_loop(where: str, stage: Stage, bodies: Sequence[Body]) -> Session:
    """Open a stage that runs other stages.

    Args:
        where: what to call the stage in an error.
        stage: a stage with a runner.
        bodies: the stages that it runs, in the order that the runner names them.
    """
    kind = stage.runner.type if stage.runner else ""
    builder = LOOPS.get(kind)
    if builder is None:
        raise ManifestError(
            f"{where}: unknown runner {kind!r}{suggestion(kind, LOOPS, f'; there are {sorted(LOOPS)}')}"
        )
    return builder(where, stage, bodies)
