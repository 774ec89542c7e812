"""The model files of a directory as stages of a package, joined as that format's runtime joins them.

It looks inputs up by name, fills in masks of images, and converts every array to the dtype that a file declares. Here
each of that is a wire or a stage, and what it would convert with a loss is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np

from ashore.building import Pipeline, add_loop
from ashore.errors import PackageError
from ashore.interop.policy_package.document import ACTION, KvCacheFlow, SinglePass
from ashore.interop.policy_package.glue import cast_model, ones_model
from ashore.interop.policy_package.models import Model
from ashore.spec import Artifact, Port, Stage

NOISE_INPUT = "noise"
SAMPLE, TIME = "x_t", "timestep"
VELOCITIES = ("v_t", "velocity")
IMAGE = "image_"
IMAGE_MASK = re.compile(r"img_mask_(\d+)")
PREFIX_MASK, PAST = "prefix_pad_mask", "past_"
STATE_PORT = "state"
"""What the denoiser may take besides the cache."""


class Joiner:
    """The models of one directory."""

    def __init__(
        self, models: Mapping[str, Model], runner: SinglePass | KvCacheFlow, pipeline: Pipeline, where: str
    ) -> None:
        self._models, self._runner, self._pipeline = models, runner, pipeline
        self._manifest_where = where
        self.mapping = dict(runner.input_mapping or {}) if isinstance(runner, KvCacheFlow) else {}
        """Feature -> what the models call it."""

        self._check_mapping()
        self._images = self._count_images()

    def taken(self) -> Iterable[tuple[Model, str]]:
        """The inputs of the models that features go into."""
        for role, model in self._models.items():
            for port in model.inputs:
                if role == "denoise":
                    if port == STATE_PORT:
                        yield model, port
                elif not self._filled_in(port):
                    yield model, port

    def feature(self, port: str) -> str:
        """The feature that an input of a model takes."""
        for feature, name in self.mapping.items():
            if name == port:
                return feature
        if port in self.mapping:
            raise PackageError(
                f"{self._manifest_where}: model.runner.input_mapping: calls {port!r} {self.mapping[port]!r}, so the "
                f"input {port!r} gets nothing"
            )
        return port

    def join(self) -> None:
        """Add the models to a pipeline that has their features; what they compute is the feature ``action``."""
        for model in self._models.values():
            self._pipeline.files[model.path] = model.data
        if isinstance(self._runner, KvCacheFlow):
            self._flow(self._runner)
        else:
            self._single_pass()

    def _check_mapping(self) -> None:
        names = list(self.mapping.values())
        for name in names:
            if names.count(name) > 1:
                raise PackageError(
                    f"{self._manifest_where}: model.runner.input_mapping: {name!r} is fed by "
                    f"{sorted(f for f, n in self.mapping.items() if n == name)}; expected one feature"
                )

    def _count_images(self) -> int:
        mapped = [name for name in self.mapping.values() if name.startswith(IMAGE)]
        first = next(iter(self._models.values()))
        return len(mapped) + sum(name.startswith(IMAGE) and name not in mapped for name in first.inputs)

    def _filled_in(self, port: str) -> bool:
        """Whether the runtime makes an input by itself: for each image, a mask that says that it is there."""
        found = IMAGE_MASK.fullmatch(port)
        given = port in self.mapping.values()
        return bool(self._images and found and not given and int(found[1]) < self._images)

    def _run_once(self, name: str, model: Model, prefix: str) -> Stage:
        """Add a model that is run once; its outputs are features with a prefix."""
        fed = {port: self._fed(model, port) for port in model.inputs}
        inputs = {port: self._stage_port(feature) for port, feature in fed.items()}
        stage = model.stage(inputs)
        self._pipeline.add_stage(name, stage, fed, {port: f"{prefix}{port}" for port in stage.outputs}, {})
        return stage

    def _fed(self, model: Model, port: str, feature: str | None = None) -> str:
        """The feature that goes into an input, in its dtype."""
        if feature is None and self._filled_in(port):
            return self._ones(model, port)
        feature = self.feature(port) if feature is None else feature
        there = self._pipeline.port(feature)
        wanted = Port(dtype=model.dtype(port), shape=model.shape(port, there.shape))
        if wanted.dtype == there.dtype:
            return feature
        if not np.can_cast(there.dtype, wanted.dtype, "same_kind"):
            raise PackageError(
                f"{model.where}: {port!r} is {wanted.dtype}; it is fed {there.dtype}, which would be cut"
            )
        cast = f"{feature}:{wanted.dtype}"
        if cast not in self._pipeline.features:
            before = Port(dtype=there.dtype, shape=there.shape)
            self._glue(f"cast.{port}", cast_model(before, wanted), {"x": before}, wanted, {"x": feature}, cast)
        return cast

    def _ones(self, model: Model, port: str) -> str:
        mask = Port(dtype=model.dtype(port), shape=model.shape(port))
        self._glue(f"ones.{port}", ones_model(mask), {}, mask, {}, port)
        return port

    def _glue(
        self, name: str, data: bytes, inputs: Mapping[str, Port], made: Port, fed: Mapping[str, str], feature: str
    ) -> None:
        path = f"artifacts/{name}.onnx"
        self._pipeline.files[path] = data
        stage = Stage(rate="policy", inputs=dict(inputs), outputs={"y": made}, artifacts={"onnx": Artifact(path=path)})
        self._pipeline.add_stage(name, stage, fed, {"y": feature}, {})

    def _stage_port(self, feature: str) -> Port:
        port = self._pipeline.port(feature)
        return Port(dtype=port.dtype, shape=port.shape)

    def _single_pass(self) -> None:
        model = self._models["model"]
        if list(model.outputs) != [ACTION]:
            raise PackageError(
                f"{model.where}: expected the output {ACTION!r} and no other, got {sorted(model.outputs)}"
            )
        self._run_once("model", model, "")

    def _flow(self, runner: KvCacheFlow) -> None:
        where = f"{self._manifest_where}: model.runner"
        if runner.scheduler != "euler":
            raise PackageError(f"{where}.scheduler: expected 'euler', got {runner.scheduler!r}")
        encoder, denoise = self._models["encoder"], self._models["denoise"]
        stage = self._run_once("encoder", encoder, "encoder:")
        layers = sum(name.startswith("past_key_") for name in stage.outputs)
        if runner.num_layers is not None and runner.num_layers != layers:
            raise PackageError(f"{where}.num_layers: is {runner.num_layers}, and the encoder gives {layers} past_key")
        features = self._context(denoise, list(stage.outputs))
        read = {feature.removesuffix(f":{denoise.dtype(port)}") for port, feature in features.items()}
        unread = [name for name in stage.outputs if f"encoder:{name}" not in read]
        if unread:
            raise PackageError(f"{encoder.where}: gives {sorted(unread)}, which {denoise.path!r} does not take")
        velocity = next((name for name in VELOCITIES if name in denoise.outputs), None)
        if velocity is None or len(denoise.outputs) != 1:
            raise PackageError(
                f"{denoise.where}: expected one output, {VELOCITIES[0]!r} or {VELOCITIES[1]!r}, got "
                f"{sorted(denoise.outputs)}"
            )
        body = self._denoise(runner, denoise, features)
        if NOISE_INPUT in self._pipeline.inputs:
            raise PackageError(
                f"{self._manifest_where}: a feature is called {NOISE_INPUT!r}, which the flow itself starts from"
            )
        params = {"num_steps": runner.num_inference_steps, "velocity": velocity}
        add_loop(self._pipeline, "flow", "denoise", body, features, params)
        self._check_state(runner, body)

    def _context(self, denoise: Model, encoded: list[str]) -> dict[str, str]:
        """Input of the denoiser -> the feature that stays the same in every step."""
        for name in (SAMPLE, TIME):
            if name not in denoise.inputs:
                raise PackageError(f"{denoise.where}: expected an input {name!r}, got {sorted(denoise.inputs)}")
        features: dict[str, str] = {}
        for port in denoise.inputs:
            if port in (SAMPLE, TIME):
                continue
            if port == STATE_PORT:
                features[port] = self._fed(denoise, port)
            elif port in encoded and (port == PREFIX_MASK or port.startswith(PAST)):
                features[port] = self._fed(denoise, port, f"encoder:{port}")
            elif port == PREFIX_MASK:  # the runtime takes the first output for it
                features[port] = self._fed(denoise, port, f"encoder:{encoded[0]}")
            else:
                raise PackageError(f"{denoise.where}: nothing feeds {port!r}; the encoder gives {encoded}")
        return features

    def _denoise(self, runner: KvCacheFlow, denoise: Model, features: Mapping[str, str]) -> Stage:
        rows = runner.chunk_size
        shape = (1, rows, runner.action_dim) if rows is not None else None
        sample = Port(dtype=denoise.dtype("x_t"), shape=denoise.shape("x_t", shape))
        if len(sample.shape) != 3 or sample.shape[-1] != runner.action_dim:
            raise PackageError(
                f"{denoise.where}: 'x_t' has the shape {list(sample.shape)}; expected "
                f"[1, chunk_size, {runner.action_dim}]"
            )
        time = Port(dtype=denoise.dtype("timestep"), shape=denoise.shape("timestep", (1,)))
        inputs = {"x_t": sample, "timestep": time, **{port: self._stage_port(one) for port, one in features.items()}}
        return denoise.stage({port: inputs[port] for port in denoise.inputs}, "loop")

    def _check_state(self, runner: KvCacheFlow, body: Stage) -> None:
        port = body.inputs.get("state")
        if runner.state_dim is not None and port is not None and port.shape[-1] != runner.state_dim:
            raise PackageError(
                f"{self._manifest_where}: model.runner.state_dim: is {runner.state_dim}, and 'state' has the shape "
                f"{list(port.shape)}"
            )
