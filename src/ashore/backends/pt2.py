"""Exported programs of torch (``.pt2``), and their sessions."""

from __future__ import annotations

import io
from collections.abc import Sequence

import torch

from ashore.backends.exporting import Exported, Request
from ashore.backends.functional import functionalise
from ashore.backends.messages import overheard
from ashore.backends.torchscript import TorchSession
from ashore.errors import BackendError
from ashore.runtime import Options
from ashore.spec import Artifact, Stage


def export_pt2(request: Request) -> Exported:
    """Export by way of `torch.export`."""
    with overheard() as messages:
        program = functionalise(request.module, request.example, request.dynamic)
        stream = io.BytesIO()
        torch.export.save(program, stream)
    return Exported("pt2", ".pt2", stream.getvalue(), f"torch {torch.__version__} pt2", messages=tuple(messages))


class Pt2Backend:
    """Opens exported programs."""

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
                program = torch.export.load(io.BytesIO(files[0]))
                return TorchSession(program.module(), artifact)
        except Exception as error:  # torch raises anything at all over a file that is none of its own
            raise BackendError(f"{where}: torch refuses it: {error}") from error
