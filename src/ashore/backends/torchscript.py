"""TorchScript files, scripted or traced, and their sessions."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch

from ashore.backends.exporting import Exported, Request
from ashore.backends.functional import functionalise, plain_graph
from ashore.backends.messages import overheard
from ashore.errors import BackendError
from ashore.package import Array
from ashore.runtime import Options
from ashore.spec import Artifact, Stage


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


class TorchScriptBackend:
    """Opens TorchScript artifacts."""

    def open(
        self,
        where: str,
        artifact: Artifact,
        files: Sequence[bytes],
        stage: Stage,  # noqa: ARG002
        options: Options,  # noqa: ARG002
    ) -> TorchSession:
        """Open an artifact; its ports are by position."""
        try:
            with overheard():
                module = torch.jit.load(io.BytesIO(files[0]), map_location="cpu").eval()
        except (RuntimeError, ValueError) as error:
            raise BackendError(f"{where}: torch refuses it: {error}") from error
        return TorchSession(module, artifact)


class TorchSession:
    """A stage that torch runs, on numpy buffers."""

    errors: tuple[type[Exception], ...] = (RuntimeError, ValueError, TypeError, IndexError)

    def __init__(self, module: Callable[..., Any], artifact: Artifact) -> None:
        self._module, self._artifact = module, artifact

    def bind(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Callable[[], object]:
        """Fix the buffers of one call; see `ashore.runtime.backend.Session`."""
        given = [torch.from_numpy(inputs[name]) for name in self._artifact.inputs or ()]
        places = [torch.from_numpy(outputs[name]) for name in self._artifact.outputs or ()]
        module = self._module

        def call() -> None:
            with torch.inference_mode():
                results = module(*given)
                if isinstance(results, torch.Tensor):
                    results = (results,)
                for place, result in zip(places, results, strict=True):
                    if result.shape != place.shape or result.dtype != place.dtype:
                        raise ValueError(f"gave {result.dtype} {list(result.shape)} for {list(place.shape)}")
                    place.copy_(result)

        return call
