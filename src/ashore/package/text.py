"""Text in arrays: how an instruction in words travels through a package.

A text is UTF-8 in a row of bytes that zeros fill up, so it has a fixed shape like everything else. Both ways are exact:
what could not be read back as it was is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from ashore.errors import InputError
from ashore.package.tensors import Array


def encode_text(texts: str | Sequence[str], width: int, where: str = "text") -> Array:
    """Write texts as rows of bytes.

    Args:
        texts: one text, or one for each row.
        width: the length of a row in bytes.
        where: what to call them in an error.

    Returns:
        uint8 [number of texts, width]; one row for one text.

    Raises:
        InputError: a text is too long, holds a character 0 or half a character, or is no text at all.
    """
    given = cast("Sequence[object]", [texts] if isinstance(texts, str) else texts)
    rows = np.zeros((len(given), width), np.uint8)
    for index, text in enumerate(given):
        name = where if isinstance(texts, str) else f"{where}[{index}]"
        if not isinstance(text, str):
            raise InputError(f"{name}: expected text, got {type(text).__name__}")
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{name}: expected text that UTF-8 can hold: {error}") from None
        if b"\0" in data:
            raise InputError(f"{name}: expected text without the character 0, which marks its end; got {text[:40]!r}")
        if len(data) > width:
            raise InputError(f"{name}: expected at most {width} bytes of UTF-8, got {len(data)}: {text[:40]!r}…")
        rows[index, : len(data)] = np.frombuffer(data, np.uint8)
    return rows


def decode_text(row: Array, where: str = "text") -> str:
    """Read one row of bytes as text.

    Args:
        row: uint8 [width].
        where: what to call it in an error.

    Raises:
        InputError: it is no UTF-8, or something follows the zeros that end it.
    """
    if row.dtype != np.uint8 or row.ndim != 1:
        raise InputError(f"{where}: expected a row of uint8, got {row.dtype} {list(row.shape)}")
    data = row.tobytes().rstrip(b"\0")
    if b"\0" in data:
        raise InputError(f"{where}: expected zeros up to the end after the first, at byte {data.index(0)}")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: expected UTF-8: {error}") from None
