"""LeRobot's policies as exportable ones, without a change to their classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ashore.errors import ExportError, InputError
from ashore.integrations.lerobot import act, diffusion, pi05, smolvla, vqbet
from ashore.integrations.lerobot.cached import GUIDANCE
from ashore.integrations.lerobot.checkpoint import Pipelines, saved_pipelines
from ashore.integrations.lerobot.comparing import compare, observation
from ashore.integrations.lerobot.pipelines import TASK, Translation, name_of, statistics_file, translate
from ashore.integrations.lerobot.plan import ENVIRONMENT, STATE, Plan, Seen
from ashore.package import Package
from ashore.spec import Manifest
from ashore.staged import ExportInputs
from ashore.staged.exportable import Observation, ProcessorSpec

_EMPTY = ".empty_camera_"
_SIMPLE: Mapping[str, Callable[[Any, Seen], Plan]] = {
    "ACTPolicy": act.plan,
    "DiffusionPolicy": diffusion.plan,
    "VQBeTPolicy": vqbet.plan,
}
_TOLD: Mapping[str, Callable[[Any, Seen, int], Plan]] = {"SmolVLAPolicy": smolvla.plan, "PI05Policy": pi05.plan}
"""Class -> how a policy of it, or of a class made from it, is exported; those of the second kind are told a task."""

_VECTORS = {"ACTPolicy": (STATE, ENVIRONMENT), "DiffusionPolicy": (STATE, ENVIRONMENT)}


def adapt(policy: object) -> LeRobotExport | None:
    """A policy of LeRobot as something to export; None for what is none."""
    classes = type(policy).__mro__
    if not any(one.__name__ == "PreTrainedPolicy" and one.__module__.startswith("lerobot.") for one in classes):
        return None
    for one in classes:
        if one.__name__ in (*_SIMPLE, *_TOLD) and one.__module__.startswith("lerobot."):
            return LeRobotExport(policy, one.__name__)
    raise ExportError(
        f"{type(policy).__name__}: LeRobot policies that can be exported are {', '.join([*_SIMPLE, *_TOLD])}; others "
        f"become so with ashore.staged.adapts"
    )


class LeRobotExport:
    """A policy of LeRobot, as `ashore.staged.Exportable`.

    Args:
        policy: it.
        kind: the name of its class, or of the class of LeRobot that this was made from.
        pipelines: its processors. Left out, they are made from ``policy.config.stats``, or loaded from where the policy
            was loaded from.
        guided: whether the chunk is drawn towards the chunk before: real-time chunking.
    """

    def __init__(self, policy: Any, kind: str, pipelines: Pipelines | None = None, *, guided: bool = False) -> None:
        if guided and kind not in _TOLD:
            raise ExportError(f"{type(policy).__name__}: guidance: real-time chunking is for flows; leave it out")
        self.policy = policy
        self.config = policy.config
        self.guided = guided
        self.kind = kind
        """The name of the class of LeRobot that it is of."""

        self._pipelines = pipelines or find_pipelines(policy)
        self._scaling = True
        self._seen: dict[str, Any] = {}
        self._made: tuple[Plan, Translation, Translation] | None = None

    # --- what is there ------------------------------------------------------------------------------------------------

    @property
    def told(self) -> bool:
        """Whether the policy is told in words what to do."""
        return self.kind in _TOLD

    @property
    def renamed(self) -> dict[str, str]:
        """What a robot calls an observation -> what the policy calls it, where they differ."""
        steps = self._pipelines.before.steps if self._pipelines else ()
        maps = [step.rename_map for step in steps if hasattr(step, "rename_map")]
        return {old: new for one in maps for old, new in one.items() if new in self.config.input_features}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """What a robot has to give, by its own names -> the shape of one of it; images have the channels first."""
        own = {new: old for old, new in self.renamed.items()}
        images = [name for name in self.config.image_features if _EMPTY not in name]
        vectors = [name for name in _VECTORS.get(self.kind, (STATE,)) if name in self.config.input_features]
        return {own.get(name, name): tuple(self.config.input_features[name].shape) for name in (*images, *vectors)}

    # --- ashore.staged.Exportable -------------------------------------------------------------------------------------

    def prepare_example(
        self, example_batch: Observation | None = None, *, include_normalization: bool = True
    ) -> Observation:
        """The inputs of the package, from what people have: a batch of LeRobot's, or what a robot gives."""
        self._scaling = include_normalization
        example_batch = self.default_example() if example_batch is None else example_batch
        wanted = self.shapes()
        named = {new: old for old, new in self.renamed.items()}
        given = {named.get(key, key): value for key, value in example_batch.items()}
        cameras = [name for name in wanted if len(wanted[name]) == 3]
        found = {name: _batched(name, given[name], len(wanted[name]) + 1) for name in wanted if name in given}
        lost = [name for name in wanted if name not in found and name not in cameras]
        if lost or (cameras and not set(cameras) & found.keys()):
            raise InputError(f"example_batch: expected {sorted(wanted)}, got {sorted(example_batch)}")
        if self.told:
            found[TASK] = example_batch.get(TASK) or "pick up the red block"
        if self.guided:
            chunk, width = self.config.chunk_size, self.config.action_feature.shape[0]
            count = np.zeros(1, np.int64)
            found |= dict(zip(GUIDANCE, (np.zeros((1, chunk, width), np.float32), count, count), strict=True))
        self._seen, self._made = found, None
        return found

    def get_inference_type(self) -> str:
        """How the modules are run."""
        return self._plan().inference

    def get_export_modules(self) -> Mapping[str, torch.nn.Module]:
        """Stage -> module."""
        return self._plan().modules

    def prepare_inputs(self, example_batch: Observation) -> Mapping[str, ExportInputs]:  # noqa: ARG002 - the plan's do
        """Stage -> what its module is called with."""
        return self._plan().inputs

    def get_runner_params(self) -> dict[str, Any]:
        """What the runner needs."""
        return dict(self._plan().params)

    def export_assets(self) -> dict[str, bytes]:
        """Statistics and the tokenizer."""
        _, first, last = self._all()
        return first.assets | last.assets | statistics_file(first, last)

    def export_processor_specs(
        self,
        include_normalization: bool,  # noqa: ARG002 - known since prepare_example
        stats_artifact: str,  # noqa: ARG002
        assets: Mapping[str, str] | None = None,  # noqa: ARG002
    ) -> tuple[Sequence[ProcessorSpec], Sequence[ProcessorSpec]]:
        """The images' own, the saved ones, and what the policy itself does."""
        plan, first, last = self._all()
        images: list[ProcessorSpec] = []
        for name, value in self._seen.items():
            if _is_bytes(name, value):
                layout = "chw" if _channels_first(value) else "hwc"
                images.append({"type": "image", "features": [name], "layout": layout})
        return [*images, *first.specs, *plan.before], [*plan.after, *last.specs]

    def imagine(self, manifest: Manifest) -> Iterator[Observation]:
        """What a robot may see, with values like those of the data: off them, a joint that never moved explodes."""
        generator = np.random.default_rng(3)
        ranges = self._all()[1].ranges
        while True:
            yield observation(manifest, ranges, self.renamed, generator)

    def check_package(self, package: Package, **tolerances: float) -> dict[str, Any]:
        """Compare a package with LeRobot's own pipeline, from what a camera gives to what a motor is told."""
        plan, first, _ = self._all()
        about = {"policy": self.config.type, "version": version("lerobot")}
        return {"lerobot": about | compare(package, self, plan, first.ranges, **tolerances)}

    # ------------------------------------------------------------------------------------------------------------------

    def steps(self) -> tuple[list[Any], list[Any]]:
        """The steps of both pipelines, without those that scale if features are not scaled."""
        if self._pipelines is None:
            if self._scaling:
                raise InputError(
                    f"{type(self.policy).__name__}: no statistics are known to scale observations and actions with; "
                    f"set policy.config.stats, load it from a folder with policy_preprocessor.json, or say "
                    f"include_normalization=False"
                )
            self._pipelines = Pipelines.made(self.policy, {})
        parts = (self._pipelines.before.steps, self._pipelines.after.steps)
        scaling = ("normalizer_processor", "unnormalizer_processor")
        first, last = ([one for one in part if self._scaling or name_of(one) not in scaling] for part in parts)
        return first, last

    def seen(self) -> Seen:
        """What the robot has, by the policy's names."""
        wanted, renamed = self.shapes(), self.renamed
        if not self._seen:
            self.prepare_example(include_normalization=self._scaling)
        images: dict[str, tuple[int, int, int]] = {}
        vectors: dict[str, int] = {}
        for name, shape in wanted.items():
            if name in self._seen and len(shape) == 3:
                images[renamed.get(name, name)] = _image_shape(name, self._seen[name])
            elif name in self._seen:
                vectors[renamed.get(name, name)] = int(np.shape(self._seen[name])[-1])
        order = [name for name in self.config.image_features if name in images]
        missing = len(self.config.image_features) - len(images)
        return Seen({name: images[name] for name in order}, vectors, missing, self.guided)

    def default_example(self, form: str = "uint8_hwc") -> dict[str, Any]:
        """An observation of the shapes of the configuration, with images as cameras give them."""
        generator = np.random.default_rng(0)
        found: dict[str, Any] = {}
        renamed, shapes = self.renamed, self.shapes()
        names = [renamed.get(name, name) for name in shapes]
        lengths = {renamed.get(name, name): shape[0] for name, shape in shapes.items() if len(shape) == 1}
        ranges = translate(*self.steps(), frozenset(names), lengths, scaling=self._scaling)[0].ranges
        for name, shape in shapes.items():
            if len(shape) == 3 and form == "uint8_hwc":
                found[name] = generator.integers(0, 256, (1, *shape[1:], shape[0]), np.uint8)
            elif len(shape) == 3:
                found[name] = generator.random((1, *shape), np.float32)
            else:
                low, high = ranges.get(renamed.get(name, name), (np.zeros(shape, np.float32),) * 2)
                found[name] = np.clip((low + high) / 2, low, high)[None].astype(np.float32)
        return found

    def _plan(self) -> Plan:
        return self._all()[0]

    def _all(self) -> tuple[Plan, Translation, Translation]:
        if self._made is None:
            seen = self.seen()
            before, after = self.steps()
            used = frozenset({*seen.images, *seen.vectors})
            first, last = translate(before, after, used, seen.vectors, scaling=self._scaling)
            if self.told:
                if not first.tokens:
                    raise ExportError(f"{type(self.policy).__name__}: its preprocessor has no tokenizer_processor")
                plan = _TOLD[self.kind](self.policy, seen, first.tokens)
            else:
                plan = _SIMPLE[self.kind](self.policy, seen)
            self._made = plan, first, last
        return self._made


def find_pipelines(policy: Any) -> Pipelines | None:
    """The processors of a policy: of statistics that were attached to it, or saved where it was loaded from."""
    attached = getattr(policy.config, "stats", None)
    if attached:
        return Pipelines.made(policy, attached)
    places = [getattr(policy.config, "pretrained_path", None), getattr(policy, "name_or_path", None)]
    for place in places:
        if place and (Path(place) / "policy_preprocessor.json").is_file():
            return saved_pipelines(policy.config, Path(place))
    return None


def _batched(name: str, value: Any, axes: int) -> Any:
    array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    if array.ndim == axes - 1:
        array = array[None]
    if array.ndim != axes or array.shape[0] != 1:
        raise InputError(f"example_batch: {name!r} has the shape {list(array.shape)}; expected one row of {axes} axes")
    return array.astype(np.float32) if array.dtype == np.float64 else array


def _is_bytes(name: str, value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 4 and name != TASK


def _channels_first(value: Any) -> bool:
    return value.shape[1] in (1, 3, 4) and value.shape[-1] not in (1, 3, 4)


def _image_shape(name: str, value: Any) -> tuple[int, int, int]:
    if value.dtype not in (np.uint8, np.float32):
        raise InputError(f"{name!r}: expected images in uint8, or in float32 from 0 to 1; got {value.dtype}")
    _, *shape = value.shape
    if value.dtype == np.uint8 and not _channels_first(value):
        shape = [shape[2], shape[0], shape[1]]
    return shape[0], shape[1], shape[2]
