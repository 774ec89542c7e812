"""What a user says about a declared tensor, and how it becomes a port."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec
import torch

from ashore.errors import InputError, suggestion
from ashore.spec import DType, Limits, Port, names_its_order
from ashore.spec.manifest import Dim, Source

_DTYPES: Mapping[torch.dtype, DType] = {
    torch.bool: "bool",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.uint8: "uint8",
    torch.float16: "float16",
    torch.float32: "float32",
    torch.float64: "float64",
}


@dataclass(frozen=True)
class PortInfo:
    """The meaning of a declared tensor; see `ashore.spec.Port`."""

    kind: str | Enum | None = None
    unit: str | Sequence[str] | None = None
    frame: str | None = None
    element_names: Sequence[Any] | None = None
    source: Source | None = None
    limits: Limits | None = None
    finite: bool = True
    connection: str | None = None
    description: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, meaning: Mapping[str, Any]) -> PortInfo:
        """What keyword arguments say about a port, refusing those that are none."""
        known = [one.name for one in dataclasses.fields(cls)]
        for key in meaning:
            if key not in known:
                raise InputError(f"{name!r}: unknown argument {key!r}{suggestion(key, known, f'; there are {known}')}")
        return cls(**meaning)

    def port(self, name: str, shape: tuple[Dim, ...], dtype: torch.dtype, *, finite: bool) -> Port:
        """The port of a tensor of that shape and dtype. A kind that needs names and has none is set aside."""
        kind = str(self.kind.value) if isinstance(self.kind, Enum) else self.kind
        made = Port(
            dtype=dtype_name(dtype),
            shape=shape,
            unit=self.unit if self.unit is None or isinstance(self.unit, str) else tuple(self.unit),
            frame=self.frame,
            element_names=_element_names(name, self.element_names, len(shape)),
            source=self.source,
            limits=self.limits,
            finite=self.finite and finite,
            connection=self.connection,
            description=self.description,
            metadata=dict(self.metadata),
        )
        if kind is None or names_its_order(made, kind):
            return msgspec.structs.replace(made, kind=kind)
        return msgspec.structs.replace(made, metadata={**made.metadata, "kind": kind})


def is_storable(dtype: torch.dtype) -> bool:
    """Whether a port or a state can have a dtype of torch."""
    return dtype in _DTYPES


def dtype_name(dtype: torch.dtype) -> DType:
    """What a dtype of torch is called in a manifest."""
    if dtype not in _DTYPES:
        raise InputError(f"a port cannot have the dtype {dtype}; convert it first")
    return _DTYPES[dtype]


def _element_names(name: str, names: Sequence[Any] | None, axes: int) -> tuple[tuple[str, ...] | None, ...] | None:
    """Names per axis; a flat list of names is that of the last axis."""
    if names is None:
        return None
    if all(isinstance(one, str) for one in names):
        return (*(None,) * (axes - 1), tuple(names))
    made = tuple(None if part is None else tuple(part) for part in names)
    if len(made) > axes:
        raise InputError(f"{name!r}: element_names for {len(made)} axes, but the tensor has {axes}")
    return made if len(made) == axes else (*(None,) * (axes - len(made)), *made)
