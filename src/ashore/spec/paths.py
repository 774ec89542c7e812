"""Which paths a file inside a package may have.

The rule is narrow on purpose: what it allows means the same on every file system and in every zip tool, and cannot
leave the package.
"""

from __future__ import annotations

import re

MANIFEST = "manifest.json"
STATE = "state.safetensors"
GOLDEN = "golden.safetensors"

_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}


def path_problem(path: str) -> str | None:
    """Say why a path may not stand in a package, or None."""
    if not path or len(path) > 255:
        return "a path has 1 to 255 characters"
    if path.startswith("/") or "\\" in path or ":" in path:
        return "a path is relative to the package, with forward slashes"
    for segment in path.split("/"):
        if segment in ("", ".", ".."):
            return "a path has no empty, '.' or '..' part"
        if not _SEGMENT.fullmatch(segment):
            return f"the part {segment!r} is not made of letters, digits, '_', '-' and '.'"
        if segment.endswith(".") or segment.partition(".")[0].lower() in _DEVICES:
            return f"the part {segment!r} is no file name on some systems"
    return None
