"""Reading the pages of docs/: their sections, and the Python blocks in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_BLOCK = re.compile(r"^(?:<!-- (?P<mark>[^\n]*?) -->\n\n?)?```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_SHOWN = re.compile(r"\n+(?:[^`\n][^\n]*\n+)?```text\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A Python block of a page."""

    code: str
    line: int
    """The line of the page that it starts at."""

    mark: str | None
    """What an HTML comment right above it says, such as ``raises: ExportError``."""

    shown: str | None
    """The ``text`` block that follows it, at most one line of prose between them."""


def blocks(text: str) -> Iterator[Block]:
    """The Python blocks, in order."""
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("code")) + 1
        shown = _SHOWN.match(text, match.end())
        yield Block(match["code"], line, match["mark"], shown["text"] if shown else None)


def sections(text: str) -> dict[str, str]:
    """Heading of the second level -> what stands under it."""
    _, *parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))
