"""The manifest: the typed contract in a package, as frozen structs.

These structs say what a manifest may contain. What has to hold *between* their parts (wires that end somewhere, shapes
that agree, names that exist) is in `ashore.spec.checks`; how they become JSON and back is in `ashore.spec.codec`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, cast

import msgspec

FORMAT = "ashore-policy-package"
SCHEMA_VERSION = 1
SINGLE_PASS = "single_pass"  # noqa: S105 - a runner, not a word to keep
ACTION_QUEUE = "action_queue"
NOISE = "noise"
"""The kind of inputs that a generating policy draws at random, from a standard normal distribution."""

TEXT = "command/language"
"""The kind of ports that hold a text in each row: UTF-8, filled up with zeros."""

BATCH = "batch"
"""The one symbolic dimension: how many environments (or robots) are served at once, chosen when a package is loaded."""

DType: TypeAlias = Literal[
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"
]
Dim: TypeAlias = int | Literal["batch"]
Rate: TypeAlias = Literal["policy", "substep", "loop"]
Source: TypeAlias = Literal["sensor", "estimator", "command", "reference", "privileged"]
Role: TypeAlias = Literal["recurrent", "history", "last_action", "filter", "counter", "memory"]
ResetRule: TypeAlias = Literal["initial", "keep"]
Severity: TypeAlias = Literal["info", "warning", "error"]
Sha256: TypeAlias = str
NonFinite: TypeAlias = Literal["nan", "inf", "-inf"]
"""A number that JSON does not have, as text."""

RATES: tuple[Rate, ...] = ("policy", "substep")
"""The rates that callers drive; a loop is driven by a runner."""

CALLS: Mapping[Rate, str] = MappingProxyType({"policy": "step", "substep": "substep"})
"""Rate -> the method of a policy that runs it."""
Json: TypeAlias = Any
"""Any JSON value; checked to be finite and well-formed when the manifest is read."""


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What every part of the manifest is: frozen, and closed to unknown keys."""


class Limits(Record, frozen=True, kw_only=True):
    """The range a value should stay in, inclusive: one number for all elements, or one per element of the last axis."""

    lower: float | tuple[float | None, ...] | None = None
    upper: float | tuple[float | None, ...] | None = None


class Port(Record, frozen=True, kw_only=True):
    """One named array of a stage or of the package."""

    dtype: DType
    shape: tuple[Dim, ...]
    """One entry per axis: a positive length, or ``"batch"``."""

    kind: str | None = None
    """What the array means, from the vocabulary in `ashore.spec.kinds`."""

    unit: str | tuple[str, ...] | None = None
    """One unit for all elements, or one per element of the last axis."""

    frame: str | None = None
    """The coordinate frame the values are expressed in, such as ``"world"`` or ``"base"``."""

    element_names: tuple[tuple[str, ...] | None, ...] | None = None
    """Per axis, the names of its elements (joints, ``x y z``), or null where an axis has none."""

    source: Source | None = None
    """Where a robot gets an input from."""

    limits: Limits | None = None

    finite: bool = True
    """Whether NaN and infinities are refused. False is for data that uses them, such as depth without a return."""

    connection: str | None = None
    """Where a deployment environment finds or writes the value, such as ``"state:robot:joint_pos"``."""

    description: str | None = None
    metadata: dict[str, Json] = {}


class State(Record, frozen=True, kw_only=True):
    """An array that a stage writes and a stage reads on its next run. Its initial value is in ``state.safetensors``."""

    dtype: DType
    shape: tuple[Dim, ...]
    role: Role
    reset: ResetRule = "initial"
    """``"initial"`` restores the initial value on a reset, ``"keep"`` lets the value live on."""

    finite: bool = True
    description: str | None = None


class Artifact(Record, frozen=True, kw_only=True):
    """A stage as one backend stores it."""

    path: str
    """The file that is opened."""

    data: tuple[str, ...] = ()
    """Further files that it needs, such as weights."""

    exporter: str | None = None
    """What wrote it, with its version."""

    inputs: tuple[str, ...] | None = None
    """The order of its inputs: each input of the stage once. Backends that take them by position need it."""

    outputs: tuple[str, ...] | None = None
    """The order of its outputs, likewise."""

    opset: int | None = None
    ir_version: int | None = None


class Processor(Record, frozen=True, kw_only=True):
    """A torch-free transform that a stage is, instead of an artifact."""

    type: str
    params: dict[str, Json] = {}
    assets: tuple[str, ...] = ()
    """Files of the package that it reads, such as statistics."""


class Runner(Record, frozen=True, kw_only=True):
    """How stages are run.

    For a package: how its decisions are made call by call. ``single_pass`` runs each stage of a rate once, in
    dependency order; ``action_queue`` decides only when the actions of the last chunk are used up. For a stage: how it
    runs other stages, several times within a decision, such as the denoising steps of ``flow``.
    """

    type: str = SINGLE_PASS
    params: dict[str, Json] = {}
    stages: tuple[str, ...] = ()
    """The stages of the rate ``loop`` that the runner of a stage runs; they have no wires."""


class Stage(Record, frozen=True, kw_only=True):
    """One pure function with named ports, run at one rate: an artifact per backend, a processor, or a runner."""

    rate: Rate
    inputs: dict[str, Port]
    outputs: dict[str, Port]
    artifacts: dict[str, Artifact] = {}
    """Backend name -> artifact. Port names are the same in every artifact."""

    processor: Processor | None = None
    runner: Runner | None = None
    description: str | None = None


class Wire(Record, frozen=True):
    """Data flow from one endpoint to another.

    An endpoint is ``group/name``: the part before the first slash is a stage, or one of ``inputs``, ``outputs`` and
    ``states``. A wire starts at a package input, a state or a stage output, and ends at a stage input, a state or a
    package output. A wire into a state is feedback: what is written is read on the next run.
    """

    source: str
    target: str


class Timing(Record, frozen=True, kw_only=True):
    """How often the environment decided and acted."""

    policy_dt_s: float | None = None
    """Time between two decisions, where the environment said it."""

    physics_dt_s: float | None = None
    """Time between two substeps."""

    decimation: int = 1
    """Substeps per decision."""


class JointLimits(Record, frozen=True, kw_only=True):
    """The range of a joint's position."""

    lower: float
    upper: float


class Joint(Record, frozen=True, kw_only=True):
    """One joint of the robot, in radians and newton metres (revolute) or metres and newtons (prismatic)."""

    name: str
    type: Literal["revolute", "prismatic"] = "revolute"
    default_position: float | None = None
    kp: float | None = None
    kd: float | None = None
    effort_limit: float | None = None
    velocity_limit: float | None = None
    position_limits: JointLimits | None = None
    actuator: str | None = None
    """The actuator model of the training environment, such as ``"implicit"`` or ``"dc_motor"``."""


class Finding(Record, frozen=True, kw_only=True):
    """Something the export saw that could make the package differ from the environment, and that was allowed."""

    name: str
    severity: Severity
    message: str
    tensor: str | None = None
    where: str | None = None
    """``file.py:line`` of the user's code."""

    remedy: str | None = None


class Frozen(Record, frozen=True, kw_only=True):
    """A tensor that the export took for a constant, and that is neither a parameter nor a buffer of a module."""

    name: str
    """What the code calls it, or the line that reads it."""

    where: str | None = None
    """``file.py:line`` of the user's code."""

    dtype: str
    shape: tuple[int, ...]
    """One length per axis; an axis may be empty."""

    values: tuple[float | NonFinite, ...] | None = None
    """What it holds, row by row, if that is little."""

    lowest: float | NonFinite | None = None
    highest: float | NonFinite | None = None

    def __post_init__(self) -> None:
        """Turn what JSON cannot hold into text: a mask is full of infinities, and is worth showing."""
        if self.values is not None:
            msgspec.structs.force_setattr(self, "values", tuple(map(_written, self.values)))
        if self.lowest is not None:
            msgspec.structs.force_setattr(self, "lowest", _written(self.lowest))
        if self.highest is not None:
            msgspec.structs.force_setattr(self, "highest", _written(self.highest))


class BackendResult(Record, frozen=True, kw_only=True):
    """The largest absolute differences that one backend showed when the package was written."""

    backend: str
    runtime: str
    """What ran it, with its version."""

    max_abs_error_stepwise: float
    max_abs_error_free_running: float


class Verification(Record, frozen=True, kw_only=True):
    """What was proven about the package when it was written."""

    status: Literal["passed", "skipped"]
    steps: int = 0
    substeps: int = 0
    resets: int = 0
    atol: float | None = None
    rtol: float | None = None
    results: tuple[BackendResult, ...] = ()


class Git(Record, frozen=True, kw_only=True):
    """The commit of the training code, and whether it had uncommitted changes."""

    commit: str
    dirty: bool


class Checkpoint(Record, frozen=True, kw_only=True):
    """The weights the package was made from."""

    name: str
    sha256: Sha256


class Provenance(Record, frozen=True, kw_only=True):
    """Where a package comes from."""

    tools: dict[str, str] = {}
    """Distribution name -> version, of everything that took part."""

    python: str | None = None
    platform: str | None = None
    created_at: str | None = None
    """ISO 8601, in UTC. Left out where byte-identical packages are wanted."""

    git: Git | None = None
    checkpoint: Checkpoint | None = None
    task: str | None = None


class FileEntry(Record, frozen=True, kw_only=True):
    """What a file of the package must be."""

    sha256: Sha256
    size: int


class Manifest(Record, frozen=True, kw_only=True):
    """The contract of one package."""

    format: Literal["ashore-policy-package"] = FORMAT
    schema_version: int = SCHEMA_VERSION
    manifest_sha256: Sha256 | None = None
    """The seal: sha256 of this file's own bytes, taken with 64 zeros in this place."""

    name: str
    version: str | None = None
    description: str | None = None
    licence: str | None = None
    provenance: Provenance = Provenance()
    timing: Timing | None = None
    inputs: dict[str, Port]
    outputs: dict[str, Port]
    stages: dict[str, Stage]
    wires: tuple[Wire, ...]
    states: dict[str, State] = {}
    runner: Runner = Runner()
    joints: tuple[Joint, ...] = ()
    findings: tuple[Finding, ...] = ()
    constants: tuple[Frozen, ...] = ()
    verification: Verification | None = None
    files: dict[str, FileEntry] = {}
    """Every file of the package but the manifest itself, by its path."""

    metadata: dict[str, Json] = {}


def _written(value: float | NonFinite) -> float | NonFinite:
    return value if isinstance(value, str) or math.isfinite(value) else cast("NonFinite", str(value))


def concrete(shape: tuple[Dim, ...], batch: int) -> tuple[int, ...]:
    """A shape with the symbolic batch axis given its length."""
    return tuple(batch if dim == BATCH else dim for dim in shape)
