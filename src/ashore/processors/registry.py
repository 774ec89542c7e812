"""Processors by name: how a manifest's entry becomes a function on arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ashore.errors import ManifestError, suggestion
from ashore.package import Array, Arrays
from ashore.processors.normalize import denormalize, normalize
from ashore.spec import Port, Processor

Transform: TypeAlias = Callable[[Array], Array]
"""One array in, one array of the same shape and dtype out; the argument is never written to."""

Builder: TypeAlias = Callable[[Processor, Port, Arrays], Transform]

PROCESSORS: Mapping[str, Builder] = {"denormalize": denormalize, "normalize": normalize}


def build(processor: Processor, port: Port, arrays: Arrays) -> Transform:
    """Make the function that a manifest's processor describes.

    Args:
        processor: the entry in the manifest.
        port: the package port it transforms.
        arrays: what its artifact holds; empty if it has none.
    """
    builder = PROCESSORS.get(processor.type)
    if builder is None:
        hint = suggestion(processor.type, PROCESSORS, f"; this Ashore has {sorted(PROCESSORS)}")
        raise ManifestError(f"processor of port {processor.port!r}: unknown type {processor.type!r}{hint}")
    return builder(processor, port, arrays)
