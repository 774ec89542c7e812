"""What of a package that format can say: its stages, told apart by what they are for.

The way is taken backwards, from the action to what a robot gives. Every stage has to be met on it; what was not, or is
not what the format has a word for, is a reason to refuse, and all reasons are collected.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ashore.interop.policy_package.document import STATE, TASK, TOKENS, TOKENS_MASK
from ashore.interop.policy_package.glue import cast_model, ones_model
from ashore.interop.policy_package.joining import IMAGE_MASK, PAST, PREFIX_MASK, SAMPLE, STATE_PORT, TIME, VELOCITIES
from ashore.package import Package
from ashore.spec import ACTION_QUEUE, NOISE, SINGLE_PASS, TEXT, Endpoint, Stage, Wiring

_EXACT = ("float32", "float16", "bool", "int8", "int16", "uint8", "uint16")
"""Dtypes whose values float32 holds, through which that format's runtime takes everything but tokens."""


@dataclass
class Fed:
    """How a feature gets from the robot to a model."""

    feature: str
    stages: tuple[str, ...] = ()
    """The processors on the way, the first one first."""


@dataclass
class Recognised:
    """A package, as that format sees it."""

    model: str = ""
    """The stage that is ``model``, or ``encoder``."""

    body: str | None = None
    """The stage that is ``denoise``."""

    generate: str | None = None
    """The stage that runs it."""

    fed: dict[str, Fed] = field(default_factory=dict)
    """Input of a model -> what it takes."""

    after: list[str] = field(default_factory=list)
    """The processors behind the models, the first one first."""

    trim: str | None = None
    """The slice that drops what actions are padded with."""

    queue: str | None = None
    masks: set[str] = field(default_factory=set)
    """Inputs that the runtime of that format fills in."""

    problems: list[str] = field(default_factory=list)


def recognise(package: Package) -> Recognised:
    """Take a package apart; `problems` says what the format cannot say."""
    return _Recogniser(package).recognise()


class _Recogniser:
    def __init__(self, package: Package) -> None:
        self._package, self._manifest = package, package.manifest
        self._graph = Wiring(package.manifest)
        self._found = Recognised()
        self._met: set[str] = set()

    def recognise(self) -> Recognised:
        manifest, found = self._manifest, self._found
        if manifest.runner.type not in (SINGLE_PASS, ACTION_QUEUE):
            self._refuse(f"runner {manifest.runner.type!r}: expected {SINGLE_PASS!r} or {ACTION_QUEUE!r}")
        if len(manifest.outputs) != 1:
            self._refuse(f"outputs {sorted(manifest.outputs)}: a policy_package gives one, the action")
            return self._with_leftovers()
        self._backwards(next(iter(manifest.outputs)))
        if found.model:
            self._forwards()
        return self._with_leftovers()

    # --- from the action to the models -------------------------------------------------------------------------------

    def _backwards(self, output: str) -> None:
        found = self._found
        source = self._graph.into(Endpoint("outputs", output))[0]
        while source.group in self._manifest.stages:
            name, stage = source.group, self._manifest.stages[source.group]
            self._met.add(name)
            if stage.runner is not None:
                self._loop(name, stage)
                return
            if stage.artifacts:
                found.model = name
                self._check_outputs(name, stage)
                return
            port = self._behind(name, stage)
            if port is None:
                return
            source = self._graph.into(Endpoint(name, port))[0]
        self._refuse(f"output {output!r} comes from {source}, and not from a model")

    def _behind(self, name: str, stage: Stage) -> str | None:
        """Take a processor behind the models; the input that the actions come in by."""
        found, kind = self._found, stage.processor.type if stage.processor else ""
        if kind == "action_queue" and found.queue is None and not found.after:
            found.queue = name
            return "chunk"
        if kind in ("denormalize", "absolute_actions") and found.trim is None:
            found.after.insert(0, name)
            return "actions" if kind == "absolute_actions" else next(iter(stage.inputs))
        if kind == "slice" and found.trim is None and self._only_last_axis(stage):
            found.trim = name
            return next(iter(stage.inputs))
        self._refuse(self._no_word(name, stage))
        return None

    def _check_outputs(self, name: str, stage: Stage) -> None:
        if len(stage.outputs) != 1:
            self._refuse(f"stage {name!r} gives {sorted(stage.outputs)}; expected the action alone")
        if self._found.trim is not None:
            self._refuse(f"stage {self._found.trim!r} cuts the actions of a model that is run once")

    def _loop(self, name: str, stage: Stage) -> None:
        found, runner = self._found, stage.runner
        if runner is None or runner.type != "flow" or len(runner.stages) != 1:
            kind = runner.type if runner else ""
            self._refuse(f"stage {name!r} has the runner {kind!r}; the only loop of a policy_package is an Euler flow")
            return
        found.generate, found.body = name, runner.stages[0]
        self._met.add(found.body)
        params = {"t_start": 1.0, "t_end": 0.0, "method": "euler", "guidance": None, **runner.params}
        wanted = {"t_start": 1.0, "t_end": 0.0, "method": "euler", "guidance": None}
        for key, value in wanted.items():
            if params[key] != value:
                self._refuse(f"stage {name!r} has {key} {params[key]!r}; a policy_package has {value!r}")
        for key, port in (("sample", SAMPLE), ("time", TIME)):
            if params.get(key, port) != port:
                self._refuse(f"stage {found.body!r} calls its {key} {params[key]!r}; expected {port!r}")
        if params.get("velocity", VELOCITIES[0]) not in VELOCITIES:
            self._refuse(f"stage {found.body!r} gives {params['velocity']!r}; expected {' or '.join(VELOCITIES)}")
        self._check_body(found.body, self._manifest.stages[found.body])
        self._find_encoder(name, stage, str(params.get("noise", "noise")))

    def _check_body(self, name: str, body: Stage) -> None:
        sample, time = body.inputs.get(SAMPLE), body.inputs.get(TIME)
        if sample is not None and (len(sample.shape) != 3 or sample.shape[0] not in (1, "batch")):
            self._refuse(f"stage {name!r} takes samples {list(sample.shape)}; a policy_package has [1, chunk, dim]")
        if time is not None and (len(time.shape) != 1 or time.shape[0] not in (1, "batch")):
            self._refuse(f"stage {name!r} takes the time as {list(time.shape)}; a policy_package gives it as [1]")

    def _find_encoder(self, name: str, stage: Stage, noise: str) -> None:
        """The model that gives the cache: what all of the context but the state comes from."""
        for port in stage.inputs:
            source = self._source(name, port)
            if port == noise:
                given = self._manifest.inputs.get(source.name) if source.group == "inputs" else None
                if given is None or given.kind != NOISE:
                    self._refuse(f"the noise of stage {name!r} is {source}; expected an input of the kind {NOISE!r}")
                continue
            if port == STATE_PORT:
                continue
            feeder = self._through_casts(source)
            holder = self._manifest.stages.get(feeder.group)
            if holder is None or not holder.artifacts or self._found.model not in ("", feeder.group):
                self._refuse(f"stage {name!r} takes {port!r} from {feeder}; expected all of them from one encoder")
            elif feeder.name != port or not (port == PREFIX_MASK or port.startswith(PAST)):
                self._refuse(
                    f"stage {name!r} takes {feeder} as {port!r}; a policy_package knows {PREFIX_MASK!r} and {PAST!r}…, "
                    f"under the same name on both sides"
                )
            else:
                self._found.model = feeder.group
                self._met.add(feeder.group)
        if not self._found.model:
            self._refuse(f"stage {name!r} has no encoder before it, which a policy_package needs")

    # --- from the models to the robot --------------------------------------------------------------------------------

    def _forwards(self) -> None:
        found = self._found
        ends = [(found.model, port) for port in self._manifest.stages[found.model].inputs]
        if found.generate is not None and STATE_PORT in self._manifest.stages[found.generate].inputs:
            ends.append((found.generate, STATE_PORT))
        images = sum(port.startswith("image_") for _, port in ends)
        for stage, port in ends:
            if self._is_mask(stage, port, images):
                found.masks.add(port)
                continue
            fed = self._trace(stage, port)
            if fed is None:
                continue
            if port in found.fed and found.fed[port] != fed:
                self._refuse(f"{port!r} is one thing for {found.model!r} and another for {found.generate!r}")
            found.fed[port] = fed
        self._check_features()

    def _is_mask(self, stage: str, port: str, images: int) -> bool:
        number = IMAGE_MASK.fullmatch(port)
        source = self._source(stage, port)
        maker = self._manifest.stages.get(source.group)
        if maker is None or maker.inputs or not maker.artifacts:
            return False
        if self._found.generate is None or number is None or int(number[1]) >= images:
            return False
        same = self._bytes(maker) == ones_model(maker.outputs[source.name])
        if same:
            self._met.add(source.group)
        return same

    def _trace(self, stage: str, port: str) -> Fed | None:
        """Go from an input of a model back to what a robot gives."""
        source, chain = self._through_casts(self._source(stage, port)), list[str]()
        while source.group in self._manifest.stages:
            name, one = source.group, self._manifest.stages[source.group]
            kind = one.processor.type if one.processor else ""
            if kind == "tokenize":
                self._met.add(name)
                return self._tokens(name, source.name, chain)
            if kind not in ("normalize", "pad"):
                self._met.add(name)
                self._refuse(self._no_word(name, one))
                return None
            self._met.add(name)
            chain.insert(0, name)
            source = self._source(name, next(iter(one.inputs)))
        if source.group == "states":
            self._refuse(f"{port!r} of stage {stage!r} takes the state {source.name!r}; a policy_package keeps none")
            return None
        return Fed(source.name, tuple(chain))

    def _tokens(self, name: str, port: str, chain: list[str]) -> Fed | None:
        source = self._source(name, "text")
        given = self._manifest.inputs.get(source.name) if source.group == "inputs" else None
        if source.group in self._manifest.stages:
            self._met.add(source.group)
            self._refuse(self._no_word(source.group, self._manifest.stages[source.group]))
        elif given is None or given.kind != TEXT or source.name != TASK:
            self._refuse(f"stage {name!r} takes {source}; a policy_package tokenizes an input {TASK!r} and no other")
        elif chain:
            self._refuse(self._no_word(chain[0], self._manifest.stages[chain[0]]))
        else:
            return Fed({"tokens": TOKENS, "mask": TOKENS_MASK}[port], (name,))
        return None

    def _check_features(self) -> None:
        """A feature is one thing, under one name, that float32 holds."""
        found, seen = self._found, dict[str, tuple[str, Fed]]()
        for port, fed in found.fed.items():
            other = seen.setdefault(fed.feature, (port, fed))
            if other[1] != fed:
                self._refuse(f"{fed.feature!r} is prepared in one way for {other[0]!r}, and in another for {port!r}")
            if other[0] != port:
                self._refuse(
                    f"{fed.feature!r} goes into {other[0]!r} and into {port!r}; a policy_package has one name for it"
                )
            kinds = [self._kind(name) for name in fed.stages]
            if kinds not in ([], ["normalize"], ["pad"], ["normalize", "pad"], ["tokenize"]):
                self._refuse(f"{fed.feature!r} goes through {kinds}; a policy_package scales once, and then fills up")
            if "pad" in kinds and fed.feature != STATE:
                self._refuse(f"stage {fed.stages[-1]!r} pads {fed.feature!r}; a policy_package pads {STATE!r} only")
            given = self._manifest.inputs.get(fed.feature)
            if given is not None and given.dtype not in _EXACT and fed.feature != TOKENS:
                self._refuse(f"input {fed.feature!r} is {given.dtype}, which its runtime takes through float32")
            if given is not None and (not given.shape or given.shape[0] not in (1, "batch")):
                self._refuse(
                    f"input {fed.feature!r} has the shape {list(given.shape)}; a policy_package is for one robot"
                )

    # --- what is left ------------------------------------------------------------------------------------------------

    def _with_leftovers(self) -> Recognised:
        self._meet_states_of_actions()
        queue = self._found.queue
        for name, state in self._manifest.states.items():
            writers = {end.group for end in self._graph.into(Endpoint("states", name))}
            if writers != {queue}:
                self._refuse(
                    f"state {name!r} ({state.role}) lives from decision to decision; a policy_package keeps none"
                )
        for name, stage in self._manifest.stages.items():
            if name not in self._met:
                self._refuse(self._no_word(name, stage))
        return self._found

    def _meet_states_of_actions(self) -> None:
        """What ``absolute_actions`` adds must be the state as the robot gives it."""
        for name in self._found.after:
            if self._kind(name) != "absolute_actions":
                continue
            source = self._source(name, "state")
            cut = self._manifest.stages.get(source.group)
            if cut is not None and self._kind(source.group) == "slice" and self._only_last_axis(cut):
                self._met.add(source.group)
                source = self._source(source.group, next(iter(cut.inputs)))
            if source != Endpoint("inputs", STATE):
                self._refuse(f"stage {name!r} adds {source}; a policy_package adds the input {STATE!r}, as it is given")

    def _refuse(self, why: str) -> None:
        if why not in self._found.problems:
            self._found.problems.append(why)

    def _no_word(self, name: str, stage: Stage) -> str:
        if stage.processor is not None:
            return f"stage {name!r} is the processor {stage.processor.type!r}, which a policy_package has not there"
        if stage.runner is not None:
            return f"stage {name!r} has the runner {stage.runner.type!r}, and there is another model"
        if stage.rate != "policy":
            return f"stage {name!r} runs at the rate {stage.rate!r}; a policy_package has one rate"
        return f"stage {name!r} is one model too many; a policy_package has one, or an encoder and a denoiser"

    # --- the graph ---------------------------------------------------------------------------------------------------

    def _kind(self, name: str) -> str:
        processor = self._manifest.stages[name].processor
        return processor.type if processor is not None else ""

    def _source(self, stage: str, port: str) -> Endpoint:
        return self._graph.into(Endpoint(stage, port))[0]

    def _through_casts(self, source: Endpoint) -> Endpoint:
        """Before what only changes the dtype, which that format's runtime does by itself."""
        while source.group in self._manifest.stages:
            stage = self._manifest.stages[source.group]
            if list(stage.inputs) != ["x"] or list(stage.outputs) != ["y"] or "onnx" not in stage.artifacts:
                break
            before, after = stage.inputs["x"], stage.outputs["y"]
            loses = not np.can_cast(before.dtype, after.dtype, "same_kind")
            if loses or before.dtype == after.dtype or self._bytes(stage) != cast_model(before, after):
                break
            self._met.add(source.group)
            source = self._source(source.group, "x")
        return source

    def _bytes(self, stage: Stage) -> bytes | None:
        artifact = stage.artifacts.get("onnx")
        return None if artifact is None else self._package.read(artifact.path)

    @staticmethod
    def _only_last_axis(stage: Stage) -> bool:
        """Whether a slice keeps the first elements of the last axis, and all of the others."""
        ((before,), (after,)) = stage.inputs.values(), stage.outputs.values()
        start = stage.processor.params.get("start") if stage.processor else None
        return before.shape[:-1] == after.shape[:-1] and not any(start or ())
