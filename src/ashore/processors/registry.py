"""Processors by name: how a stage that is a processor becomes a function on arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ashore.errors import ManifestError, suggestion
from ashore.package import Arrays
from ashore.processors.normalize import denormalize, normalize
from ashore.spec import Stage

Apply: TypeAlias = Callable[[Arrays], Arrays]
"""Named inputs to named outputs, of exactly the dtypes and shapes of the stage's ports; the inputs are not written."""

Builder: TypeAlias = Callable[[str, Stage, Callable[[str], bytes]], Apply]

PROCESSORS: Mapping[str, Builder] = {"denormalize": denormalize, "normalize": normalize}


def build(where: str, stage: Stage, read: Callable[[str], bytes]) -> Apply:
    """Make the function that a stage's processor describes.

    Args:
        where: what to call the stage in an error.
        stage: a stage with a processor.
        read: gives the bytes of a file of the package.
    """
    kind = stage.processor.type if stage.processor else ""
    builder = PROCESSORS.get(kind)
    if builder is None:
        hint = suggestion(kind, PROCESSORS, f"; this Ashore has {sorted(PROCESSORS)}")
        raise ManifestError(f"{where}: unknown processor {kind!r}{hint}")
    return builder(where, stage, read)
