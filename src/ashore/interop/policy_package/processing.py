"""From that format's processors to stages.

Its runtime runs every processor on a dictionary that everything lies in, whether or not a model reads it. Here a stage
is made only for what a model reads, and what is prepared in vain is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from ashore.building import Pipeline, apply
from ashore.errors import PackageError
from ashore.interop.policy_package.document import (
    ACTION,
    STATE,
    TASK,
    TOKENS,
    TOKENS_MASK,
    AbsoluteActions,
    Document,
    Placed,
    PrepareState,
    RelativeActions,
    Scale,
    Tokenize,
)
from ashore.interop.policy_package.statistics import EPS, Statistics, changes_nothing
from ashore.interop.policy_package.tokenizers import read_tokenizer
from ashore.spec import Finding

RAW_STATE = f"raw:{STATE}"


class Plan(NamedTuple):
    """What has to be done before the models."""

    before: tuple[Placed, ...]
    needed: frozenset[str]
    """The features that a robot has to give."""

    touched: frozenset[str]
    """Those that some processor computes with."""


class Processing:
    """The processors of one directory."""

    def __init__(self, folder: Path, document: Document) -> None:
        self._folder, self._document = folder, document
        self._statistics: dict[str, Statistics] = {}
        self._relative, self._absolute = self._pair()
        self._check_once()
        self.findings: list[Finding] = []

    def plan(self, wanted: Iterable[str]) -> Plan:
        """What of the preprocessors the models need.

        Args:
            wanted: the features that the models take.
        """
        needed, touched, kept, read = set(wanted), set[str](), list[Placed](), set(wanted)
        for placed in reversed(self._document.before):
            match placed.processor:
                case Scale(features=features, mode=mode) as spec:
                    used = tuple(feature for feature in features if feature in needed)
                    self._tell_unread(feature for feature in features if feature not in needed)
                    if used and mode != "identity":
                        kept.append(Placed(placed.where, msgspec.structs.replace(spec, features=used)))
                        touched |= set(used)
                case RelativeActions() if self._absolute is not None:
                    kept.append(placed)
                    needed.add(STATE)
                    touched.add(STATE)
                case PrepareState():
                    if STATE in needed:
                        kept.append(placed)
                        touched.add(STATE)
                    else:
                        self._tell_unread([STATE])
                case Tokenize():
                    made = {TOKENS, TOKENS_MASK}
                    if not made & needed:
                        self._tell_unread([TASK])
                        continue
                    if not made <= needed:
                        raise PackageError(
                            f"{placed.where}: no model takes {sorted(made - needed)[0]!r}, which it makes"
                        )
                    kept.append(placed)
                    needed = needed - made | {TASK}
                case _:
                    pass
        return Plan(tuple(reversed(kept)), frozenset(needed), frozenset(touched & (needed | read)))

    def apply_before(self, pipeline: Pipeline, plan: Plan) -> None:
        """Add what a plan says to a pipeline that has its features."""
        for where, spec in ((placed.where, placed.processor) for placed in plan.before):
            match spec:
                case Scale():
                    for feature in spec.features:
                        self._scale(pipeline, spec, feature, where)
                case RelativeActions():
                    pipeline.keep(STATE, RAW_STATE)
                case PrepareState():
                    if _last(pipeline, STATE) < spec.max_state_dim:
                        apply(pipeline, {"type": "pad", "features": [STATE], "size": spec.max_state_dim})
                case Tokenize():
                    self._tokenize(pipeline, spec, where)
                case _:
                    pass

    def apply_after(self, pipeline: Pipeline) -> None:
        """Add the postprocessors to a pipeline that has the actions of the models."""
        for placed in self._document.after:
            match placed.processor:
                case Scale() as spec if spec.mode != "identity":
                    self._scale(pipeline, spec, ACTION, placed.where)
                case AbsoluteActions() if self._absolute is placed:
                    self._make_absolute(pipeline, placed.where)
                case _:
                    pass

    def action_names(self, dim: int) -> tuple[str, ...] | None:
        """What the elements of an action are called, if ``relative_actions`` says it of all of them."""
        names = self._relative.action_names if self._relative is not None else None
        return names if names is not None and len(names) == dim else None

    # --- what belongs together ---------------------------------------------------------------------------------------

    def _pair(self) -> tuple[RelativeActions | None, Placed | None]:
        """What ``relative_actions`` says, and ``absolute_actions`` if it does anything."""
        relative = [placed for placed in self._document.before if isinstance(placed.processor, RelativeActions)]
        absolute = [placed for placed in self._document.after if isinstance(placed.processor, AbsoluteActions)]
        for several in (relative, absolute):
            if len(several) > 1:
                raise PackageError(f"{several[1].where}: there is one before, at {several[0].where}; expected one")
        spec = relative[0].processor if relative else None
        one = absolute[0] if absolute else None
        before = isinstance(spec, RelativeActions) and spec.enabled
        after = one is not None and isinstance(one.processor, AbsoluteActions) and one.processor.enabled
        if after and not relative:
            raise PackageError(
                f"{absolute[0].where}: expected relative_actions among the preprocessors, which pairs it"
            )
        if before != after:
            place = (relative if before else absolute)[0].where
            raise PackageError(
                f"{place}: it is enabled, and its counterpart is not, so offsets would be taken for positions, or the "
                f"other way round; enable both or none"
            )
        return spec if isinstance(spec, RelativeActions) else None, one if after else None

    def _check_once(self) -> None:
        """The runtime of that format scales a feature once for every entry; training scaled it once."""
        seen: set[str] = set()
        for placed in self._document.before:
            if isinstance(placed.processor, Scale):
                for feature in placed.processor.features:
                    if feature in seen:
                        raise PackageError(f"{placed.where}: {feature!r} is normalised before; expected once")
                    seen.add(feature)
        scales = [placed for placed in self._document.after if isinstance(placed.processor, Scale)]
        for placed in scales:
            features = placed.processor.features if isinstance(placed.processor, Scale) else ()
            if features != (ACTION,):
                raise PackageError(f"{placed.where}: features: expected {[ACTION]}, got {list(features)}")
        if len(scales) > 1:
            raise PackageError(f"{scales[1].where}: {ACTION!r} is denormalised before; expected once")

    # --- single processors -------------------------------------------------------------------------------------------

    def _scale(self, pipeline: Pipeline, spec: Scale, feature: str, where: str) -> None:
        mode = "mean_std" if spec.mode == "standard" else spec.mode
        statistics = self._read_statistics(spec, where)
        first, second = statistics.pair(feature, mode, where)
        eps = 0.0 if spec.type == "denormalize" and mode == "mean_std" else EPS
        more: dict[str, object] = {}
        if spec.type == "denormalize" and first.ndim == 1:
            length, there = len(first), _last(pipeline, feature)
            if length > there:
                raise PackageError(
                    f"{where}: {statistics.path} has statistics of {length} elements for {feature!r}, which has {there}"
                )
            more = {"trim": True, "size": length} if length < there else {}
        if not more and changes_nothing(first, second, mode, eps):
            self._tell(
                "nothing_to_scale",
                f"the statistics of {feature!r} are those of values that are scaled already, so no stage scales it",
            )
            return
        pipeline.files[statistics.path] = statistics.data
        apply(
            pipeline,
            {
                "type": spec.type,
                "features": [feature],
                "mode": mode,
                "artifact": statistics.path,
                "statistics": feature,
                "eps": eps,
                **more,
            },
        )

    def _read_statistics(self, spec: Scale, where: str) -> Statistics:
        path = spec.artifact
        if path is None:
            raise PackageError(f"{where}.artifact: missing; the mode {spec.mode!r} needs statistics")
        if path not in self._statistics:
            self._statistics[path] = Statistics(self._folder, path, where)
        return self._statistics[path]

    def _tokenize(self, pipeline: Pipeline, spec: Tokenize, where: str) -> None:
        if spec.padding != "max_length":
            raise PackageError(
                f"{where}.padding: expected 'max_length', got {spec.padding!r}, which gives tokens of any length"
            )
        tokenizer = read_tokenizer(self._folder, spec.artifact, where)
        pipeline.files[tokenizer.path] = tokenizer.data
        apply(
            pipeline,
            {
                "type": "tokenize",
                "artifact": tokenizer.path,
                "max_length": spec.max_length,
                "pad_id": tokenizer.pad_id,
                "padding_side": spec.padding_side,
                "truncation": spec.truncation,
                "truncation_side": tokenizer.truncation_side,
            },
        )
        self._tell(
            "tokenizer_as_saved",
            f"{tokenizer.path} is used as it is; that format's runtime has transformers read the directory, as "
            f"{tokenizer.tokenizer_class or 'a class that the directory does not say'}",
        )

    def _make_absolute(self, pipeline: Pipeline, where: str) -> None:
        dim, there = _last(pipeline, ACTION), _last(pipeline, RAW_STATE)
        mask = list(self._mask(dim))
        if there < dim:
            raise PackageError(f"{where}: actions have {dim} elements, and {STATE!r} has {there}; expected as many")
        if not any(mask):
            raise PackageError(f"{where}: exclude_joints names all actions, so none is an offset; disable it")
        if there > dim:
            apply(pipeline, {"type": "slice", "features": [RAW_STATE], "shape": [dim], "start": [0]})
        apply(pipeline, {"type": "absolute_actions", "features": [ACTION], "state": STATE, "mask": mask})

    def _mask(self, dim: int) -> Iterator[bool]:
        """Which elements are offsets: all but those whose name holds one of the excluded words."""
        spec = self._relative or RelativeActions()
        names, words = spec.action_names or (), [word.lower() for word in spec.exclude_joints or () if word]
        for index in range(dim):
            name = names[index].lower() if index < len(names) else None
            yield name is None or not any(word in name for word in words)

    # --- findings ----------------------------------------------------------------------------------------------------

    def _tell_unread(self, features: Iterable[str]) -> None:
        for feature in features:
            finding = Finding(
                name="unread_feature",
                severity="warning",
                message=f"{feature!r} is prepared, and no model takes it: the policy decides without it",
                remedy="if training used it, export the policy again; a package of this one cannot bring it back",
            )
            if finding not in self.findings:
                self.findings.append(finding)

    def _tell(self, name: str, message: str) -> None:
        self.findings.append(Finding(name=name, severity="info", message=message))


def _last(pipeline: Pipeline, feature: str) -> int:
    shape = pipeline.port(feature).shape
    return int(shape[-1]) if shape else 0
