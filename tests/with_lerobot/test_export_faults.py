"""What other exporters get wrong: here it is right, and an export that got it wrong would have failed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from statistics_of_data import TASK, observations

from ashore import load
from ashore.errors import AshoreError, ExportError, InputError
from ashore.integrations.lerobot import export_lerobot, load_checkpoint
from ashore.integrations.lerobot.exportable import LeRobotExport, adapt
from ashore.package import Package, read, write
from ashore.spec import Manifest, Stage

Change = Callable[[Stage], Stage]


def params(**changed: Any) -> Change:
    def change(stage: Stage) -> Stage:
        assert stage.processor is not None
        made = msgspec.structs.replace(stage.processor, params=stage.processor.params | changed)
        return msgspec.structs.replace(stage, processor=made)

    return change


def steps(**changed: Any) -> Change:
    def change(stage: Stage) -> Stage:
        assert stage.runner is not None
        made = msgspec.structs.replace(stage.runner, params=stage.runner.params | changed)
        return msgspec.structs.replace(stage, runner=made)

    return change


def tampered(package: Package, out: Path, stage: str, change: Change) -> Package:
    """The package with one stage changed, written and sealed like any other."""
    manifest: Manifest = package.manifest
    stages = manifest.stages | {stage: change(manifest.stages[stage])}
    files = {
        name: package.read(name) for name in manifest.files if name not in ("state.safetensors", "golden.safetensors")
    }
    return write(
        out,
        msgspec.structs.replace(manifest, stages=stages, files={}, verification=None, manifest_sha256=None),
        files=files,
        initial=package.initial_state(),
    )


FAULTS = [
    ("act", "normalize.observation.images.top", params(eps=1e-2)),
    ("act", "image.observation.images.top", params(range=[0.0, 0.9])),
    ("act_ensembling", "temporal_ensemble.action", params(coefficient=0.5)),
    ("ddpm", "slice.action", params(start=[0, 0, 0])),
    ("ddpm", "generate", steps(clip_sample=False)),
    ("ddpm", "generate", steps(variance_type="fixed_large")),
    ("ddim", "generate", steps(prediction_type="epsilon")),
    ("vqbet", "denormalize.action", params(mode="quantiles", eps=1e-2)),
    ("smolvla", "resize_with_pad.observation.images.top", params(align="center")),
    ("smolvla", "prompt.task", params(newline=False, clean=True)),
    ("smolvla", "generate", steps(num_steps=4)),
    ("pi05", "image.observation.images.top_2", params(range=[-1.0, 0.5])),
    ("pi05", "resize_with_pad.observation.images.top", params(value=0.0)),
    ("pi05", "resize_with_pad.observation.images.top", params(align="bottom_right")),
    ("pi05", "prompt.task", params(bins=128)),
    ("pi05", "prompt.task", params(clean=False)),
]


@pytest.mark.parametrize(("name", "stage", "change"), FAULTS, indirect=["name"])
def test_an_export_that_got_it_wrong_fails(
    package: Package, saved: Path, tmp_path: Path, name: str, stage: str, change: Change
) -> None:
    found = load_checkpoint(saved)
    kind = adapt(found.policy)
    assert kind is not None
    export = LeRobotExport(found.policy, kind.kind, found.pipelines)
    export.prepare_example()
    wrong = tampered(package, tmp_path / name, stage, change)
    with pytest.raises(ExportError, match="does not compute what LeRobot's own pipeline computes"):
        export.check_package(wrong, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["pi05"], indirect=True)
def test_the_prompt_holds_the_state_and_images_are_mapped_with_their_padding(package: Package) -> None:
    stages = package.manifest.stages
    prompt = stages["prompt.task"].processor
    assert prompt is not None
    assert prompt.params["template"] == "Task: {task}, State: {state};\nAction: "
    assert stages["pad.observation.state"].outputs["y"].shape == (1, 32)  # not max_state_dim, which is 10
    resize, mapping = (
        stages[f"{kind}.observation.images.top{end}"] for kind, end in (("resize_with_pad", ""), ("image", "_2"))
    )
    assert resize.processor is not None
    assert mapping.processor is not None
    assert resize.processor.params == {"value": -1.0, "align": "center", "clip": [-1.0, 1.0]}
    assert mapping.processor.params["range"] == [-1.0, 1.0]


@pytest.mark.parametrize("name", ["vqbet"], indirect=True)
def test_a_failed_export_leaves_nothing(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ExportError("something is wrong")

    monkeypatch.setattr(LeRobotExport, "check_package", fails)
    with pytest.raises(ExportError, match="something is wrong"):
        export_lerobot(saved, tmp_path / "package", picture=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["vqbet"], indirect=True)
def test_flipped_bits_do_not_load(package: Package, tmp_path: Path) -> None:
    copied = tampered(package, tmp_path / "package", "denormalize.action", lambda stage: stage)
    weights = copied.path / "artifacts" / "model.onnx"
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 1
    weights.write_bytes(data)
    with pytest.raises(AshoreError, match=r"model\.onnx"):
        load(read(copied.path))


@pytest.mark.parametrize("name", ["act"], indirect=True)
def test_what_a_robot_must_not_do_is_refused(package: Package, eager: Any) -> None:
    (seen,) = observations(eager.config, 1)
    policy = load(package)
    with pytest.raises(InputError, match="is nan; expected finite values"):
        policy.select_action(seen | {"observation.state": np.full(14, np.nan, np.float32)})
    with pytest.raises(InputError, match=r"expected shape \[1, 48, 64, 3\], got \[2, 48, 64, 3\]"):
        policy.select_action({key: np.stack([value] * 2) for key, value in seen.items()})
    with pytest.raises(InputError, match=r"observation\.state' is missing"):
        policy.select_action({key: value for key, value in seen.items() if key != "observation.state"})
    with pytest.raises(AshoreError, match="'GPU'|nowhere"):
        load(package, backend="openvino", device="nowhere")


@pytest.mark.parametrize("name", ["pi05"], indirect=True)
def test_the_state_is_felt_through_the_prompt(package: Package, eager: Any) -> None:
    one, other = observations(eager.config, 2)
    policy, actions = load(package), []
    for seen in (one, one | {"observation.state": other["observation.state"]}):
        policy.reset()
        actions.append(policy.select_action(seen | {"task": TASK}, seed=1))
    assert np.abs(actions[0] - actions[1]).max() > 1e-3
