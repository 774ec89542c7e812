"""What a LEAPP YAML file says, as structs, and what Ashore notes in it for the way back."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from ashore.errors import PackageError
from ashore.interop.structs import as_struct
from ashore.spec import Finding, Frozen, Joint, Provenance, Role, Timing

CONFIG_VERSION = "1.3"
CONFIG_VERSIONS = ("1.0", "1.1", "1.2", "1.3")
"""Those whose description is known. All have one layout; the later ones have more in it."""

LEAPP_BACKENDS: Mapping[str, str] = MappingProxyType({"onnx": "onnx", "torchscript": "jit", "pt2": "pt2"})
"""Backend of Ashore -> what LEAPP calls it."""

SUFFIXES: Mapping[str, str] = MappingProxyType({"onnx": ".onnx", "jit": ".pt", "pt2": ".pt2"})
DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64")
"""Dtypes that both sides have."""

NOTE = "ashore"
"""The field of a port, and of the configs, that LEAPP hands on unread and Ashore finds again."""

OWN_VERSION = "ashore version"
"""What the system information holds only if a package that never was LEAPP's was written."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model file of a node."""

    model_path: str
    md5sum: str
    sha256sum: str
    backend: str
    warp_segments: int = 0
    opset_version: int | None = None
    torch_version: str | None = None


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node. The order of its ports is the order in which its model takes and gives them."""

    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    parameters: Parameters


class Pipeline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How nodes are joined. Ends are written ``node/port``."""

    inputs: dict[str, list[str]]
    outputs: dict[str, list[str]]
    data_flow: dict[str, list[str]] = {}
    feedback_flow: dict[str, list[str]] = {}
    initial_values: str | None = None
    configs: dict[str, Any] = {}


class Document(msgspec.Struct, frozen=True):
    """The whole file. Nodes run in the order of `models`."""

    models: dict[str, Model]
    pipeline: Pipeline
    system: dict[str, Any]


class StateNote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The state of a package that a feedback is."""

    name: str
    role: Role
    finite: bool = True
    description: str | None = None


class PortNote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a package called a port."""

    input: str | None = None
    """The package input that feeds it. Several ports may have the same."""

    output: str | None = None
    """The package output that it feeds."""

    state: StateNote | None = None
    """The state that it reads."""


class PackageNote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a manifest says that LEAPP has no place for, and that changes nothing in what is computed."""

    name: str
    version: str | None = None
    description: str | None = None
    licence: str | None = None
    timing: Timing | None = None
    joints: tuple[Joint, ...] = ()
    provenance: Provenance = Provenance()
    findings: tuple[Finding, ...] = ()
    constants: tuple[Frozen, ...] = ()
    metadata: dict[str, Any] = {}


def parse(raw: Any, where: str) -> Document:
    """Read a document from what its YAML says.

    Args:
        raw: the YAML, loaded.
        where: what to call it in an error.
    """
    top = as_struct(raw, dict[str, Any], where)
    keys = {"models", "pipeline", "system information"}
    if top.keys() != keys:
        raise PackageError(f"{where}: expected the keys {sorted(keys)}, got {sorted(top)[:10]}; is this a LEAPP file?")
    system = as_struct(top["system information"], dict[str, Any], f"{where}: system information")
    version = str(system.get("leapp config version"))
    if version not in CONFIG_VERSIONS:
        raise PackageError(
            f"{where}: has LEAPP config version {version!r}, and this Ashore reads {', '.join(CONFIG_VERSIONS)}"
        )
    models = as_struct(top["models"], dict[str, Any], f"{where}: models")
    if not models:
        raise PackageError(f"{where}: models: there is none")
    pipeline = as_struct(top["pipeline"], Pipeline, f"{where}: pipeline")
    nodes = {name: as_struct(model, Model, f"{where}: models.{name}") for name, model in models.items()}
    return Document(nodes, pipeline, system)
