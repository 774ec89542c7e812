"""What things are called in a policy that is one ONNX file.

Such a file is run tick after tick. It counts the ticks in one input, and whatever it remembers goes out of one port and
into another. Whoever writes, reads or runs such files asks here for the names.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence

import numpy as np

from ashore.package import Array

STEP_COUNT = "ctx.step_count"
"""The input that counts ticks: int32, a scalar."""

DECIMATION = "decimation"
"""The metadata that says how many ticks belong to a decision."""

NOTE = "ashore"
"""The metadata in which Ashore notes what the file itself has no place for."""

_PREFIX, _IN, _OUT = "memory.", ".in", ".out"


def memory_in(name: str) -> str:
    """The input that a memory is read from."""
    return f"{_PREFIX}{name}{_IN}"


def memory_out(name: str) -> str:
    """The output that a memory is written to."""
    return f"{_PREFIX}{name}{_OUT}"


def memory_read_by(port: str) -> str | None:
    """The memory that an input is, or None."""
    return _between(port, _IN)


def memory_written_by(port: str) -> str | None:
    """The memory that an output is, or None."""
    return _between(port, _OUT)


def memory_pairs(inputs: Iterable[str], outputs: Iterable[str]) -> dict[str, str]:
    """Input -> the output that it gets on the next tick, for every memory that has both."""
    written = set(outputs)
    return {
        port: memory_out(name)
        for port in inputs
        if (name := memory_read_by(port)) is not None and memory_out(name) in written
    }


def _between(port: str, suffix: str) -> str | None:
    if not port.startswith(_PREFIX) or not port.endswith(suffix):
        return None
    return port[len(_PREFIX) : -len(suffix)] or None


def stored_array(dtype: str, shape: Sequence[int], data: str) -> Array:
    """An array as a file's note keeps it: bytes in base64, row by row and least significant byte first.

    Raises:
        ValueError: it is none.
    """
    kind = np.dtype(dtype)
    raw = base64.b64decode(data, validate=True)
    return np.frombuffer(raw, kind.newbyteorder("<")).astype(kind).reshape(tuple(shape))
