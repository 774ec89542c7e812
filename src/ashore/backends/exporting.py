"""The seam between a recording and the files that its stages become.

An exporter takes a module with named ports and gives the bytes of an artifact. It is chosen by name; the names are
those that people's scripts already use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from ashore.errors import BackendError, suggestion
from ashore.plugins import load_object

if TYPE_CHECKING:
    import torch

EXPORTERS: Mapping[str, str] = {
    "onnx-dynamo": "ashore.backends.onnx:export_dynamo",
    "onnx-torchscript": "ashore.backends.onnx:export_torchscript",
    "jit-script": "ashore.backends.torchscript:export_script",
    "jit-trace": "ashore.backends.torchscript:export_trace",
    "pt2": "ashore.backends.pt2:export_pt2",
    "openvino": "ashore.backends.openvino:export_openvino",
}
"""Exporter name -> where it is. Imported only when asked for."""

ALIASES: Mapping[str, str] = {"onnx": "onnx-dynamo", "jit": "jit-script", "exported-program": "pt2"}

PROFILES: Mapping[str, tuple[int, int]] = {
    "ort-1.14": (18, 8),
    "ort-1.16": (19, 9),
    "ort-1.17": (20, 9),
    "ort-1.18": (21, 10),
    "ort-1.22": (23, 11),
}
"""ONNX Runtime -> the newest (opset, IR version) that it reads."""


@dataclass(frozen=True)
class Request:
    """A module to export."""

    module: torch.nn.Module
    example: tuple[torch.Tensor, ...]
    inputs: tuple[str, ...]
    """Names of the inputs, by position."""

    outputs: tuple[str, ...]
    dynamic: Mapping[int, int] = field(default_factory=dict)
    """Position of an input -> its batch axis, where the batch is symbolic."""

    opset: int | None = None
    ir_version: int | None = None
    fingerprint: str | None = None
    """A digest of what the module computes, which no other module has; None if nobody can vouch for that."""


@dataclass(frozen=True)
class Exported:
    """An artifact."""

    backend: str
    """The name it is opened by."""

    suffix: str
    data: bytes
    exporter: str
    """What wrote it, with its version."""

    more: Mapping[str, bytes] = field(default_factory=dict)
    """Suffix -> a further file that it needs beside it."""

    opset: int | None = None
    ir_version: int | None = None
    messages: tuple[str, ...] = ()
    """What the exporter had to say."""


Exporter: TypeAlias = Callable[[Request], Exported]


def exporter_name(name: str) -> str:
    """The full name of an exporter."""
    full = ALIASES.get(name, name)
    if full not in EXPORTERS:
        raise BackendError(
            f"unknown exporter {name!r}{suggestion(name, EXPORTERS, f'; there are {sorted(EXPORTERS)}')}"
        )
    return full


def find_exporter(name: str) -> Exporter:
    """The exporter of that name."""
    full = exporter_name(name)
    try:
        return load_object(EXPORTERS[full])
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "ashore":
            raise
        extra = "openvino" if error.name == "openvino" else "export"
        raise BackendError(
            f"the exporter {full!r} needs {error.name}, which is not installed; use pip install 'ashore[{extra}]'"
        ) from error
