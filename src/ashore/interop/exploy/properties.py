"""The metadata of the file: text by name, as a controller looks for it.

What the caller says is text as it is, or JSON. What JSON does not have is refused before anything is written, and so is
what would say two things under one name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, cast

from ashore.errors import ExportError
from ashore.interop.exploy.layout import Layout
from ashore.runtime.one_file import DECIMATION, NOTE
from ashore.spec import Manifest

MODEL_SOURCE = "model_source"
DATE = "date_exported (YYMMDD.HHMMSS)"
VERSION = "exploy_version"
SIM_DT, UPDATE_RATE = "sim_dt", "update_rate"
GROUPS = "groups"
"""Where the metadata of a manifest keeps what is said of groups of ports."""

ABOUT = "exploy"
"""Where the metadata of a manifest keeps what a file said of itself: key -> text."""

_DATE_FORMAT = "%y%m%d.%H%M%S"


def properties(
    manifest: Manifest,
    layout: Layout,
    *,
    metadata: Mapping[str, Any],
    groups: Mapping[str, Any],
    model_source: Any,
    date: datetime | None,
    version: str,
) -> dict[str, str]:
    """Everything that the file says of itself but the note, in order."""
    said = _said(metadata)
    made = {MODEL_SOURCE: as_json(model_source, MODEL_SOURCE)} if model_source is not None else {}
    made |= {DATE: date.strftime(_DATE_FORMAT)} if date is not None else {}
    made[VERSION] = as_json(version, VERSION)
    _refuse_doubles(said, {*made, NOTE}, "metadata")
    timing = _timing(manifest, layout)
    _check_timing(said, timing)
    made |= {**timing, **said}
    described = dict(_described(manifest, groups))
    _refuse_doubles(described, {*made, NOTE}, "metadata of ports and groups")
    made |= described
    about = about_of(manifest)
    made.setdefault(MODEL_SOURCE, about.get(MODEL_SOURCE, "{}"))
    return {**made, **{key: text for key, text in about.items() if key not in {*made, DATE, NOTE}}}


def about_of(manifest: Manifest) -> dict[str, str]:
    """What the file that a package was read from said of itself."""
    about = manifest.metadata.get(ABOUT)
    plain = isinstance(about, dict) and all(isinstance(text, str) for text in about.values())
    return cast("dict[str, str]", about) if plain else {}


def as_json(value: Any, where: str) -> str:
    """A value as JSON, or `ExportError` with the place."""
    try:
        _check_json(value, where)
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ExportError(f"{where}: cannot be written as JSON: {error}; nothing was written") from error
    return text


def _check_json(value: Any, where: str) -> None:
    """JSON would turn keys that are no text into text, and such a document does not come back as it was."""
    if isinstance(value, Mapping):
        for key, child in value.items():
            if not isinstance(key, str):
                raise ExportError(f"{where}: the key {key!r} is no text, which JSON does not have; nothing was written")
            _check_json(child, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for index, child in enumerate(cast("list[Any]", value)):
            _check_json(child, f"{where}[{index}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ExportError(f"{where}: {value} is no JSON number; nothing was written")


def _said(metadata: Mapping[str, Any]) -> dict[str, str]:
    said: dict[str, str] = {}
    for key, value in metadata.items():
        if not isinstance(key, str) or not key:
            raise ExportError(f"metadata: the key {key!r} is no text; nothing was written")
        said[key] = value if isinstance(value, str) else as_json(value, f"metadata.{key}")
        try:
            (key + said[key]).encode()
        except UnicodeEncodeError as error:
            raise ExportError(f"metadata.{key!a}: is no text: {error}; nothing was written") from error
    return said


def _refuse_doubles(given: Mapping[str, str], taken: set[str], what: str) -> None:
    for key in given:
        if key in taken:
            raise ExportError(f"{what}: {key!r} is said twice, and the file has one place for it; nothing was written")


def _timing(manifest: Manifest, layout: Layout) -> dict[str, str]:
    said, timing = {DECIMATION: str(layout.decimation)}, manifest.timing
    if timing is not None and timing.policy_dt_s is not None:
        dt = timing.physics_dt_s if timing.physics_dt_s is not None else timing.policy_dt_s / timing.decimation
        said |= {SIM_DT: str(dt), UPDATE_RATE: str(1.0 / dt)}
    return said


def _check_timing(said: Mapping[str, str], timing: Mapping[str, str]) -> None:
    """A controller that ticks at another rate than the policy was trained at moves the robot otherwise."""
    for key, text in timing.items():
        number = number_of(said.get(key, text))
        if number is None or not math.isclose(number, float(text), rel_tol=1e-6):
            raise ExportError(f"metadata.{key}: {said[key]!r}, but the package says {text}; nothing was written")


def number_of(text: str) -> float | None:
    """A text as a finite number, or None."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _described(manifest: Manifest, groups: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    _check_json(groups, "groups")
    for name, port in (*manifest.inputs.items(), *manifest.outputs.items()):
        if port.metadata:
            yield name, as_json(port.metadata, f"metadata of {name!r}")
    for name, value in groups.items():
        if name in manifest.inputs or name in manifest.outputs:
            raise ExportError(f"groups: {name!r} is a port, and no group; nothing was written")
        yield name, as_json(value, f"groups.{name}")
