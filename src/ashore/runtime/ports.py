"""Whether a file has the ports that the manifest says: names, dtypes and shapes, before anything is run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ashore.errors import BackendError
from ashore.spec import BATCH, Port


class FoundPort(NamedTuple):
    """An input or output as a file has it."""

    name: str
    type: str
    """What the file calls its dtype."""

    dtype: str | None
    """What Ashore calls it; None if it has no name for it."""

    shape: Sequence[int | str | None] | None
    """An open dimension is a name or None; None for all of it is any shape."""


def check_ports(where: str, found: Sequence[FoundPort], expected: Mapping[str, Port]) -> None:
    """Raise `BackendError` unless the ports of a file are those of a stage.

    Args:
        where: what to call one of them in an error, such as ``"p: stage 'policy': input"``.
        found: those of the file.
        expected: those of the stage; the batch axis is still symbolic.
    """
    names = {port.name for port in found}
    if names != set(expected):
        raise BackendError(f"{where}s: the manifest says {sorted(expected)}, the artifact has {sorted(names)}")
    for port in found:
        wanted = expected[port.name]
        if port.dtype != wanted.dtype:
            raise BackendError(f"{where} {port.name!r}: the manifest says {wanted.dtype}, the artifact has {port.type}")
        # A dimension the artifact leaves open is a name or None, and takes whatever the manifest says.
        agree = port.shape is None or (
            len(port.shape) == len(wanted.shape)
            and all(
                not isinstance(theirs, int) or (ours != BATCH and ours == theirs)
                for theirs, ours in zip(port.shape, wanted.shape, strict=True)
            )
        )
        if not agree:
            raise BackendError(
                f"{where} {port.name!r}: the manifest says shape {list(wanted.shape)}, the artifact has {port.shape}"
            )
