"""The contract that a rollout was recorded with travels with it, whatever becomes of the manifest."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import support
from ashore.errors import PackageError
from ashore.package import UNKNOWN, Package, add_files, contract_of, load_arrays, pack, read, save_arrays, write
from ashore.package.tensors import load_notes
from ashore.spec import Manifest


def contract(package: Package) -> Manifest:
    golden = package.golden()
    assert golden is not None
    assert isinstance(golden.contract, Manifest)
    return golden.contract


def test_a_new_rollout_takes_the_contract_it_is_written_with(arm_package: Package) -> None:
    recorded = contract(arm_package)
    assert recorded == contract_of(arm_package.manifest)
    assert [joint.kp for joint in recorded.joints] == [20.0, 20.0]
    assert set(recorded.files) == {"artifacts/act.onnx", "artifacts/decide.onnx", "state.safetensors"}


def test_what_is_only_said_is_no_part_of_it(tmp_path: Path) -> None:
    package = support.write_arm(tmp_path / "p", description="an arm", version="1.2", metadata={"a": 1})
    recorded = contract(package)
    assert (recorded.description, recorded.version, recorded.metadata) == (None, None, {})
    assert recorded == contract(support.write_arm(tmp_path / "q"))


def test_it_survives_a_manifest_that_was_edited(arm_package: Package) -> None:
    support.edit_manifest(arm_package.path, lambda document: document["joints"][0].update(kp=0.0))
    edited = read(arm_package.path)
    assert edited.manifest.joints[0].kp == 0.0
    assert contract(edited).joints[0].kp == 20.0


def test_it_survives_being_written_again_packed_and_added_to(arm_package: Package, tmp_path: Path) -> None:
    before = contract(arm_package)
    joints = tuple(msgspec.structs.replace(joint, kp=1.0) for joint in arm_package.manifest.joints)
    files = {path: arm_package.read(path) for path in arm_package.manifest.files if path.startswith("artifacts/")}
    again = write(
        tmp_path / "again",
        msgspec.structs.replace(arm_package.manifest, joints=joints),
        files=files,
        initial=arm_package.initial_state(),
        golden=arm_package.golden(),
    )
    assert contract(again) == before
    more = add_files(again, {"report/x.txt": b"x"})
    assert contract(more) == before
    assert contract(pack(more, tmp_path / "p.ashore")) == before


def test_the_same_package_still_gives_the_same_bytes(tmp_path: Path) -> None:
    one, two = (support.write_arm(tmp_path / name) for name in ("one", "two"))
    assert one.read("golden.safetensors") == two.read("golden.safetensors")


def test_a_rollout_of_an_older_ashore_has_none_and_gets_none(tmp_path: Path) -> None:
    package = read(Path(__file__).parents[1] / "data" / "v1" / "arm.ashore")
    golden = package.golden()
    assert golden is not None
    assert golden.contract == UNKNOWN
    files = {path: package.read(path) for path in package.manifest.files if path.startswith("artifacts/")}
    again = write(tmp_path / "again", package.manifest, files=files, initial=package.initial_state(), golden=golden)
    assert load_notes(again.read("golden.safetensors")) == {}


@pytest.mark.parametrize("text", ["", "{", '{"format": "other"}', '{"format": "ashore-policy-package"}'])
def test_a_contract_that_cannot_be_read_is_refused(arm_package: Package, text: str) -> None:
    arrays = load_arrays(arm_package.read("golden.safetensors"), "golden")
    support.change_file(arm_package.path, "golden.safetensors", save_arrays(arrays, {"contract": text}))
    with pytest.raises(PackageError, match=r"golden\.safetensors: the contract that it was recorded with: manifest"):
        read(arm_package.path).golden()
