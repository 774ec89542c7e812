"""Options of the policies that their usual configuration leaves alone. Each export compares itself with LeRobot."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import policies
import pytest
from lerobot.configs.types import FeatureType, PolicyFeature

from ashore.integrations.lerobot import export_lerobot
from ashore.package import Package


def varied(monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
    """Have the next checkpoint made with other options."""
    save = policies.save

    def changed(config: Any, folder: Path, *args: Any, **kwargs: Any) -> None:
        for name, value in options.items():
            setattr(config, name, value)
        config.__post_init__()
        save(config, folder, *args, **kwargs)

    monkeypatch.setattr(policies, "save", changed)


def exported(make: Callable[[Path], None], tmp_path: Path, change: Callable[[Path], None] | None = None) -> Package:
    make(tmp_path / "checkpoint")
    if change is not None:
        change(tmp_path / "checkpoint")
    package = export_lerobot(tmp_path / "checkpoint", tmp_path / "package", picture=False)
    assert package.manifest.metadata["lerobot"]["max_abs_error"] <= 1e-5
    return package


def said(tmp_path: Path, file: str = "config.json") -> dict[str, Any]:
    return json.loads((tmp_path / "checkpoint" / file).read_text())


def test_vqbet_that_draws_its_codes_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    varied(monkeypatch, sequentially_select=True)
    exported(policies.vqbet, tmp_path)
    assert said(tmp_path)["sequentially_select"]


def test_diffusion_that_resizes_its_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    varied(monkeypatch, resize_shape=(32, 40), crop_ratio=0.9, crop_shape=None)
    exported(policies.ddim, tmp_path)
    assert (said(tmp_path)["resize_shape"], said(tmp_path)["crop_shape"]) == ([32, 40], [28, 36])


def test_act_with_an_environment_state_and_other_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a robot calls its camera and its joints is not what the policy was trained with."""
    environment = PolicyFeature(FeatureType.ENV, (4,))
    save = policies.save

    def changed(config: Any, folder: Path, *args: Any, **kwargs: Any) -> None:
        config.input_features["observation.environment_state"] = environment
        save(config, folder, *args, **kwargs)

    def rename(folder: Path) -> None:
        path = folder / "policy_preprocessor.json"
        pipeline = json.loads(path.read_text())
        pipeline["steps"][0]["config"]["rename_map"] = {
            "observation.images.head": "observation.images.top",
            "observation.joints": "observation.state",
            "observation.elsewhere": "observation.nothing",
        }
        path.write_text(json.dumps(pipeline))

    monkeypatch.setattr(policies, "save", changed)
    package = exported(policies.act, tmp_path, rename)
    assert set(package.manifest.inputs) == {
        "observation.images.head",
        "observation.images.wrist",
        "observation.joints",
        "observation.environment_state",
    }


def test_smolvla_with_a_camera_that_is_not_there_and_text_of_any_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LeRobot pads no text then, and the prefix is as long as it is."""
    varied(monkeypatch, empty_cameras=1, pad_language_to="longest", add_image_special_tokens=True)
    package = exported(policies.smolvla, tmp_path)
    assert len([name for name in said(tmp_path)["input_features"] if "empty" in name]) == 1
    (tokenizer,) = [
        step["config"]
        for step in said(tmp_path, "policy_preprocessor.json")["steps"]
        if step["registry_name"] == "tokenizer_processor"
    ]
    assert tokenizer["padding"] == "longest"
    assert not [name for name in package.manifest.inputs if "empty" in name]


def test_pi05_with_a_camera_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    varied(monkeypatch, empty_cameras=1)
    package = exported(policies.pi05, tmp_path)
    assert len([name for name in said(tmp_path)["input_features"] if "empty" in name]) == 1
    assert not [name for name in package.manifest.inputs if "empty" in name]
