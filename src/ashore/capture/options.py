"""How a recording is exported."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ashore.backends import PROFILES, exporter_name
from ashore.capture.findings import KINDS, Finding
from ashore.errors import InputError, suggestion
from ashore.spec import Joint, Timing
from ashore.spec.checks import is_identifier


@dataclass(frozen=True)
class ExportOptions:
    """How a recording is exported."""

    backend: str = "onnx-dynamo"
    """The exporter of the stages that name none."""

    allow: Collection[str] = ()
    """Names of findings that do not fail the export; they are written into the manifest."""

    validation_steps: int = 20
    """Steps on fresh inputs to check the saved files with, after the recorded ones; 0 skips all verification."""

    atol: float = 1e-5
    rtol: float = 1e-5
    opset: int | None = None
    ir_version: int | None = None
    profile: str | None = None
    """A runtime that the files must be readable by, such as ``"ort-1.14"``; see `ashore.backends.PROFILES`."""

    batch: Literal["recorded", "one", "dynamic"] = "recorded"
    """``"dynamic"`` makes the first axis of every input a batch of any length, ``"one"`` makes it a single row."""

    cache: bool = True
    """Whether a stage that was exported before, exactly so, is taken from the user's cache; see docs/runtime.md."""

    feedback: bool = False
    """Whether a declared input that was an output a step earlier is a state."""

    picture: bool = True
    """Whether to draw ``graph.svg`` and ``graph.png``."""

    summary: bool = True
    """Whether to print what was found."""

    verbose: bool = False
    """Whether to print all of ``export.log``."""

    timing: Timing | None = None
    joints: Sequence[Joint] = ()
    description: str | None = None
    licence: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    task: str | None = None
    """The name of the training task."""

    checkpoint: str | os.PathLike[str] | None = None
    """The file that the weights came from; its digest is recorded."""

    tools: Collection[str] = ()
    """Further distributions whose versions are recorded."""

    counters: Collection[str] = ()
    """Attributes that are known to count, and to decide nothing; they are not warned about."""

    findings: Sequence[Finding] = ()
    """What was found before the recording; it counts like what is found in it."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ExportOptions:
        """Options by name, refusing names that are none."""
        known = {one.name for one in dataclasses.fields(cls)}
        for name in given:
            if name not in known:
                raise InputError(f"unknown option {name!r}{suggestion(name, known, f'; there are {sorted(known)}')}")
        return cls(**given)

    def __post_init__(self) -> None:
        exporter_name(self.backend)
        if isinstance(self.allow, str):
            raise InputError(f"allow: expected a set of names, got {self.allow!r}; write allow={{{self.allow!r}}}")
        for name in self.allow:
            if name not in KINDS:
                raise InputError(f"allow: there is no finding {name!r}{suggestion(name, KINDS)}")
        if self.profile is not None and self.profile not in PROFILES:
            raise InputError(f"profile: expected one of {sorted(PROFILES)}, got {self.profile!r}")
        if self.batch not in ("recorded", "one", "dynamic"):
            raise InputError(f"batch: expected 'recorded', 'one' or 'dynamic', got {self.batch!r}")
        if not isinstance(self.validation_steps, int) or self.validation_steps < 0:
            raise InputError(f"validation_steps: expected a count from 0, got {self.validation_steps!r}")

    def target(self) -> tuple[int | None, int | None]:
        """The opset and the IR version to write, where they were asked for."""
        opset, ir_version = PROFILES[self.profile] if self.profile else (None, None)
        return self.opset or opset, self.ir_version or ir_version


def check_name(name: object) -> None:
    """Refuse a name that no package can have, before anything is recorded."""
    if not is_identifier(name):
        raise InputError(
            f"a package cannot be called {name!r}: expected letters, digits, '_', '-' and '.', at most 128"
        )
