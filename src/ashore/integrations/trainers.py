"""From a checkpoint of a trainer to a package: one seam for all trainers."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

import torch

from ashore.actor import Actor, export_actor
from ashore.errors import InputError, suggestion
from ashore.package import Package

TRAINERS: Mapping[str, str] = {
    "rsl_rl": "ashore.integrations.rsl_rl_actors",
    "sb3": "ashore.integrations.sb3",
    "skrl": "ashore.integrations.skrl",
    "rl_games": "ashore.integrations.rl_games",
    "cleanrl": "ashore.integrations.cleanrl",
}
"""Trainer -> what knows its checkpoints. Imported only when asked for."""

_TAKEN: Mapping[str, frozenset[str]] = {
    "rsl_rl": frozenset({"config", "obs"}),
    "sb3": frozenset({"normalizer"}),
    "skrl": frozenset({"model", "obs"}),
    "rl_games": frozenset({"config", "actions"}),
    "cleanrl": frozenset({"model", "normalizer", "obs"}),
}
"""Trainer -> what a user may say about its checkpoints."""

_INSTEAD: Mapping[str, str] = {
    "config": "what lies between the weights is said otherwise",
    "model": "the network is made of the checkpoint itself",
    "normalizer": "the statistics lie in the checkpoint",
    "obs": "the checkpoint says what it reads",
    "actions": "actions are scaled as the checkpoint says",
}
"""What a user may say -> why some trainers do not take it."""


@dataclass(frozen=True)
class Source:
    """Which actor, as a user says it."""

    checkpoint: Path
    config: Path | None = None
    """The configuration of the trainer, where the checkpoint needs one."""

    model: str | None = None
    """What makes the network, as ``package.module:make``, where that is code of the user's own."""

    normalizer: str | None = None
    """A file with the statistics of observations, where they lie apart; ``"none"`` says that there are none."""

    obs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Input -> shape of one observation, where the checkpoint does not say."""

    actions: tuple[float, float] | None = None
    """The least and the largest action of the environment, where the trainer scales to it."""

    trust: bool = False
    """Whether the files may run code while they are read."""

    def examples(self) -> dict[str, torch.Tensor]:
        """An observation of each input, with one row."""
        for name, shape in self.obs.items():
            if not shape or any(length < 1 for length in shape):
                raise InputError(f"obs {name}={list(shape)}: an observation group cannot be empty")
        return {name: torch.zeros(1, *shape) for name, shape in self.obs.items()}


class Trainer(Protocol):
    """A module that knows the checkpoints of one trainer."""

    def open_checkpoint(self, source: Source) -> Actor:
        """The actor of a checkpoint, on the CPU."""
        ...


def open_checkpoint(trainer: str, source: Source) -> Actor:
    """The actor of a checkpoint."""
    if trainer not in TRAINERS:
        hint = suggestion(trainer, TRAINERS, f"; there are {list(TRAINERS)}")
        raise InputError(f"there is no trainer {trainer!r}{hint}")
    if not source.checkpoint.is_file():
        raise InputError(f"{source.checkpoint}: there is no such checkpoint")
    _check_taken(trainer, source)
    return cast("Trainer", importlib.import_module(TRAINERS[trainer])).open_checkpoint(source)


def _check_taken(trainer: str, source: Source) -> None:
    """Refuse what would be ignored: a normaliser that is said, and that nothing applies, is a wrong policy."""
    for name, why in _INSTEAD.items():
        said = getattr(source, name)
        if name in _TAKEN[trainer] or not said or (name == "normalizer" and said == "none"):
            continue
        raise InputError(
            f"{source.checkpoint}: checkpoints of {trainer} take no {name} (--{name}): {why}; leave it out"
        )


def export_checkpoint(trainer: str, source: Source, out: str | os.PathLike[str], **options: Any) -> Package:
    """Write the package of a checkpoint.

    Args:
        trainer: ``"rsl_rl"``, ``"sb3"``, ``"skrl"``, ``"rl_games"`` or ``"cleanrl"``.
        source: the checkpoint, and what it does not say by itself.
        out: the directory of the package.
        options: as for `ashore.actor.export_actor`.
    """
    return export_actor(open_checkpoint(trainer, source), out, checkpoint=source.checkpoint, **options)
