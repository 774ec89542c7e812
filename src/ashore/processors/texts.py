"""Ports of text: rows of UTF-8 bytes, see `ashore.package.text`."""

from __future__ import annotations

from ashore.processors.contract import expect, expect_axes, length
from ashore.spec import Dim, Port


def text_width(where: str, name: str, port: Port, rows: Dim | None = None) -> int:
    """The length of a row in bytes, after checking that a port holds text, in so many rows if it is said."""
    expect(where, name, port, ("uint8",))
    expect_axes(where, name, port, ("batch", "bytes"))
    width = length(where, name, port, 1)
    if rows is not None:
        expect(where, name, port, ("uint8",), (rows, width))
    return width
