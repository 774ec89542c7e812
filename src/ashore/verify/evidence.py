"""What a replay cannot show: names, gains, rates and wires, against the contract that the rollout was recorded with.

Nothing that is replayed reads the name of a joint or its gain, so a package in which two names were swapped computes
the same as before, and moves another leg. The golden rollout carries its contract (`ashore.package.contract`); what the
manifest says now has to be the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ashore.package import Golden, Package
from ashore.spec import Joint, Manifest
from ashore.verify.changes import Change, changed_files, changes
from ashore.verify.onnx_file import read_onnx
from ashore.verify.problems import Problem

_GAINS = {"target/joint/position": "kp", "target/joint/velocity": "kd"}
"""Kind of a target -> the gain without which it moves nothing."""

_FEWEST_WEIGHTS = 64
"""So many numbers that are all float16 numbers are no coincidence."""


def check_evidence(package: Package, golden: Golden | None) -> list[Problem]:
    """Compare a package with the contract that its rollout was recorded with, and look at what it says of itself.

    Args:
        package: the package.
        golden: its rollout.
    """
    manifest = package.manifest
    recorded = golden.contract if golden is not None else None
    found: list[Problem] = []
    if isinstance(recorded, Manifest):
        found += [_changed(change) for change in changes(recorded, manifest)]
        found += [
            Problem(
                "files", "note", change.where, f"{change.where}: {change.detail} that the rollout was recorded with"
            )
            for change in changed_files(recorded, manifest)
        ]
    elif golden is not None:
        message = (
            "the rollout says nothing of the contract it was recorded with, since an older Ashore wrote it; names, "
            "gains and rates are taken as they stand"
        )
        found.append(Problem("contract", "note", "golden.safetensors", message))
    found += _gains(manifest, recorded if isinstance(recorded, Manifest) else None)
    found += _artifacts(package)
    return found


def _changed(change: Change) -> Problem:
    """A change of the contract. Whether other artifacts still compute the same is for the replay to say."""
    if "artifacts" in change.where.split("/"):
        return Problem("files", "note", change.where, f"{change.message}, since the rollout was recorded")
    message = f"{change.message}; the rollout was recorded with the former"
    return Problem("contract", "error", change.where, message)


def _gains(manifest: Manifest, recorded: Manifest | None) -> Iterator[Problem]:
    """A target for a joint without the gain that follows it: the robot would hang limp."""
    given = {port.kind for port in manifest.outputs.values()}
    joints = {joint.name: joint for joint in manifest.joints}
    before = {joint.name: joint for joint in recorded.joints} if recorded is not None else {}
    for name, port in manifest.outputs.items():
        gain = _GAINS.get(port.kind or "")
        names = port.element_names[-1] if port.element_names else None
        if gain is None or gain in given:  # the package gives the gains itself
            continue
        for joint in names or ():
            if joint in joints and _gain(joints[joint], gain) == 0:
                as_recorded = joint in before and _gain(before[joint], gain) == 0
                message = f"joints/{joint}/{gain}: is 0, so the {port.kind} in output {name!r} moves nothing"
                message += ", and so it was in the environment" if as_recorded else ""
                yield Problem("gains", "warning" if as_recorded else "error", f"joints/{joint}/{gain}", message)


def _gain(joint: Joint, gain: str) -> float | None:
    return joint.kp if gain == "kp" else joint.kd


def _artifacts(package: Package) -> Iterator[Problem]:
    """What ONNX files say of themselves, against the manifest."""
    for name, stage in package.manifest.stages.items():
        artifact = stage.artifacts.get("onnx")
        if artifact is None:
            continue
        where = f"stages/{name}/onnx"
        file = read_onnx(package.read(artifact.path), f"{package.path}: {artifact.path}")
        if artifact.opset is not None and file.opset != artifact.opset:
            message = f"{where}: the manifest says opset {artifact.opset}, {artifact.path} is written in {file.opset}"
            yield Problem("files", "warning", f"{where}/opset", message)
        floats = [value for value in file.weights.values() if value.dtype == np.float32]
        numbers = np.concatenate([np.zeros(0, np.float32), *(value.reshape(-1) for value in floats)])
        with np.errstate(over="ignore"):
            rounded = numbers == numbers.astype(np.float16).astype(np.float32)
        if rounded.all() and len(np.unique(numbers)) >= _FEWEST_WEIGHTS:
            message = f"{where}: all {numbers.size} weights of {artifact.path} are float16 numbers; they were rounded"
            yield Problem("files", "note", where, message)
