"""Text as an array: UTF-8 in rows of bytes, filled up with zeros."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ashore.errors import InputError
from ashore.package.tensors import Array


def encode_text(texts: str | Sequence[str], width: int) -> Array:
    """Texts as uint8 [n, width]."""
    given = [texts] if isinstance(texts, str) else list(texts)
    rows = np.zeros((len(given), width), np.uint8)
    for row, text in zip(rows, given, strict=True):
        data = text.encode()
        if b"\0" in data or len(data) > width:
            raise InputError(f"a text of {len(data)} bytes; expected at most {width}, and none of them zero")
        row[: len(data)] = np.frombuffer(data, np.uint8)
    return rows


def decode_text(row: Array) -> str:
    """The text of a row."""
    data = row.tobytes()
    text = data.rstrip(b"\0")
    if b"\0" in text:
        raise InputError("a text with a zero in it")
    return text.decode()
