"""A policy of PI05's shape that runs here: LeRobot's own PI05 around a small network.

LeRobot 0.4.4's PI05 wants a fork of transformers and weights of gigabytes. Everything but the network is LeRobot's:
the images resized with padding, the prompt with the state in it, the masks and positions, the embedding of time, the
Euler steps, the queue. The network has what PI05's has: a prefix that attends to itself, keys and values of it kept for
each layer with fewer heads than the queries, rotary positions, and an expert whose norms are modulated by time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace

import torch
from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.pi05.configuration_pi05 import PI05Config
from lerobot.policies.pi05.modeling_pi05 import PI05Policy, PI05Pytorch
from lerobot.policies.pretrained import PreTrainedPolicy
from torch import Tensor, nn

HEADS, KV_HEADS, HEAD_DIM, LAYERS = 4, 1, 16, 3
PREFIX_WIDTH, EXPERT_WIDTH = 48, 32
PATCH = 8
VOCABULARY = 380

Cache = list[tuple[Tensor, Tensor]]


@PreTrainedConfig.register_subclass("pi05_shaped")
@dataclass
class Pi05ShapedConfig(PI05Config):
    """PI05's, under a name of its own."""


class Norm(nn.Module):
    """Gemma's RMS norm; where time modulates it, scale, shift and gate come from the condition."""

    def __init__(self, width: int, *, modulated: bool) -> None:
        super().__init__()
        self.dense = nn.Linear(width, 3 * width) if modulated else None
        self.weight = None if modulated else nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor, condition: Tensor | None) -> tuple[Tensor, Tensor | None]:
        normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        if self.dense is None:
            return normed * (1.0 + self.weight), None
        scale, shift, gate = self.dense(condition)[:, None, :].chunk(3, dim=-1)
        return normed * (1.0 + scale) + shift, gate


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """Rotary positions, on halves, as in Gemma. x: (batch, heads, tokens, head_dim)."""
    frequencies = 1.0 / 10_000 ** (torch.arange(0, HEAD_DIM, 2, dtype=torch.float32) / HEAD_DIM)
    angles = positions[:, None, :, None].to(torch.float32) * frequencies
    cos, sin = torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class Layer(nn.Module):
    """A layer of the prefix or of the expert; a gate, where there is one, scales what is added."""

    def __init__(self, width: int, *, modulated: bool) -> None:
        super().__init__()
        self.input_layernorm = Norm(width, modulated=modulated)
        self.q_proj = nn.Linear(width, HEADS * HEAD_DIM, bias=False)
        self.k_proj = nn.Linear(width, KV_HEADS * HEAD_DIM, bias=False)
        self.v_proj = nn.Linear(width, KV_HEADS * HEAD_DIM, bias=False)
        self.o_proj = nn.Linear(HEADS * HEAD_DIM, width, bias=False)
        self.post_attention_layernorm = Norm(width, modulated=modulated)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(approximate="tanh"), nn.Linear(2 * width, width))

    def forward(
        self, x: Tensor, mask: Tensor, positions: Tensor, past: tuple[Tensor, Tensor] | None, condition: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        batch, tokens, _ = x.shape
        normed, gate = self.input_layernorm(x, condition)
        query = self.q_proj(normed).view(batch, tokens, HEADS, HEAD_DIM).transpose(1, 2)
        key = self.k_proj(normed).view(batch, tokens, KV_HEADS, HEAD_DIM).transpose(1, 2)
        value = self.v_proj(normed).view(batch, tokens, KV_HEADS, HEAD_DIM).transpose(1, 2)
        query, key = rotate(query, positions), rotate(key, positions)
        if past is not None:
            key, value = torch.cat([past[0], key], dim=2), torch.cat([past[1], value], dim=2)
        all_keys = key.repeat_interleave(HEADS // KV_HEADS, dim=1)
        all_values = value.repeat_interleave(HEADS // KV_HEADS, dim=1)
        weights = torch.softmax(query @ all_keys.transpose(2, 3) / math.sqrt(HEAD_DIM) + mask, dim=-1)
        attended = self.o_proj((weights @ all_values).transpose(1, 2).reshape(batch, tokens, -1))
        x = x + (attended if gate is None else gate * attended)
        normed, gate = self.post_attention_layernorm(x, condition)
        added = self.mlp(normed)
        return x + (added if gate is None else gate * added), (key, value)


class Tower(nn.Module):
    """Layers and a last norm. LeRobot sets how attention is computed in `config`."""

    def __init__(self, width: int, *, modulated: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, modulated=modulated) for _ in range(LAYERS))
        self.norm = Norm(width, modulated=modulated)
        self.config = SimpleNamespace()

    def forward(
        self, x: Tensor, mask: Tensor, positions: Tensor, past: Cache | None, condition: Tensor | None
    ) -> tuple[Tensor, Cache]:
        kept: Cache = []
        for index, layer in enumerate(self.layers):
            x, keys_and_values = layer(x, mask, positions, past[index] if past else None, condition)
            kept.append(keys_and_values)
        return self.norm(x, condition)[0], kept


class SmallPaliGemmaWithExpert(nn.Module):
    """Stands where LeRobot's PaliGemmaWithExpertModel does, with its methods."""

    def __init__(self) -> None:
        super().__init__()
        self.paligemma = nn.Module()
        self.paligemma.language_model = Tower(PREFIX_WIDTH, modulated=False)
        self.paligemma.embed_tokens = nn.Embedding(VOCABULARY, PREFIX_WIDTH)
        self.paligemma.patches = nn.Conv2d(3, PREFIX_WIDTH, PATCH, stride=PATCH)
        self.paligemma.projector = nn.Sequential(
            nn.LayerNorm(PREFIX_WIDTH),
            nn.Linear(PREFIX_WIDTH, PREFIX_WIDTH),
            nn.GELU(),
            nn.Linear(PREFIX_WIDTH, PREFIX_WIDTH),
        )
        self.gemma_expert = nn.Module()
        self.gemma_expert.model = Tower(EXPERT_WIDTH, modulated=True)

    def embed_image(self, image: Tensor) -> Tensor:
        return self.paligemma.projector(self.paligemma.patches(image).flatten(2).transpose(1, 2))

    def embed_language_tokens(self, tokens: Tensor) -> Tensor:
        return self.paligemma.embed_tokens(tokens)

    def forward(
        self,
        attention_mask: Tensor,
        position_ids: Tensor,
        past_key_values: Cache | None,
        inputs_embeds: list[Tensor | None],
        use_cache: bool,
        adarms_cond: list[Tensor | None] | None = None,
    ) -> tuple[list[Tensor | None], Cache | None]:
        prefix, suffix = inputs_embeds
        if suffix is None:
            out, kept = self.paligemma.language_model(prefix, attention_mask, position_ids, None, None)
            return [out, None], kept
        if prefix is not None or adarms_cond is None:
            raise NotImplementedError("training")
        out, _ = self.gemma_expert.model(suffix, attention_mask, position_ids, past_key_values, adarms_cond[1])
        return [None, out], None


class Pi05ShapedPytorch(PI05Pytorch):
    """PI05's sampling, around the small network."""

    def __init__(self, config: Pi05ShapedConfig, rtc_processor: object = None) -> None:
        nn.Module.__init__(self)
        self.config = config
        self.rtc_processor = rtc_processor
        self.gradient_checkpointing_enabled = False
        self.paligemma_with_expert = SmallPaliGemmaWithExpert()
        self.action_in_proj = nn.Linear(config.max_action_dim, EXPERT_WIDTH)
        self.action_out_proj = nn.Linear(EXPERT_WIDTH, config.max_action_dim)
        self.time_mlp_in = nn.Linear(EXPERT_WIDTH, EXPERT_WIDTH)
        self.time_mlp_out = nn.Linear(EXPERT_WIDTH, EXPERT_WIDTH)


class Pi05ShapedPolicy(PI05Policy):
    """PI05's policy, around the small network."""

    config_class = Pi05ShapedConfig
    name = "pi05_shaped"

    def __init__(self, config: Pi05ShapedConfig, **kwargs: object) -> None:
        PreTrainedPolicy.__init__(self, config)
        config.validate_features()
        self.config = config
        self.init_rtc_processor()
        self.model = Pi05ShapedPytorch(config, rtc_processor=self.rtc_processor)
        self.reset()
