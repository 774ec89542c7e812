"""What cannot be carried into a package exactly is refused by its name, before anything is exported."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.tdmpc.configuration_tdmpc import TDMPCConfig
from lerobot.policies.tdmpc.modeling_tdmpc import TDMPCPolicy
from safetensors.torch import load_file, save_file

from ashore.errors import AshoreError, ExportError, InputError
from ashore.integrations.lerobot import export_lerobot, load_checkpoint
from ashore.integrations.lerobot.exportable import LeRobotExport, adapt
from ashore.staged import export_policy


@pytest.fixture
def copied(saved: Path, tmp_path: Path) -> Path:
    """A checkpoint to spoil."""
    return Path(shutil.copytree(saved, tmp_path / "checkpoint"))


def pipeline(folder: Path, change: Callable[[list[dict[str, Any]]], None], where: str = "pre") -> None:
    path = folder / f"policy_{where}processor.json"
    said = json.loads(path.read_text())
    change(said["steps"])
    path.write_text(json.dumps(said))


def weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def refused(folder: Path, message: str, kind: type[AshoreError] = ExportError, **options: Any) -> None:
    out = folder.parent / "package"
    with pytest.raises(kind, match=message):
        export_lerobot(folder, out, picture=False, **options)
    assert not out.exists()


def loaded(folder: Path) -> LeRobotExport:
    found = load_checkpoint(folder)
    kind = adapt(found.policy)
    assert kind is not None
    return LeRobotExport(found.policy, kind.kind, found.pipelines)


@pytest.mark.parametrize("name", ["vqbet"], indirect=True)
class TestCheckpoints:
    def test_steps_that_nobody_knows(self, copied: Path) -> None:
        pipeline(copied, lambda steps: steps.append({"registry_name": "delta_action_processor", "config": {}}))
        refused(copied, r"policy_preprocessor\.json: the step 'delta_action_processor' cannot be carried")

    def test_steps_of_somebodys_own_class(self, copied: Path) -> None:
        pipeline(copied, lambda steps: steps.insert(0, {"class": "os.system", "config": {}}), "post")
        refused(copied, r"policy_postprocessor\.json: the step 'os.system' cannot be carried")

    def test_half_precision_between_the_steps(self, copied: Path) -> None:
        def change(steps: list[dict[str, Any]]) -> None:
            (device,) = [one for one in steps if one["registry_name"] == "device_processor"]
            device["config"]["float_dtype"] = "float16"

        pipeline(copied, change)
        refused(copied, "device_processor: float_dtype 'float16'")

    def test_statistics_that_are_missing(self, copied: Path) -> None:
        """LeRobot leaves such a feature as it is, in silence."""
        (state,) = copied.glob("policy_preprocessor_step_*_normalizer_processor.safetensors")
        save_file({key: one for key, one in load_file(state).items() if "observation.state." not in key}, state)
        refused(copied, r"normalizer_processor: 'observation\.state' is scaled by min_max, and there is no min")

    def test_weights_that_are_missing(self, copied: Path) -> None:
        weights(copied, lambda tensors: tensors.pop(next(key for key in sorted(tensors) if key.endswith("weight"))))
        refused(copied, r"model\.safetensors: has no 'vqbet\..*weights that were never trained", InputError)

    def test_weights_that_nothing_takes(self, copied: Path) -> None:
        weights(copied, lambda tensors: tensors.update(other=torch.zeros(2)))
        refused(copied, r"holds 'model\.other', which the policy does not have|holds 'other'", InputError)

    def test_statistics_among_the_weights_of_an_old_checkpoint(self, copied: Path) -> None:
        old = "normalize_inputs.buffer_observation_state.mean"
        weights(copied, lambda tensors: tensors.update({old: torch.zeros(7)}))
        refused(copied, "LeRobot before 0.4 kept statistics among the weights", InputError)

    def test_a_folder_without_processors(self, copied: Path) -> None:
        (copied / "policy_postprocessor.json").unlink()
        refused(copied, r"has no policy_postprocessor\.json", InputError)

    def test_a_folder_that_is_none(self, copied: Path) -> None:
        refused(copied / "elsewhere", r"there is no config\.json", InputError)

    def test_a_policy_that_is_not_trained_to_its_end(self, copied: Path) -> None:
        key = "vqbet.action_head.vqvae_model.discretized"
        weights(copied, lambda tensors: tensors.update({key: torch.tensor(False)}))
        refused(copied, "still in the first phase of its training")

    def test_guidance_of_what_is_no_flow(self, copied: Path) -> None:
        refused(copied, "guidance: real-time chunking is for flows", guidance=True)

    def test_a_step_of_a_training_run_is_found(self, saved: Path, tmp_path: Path) -> None:
        shutil.copytree(saved, tmp_path / "000100" / "pretrained_model")
        assert load_checkpoint(tmp_path / "000100").folder == tmp_path / "000100" / "pretrained_model"

    def test_observations_that_are_missing_or_many(self, saved: Path) -> None:
        export = loaded(saved)
        example = export.default_example()
        with pytest.raises(InputError, match=r"example_batch: expected \['observation"):
            export.prepare_example({"observation.images.top": example["observation.images.top"]})
        two = {key: torch.cat([torch.from_numpy(one)] * 2) for key, one in example.items()}
        with pytest.raises(InputError, match="expected one row"):
            export.prepare_example(two)


@pytest.mark.parametrize("name", ["smolvla"], indirect=True)
class TestOptions:
    @pytest.mark.parametrize(
        ("option", "value", "message"),
        [
            ("adapt_to_pi_aloha", True, "adapt_to_pi_aloha: its joint flips are not carried"),
            ("use_cache", False, "use_cache=False"),
        ],
    )
    def test_of_smolvla(self, saved: Path, option: str, value: object, message: str) -> None:
        export = loaded(saved)
        setattr(export.config, option, value)
        with pytest.raises(ExportError, match=message):
            export.get_export_modules()

    def test_weights_of_half_precision(self, saved: Path) -> None:
        export = loaded(saved)
        export.policy.model.vlm_with_expert.vlm.to(torch.bfloat16)
        with pytest.raises(ExportError, match=r"weights in torch\.bfloat16.*policy\.float\(\)"):
            export.get_export_modules()

    def test_guidance_that_is_not_configured(self, saved: Path) -> None:
        found = load_checkpoint(saved)
        found.policy.config.rtc_config = None
        export = LeRobotExport(found.policy, "SmolVLAPolicy", found.pipelines, guided=True)
        with pytest.raises(ExportError, match="guidance: it has no rtc_config"):
            export.get_export_modules()

    def test_tokenizers_that_only_run_in_python(self, saved: Path) -> None:
        export = loaded(saved)
        (step,) = [one for one in export.steps()[0] if hasattr(one, "input_tokenizer")]
        step.input_tokenizer = object()
        with pytest.raises(ExportError, match="tokenizer_processor: object is no fast tokenizer"):
            export.get_export_modules()

    def test_tasks_under_another_name(self, saved: Path) -> None:
        export = loaded(saved)
        (step,) = [one for one in export.steps()[0] if hasattr(one, "input_tokenizer")]
        step.task_key = "subtask"
        with pytest.raises(ExportError, match="task_key 'subtask'"):
            export.get_export_modules()


@pytest.mark.parametrize("name", ["act"], indirect=True)
def test_features_that_are_renamed_late(saved: Path) -> None:
    export = loaded(saved)
    before, _ = export.steps()
    rename = before.pop(0)
    rename.rename_map = {"observation.joints": "observation.state"}
    export._pipelines.before.steps = [*before, rename]  # type: ignore[union-attr]
    with pytest.raises(ExportError, match="rename_observations_processor: expected it first"):
        export.get_export_modules()


def test_policies_of_other_kinds() -> None:
    features = {"observation.state": PolicyFeature(FeatureType.STATE, (4,))}
    config = TDMPCConfig(
        device="cpu", input_features=features, output_features={"action": PolicyFeature(FeatureType.ACTION, (2,))}
    )
    with pytest.raises(ExportError, match="TDMPCPolicy: LeRobot policies that can be exported are ACTPolicy"):
        export_policy(TDMPCPolicy(config), "nowhere")


@pytest.mark.parametrize("name", ["act"], indirect=True)
def test_scaling_without_statistics(saved: Path) -> None:
    policy = load_checkpoint(saved).policy
    policy.config.pretrained_path = None
    with pytest.raises(InputError, match="no statistics are known to scale observations and actions with"):
        export_policy(policy, "nowhere")
