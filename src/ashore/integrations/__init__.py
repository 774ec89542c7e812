"""Frameworks and trainers: everything is found by itself, nothing has to be annotated.

Importing this imports no framework. `describe` and `described` say what a property of a data class means.
"""

from __future__ import annotations

from ashore.integrations.semantics import Meaning, describe, described

__all__ = ["Meaning", "describe", "described"]
