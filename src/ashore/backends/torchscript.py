"""TorchScript files, scripted or traced."""

from __future__ import annotations

import io
from typing import cast

import torch

from ashore.backends.exporting import Exported, Request
from ashore.backends.functional import functionalise, plain_graph
from ashore.backends.messages import overheard
from ashore.backends.torch_session import TorchBackend


def export_trace(request: Request) -> Exported:
    """Export by tracing the module."""
    with overheard() as messages, torch.no_grad():
        module = request.module
        if request.dynamic:  # a trace alone would keep the number of rows it saw
            module = torch.jit.script(plain_graph(functionalise(module, request.example, request.dynamic)))
        traced = torch.jit.trace(module, request.example, check_trace=False)
        return _finish(cast("torch.jit.ScriptModule", traced), "jit-trace", messages)


def export_script(request: Request) -> Exported:
    """Export by scripting the functional graph of the module."""
    with overheard() as messages:
        program = functionalise(request.module, request.example, request.dynamic)
        return _finish(torch.jit.script(plain_graph(program)), "jit-script", messages)


def _finish(module: torch.jit.ScriptModule, exporter: str, messages: list[str]) -> Exported:
    frozen = torch.jit.freeze(module.eval())
    stream = io.BytesIO()
    torch.jit.save(frozen, stream)
    version = f"torch {torch.__version__} {exporter}"
    return Exported("torchscript", ".pt", stream.getvalue(), version, messages=tuple(messages))


class TorchScriptBackend(TorchBackend):
    """Opens TorchScript artifacts."""

    def load(self, file: io.BytesIO) -> torch.jit.ScriptModule:
        """Read a file."""
        return torch.jit.load(file, map_location="cpu").eval()
