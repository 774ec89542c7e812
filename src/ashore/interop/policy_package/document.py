"""What a manifest of that format says, as structs. Its own reader drops unknown keys; here they are errors."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from ashore.errors import PackageError, suggestion
from ashore.interop.structs import as_struct
from ashore.spec import DType

FORMAT = "policy_package"
VERSION = "1.0"
MAX_MANIFEST_BYTES = 1 << 20

STATE = "observation.state"
IMAGES = "observation.images."
TASK = "task"
TOKENS = "observation.language.tokens"
TOKENS_MASK = "observation.language.attention_mask"
ACTION = "action"

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class Said(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every part of such a manifest is: closed to unknown keys."""


# --- what the policy is ----------------------------------------------------------------------------------------------


class Source(Said, frozen=True, kw_only=True):
    """Where the policy comes from."""

    repo_id: str | None = None
    revision: str | None = None
    class_path: str | None = None


class Identity(Said, frozen=True, kw_only=True):
    """What the policy is called."""

    name: str
    source: Source | None = None


class Tensor(Said, frozen=True, kw_only=True):
    """An array without its batch axis."""

    shape: tuple[Count, ...]
    dtype: DType = "float32"
    order: tuple[str, ...] | None = None
    """What its elements are called."""


class Robot(Said, frozen=True, kw_only=True):
    """What a robot gives and takes."""

    name: str
    type: str | None = None
    state: Tensor | None = None
    action: Tensor | None = None


class Camera(Said, frozen=True, kw_only=True):
    """An image, channels first."""

    name: str
    shape: tuple[Count, ...] | None = None
    dtype: DType | None = None


class Hardware(Said, frozen=True, kw_only=True):
    """What the policy is for."""

    robots: tuple[Robot, ...] | None = None
    cameras: tuple[Camera, ...] | None = None


class About(Said, frozen=True, kw_only=True):
    """Who wrote the package, and when."""

    created_at: str | None = None
    created_by: str | None = None


# --- runners ---------------------------------------------------------------------------------------------------------


class SinglePass(Said, frozen=True, kw_only=True):
    """``model`` is run once; what it gives is a chunk, or one action."""

    type: Literal["single_pass"] = "single_pass"
    chunk_size: Count | None = None
    n_action_steps: Count | None = None
    action_dim: Count | None = None


class KvCacheFlow(Said, frozen=True, kw_only=True):
    """``encoder`` is run once, then ``denoise`` in every step from noise at 1 to actions at 0."""

    type: Literal["kv_cache_flow"] = "kv_cache_flow"
    num_inference_steps: Count = 10
    scheduler: str = "euler"
    action_dim: Count
    output_action_dim: Count | None = None
    chunk_size: Count | None = None
    n_action_steps: Count | None = None
    num_layers: Count | None = None
    num_kv_heads: Count | None = None
    head_dim: Count | None = None
    input_mapping: dict[str, str] | None = None
    """Feature -> what the models call it."""

    state_dim: Count | None = None


Runner: TypeAlias = SinglePass | KvCacheFlow
RUNNERS: Mapping[str, type[Said]] = MappingProxyType({"single_pass": SinglePass, "kv_cache_flow": KvCacheFlow})
ROLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"single_pass": ("model",), "kv_cache_flow": ("encoder", "denoise")}
)
"""Runner -> the model files that it needs."""


# --- processors ------------------------------------------------------------------------------------------------------


class Scale(Said, frozen=True, kw_only=True):
    """``normalize`` or ``denormalize``."""

    type: Literal["normalize", "denormalize"]
    features: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    mode: Literal["mean_std", "standard", "min_max", "quantiles", "quantile10", "identity"] = "mean_std"
    artifact: str | None = None
    """The statistics: ``<feature>/mean`` and so on."""


class RelativeActions(Said, frozen=True, kw_only=True):
    """Remembers the state as it is there, for ``absolute_actions``."""

    type: Literal["relative_actions"] = "relative_actions"
    enabled: bool = False
    exclude_joints: tuple[str, ...] | None = None
    action_names: tuple[str, ...] | None = None


class AbsoluteActions(Said, frozen=True, kw_only=True):
    """Adds the state that was remembered to the actions of a chunk."""

    type: Literal["absolute_actions"] = "absolute_actions"
    enabled: bool = False


class PrepareState(Said, frozen=True, kw_only=True):
    """Fills the state up with zeros."""

    type: Literal["pi05_prepare_state"] = "pi05_prepare_state"
    max_state_dim: Count


class Tokenize(Said, frozen=True, kw_only=True):
    """Turns the task into tokens and their mask."""

    type: Literal["tokenize"] = "tokenize"
    artifact: str
    """The directory of the tokenizer."""

    max_length: Count
    padding_side: Literal["left", "right"] = "right"
    padding: str = "max_length"
    truncation: bool = True
    tokenizer_name: str | None = None


Processor: TypeAlias = Scale | RelativeActions | AbsoluteActions | PrepareState | Tokenize
_BEFORE: Mapping[str, type[Said]] = MappingProxyType(
    {
        "normalize": Scale,
        "relative_actions": RelativeActions,
        "pi05_prepare_state": PrepareState,
        "tokenize": Tokenize,
    }
)
_AFTER: Mapping[str, type[Said]] = MappingProxyType({"denormalize": Scale, "absolute_actions": AbsoluteActions})


class Placed(msgspec.Struct, frozen=True):
    """A processor, and where the manifest says it."""

    where: str
    processor: Processor


# --- the whole -------------------------------------------------------------------------------------------------------


class _Model(Said, frozen=True, kw_only=True):
    n_obs_steps: int
    runner: dict[str, Any]
    artifacts: dict[str, str]
    preprocessors: list[dict[str, Any]] | None = None
    postprocessors: list[dict[str, Any]] | None = None


class _Whole(Said, frozen=True, kw_only=True):
    format: str
    version: str
    policy: Identity
    model: _Model
    hardware: Hardware | None = None
    metadata: About | None = None


class Document(msgspec.Struct, frozen=True):
    """A manifest, read."""

    policy: Identity
    runner: Runner
    artifacts: Mapping[str, str]
    """Role -> the file in ``artifacts/``."""

    before: tuple[Placed, ...]
    after: tuple[Placed, ...]
    hardware: Hardware
    about: About


def parse(data: bytes, where: str) -> Document:
    """Read a manifest.

    Args:
        data: the whole file.
        where: what to call it in an error.
    """
    raw = load_json(data, where)
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        found = raw.get("format") if isinstance(raw, dict) else type(raw).__name__
        raise PackageError(f"{where}: format: expected {FORMAT!r}, got {found!r}")
    if raw.get("version") != VERSION:
        raise PackageError(f"{where}: version: expected {VERSION!r}, got {raw.get('version')!r}")
    whole: _Whole = as_struct(raw, _Whole, where)
    if whole.model.n_obs_steps != 1:
        raise PackageError(
            f"{where}: model.n_obs_steps: expected 1, got {whole.model.n_obs_steps}; that format's runners "
            f"keep no history, so it does not say how observations are stacked"
        )
    runner = _one(whole.model.runner, RUNNERS, f"{where}: model.runner", "runner")
    roles = ROLES[runner.type]
    if sorted(whole.model.artifacts) != sorted(roles):
        raise PackageError(
            f"{where}: model.artifacts: expected {sorted(roles)} for {runner.type!r}, got "
            f"{sorted(whole.model.artifacts)}"
        )
    sides = (
        ("preprocessors", whole.model.preprocessors, _BEFORE),
        ("postprocessors", whole.model.postprocessors, _AFTER),
    )
    before, after = (
        tuple(
            Placed(place, _one(one, kinds, place, "processor"))
            for index, one in enumerate(given or ())
            for place in (f"{where}: model.{side}[{index}]",)
        )
        for side, given, kinds in sides
    )
    return Document(
        whole.policy,
        runner,
        whole.model.artifacts,
        before,
        after,
        whole.hardware or Hardware(),
        whole.metadata or About(),
    )


def _one(raw: dict[str, Any], kinds: Mapping[str, type[Said]], where: str, what: str) -> Any:
    kind = raw.get("type")
    if not isinstance(kind, str) or kind not in kinds:
        hint = suggestion(kind, kinds, f"; there are {sorted(kinds)}") if isinstance(kind, str) else ""
        raise PackageError(f"{where}.type: unknown {what} {kind!r}{hint}")
    return as_struct(raw, kinds[kind], where)


def plain(value: Any) -> Any:
    """A part of a manifest as JSON has it; what is not said is left out."""
    return _without_nulls(msgspec.to_builtins(value))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list | tuple) else value


def load_json(data: bytes, where: str, limit: int = MAX_MANIFEST_BYTES) -> Any:
    """JSON, strictly: UTF-8, no key twice, no number that is not finite.

    Args:
        data: the whole file.
        where: what to call it in an error.
        limit: how many bytes it may have.
    """
    if len(data) > limit:
        raise PackageError(f"{where}: is longer than {limit} bytes")
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_object, parse_constant=_number, parse_float=_number)
    except (ValueError, RecursionError) as error:
        raise PackageError(f"{where}: is no JSON that can be read: {error}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} stands twice")
    return built


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no JSON number")
    return value
