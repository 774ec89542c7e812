"""Processors by name: how a stage that is a processor becomes a function on arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ashore.errors import AshoreError, ManifestError
from ashore.plugins import Plugins
from ashore.processors.action_queue import action_queue
from ashore.processors.contract import Apply, Builder, Read
from ashore.processors.history import history
from ashore.processors.image import image
from ashore.processors.normalize import denormalize, normalize
from ashore.processors.pad import pad
from ashore.processors.prompt import prompt
from ashore.processors.relative import absolute_actions, relative_actions
from ashore.processors.resize import resize, resize_with_pad
from ashore.processors.slice import slice_array
from ashore.processors.temporal_ensemble import temporal_ensemble
from ashore.processors.tokenize import tokenize
from ashore.spec import Stage

PROCESSORS: Mapping[str, Builder] = {
    "absolute_actions": absolute_actions,
    "action_queue": action_queue,
    "denormalize": denormalize,
    "history": history,
    "image": image,
    "normalize": normalize,
    "pad": pad,
    "prompt": prompt,
    "relative_actions": relative_actions,
    "resize": resize,
    "resize_with_pad": resize_with_pad,
    "slice": slice_array,
    "temporal_ensemble": temporal_ensemble,
    "tokenize": tokenize,
}

PLUGINS = Plugins("ashore.processors", "processor", ManifestError)
"""Processors of other packages: the entry point names a builder."""


def build(where: str, stage: Stage, read: Read) -> Apply:
    """Make the function that a stage's processor describes.

    Args:
        where: what to call the stage in an error.
        stage: a stage with a processor.
        read: gives the bytes of a file of the package.
    """
    kind = stage.processor.type if stage.processor else ""
    builder = PROCESSORS.get(kind)
    return _build_plugin(where, kind, stage, read) if builder is None else builder(where, stage, read)


def _build_plugin(where: str, kind: str, stage: Stage, read: Read) -> Apply:
    try:
        builder = cast("Builder", PLUGINS.load(kind, PROCESSORS))
    except ManifestError as error:
        raise ManifestError(f"{where}: {error}") from error
    try:
        apply = builder(where, stage, read)
    except AshoreError:
        raise
    except Exception as error:  # it is somebody else's, and may raise anything at all
        raise ManifestError(f"{where}: the processor {kind!r} cannot be made: {error!r}") from error
    if not callable(apply):
        raise ManifestError(f"{where}: the processor {kind!r} gave {apply!r}; expected a function on named arrays")
    return apply
