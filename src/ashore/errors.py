"""Every error Ashore raises on purpose, in one tree.

A message says where, what was expected, what was found, and what to do. Nothing in the library raises a bare
``ValueError`` at a user: whoever wants to catch "anything that is wrong with this policy" catches `AshoreError`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but tab and newline, marks that turn the direction of text, and halves of characters."""


def is_printable(text: str) -> bool:
    """Whether a text holds nothing that could drive a terminal or mislead its reader."""
    return _UNPRINTABLE.search(text) is None


def printable(text: str) -> str:
    """A text with everything that could drive a terminal replaced."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def suggestion(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """``"; did you mean 'x'?"`` if something known is near to `name`, else `otherwise`."""
    from difflib import get_close_matches  # only ever needed when something went wrong
    from itertools import islice

    near = get_close_matches(name[:200], list(islice(known, 1000)), n=1)  # neither may take long
    return f"; did you mean {near[0]!r}?" if near else otherwise


class AshoreError(Exception):
    """Anything Ashore refuses to do. Its message may quote a file nobody has checked, so it is made printable."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class ManifestError(AshoreError):
    """The manifest does not describe a package that could run."""


class PackageError(AshoreError):
    """The files of a package are not what its manifest says, or could not be read or written."""


class InputError(AshoreError):
    """What a caller handed to a policy is not what its contract asks for."""


class NonFiniteError(AshoreError):
    """A policy computed a NaN or an infinity where the contract asks for finite values."""


class BindError(AshoreError):
    """A policy and a robot do not fit: a name, a unit, a kind or a rate that one side has and the other has not."""


class RobotError(AshoreError):
    """A robot cannot be opened, read, driven or filmed."""


class OrderError(AshoreError):
    """Calls came in an order in which they have no meaning, such as a substep before the first decision."""


class BackendError(AshoreError):
    """A backend is missing, refuses an artifact, or failed while running it."""


class ExportError(AshoreError):
    """An export would not have been exact. `findings` says why, each with its line."""

    def __init__(self, message: str, findings: Sequence[object] = ()) -> None:
        super().__init__(message)
        self.findings = tuple(findings)


class VerificationError(AshoreError):
    """A package cannot be verified, for example because it holds no golden rollout."""
