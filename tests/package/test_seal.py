from __future__ import annotations

import msgspec
import pytest

import support
from ashore.errors import PackageError
from ashore.package import Package, write
from ashore.package.seal import check_seal, seal
from ashore.spec import decode, encode


@pytest.fixture
def sealed(arm_package: Package) -> bytes:
    return arm_package.read("manifest.json")


def test_a_sealed_manifest_passes(sealed: bytes) -> None:
    check_seal(sealed, decode(sealed), "here")
    assert seal(decode(sealed)) == sealed


def test_a_changed_gain_breaks_the_seal(sealed: bytes) -> None:
    data = sealed.replace(b'"kp": 20.0', b'"kp": 30.0', 1)
    assert data != sealed
    with pytest.raises(PackageError, match=r"here: manifest\.json was changed"):
        check_seal(data, decode(data), "here")


def test_an_unsealed_manifest_is_refused() -> None:
    data = encode(support.arm_manifest())
    with pytest.raises(PackageError, match="was changed"):
        check_seal(data, decode(data), "here")


def test_a_look_alike_in_the_metadata_does_not_confuse_it(arm_package: Package) -> None:
    metadata = {"manifest_sha256": "0" * 64}
    manifest = msgspec.structs.replace(support.arm_manifest(), metadata=metadata)
    package = write(arm_package.path, manifest, **support.arm_contents())
    data = package.read("manifest.json")
    check_seal(data, decode(data), "here")
    assert decode(data).metadata == metadata
