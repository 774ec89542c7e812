"""Every error Ashore raises on purpose, in one tree.

A message says where, what was expected, what was found, and what to do. Nothing in the library raises a bare
``ValueError`` at a user: whoever wants to catch "anything that is wrong with this policy" catches `AshoreError`.
"""

from __future__ import annotations

from collections.abc import Iterable


def suggestion(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """``"; did you mean 'x'?"`` if something known is near to `name`, else `otherwise`."""
    from difflib import get_close_matches  # only ever needed when something went wrong

    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else otherwise


class AshoreError(Exception):
    """Anything Ashore refuses to do."""


class ManifestError(AshoreError):
    """The manifest does not describe a package that could run."""


class PackageError(AshoreError):
    """The files of a package are not what its manifest says, or could not be read or written."""


class InputError(AshoreError):
    """What a caller handed to a policy is not what its contract asks for."""


class NonFiniteError(AshoreError):
    """A policy computed a NaN or an infinity where the contract asks for finite values."""


class OrderError(AshoreError):
    """Calls came in an order in which they have no meaning, such as a substep before the first decision."""


class BackendError(AshoreError):
    """A backend is missing, refuses an artifact, or failed while running it."""


class VerificationError(AshoreError):
    """A package cannot be verified, for example because it holds no golden rollout."""
