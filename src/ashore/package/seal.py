"""The manifest's digest of itself.

The manifest lists the sha256 of every other file; nothing lists the manifest. So it carries a digest of its own bytes,
taken with zeros in that place: a flipped bit in a gain is found like a flipped bit in the weights. It guards against
damage and careless edits, not against somebody who means harm (see ``docs/security.md``).
"""

from __future__ import annotations

import hashlib

import msgspec

from ashore.errors import PackageError
from ashore.spec import Manifest, encode

_KEY = b'"manifest_sha256": "'
_BLANK = "0" * 64


def seal(manifest: Manifest) -> bytes:
    """Encode a manifest with its own digest in it."""
    data = encode(msgspec.structs.replace(manifest, manifest_sha256=_BLANK))
    digest = hashlib.sha256(data).hexdigest()
    return data.replace(_KEY + _BLANK.encode(), _KEY + digest.encode(), 1)


def check_seal(data: bytes, manifest: Manifest, where: str) -> None:
    """Raise `PackageError` unless `data`, the bytes that `manifest` was read from, are the bytes that were sealed."""
    claimed = manifest.manifest_sha256 or ""
    sealed = data.replace(_KEY + claimed.encode(), _KEY + _BLANK.encode(), 1)
    if hashlib.sha256(sealed).hexdigest() != claimed:
        raise PackageError(
            f"{where}: manifest.json was changed after the package was written (its manifest_sha256 does not match); "
            "export it again, or write the changed manifest with ashore.package.write"
        )
