"""Small LeRobot policies of each kind, saved as LeRobot's training saves them, with statistics of data.

Weights are random, and none is left at an initial value that would make it disappear: a norm that scales by one, or a
bias of zero, would let an exporter forget it. Normalisation differs between state, images and action.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from language import paligemma_tokenizer, save_smolvlm
from lerobot.configs.types import FeatureType, NormalizationMode, PolicyFeature
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors
from lerobot.policies.rtc.configuration_rtc import RTCConfig
from lerobot.policies.smolvla.configuration_smolvla import SmolVLAConfig
from lerobot.policies.vqbet.configuration_vqbet import VQBeTConfig
from lerobot.processor import tokenizer_processor
from lerobot.processor.tokenizer_processor import TokenizerProcessorStep
from pi05_shaped import Pi05ShapedConfig
from statistics_of_data import HEIGHT, WIDTH, statistics

MIN_MAX, MEAN_STD = NormalizationMode.MIN_MAX, NormalizationMode.MEAN_STD
IDENTITY = NormalizationMode.IDENTITY
QUANTILES, QUANTILE10 = NormalizationMode.QUANTILES, NormalizationMode.QUANTILE10


def common(joints: int, actions: int, cameras: tuple[str, ...], **modes: NormalizationMode) -> dict[str, Any]:
    """What every policy's configuration says."""
    images = {
        f"observation.images.{camera}": PolicyFeature(FeatureType.VISUAL, (3, HEIGHT, WIDTH)) for camera in cameras
    }
    return {
        "device": "cpu",
        "push_to_hub": False,
        "input_features": images | {"observation.state": PolicyFeature(FeatureType.STATE, (joints,))},
        "output_features": {"action": PolicyFeature(FeatureType.ACTION, (actions,))},
        "normalization_mapping": {"VISUAL": modes["visual"], "STATE": modes["state"], "ACTION": modes["action"]},
    }


def save(config: Any, folder: Path, gain: float = 1.0, change: Callable[[Any], None] = lambda policy: None) -> None:
    """Make the policy that a configuration describes, and write it and its processors, as a checkpoint of training.

    The weights of linear layers are multiplied by `gain`, so that every input is felt in the actions: a network that
    was never trained mostly repeats its biases.
    """
    with torch.random.fork_rng():
        torch.manual_seed(11)
        policy = get_policy_class(config.type)(config)
        disturb(policy, gain)
    change(policy)
    policy.eval()
    state, action = config.robot_state_feature.shape[0], config.action_feature.shape[0]
    cameras = tuple(key.removeprefix("observation.images.") for key in config.image_features)
    before, after = make_pre_post_processors(config, dataset_stats=statistics(state, action, cameras))
    for step in before.steps:
        if isinstance(step, TokenizerProcessorStep) and isinstance(config, Pi05ShapedConfig):
            step.tokenizer_name = str(folder / "tokenizer")
    policy.save_pretrained(folder)
    before.save_pretrained(folder)
    after.save_pretrained(folder)


def disturb(policy: torch.nn.Module, gain: float) -> None:
    """Add noise to each parameter and statistic whose elements are all equal, and strengthen the linear layers."""
    with torch.no_grad():
        for tensor in [*policy.parameters(), *policy.buffers()]:
            if tensor.is_floating_point() and tensor.numel() > 1 and bool((tensor == tensor.flatten()[0]).all()):
                tensor.add_(0.1 * torch.rand_like(tensor))
        for module in policy.modules():
            if isinstance(module, torch.nn.Linear):
                module.weight.mul_(gain)


def act(folder: Path) -> None:
    """Two cameras, a chunk of 20 of which 10 are executed."""
    modes = {"state": MIN_MAX, "visual": MEAN_STD, "action": MEAN_STD}
    save(ACTConfig(**common(14, 14, ("top", "wrist"), **modes), **SMALL_ACT, n_action_steps=10), folder, gain=1.5)


def act_ensembling(folder: Path) -> None:
    """A chunk each tick, and temporal ensembling."""
    modes = {"state": QUANTILES, "visual": IDENTITY, "action": QUANTILE10}
    ensembling = {"n_action_steps": 1, "temporal_ensemble_coeff": 0.05}
    save(ACTConfig(**common(14, 14, ("top", "wrist"), **modes), **SMALL_ACT, **ensembling), folder, gain=1.5)


def ddpm(folder: Path) -> None:
    """DDPM: noise at each step but the last; a crop; one encoder for both cameras."""
    modes = {"state": MIN_MAX, "visual": MEAN_STD, "action": MIN_MAX}
    how = {"noise_scheduler_type": "DDPM", "num_inference_steps": 5, "crop_shape": (40, 56)}
    save(DiffusionConfig(**common(7, 6, ("top", "wrist"), **modes), **SMALL_DIFFUSION, **how), folder)


def ddim(folder: Path) -> None:
    """DDIM, of a network that predicts the sample; no crop; an encoder for each camera."""
    modes = {"state": QUANTILE10, "visual": IDENTITY, "action": QUANTILES}
    how = {
        "noise_scheduler_type": "DDIM",
        "num_inference_steps": 4,
        "prediction_type": "sample",
        "use_separate_rgb_encoder_per_camera": True,
        "use_film_scale_modulation": False,
    }
    save(DiffusionConfig(**common(7, 6, ("top", "wrist"), **modes), **SMALL_DIFFUSION, **how), folder)


def vqbet(folder: Path) -> None:
    """Five observations; codes drawn at random."""
    modes = {"state": MIN_MAX, "visual": MEAN_STD, "action": QUANTILES}
    size = {
        "crop_shape": (40, 56),
        "gpt_input_dim": 64,
        "gpt_output_dim": 64,
        "gpt_hidden_dim": 64,
        "gpt_n_layer": 2,
        "gpt_n_head": 4,
        "gpt_block_size": 32,
        "vqvae_n_embed": 8,
        "vqvae_embedding_dim": 32,
        "vqvae_enc_hidden_dim": 32,
        "spatial_softmax_num_keypoints": 8,
        "bet_softmax_temperature": 0.5,
    }

    def trained(policy: Any) -> None:
        policy.vqbet.action_head.vqvae_model.discretized = torch.tensor(True)

    save(VQBeTConfig(**common(7, 6, ("top",), **modes), **size), folder, gain=2.5, change=trained)


def smolvla(folder: Path) -> None:
    """Two cameras and a third that is never there; cross-attention in every second layer."""
    save_smolvlm(folder / "vlm")
    modes = {"state": MEAN_STD, "visual": IDENTITY, "action": MIN_MAX}
    how = {
        "vlm_model_name": str(folder / "vlm"),
        "load_vlm_weights": False,
        "num_vlm_layers": 4,
        "expert_width_multiplier": 0.75,
        "max_state_dim": 10,
        "max_action_dim": 12,
        "resize_imgs_with_padding": (64, 64),
        "chunk_size": 8,
        "n_action_steps": 4,
        "num_steps": 5,
        "tokenizer_max_length": 24,
        "pad_language_to": "max_length",
        "rtc_config": RTCConfig(enabled=False, execution_horizon=4),
    }
    save(SmolVLAConfig(**common(7, 6, ("top", "wrist"), **modes), **how), folder, gain=1.5)


def pi05(folder: Path) -> None:
    """LeRobot's PI05 around a small network: see pi05_shaped.py. Its state is part of the prompt.

    `max_state_dim` is not what LeRobot uses once the policy was saved: the step of the preprocessor that writes the
    state into the prompt does not save it, and loads with its default of 32.
    """
    paligemma_tokenizer().save_pretrained(folder / "tokenizer")
    modes = {"state": QUANTILES, "visual": IDENTITY, "action": QUANTILES}
    how = {
        "max_state_dim": 10,
        "max_action_dim": 12,
        "image_resolution": (32, 32),
        "chunk_size": 8,
        "n_action_steps": 4,
        "num_inference_steps": 5,
        "tokenizer_max_length": 160,
        "rtc_config": RTCConfig(enabled=False, execution_horizon=4),
    }
    tokenizer = paligemma_tokenizer()
    # LeRobot asks the hub for google/paligemma-3b-pt-224
    with mock.patch.object(tokenizer_processor.AutoTokenizer, "from_pretrained", return_value=tokenizer):
        save(Pi05ShapedConfig(**common(7, 6, ("top", "wrist"), **modes), **how), folder, gain=2.0)


SMALL_ACT = {
    "chunk_size": 20,
    "pretrained_backbone_weights": None,
    "dim_model": 64,
    "n_heads": 4,
    "dim_feedforward": 128,
    "n_encoder_layers": 2,
    "n_vae_encoder_layers": 1,
    "latent_dim": 16,
}
SMALL_DIFFUSION = {
    "n_obs_steps": 2,
    "horizon": 16,
    "n_action_steps": 8,
    "down_dims": (32, 64),
    "n_groups": 4,
    "diffusion_step_embed_dim": 32,
    "spatial_softmax_num_keypoints": 8,
}
POLICIES: dict[str, Callable[[Path], None]] = {
    "act": act,
    "act_ensembling": act_ensembling,
    "ddpm": ddpm,
    "ddim": ddim,
    "vqbet": vqbet,
    "smolvla": smolvla,
    "pi05": pi05,
}
