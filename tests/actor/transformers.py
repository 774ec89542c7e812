"""Transformer actor-critics of the BERT form, with reference observations, as GBC has them."""

from __future__ import annotations

import torch
from torch import nn


class Embedding(nn.Module):
    """One token for each observation in a sequence, with its position."""

    def __init__(self, width: int, size: int, length: int) -> None:
        super().__init__()
        self.embedding, self.positions = nn.Linear(width, size), nn.Embedding(length, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.embedding(x) + self.positions(torch.arange(x.shape[1], device=x.device)).unsqueeze(0)


class Transformer(nn.Module):
    """Class token, observation tokens, separator, reference tokens, separator; the class token decides."""

    def __init__(self, obs_size: int, ref_obs_size: int, outputs: int, size: int = 16, history: int = 3) -> None:
        super().__init__()
        self.obs_size, self.ref_obs_size, self.history = obs_size, ref_obs_size, history
        self.obs_embedding = Embedding(obs_size // history, size, history)
        if ref_obs_size:
            self.ref_obs_embedding = Embedding(ref_obs_size // history, size, history)
        self.cls_token = nn.Parameter(torch.randn(1, 1, size))
        self.sep_token = nn.Parameter(torch.randn(1, 1, size))
        layer = nn.TransformerEncoderLayer(size, 2, 2 * size, dropout=0.1, activation="gelu", batch_first=True)
        self.transformer = nn.TransformerEncoder(layer, 2)
        self.fc = nn.Sequential(nn.LayerNorm(size), nn.Linear(size, outputs))

    def forward(self, obs: torch.Tensor, ref: tuple[torch.Tensor, torch.Tensor] | None = None) -> torch.Tensor:
        rows = obs.shape[0]
        tokens = self.obs_embedding(obs.reshape(rows, self.history, -1))
        cls, sep = self.cls_token.expand(rows, -1, -1), self.sep_token.expand(rows, -1, -1)
        parts, there = [cls, tokens, sep], [torch.ones(rows, self.history + 2, dtype=torch.bool)]
        if ref is not None:
            given, mask = ref  # of shape [rows], or [rows, history] for references of varying length
            mask = mask.unsqueeze(1).expand(-1, self.history) if mask.dim() == 1 else mask
            embedded = self.ref_obs_embedding(given.reshape(rows, self.history, -1))
            parts += [embedded * mask.unsqueeze(-1), sep * mask.any(1).view(-1, 1, 1)]
            there += [mask, mask.any(1, keepdim=True)]
        encoded = self.transformer(torch.cat(parts, dim=1), src_key_padding_mask=~torch.cat(there, dim=1))
        return self.fc(encoded[:, 0])


class ReferenceOnly(nn.Module):
    """The reference tokens alone attend to each other: where all are masked, nothing is left to attend to."""

    def __init__(self, obs_size: int, ref_obs_size: int, outputs: int, size: int = 8, history: int = 3) -> None:
        super().__init__()
        self.obs_size, self.ref_obs_size, self.history = obs_size, ref_obs_size, history
        self.ref_obs_embedding = Embedding(ref_obs_size // history, size, history)
        self.attention = nn.MultiheadAttention(size, 2, batch_first=True)
        self.fc = nn.Linear(size + obs_size, outputs)

    def forward(self, obs: torch.Tensor, ref: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        given, mask = ref
        tokens = self.ref_obs_embedding(given.reshape(len(given), self.history, -1))
        attended, _ = self.attention(tokens, tokens, tokens, key_padding_mask=~mask, need_weights=False)
        return self.fc(torch.cat((obs, (attended * mask.unsqueeze(-1)).sum(dim=1)), dim=-1))


class TransformerActorCritic(nn.Module):
    """What GBC's runner hands to its exporter."""

    is_recurrent = False

    def __init__(self, obs_size: int, ref_obs_size: int, actions: int, actor: type[nn.Module] = Transformer) -> None:
        super().__init__()
        self.actor = actor(obs_size, ref_obs_size, actions)
        self.critic = Transformer(obs_size, ref_obs_size, 1)
        self.std = nn.Parameter(torch.ones(actions))
        self.distribution: torch.distributions.Normal | None = None

    def reset(self, dones: torch.Tensor | None = None) -> None:
        """There is nothing to forget."""

    def act_inference(
        self, observations: torch.Tensor, ref_observations: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> torch.Tensor:
        if ref_observations is None:
            return self.actor(observations)
        return self.actor(observations, ref_observations)
