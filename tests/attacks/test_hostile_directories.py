"""Packages made to do harm or to confuse, as directories. Each is one clear error; none is run, none crashes.

Where an attack changes a file, the digests are made to agree, as somebody who means it would do: what is tested is the
check behind the digest, unless the attack is on the digest itself.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ashore
import support
from ashore.errors import AshoreError, VerificationError
from ashore.package import read
from ashore.package.tensors import load_arrays, save_arrays
from ashore.verify import replay
from support import change_file, edit_manifest

Attack = Callable[[Path], Any]
ATTACKS: dict[str, tuple[Attack, str]] = {}


def attack(message: str) -> Callable[[Attack], Attack]:
    """Register an attack and what it must be answered with."""

    def register(function: Attack) -> Attack:
        ATTACKS[function.__name__] = function, message
        return function

    return register


def unsealed(change: Callable[[dict[str, Any]], Any]) -> Attack:
    return lambda package: edit_manifest(package, change, reseal=False)


def text_attack(old: str, new: str) -> Attack:
    def change(package: Path) -> None:
        path = package / "manifest.json"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return change


def rename_file(package: Path, old: str, new: str, *, move: bool = True) -> None:
    def change(document: dict[str, Any]) -> None:
        document["files"][new] = document["files"].pop(old)
        for stage in document["stages"].values():
            for artifact in stage["artifacts"].values():
                artifact["path"] = new if artifact["path"] == old else artifact["path"]

    edit_manifest(package, change, reseal=False)
    if move:
        target = package / new
        target.parent.mkdir(parents=True, exist_ok=True)
        (package / old).rename(target)


# --- paths and links -------------------------------------------------------------------------------------------------


@attack(r"files\['\.\./stolen\.onnx'\]: a path has no empty, '\.' or '\.\.' part")
def path_traversal(package: Path) -> None:
    rename_file(package, "artifacts/act.onnx", "../stolen.onnx")


@attack("a path is relative to the package")
def absolute_path(package: Path) -> None:
    rename_file(package, "artifacts/act.onnx", "/etc/hostname", move=False)


@attack("a path is relative to the package, with forward slashes")
def backslash_path(package: Path) -> None:
    rename_file(package, "artifacts/act.onnx", "artifacts\\..\\act.onnx", move=False)


@attack(r"the part '\.bashrc' is not made of letters")
def hidden_file(package: Path) -> None:
    rename_file(package, "artifacts/act.onnx", ".bashrc")


@attack("'artifacts/act.onnx' is a link; a package holds plain files only")
def symlinked_artifact(package: Path) -> None:
    (package / "artifacts" / "act.onnx").rename(package.parent / "act.onnx")
    (package / "artifacts" / "act.onnx").symlink_to(package.parent / "act.onnx")


@attack("'artifacts' is a link")
def symlinked_directory(package: Path) -> None:
    (package / "artifacts").rename(package.parent / "elsewhere")
    (package / "artifacts").symlink_to(package.parent / "elsewhere")


@attack(r"'manifest\.json' is a link")
def symlinked_manifest(package: Path) -> None:
    (package / "manifest.json").rename(package.parent / "manifest.json")
    (package / "manifest.json").symlink_to(package.parent / "manifest.json")


@attack("'artifacts/loop' is a link")
def link_to_itself(package: Path) -> None:
    (package / "artifacts" / "loop").symlink_to(package)


@attack("'pipe' is a special file")
def named_pipe(package: Path) -> None:
    os.mkfifo(package / "pipe")


@attack(r"there is no manifest\.json here")
def manifest_is_a_directory(package: Path) -> None:
    (package / "manifest.json").unlink()
    (package / "manifest.json").mkdir()


@attack("at most by upper and lower case")
def names_that_collide_on_some_file_systems(package: Path) -> None:
    edit_manifest(
        package,
        lambda d: d["files"].update({"artifacts/ACT.onnx": d["files"]["artifacts/act.onnx"]}),
        reseal=False,
    )


# --- digests and files -----------------------------------------------------------------------------------------------


@attack(r"artifacts/act\.onnx is damaged")
def wrong_digest(package: Path) -> None:
    edit_manifest(package, lambda d: d["files"]["artifacts/act.onnx"].update(sha256="0" * 64))


@attack(r"artifacts/act\.onnx: expected \d+ bytes, got 10")
def truncated_artifact(package: Path) -> None:
    path = package / "artifacts" / "act.onnx"
    path.write_bytes(path.read_bytes()[:10])


@attack("ONNX Runtime refuses it|not a readable ONNX file")
def truncated_artifact_with_its_digest(package: Path) -> None:
    change_file(package, "artifacts/act.onnx", (package / "artifacts" / "act.onnx").read_bytes()[:-25])


@attack(r"state\.safetensors: not a readable safetensors file")
def truncated_state_with_its_digest(package: Path) -> None:
    change_file(package, "state.safetensors", (package / "state.safetensors").read_bytes()[:-3])


@attack(r"golden\.safetensors: not a readable safetensors file")
def truncated_golden_with_its_digest(package: Path) -> None:
    change_file(package, "golden.safetensors", (package / "golden.safetensors").read_bytes()[:-3])


@attack(r"artifacts/act\.onnx is missing")
def missing_artifact(package: Path) -> None:
    (package / "artifacts" / "act.onnx").unlink()


@attack(r"sitecustomize\.py is not listed in the manifest")
def unlisted_code(package: Path) -> None:
    (package / "sitecustomize.py").write_text("raise SystemExit")


@attack("expected a length in bytes, got -1")
def negative_size(package: Path) -> None:
    edit_manifest(package, lambda d: d["files"]["artifacts/act.onnx"].update(size=-1), reseal=False)


@attack(r"artifacts/act\.onnx: expected 1000000000000000 bytes")
def huge_size(package: Path) -> None:
    edit_manifest(package, lambda d: d["files"]["artifacts/act.onnx"].update(size=10**15))


@attack(r"manifest\.json was changed after the package was written")
def gain_changed_by_hand(package: Path) -> None:
    text_attack('"kp": 20.0', '"kp": 90.0')(package)


@attack(r"manifest\.json was changed after the package was written")
def seal_removed(package: Path) -> None:
    edit_manifest(package, lambda d: d.update(manifest_sha256=None), reseal=False)


@attack(r"substep 0: outputs/torque\[0, 0\] \(shoulder\): expected .*, got ")
def swapped_names(package: Path) -> None:
    """Two outputs of one shape change places: only the recorded rollout can tell."""
    swap = {"act/torque": "act/f_out", "act/f_out": "act/torque"}
    edit_manifest(package, lambda d: [w.update(source=swap.get(w["source"], w["source"])) for w in d["wires"]])


@attack("the manifest says .* the artifact has")
def artifacts_exchanged(package: Path) -> None:
    act, decide = ((package / "artifacts" / f"{name}.onnx").read_bytes() for name in ("act", "decide"))
    change_file(package, "artifacts/act.onnx", decide)
    change_file(package, "artifacts/decide.onnx", act)


# --- JSON ------------------------------------------------------------------------------------------------------------

ATTACKS |= {
    "nan_in_json": (text_attack('"policy_dt_s": 0.02', '"policy_dt_s": NaN'), "NaN is no JSON number"),
    "infinity_in_json": (text_attack('"policy_dt_s": 0.02', '"policy_dt_s": 1e999'), "1e999 is too large"),
    "key_given_twice": (
        text_attack('"kp": 20.0', '"kp": 1.0, "kp": 20.0'),
        r"joints\[0\]\.kp: the key is given twice",
    ),
    "comment_in_json": (text_attack('"kp": 20.0', '/* safe */ "kp": 20.0'), "not valid JSON"),
    "cut_in_half": (lambda p: (p / "manifest.json").write_bytes((p / "manifest.json").read_bytes()[:500]), "not valid"),
    "empty_manifest": (lambda p: (p / "manifest.json").write_bytes(b""), "not valid JSON"),
    "not_utf8": (lambda p: (p / "manifest.json").write_bytes(b"\xff{}"), "not UTF-8"),
    "nested_without_end": (lambda p: (p / "manifest.json").write_bytes(b'{"a":' * 10**5), "not valid JSON"),
    "twenty_megabytes": (lambda p: (p / "manifest.json").write_bytes(b" " * 20_000_000), "a manifest has at most"),
    "huge_integer": (text_attack('"decimation": 4', f'"decimation": {"9" * 5000}'), "not valid JSON"),
    "unknown_key": (unsealed(lambda d: d["timing"].update(jitter=1)), "timing: Object contains unknown field 'jitter'"),
    "version_99": (unsealed(lambda d: d.update(schema_version=99)), "has version 99"),
    "another_format": (unsealed(lambda d: d.update(format="policy_package")), "this is not an Ashore package"),
    "unknown_runner": (
        lambda p: edit_manifest(p, lambda d: d["runner"].update(type="eval")),
        "this Ashore has no runner 'eval'",
    ),
    "escape_codes": (unsealed(lambda d: d.update(description="\x1b]0;owned\x07")), "holds control characters"),
    "lone_surrogate": (unsealed(lambda d: d.update(description="\ud800")), "not UTF-8"),
    "name_with_a_path": (unsealed(lambda d: d.update(name="../../x")), "name: '../../x' is not made of letters"),
}


# --- shapes, wires, states -------------------------------------------------------------------------------------------


def reshape(*shape: Any) -> Attack:
    def change(document: dict[str, Any]) -> None:
        for port in (document["inputs"]["q"], document["stages"]["decide"]["inputs"]["q"]):
            port["shape"] = list(shape)
            port["element_names"] = None

    return unsealed(change)


def rewire(source: str, target: str) -> Attack:
    def change(document: dict[str, Any]) -> None:
        document["wires"] = [wire for wire in document["wires"] if wire["target"] != target]
        document["wires"].append({"source": source, "target": target})

    return unsealed(change)


ATTACKS |= {
    "huge_shape": (reshape(1, 10**12), r"inputs\.q\.shape: .* is over \d+ bytes"),
    "shape_that_overflows": (reshape(2**62, 2**62), r"inputs\.q\.shape: .* is over \d+ bytes"),
    "negative_dimension": (reshape(1, -2), r"inputs\.q\.shape\[1\]: expected a positive length"),
    "empty_dimension": (reshape(1, 0), r"inputs\.q\.shape\[1\]: expected a positive length"),
    "fractional_dimension": (reshape(1, 2.5), r"shape\[1\]: "),
    "hundred_axes": (reshape(*[1] * 100), "100 axes; at most 8"),
    "cyclic_wiring": (rewire("act/f_out", "act/f_in"), "a cycle without a state: act -> act"),
    "dangling_wire": (rewire("nobody/x", "act/v"), "'nobody/x' is nothing that a wire can have as its source"),
    "wire_across_rates": (rewire("decide/action", "act/held"), "join them by a state"),
    "wire_of_another_dtype": (rewire("states/ticks", "act/held"), "dtype 'int64', act/held has 'float32'"),
    "joint_nobody_has": (unsealed(lambda d: d["joints"][0].update(name="hip")), "joint 'shoulder' does not exist"),
    "joints_left_unnamed": (unsealed(lambda d: d["inputs"]["q"].update(element_names=None)), "must name its joints"),
    "tolerance_that_proves_nothing": (
        unsealed(lambda d: d.update(verification={"status": "passed", "steps": 1, "atol": 1e9, "rtol": 0.0})),
        "expected a tolerance from 0 to 0.01",
    ),
    "negative_gain": (unsealed(lambda d: d["joints"][0].update(kp=-20.0)), "kp: -20.0 of 'shoulder' is negative"),
    "decimation_zero": (unsealed(lambda d: d["timing"].update(decimation=0)), "decimation: expected at least 1"),
    "missing_kind": (unsealed(lambda d: d["inputs"]["q"].update(kind="state/joint/postion")), "unknown kind"),
}


@attack("stage 'decide' .*: input 'q': the manifest says shape")
def port_larger_than_the_artifact_has(package: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        for port in (document["inputs"]["q"], document["stages"]["decide"]["inputs"]["q"]):
            port.update(shape=[1, 2000], element_names=None, kind=None)

    edit_manifest(package, change)
    (package / "golden.safetensors").unlink()
    edit_manifest(package, lambda d: d["files"].pop("golden.safetensors"))


def state_attack(change: Callable[[dict[str, Any]], Any]) -> Attack:
    def apply(package: Path) -> None:
        arrays = dict(load_arrays((package / "state.safetensors").read_bytes(), "state"))
        change(arrays)
        change_file(package, "state.safetensors", save_arrays(arrays))

    return apply


ATTACKS |= {
    "state_of_another_shape": (
        state_attack(lambda a: a.update(filter=np.zeros((1, 3), np.float32))),
        r"state\.safetensors: filter: expected shape \[1, 2\], got \[1, 3\]",
    ),
    "state_that_would_broadcast": (
        state_attack(lambda a: a.update(filter=np.zeros((1, 1), np.float32))),
        r"filter: expected shape \[1, 2\], got \[1, 1\]",
    ),
    "state_of_another_dtype": (
        state_attack(lambda a: a.update(ticks=np.zeros(1, np.float32))),
        "ticks: expected dtype int64, got float32",
    ),
    "state_with_a_nan": (
        state_attack(lambda a: a.update(filter=np.full((1, 2), np.nan, np.float32))),
        "filter: holds NaN",
    ),
    "state_nobody_declared": (
        state_attack(lambda a: a.update(extra=np.zeros(1))),
        r"expected the states \['action', 'filter', 'ticks'\]",
    ),
    "state_left_out": (state_attack(lambda a: a.pop("filter")), "expected the states"),
}


@attack(r"golden\.safetensors: policy/inputs/qq belongs to no port|policy/inputs/q is missing")
def golden_of_another_package(package: Path) -> None:
    arrays = dict(load_arrays((package / "golden.safetensors").read_bytes(), "golden"))
    arrays["policy/inputs/qq"] = arrays.pop("policy/inputs/q")
    change_file(package, "golden.safetensors", save_arrays(arrays))


# --- code ------------------------------------------------------------------------------------------------------------


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("executed",)


@attack(r"state\.safetensors: not a readable safetensors file")
def pickle_as_state(package: Path) -> None:
    change_file(package, "state.safetensors", pickle.dumps(Bomb()))


@attack(r"golden\.safetensors: not a readable safetensors file")
def pickle_as_golden(package: Path) -> None:
    change_file(package, "golden.safetensors", pickle.dumps(Bomb()))


@attack("ONNX Runtime refuses it|not a readable ONNX file")
def pickle_as_artifact(package: Path) -> None:
    change_file(package, "artifacts/act.onnx", pickle.dumps(Bomb()))


@attack("stage 'act' has artifacts only for \\['pickle'\\], and this Ashore runs")
def backend_that_would_run_code(package: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["stages"]["act"]["artifacts"] = {"pickle": {"path": "artifacts/act.onnx"}}

    edit_manifest(package, change)


@attack("ONNX Runtime refuses it: .*evil")
def operator_from_a_library(package: Path) -> None:
    made = onnx.load_from_string((package / "artifacts" / "act.onnx").read_bytes())
    made.opset_import.append(onnx.helper.make_opsetid("evil", 1))
    for node in made.graph.node:
        if node.op_type == "Sub":
            node.domain, node.op_type = "evil", "evil"
    change_file(package, "artifacts/act.onnx", made.SerializeToString())


@attack("keeps weights outside the file, in '/etc/hostname'")
def weights_from_the_system(package: Path) -> None:
    made = onnx.load_from_string((package / "artifacts" / "act.onnx").read_bytes())
    weights = onnx.numpy_helper.from_array(np.zeros(4, np.float32), "unused")
    onnx.external_data_helper.set_external_data(weights, location="/etc/hostname")
    made.graph.initializer.append(weights)
    change_file(package, "artifacts/act.onnx", made.SerializeToString())


@attack(r"stages\.act\.processor\.assets: '\.\./\.\./stats' does not exist")
def processor_that_reads_elsewhere(package: Path) -> None:
    entry = {"type": "normalize", "params": {"mode": "mean_std"}, "assets": ["../../stats"]}
    edit_manifest(package, lambda d: d["stages"]["act"].update(artifacts={}, processor=entry), reseal=False)


def use_everything(package: Path) -> None:
    """What a careless user does with a package from the network."""
    read(package)
    policy = ashore.load(package)
    report = replay(read(package))
    if not report.passed:
        raise VerificationError(report.mismatches[0].message)
    policy.step({name: np.zeros(port.shape, port.dtype) for name, port in policy.inputs.items() if name == "q"})


def test_the_untouched_package_is_fine(tmp_path: Path) -> None:
    use_everything(support.write_arm(tmp_path / "arm").path)


@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_is_one_clear_error(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change, message = ATTACKS[name]
    package = support.write_arm(tmp_path / "arm").path
    change(package)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AshoreError, match=message):
        use_everything(package)
    assert not (tmp_path / "executed").exists()


def test_there_are_at_least_thirty_attacks() -> None:
    assert len(ATTACKS) >= 30


def test_what_would_be_unpickled_is_not_opened_unless_somebody_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = support.write_arm(tmp_path / "arm").path
    change_file(package, "artifacts/act.onnx", pickle.dumps(Bomb()))

    def change(document: dict[str, Any]) -> None:
        order = {"inputs": ["v", "held", "f_in", "n_in"], "outputs": ["torque", "f_out", "n_out"]}
        document["stages"]["act"]["artifacts"] = {"pt2": {"path": "artifacts/act.onnx", **order}}

    edit_manifest(package, change)
    monkeypatch.chdir(tmp_path)
    for use in (lambda: ashore.load(package), lambda: replay(read(package))):
        with pytest.raises(AshoreError, match="can run any code when they are opened"):
            use()
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("backend", ["torchscript", "pt2"])
def test_who_asks_for_onnx_never_hands_a_file_to_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    """Torch unpickles some of its files, so only a person may choose it for a package that nobody knows."""
    package = support.write_arm(tmp_path / "arm").path
    change_file(package, "artifacts/act.onnx", pickle.dumps(Bomb()))

    def change(document: dict[str, Any]) -> None:
        order = {"inputs": ["v", "held", "f_in", "n_in"], "outputs": ["torque", "f_out", "n_out"]}
        document["stages"]["act"]["artifacts"] = {backend: {"path": "artifacts/act.onnx", **order}}

    edit_manifest(package, change)
    monkeypatch.chdir(tmp_path)
    for use in (lambda: ashore.load(package, backend="onnx"), lambda: replay(read(package), backend="onnx")):
        with pytest.raises(AshoreError, match=rf"stage 'act' has no artifact for 'onnx'; it has \['{backend}'\]"):
            use()
    assert not (tmp_path / "executed").exists()
