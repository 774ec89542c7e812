"""Checkpoints: read without running code that lies in them, and loaded only if everything fits."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ashore.errors import InputError

_FEW = 4


def read_tensors(path: Path, *, trust: bool = False, data: bytes | None = None) -> Any:
    """What `torch.save` wrote, on the CPU.

    Args:
        path: the file.
        trust: whether it may run code while it is read, which any pickle can.
        data: what to read in place of the file's own bytes: a file within it.
    """
    if not path.is_file():
        raise InputError(f"{path}: there is no such checkpoint")
    try:
        return torch.load(path if data is None else io.BytesIO(data), map_location="cpu", weights_only=not trust)
    except pickle.UnpicklingError as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"{path}: it holds more than tensors, and reading it could run code ({reason}); if you know where it comes"
            " from, say trust=True (--trust)"
        ) from error
    except (RuntimeError, EOFError, ValueError) as error:
        raise InputError(f"{path}: this is no checkpoint of torch: {error}") from error


def must_be_trusted(path: Path, trust: bool, why: str) -> None:
    """Raise `InputError` unless the user said that a file may run code while it is read."""
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    if not trust:
        raise InputError(
            f"{path}: {why}, and reading that could run code; if you know where it comes from, say trust=True (--trust)"
        )


def check_state(where: object, state: Any) -> Mapping[str, torch.Tensor]:
    """A state dict, or an error."""
    if not isinstance(state, Mapping) or not state or not all(isinstance(key, str) for key in state):
        got = (
            f"{type(state).__name__} with {list(state)[:_FEW]}" if isinstance(state, Mapping) else type(state).__name__
        )
        raise InputError(f"{where}: expected the weights of a network by name, got {got}")
    wrong = next((key for key, value in state.items() if not isinstance(value, torch.Tensor)), None)
    if wrong is not None:
        raise InputError(f"{where}: expected tensors, {wrong!r} is {type(state[wrong]).__name__}")
    return state


def load_strictly(where: object, module: torch.nn.Module, state: Any) -> None:
    """Load weights into a module if every one has its place, its shape, and nothing is missing."""
    given, own = check_state(where, state), module.state_dict()
    missing, extra = [key for key in own if key not in given], [key for key in given if key not in own]
    other = [
        f"{key} is {list(given[key].shape)}, not {list(value.shape)}"
        for key, value in own.items()
        if key in given and isinstance(value, torch.Tensor) and given[key].shape != value.shape
    ]
    parts = (("missing", missing), ("not known", extra), ("of another shape", other))
    told = "; ".join(f"{what}: {_some(names)}" for what, names in parts if names)
    if told:
        raise InputError(f"{where}: its weights are not those of this {type(module).__name__}: {told}")
    module.load_state_dict(dict(given))


def _some(names: list[str]) -> str:
    return ", ".join(names[:_FEW]) + (f" and {len(names) - _FEW} more" if len(names) > _FEW else "")
