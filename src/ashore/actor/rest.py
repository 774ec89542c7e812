"""A model at rest: in evaluation mode, on the CPU, with weights that are numbers; afterwards as it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from ashore.errors import InputError


@contextmanager
def at_rest(modules: Mapping[str, torch.nn.Module]) -> Iterator[None]:
    """Put modules in evaluation mode and on the CPU, and put them back; fused encoder layers are left alone.

    The fused path of `torch.nn.TransformerEncoder` is one opaque operation, which no exporter knows.
    """
    each = [one for module in modules.values() for one in module.modules()]
    training = [(one, one.training) for one in each]
    tensors = [tensor for one in each for tensor in (*one.parameters(recurse=False), *one.buffers(recurse=False))]
    devices = [(tensor, tensor.device) for tensor in dict.fromkeys(tensors)]
    fused = torch.backends.mha.get_fastpath_enabled()
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        for module in modules.values():
            module.eval()
        _move([(tensor, torch.device("cpu")) for tensor, _ in devices])
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
        _move(devices)
        for one, mode in training:
            one.training = mode


def _move(devices: list[tuple[torch.Tensor, torch.device]]) -> None:
    """Move tensors in place: whoever holds them, an optimizer for example, goes on holding them."""
    for tensor, device in devices:
        if tensor.device != device:
            tensor.data = tensor.data.to(device)


def check_weights(modules: Mapping[str, torch.nn.Module]) -> None:
    """Raise `InputError` if a weight is no number."""
    for root, module in modules.items():
        for name, tensor in (*module.named_parameters(prefix=root), *module.named_buffers(prefix=root)):
            if isinstance(tensor, torch.nn.UninitializedParameter | torch.nn.UninitializedBuffer):
                raise InputError(f"{name}: has no values yet; run the model once, or load its checkpoint")
            if not tensor.is_floating_point():
                continue
            # Limits and masks in buffers may well be infinite; weights may not.
            wrong = ~tensor.isfinite() if isinstance(tensor, torch.nn.Parameter) else tensor.isnan()
            if bool(wrong.any()):
                raise InputError(
                    f"{name}: {int(wrong.sum())} of {tensor.numel()} values are not finite; the training diverged, or "
                    "the checkpoint is damaged: take an earlier one"
                )
