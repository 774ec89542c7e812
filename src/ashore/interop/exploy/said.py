"""What the metadata of a file says: of its ports, of groups of them, of time, and of itself."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import onnx

from ashore.errors import PackageError
from ashore.interop.exploy.properties import ABOUT, GROUPS, SIM_DT, UPDATE_RATE, VERSION, number_of
from ashore.interop.exploy.ticking import Ticking
from ashore.runtime.one_file import DECIMATION
from ashore.spec import Provenance


@dataclass(frozen=True)
class Said:
    """The metadata, sorted."""

    ports: dict[str, dict[str, Any]]
    """Port -> what is said of it."""

    physics_dt_s: float | None
    provenance: Provenance
    metadata: dict[str, Any]
    """For the manifest: groups, and everything else as it is."""


def understand_metadata(model: onnx.ModelProto, ticking: Ticking, where: str) -> Said:
    """Sort the metadata of a file.

    Args:
        model: the file.
        ticking: its ports, and how many ticks make a decision.
        where: what to call it in an error.
    """
    said: dict[str, str] = {}
    for entry in model.metadata_props:
        if entry.key in said:
            raise PackageError(f"{where}: its metadata says {entry.key!r} twice")
        said[entry.key] = entry.value
    names = {*ticking.inputs, *ticking.outputs}
    ports: dict[str, dict[str, Any]] = {}
    groups: dict[str, Any] = {}
    about: dict[str, str] = {}
    for key, text in said.items():
        value = _json(text)
        if key in names and isinstance(value, dict):
            ports[key] = value
        elif key not in names and any(name.startswith(f"{key}.") for name in names) and value is not None:
            groups[key] = value
        else:
            about[key] = text
    metadata = {**({GROUPS: groups} if groups else {}), **({ABOUT: about} if about else {})}
    return Said(ports, _physics_dt_s(said, ticking.decimation, where), _provenance(said), metadata)


def _physics_dt_s(said: dict[str, str], decimation: int, where: str) -> float | None:
    """The time of a tick, and a check that the metadata does not contradict the graph or itself."""
    numbers = {key: number_of(said[key]) for key in (DECIMATION, SIM_DT, UPDATE_RATE) if key in said}
    for key, number in numbers.items():
        if number is None or number <= 0:
            raise PackageError(f"{where}: its metadata says {key} = {said[key]!r}; expected a number above 0")
    if numbers.get(DECIMATION, decimation) != decimation:
        raise PackageError(
            f"{where}: its metadata says {DECIMATION} = {said[DECIMATION]!r}, its graph says {decimation}"
        )
    dt, rate = numbers.get(SIM_DT), numbers.get(UPDATE_RATE)
    if dt is not None and rate is not None and not math.isclose(dt * rate, 1.0, rel_tol=1e-3):
        raise PackageError(f"{where}: its metadata says {SIM_DT} = {dt} s and {UPDATE_RATE} = {rate} Hz")
    return dt if dt is not None else None if rate is None else 1.0 / rate


def _provenance(said: dict[str, str]) -> Provenance:
    version = _json(said.get(VERSION, ""))
    return Provenance(tools={"exploy": version} if isinstance(version, str) else {})


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
