from __future__ import annotations

import msgspec
import pytest

import support
from ashore.errors import PackageError
from ashore.package.seal import check_seal, seal
from ashore.spec import decode


def test_a_sealed_manifest_passes() -> None:
    data = seal(support.arm_manifest())
    check_seal(data, decode(data), "here")


def test_a_changed_gain_breaks_the_seal() -> None:
    data = seal(support.arm_manifest()).replace(b'"kp": 20.0', b'"kp": 30.0', 1)
    with pytest.raises(PackageError, match="here: manifest.json was changed"):
        check_seal(data, decode(data), "here")


def test_an_unsealed_manifest_is_refused() -> None:
    from ashore.spec import encode

    data = encode(support.arm_manifest())
    with pytest.raises(PackageError, match="was changed"):
        check_seal(data, decode(data), "here")


def test_a_look_alike_in_the_metadata_does_not_confuse_it() -> None:
    manifest = msgspec.structs.replace(support.arm_manifest(), metadata={"manifest_sha256": "0" * 64})
    data = seal(manifest)
    check_seal(data, decode(data), "here")
    assert decode(data).metadata == manifest.metadata
