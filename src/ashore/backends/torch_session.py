"""Stages that torch runs: what the backends of torch share."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ashore.backends.messages import overheard
from ashore.errors import BackendError
from ashore.package import Array
from ashore.runtime import Options
from ashore.spec import Artifact, Stage


class TorchBackend(ABC):
    """Opens artifacts that torch reads."""

    @abstractmethod
    def load(self, file: io.BytesIO) -> Callable[..., Any]:
        """Read a file; what it gives takes and gives tensors by position."""

    def open(
        self,
        where: str,
        artifact: Artifact,
        files: Sequence[bytes],
        stage: Stage,  # noqa: ARG002 - the file does not name its ports
        options: Options,
    ) -> TorchSession:
        """Open an artifact; see `ashore.runtime.backend.Backend`."""
        if options.device is not None and options.device.lower() != "cpu":
            raise BackendError(f"{where}: device {options.device!r} is not there; Ashore runs torch's files on ['cpu']")
        try:
            with overheard():
                return TorchSession(self.load(io.BytesIO(files[0])), artifact)
        except Exception as error:  # torch raises anything at all over a file that is none of its own
            raise BackendError(f"{where}: torch refuses it: {error}") from error


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
