"""CleanRL and scripts like it: the network is a class of the script, and a checkpoint holds its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ashore.actor import Actor
from ashore.actor.modules import ModuleActor
from ashore.actor.normalisers import as_normalizer
from ashore.errors import InputError
from ashore.integrations.checkpoints import load_strictly, read_tensors
from ashore.integrations.importing import made
from ashore.integrations.trainers import Source


def open_checkpoint(source: Source) -> Actor:
    """The actor of a checkpoint, in the module that a function of the user's makes."""
    path = source.checkpoint
    if source.model is None:
        raise InputError(
            f"{path}: its network is code; say with model='package.module:make' (--model) which class or function "
            "makes it; a function may give a pair: the network, and a function that decides with it"
        )
    loaded = read_tensors(path, trust=source.trust)
    if isinstance(loaded, tuple | list) and loaded:
        loaded = loaded[0]  # the actor comes first, its critics after it
    found = made("--model", source.model)
    module, decide = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"--model {source.model}: expected a module of torch, got {type(module).__name__}")
    load_strictly(path, module, _weights(loaded))
    normalizer = None
    if source.normalizer not in (None, "none"):
        normalizer = as_normalizer(made("--normalizer", str(source.normalizer)))
    return ModuleActor(module.eval(), decide, source.examples() or None, normalizer, "cleanrl")


def _weights(loaded: Any) -> Any:
    """The weights in a checkpoint that holds more than them."""
    if isinstance(loaded, Mapping) and not any(isinstance(value, torch.Tensor) for value in loaded.values()):
        for name in ("agent", "actor", "policy", "model", "model_state_dict", "state_dict"):
            if isinstance(loaded.get(name), Mapping):
                return loaded[name]
    return loaded
