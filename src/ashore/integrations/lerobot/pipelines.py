"""LeRobot's pipelines as processors of a package.

Every step is known by its registry name and carried exactly, or refused by that name. What a step does is read from
the step itself, as LeRobot loaded it, and not from the policy's configuration: the two can differ, and the step counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ashore.errors import ExportError
from ashore.integrations.lerobot.plan import ACTION, STATE, TOKEN_MASK, TOKENS
from ashore.package import Array, save_arrays
from ashore.processors.normalize import STATISTICS
from ashore.staged.exportable import ProcessorSpec

TASK = "task"
TOKENIZER = "tokenizer.json"

_PI05_TEMPLATE = "Task: {task}, State: {state};\nAction: "
_FORMS = (None, "float32")

Step: TypeAlias = Callable[["Translation", Any], None]


@dataclass
class Translation:
    """What a pipeline has become so far."""

    used: frozenset[str]
    """The features that the policy reads or gives; what else a pipeline works on does not matter."""

    lengths: Mapping[str, int]
    """Observation -> the length of its vector."""

    scaling: bool
    """Whether features are scaled."""

    specs: list[ProcessorSpec] = field(default_factory=list)
    statistics: dict[str, Array] = field(default_factory=dict)
    """``feature/statistic`` -> its values, of those that are used."""

    ranges: dict[str, tuple[Array, Array]] = field(default_factory=dict)
    """Feature -> where its values lie, of those that are scaled."""

    assets: dict[str, bytes] = field(default_factory=dict)
    tokens: int = 0
    """The length of a row of tokens; 0 without text."""

    renamed: dict[str, str] = field(default_factory=dict)
    """What a robot calls an observation -> what the policy calls it."""


def name_of(step: Any) -> str:
    """What a step is called: its registry name, or its class."""
    return getattr(type(step), "_registry_name", None) or f"{type(step).__module__}.{type(step).__qualname__}"


def translate(
    before: Sequence[Any], after: Sequence[Any], used: frozenset[str], lengths: Mapping[str, int], *, scaling: bool
) -> tuple[Translation, Translation]:
    """The steps of both pipelines.

    Args:
        before: the steps of the preprocessor.
        after: those of the postprocessor.
        used: the observations that the policy reads.
        lengths: observation -> the length of its vector.
        scaling: whether features are scaled in the package.
    """
    first, last = Translation(used, lengths, scaling), Translation(frozenset({ACTION}), {}, scaling)
    _all(first, before, _BEFORE, "preprocessor")
    _all(last, after, _AFTER, "postprocessor")
    return first, last


def check_names(preprocessor: Sequence[str], postprocessor: Sequence[str]) -> None:
    """Refuse steps that are not known, by their names, before anything is loaded."""
    _check("preprocessor", preprocessor, _BEFORE)
    _check("postprocessor", postprocessor, _AFTER)


def _check(where: str, names: Sequence[str], known: Mapping[str, Step]) -> None:
    for name in names:
        if name not in known:
            raise ExportError(
                f"policy_{where}.json: the step {name!r} cannot be carried into a package; known are {sorted(known)}; "
                f"do what it does before or after the package"
            )


def statistics_file(*parts: Translation) -> dict[str, bytes]:
    """The statistics that are used, as a file for the package."""
    arrays = {key: value for part in parts for key, value in part.statistics.items()}
    return {"stats.safetensors": save_arrays(arrays)} if arrays else {}


def _all(made: Translation, steps: Sequence[Any], known: Mapping[str, Step], where: str) -> None:
    _check(where, [name_of(one) for one in steps], known)
    for step in steps:
        known[name_of(step)](made, step)


def _nothing(made: Translation, step: Any) -> None:
    """The step only matters to torch, or to batches; a package has both right already."""


def _rename(made: Translation, step: Any) -> None:
    renamed = {old: new for old, new in step.rename_map.items() if new in made.used and old != new}
    if renamed and made.specs:
        raise ExportError("rename_observations_processor: expected it first in the preprocessor")
    made.renamed |= renamed
    if renamed:
        made.specs.append({"type": "rename", "features": renamed})


def _device(made: Translation, step: Any) -> None:
    if step.float_dtype not in _FORMS:
        raise ExportError(
            f"device_processor: float_dtype {step.float_dtype!r}: a package computes in float32; save the "
            f"pipeline with float_dtype null"
        )


def _normalize(made: Translation, step: Any) -> None:
    _scale(made, step, "normalize", getattr(step, "normalize_observation_keys", None))


def _unnormalize(made: Translation, step: Any) -> None:
    _scale(made, step, "denormalize", None)


def _scale(made: Translation, step: Any, kind: str, chosen: Any) -> None:
    """Each feature by its own mode, once."""
    if not made.scaling:
        return
    known: dict[str, dict[str, Array]] = {}
    for key, value in step.state_dict().items():
        feature, _, statistic = key.rpartition(".")
        known.setdefault(feature, {})[statistic] = value.numpy().astype(np.float32)
    for feature, described in step.features.items():
        if feature not in made.used or (chosen is not None and feature not in chosen):
            continue
        mode = _value(step.norm_map.get(described.type, "IDENTITY")).lower()
        if mode == "identity":
            continue
        if mode not in STATISTICS:
            raise ExportError(f"{name_of(step)}: {feature!r}: unknown mode {mode!r}; there are {sorted(STATISTICS)}")
        needed = STATISTICS[mode]
        missing = [one for one in needed if one not in known.get(feature, {})]
        if missing:
            raise ExportError(
                f"{name_of(step)}: {feature!r} is scaled by {mode}, and there is no {' and no '.join(missing)} for it; "
                f"LeRobot would leave it as it is without a word; give the statistics, or set its mode to IDENTITY"
            )
        low, high = (known[feature][one] for one in needed)
        made.statistics |= {f"{feature}/{name}": known[feature][name] for name in needed}
        made.ranges[feature] = (low - high, low + high) if mode == "mean_std" else (low, high)
        eps = 0.0 if (kind, mode) == ("denormalize", "mean_std") else float(step.eps)
        made.specs.append(
            {"type": kind, "features": [feature], "mode": mode, "eps": eps, "artifact": "stats.safetensors"}
        )


def _newline(made: Translation, step: Any) -> None:
    made.specs.append({"type": "prompt", "newline": True})


def _pi05_prompt(made: Translation, step: Any) -> None:
    _expect_task(step)
    width = made.lengths.get(STATE)
    if width is None:
        raise ExportError(f"{name_of(step)}: the prompt holds the state, and the policy has none")
    if width < step.max_state_dim:
        made.specs.append({"type": "pad", "features": [STATE], "size": int(step.max_state_dim)})
    made.specs.append({"type": "prompt", "template": _PI05_TEMPLATE, "clean": True, "state": STATE})


def _tokenize(made: Translation, step: Any) -> None:
    _expect_task(step)
    if step.padding not in ("max_length", "longest"):
        raise ExportError(f"tokenizer_processor: padding {step.padding!r}; expected 'max_length' or 'longest'")
    tokenizer = step.input_tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or tokenizer.pad_token_id is None:
        raise ExportError(
            f"tokenizer_processor: {type(tokenizer).__name__} is no fast tokenizer with a padding token; without torch "
            f"only these run"
        )
    made.tokens = int(step.max_length)
    made.assets[TOKENIZER] = backend.to_str().encode()
    # With "longest" LeRobot pads nothing. The mask hides padding from the network, so the actions are the same.
    made.specs.append(
        {
            "type": "tokenize",
            "artifact": TOKENIZER,
            "max_length": made.tokens,
            "pad_id": int(tokenizer.pad_token_id),
            "padding_side": step.padding_side,
            "truncation": bool(step.truncation),
            "truncation_side": tokenizer.truncation_side,
            "tokens": TOKENS,
            "mask": TOKEN_MASK,
        }
    )


def _expect_task(step: Any) -> None:
    if step.task_key != TASK:
        raise ExportError(
            f"{name_of(step)}: task_key {step.task_key!r}: expected {TASK!r}, which is what robots are given"
        )


def _value(mode: Any) -> str:
    return str(getattr(mode, "value", mode))


_BEFORE: Mapping[str, Step] = {
    "rename_observations_processor": _rename,
    "to_batch_processor": _nothing,
    "device_processor": _device,
    "normalizer_processor": _normalize,
    "smolvla_new_line_processor": _newline,
    "pi05_prepare_state_tokenizer_processor_step": _pi05_prompt,
    "tokenizer_processor": _tokenize,
}
_AFTER: Mapping[str, Step] = {"unnormalizer_processor": _unnormalize, "device_processor": _device}
