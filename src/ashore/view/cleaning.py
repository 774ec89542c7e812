"""Text from an unchecked file, made harmless."""

from __future__ import annotations

import re

from ashore.errors import printable

ELLIPSIS = "…"
_BLANKS = re.compile(r"\s+")
_NO_CHARACTER = re.compile("[\ufdd0-\ufdef\ufffe\uffff\ufff9-\ufffb\u200b-\u200f\ufeff]")
"""What XML refuses or nobody can see."""


def clean(text: str, longest: int = 400) -> str:
    """A text from an unchecked file as one line that neither breaks XML nor turns the direction of what follows."""
    return _NO_CHARACTER.sub("\N{REPLACEMENT CHARACTER}", printable(_BLANKS.sub(" ", text[:longest])))
