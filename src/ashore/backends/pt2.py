"""Exported programs of torch (``.pt2``)."""

from __future__ import annotations

import io

import torch

from ashore.backends.exporting import Exported, Request
from ashore.backends.functional import functionalise
from ashore.backends.messages import overheard
from ashore.backends.torch_session import TorchBackend


def export_pt2(request: Request) -> Exported:
    """Export by way of `torch.export`."""
    with overheard() as messages:
        program = functionalise(request.module, request.example, request.dynamic)
        stream = io.BytesIO()
        torch.export.save(program, stream)
    return Exported("pt2", ".pt2", stream.getvalue(), f"torch {torch.__version__} pt2", messages=tuple(messages))


class Pt2Backend(TorchBackend):
    """Opens exported programs."""

    def load(self, file: io.BytesIO) -> torch.nn.Module:
        """Read a file."""
        return torch.export.load(file).module()
