"""Runners of stages by name: how a stage that runs other stages is opened.

Other packages add runners by an entry point in the group ``ashore.runners``, which names a builder. It may have an
attribute ``feeds``, as `Feeds` says, so that an export knows which ports of a body are the runner's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias, cast

from ashore.errors import AshoreError, ManifestError
from ashore.plugins import Plugins
from ashore.runtime.backend import Session
from ashore.runtime.loops.body import Body
from ashore.runtime.loops.diffusion import ddim, ddpm
from ashore.runtime.loops.flow import flow
from ashore.spec import Stage

LoopBuilder: TypeAlias = Callable[[str, Stage, Sequence[Body]], Session]
"""What to call the stage in an error, the stage, and what it runs -> a session like that of any other stage."""

Feeds: TypeAlias = Mapping[str, str]
"""What a runner gives its body by itself. Param -> the port's name if the params do not say another: ``noise`` is an
input of the stage with the runner, ``sample`` and all others are inputs of the body."""

LOOPS: Mapping[str, LoopBuilder] = {"ddim": ddim, "ddpm": ddpm, "flow": flow}
_FEEDS: Mapping[str, Feeds] = {
    "ddim": {"sample": "sample", "timestep": "timestep", "noise": "noise"},
    "ddpm": {"sample": "sample", "timestep": "timestep", "noise": "noise"},
    "flow": {"sample": "x_t", "time": "timestep", "noise": "noise"},
}

PLUGINS = Plugins("ashore.runners", "runner", ManifestError)
"""Runners of other packages."""


def find_loop(kind: str) -> LoopBuilder:
    """The runner of that name, Ashore's own or another package's."""
    builder = LOOPS.get(kind)
    return cast("LoopBuilder", PLUGINS.load(kind, LOOPS)) if builder is None else builder


def feeds(kind: str) -> Feeds:
    """What a runner gives its body by itself."""
    return _FEEDS[kind] if kind in _FEEDS else getattr(find_loop(kind), "feeds", MappingProxyType({}))


def open_loop(where: str, stage: Stage, bodies: Sequence[Body]) -> Session:
    """Open a stage that runs other stages.

    Args:
        where: what to call the stage in an error.
        stage: a stage with a runner.
        bodies: the stages that it runs, in the order that the runner names them.
    """
    kind = stage.runner.type if stage.runner else ""
    if kind in LOOPS:
        return LOOPS[kind](where, stage, bodies)
    try:
        return find_loop(kind)(where, stage, bodies)
    except ManifestError as error:
        raise ManifestError(f"{where}: {error}") from error
    except AshoreError:
        raise
    except Exception as error:  # it is somebody else's, and may raise anything at all
        raise ManifestError(f"{where}: the runner {kind!r} failed: {type(error).__name__}: {error}") from error
