"""From a directory of that format to a package.

The format says neither ports nor lengths, and its runtime converts, drops and fills in what does not fit. All of it is
said here: ports are those of the model files, casts and masks of images are stages, and what cannot be known is a
finding of the package.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from ashore.building import Pipeline, apply
from ashore.errors import AshoreError, ManifestError, PackageError
from ashore.interop.contents import Contents, check_contents
from ashore.interop.folders import read_inside
from ashore.interop.policy_package.document import (
    ACTION,
    IMAGES,
    MAX_MANIFEST_BYTES,
    ROLES,
    STATE,
    TASK,
    Document,
    KvCacheFlow,
    Robot,
    parse,
    plain,
)
from ashore.interop.policy_package.joining import Joiner
from ashore.interop.policy_package.models import open_model
from ashore.interop.policy_package.processing import Plan, Processing
from ashore.package import Package, write
from ashore.spec import (
    ACTION_QUEUE,
    TEXT,
    Dim,
    Finding,
    Manifest,
    Port,
    Provenance,
    Runner,
    Verification,
)

MANIFEST = "manifest.json"
ABOUT = "policy_package"
"""The metadata of a package that keeps what the directory said of itself."""

_TEXT_BYTES = 512


def from_policy_package(path: str | os.PathLike[str], out: str | os.PathLike[str]) -> Package:
    """Turn a policy_package directory into a package.

    Args:
        path: the directory with ``manifest.json``.
        out: the package to write: a directory, or a path that ends in ``.ashore``.

    Returns:
        The package. Its `findings` say what the directory left open; it has no golden rollout, and its verification
        is skipped.

    Raises:
        PackageError: the directory is not what the format describes, or leaves open what a package has to say.
            Nothing was written.
    """
    contents = convert(Path(path))
    return write(out, contents.manifest, files=contents.files, initial=contents.initial)


def convert(folder: Path) -> Contents:
    """Read a directory and check all of it."""
    try:
        if not folder.is_dir():
            raise PackageError(f"{folder}: there is nothing here; expected a directory with {MANIFEST}")
    except ValueError as error:  # what the system says to a path with a NUL in it
        raise PackageError(f"{str(folder)!r}: cannot be a path: {error}") from error
    where = str(folder)
    document = parse(read_inside(folder, MANIFEST, where, MAX_MANIFEST_BYTES + 1), f"{where}: {MANIFEST}")
    contents = _Reader(folder, document).contents()
    try:
        check_contents(contents, where)
    except ManifestError as error:
        raise PackageError(str(error)) from error
    return contents


class _Reader:
    def __init__(self, folder: Path, document: Document) -> None:
        self._where, self._document = str(folder), document
        where = f"{folder}: {MANIFEST}"
        self._manifest_where = where
        self._processing = Processing(folder, document)
        self._pipeline = Pipeline()
        self._findings: list[Finding] = []
        models = {
            role: open_model(folder, role, document.artifacts[role], where) for role in ROLES[document.runner.type]
        }
        self._joiner = Joiner(models, document.runner, self._pipeline, where)

    def contents(self) -> Contents:
        try:
            manifest = self._build()
        except PackageError:
            raise
        except AshoreError as error:
            raise PackageError(f"{self._where}: makes no package: {error}") from error
        return Contents(manifest, self._pipeline.files, self._pipeline.initial)

    def _build(self) -> Manifest:
        pipeline, runner = self._pipeline, self._document.runner
        plan = self._processing.plan(self._wanted())
        for feature in sorted(plan.needed):
            pipeline.add_input(feature, self._input(feature, plan))
        self._processing.apply_before(pipeline, plan)
        self._joiner.join()
        self._check_chunk()
        if isinstance(runner, KvCacheFlow):
            self._trim(runner)
        self._processing.apply_after(pipeline)
        queued = self._queue()
        pipeline.add_output(ACTION, ACTION)
        pipeline.outputs[ACTION] = self._action()
        self._tell_images()
        self._tell_ensemble()
        return pipeline.manifest(
            re.sub(r"[^A-Za-z0-9_.-]", "_", self._document.policy.name)[:128].lstrip(".-") or "policy",
            Runner(type=ACTION_QUEUE) if queued else Runner(),
            provenance=Provenance(created_at=self._document.about.created_at),
            findings=tuple(dict.fromkeys((*self._findings, *self._processing.findings))),
            verification=Verification(status="skipped"),
            metadata={ABOUT: self._about()},
        )

    # --- what goes in ------------------------------------------------------------------------------------------------

    def _wanted(self) -> list[str]:
        ports = [port for _, port in self._joiner.taken()]
        for feature, name in self._joiner.mapping.items():
            if name not in ports:
                self._findings.append(
                    Finding(
                        name="unread_feature",
                        severity="warning",
                        message=f"{feature!r} is mapped to {name!r}, which no model takes: it decides without it",
                    )
                )
        return [self._joiner.feature(port) for port in ports]

    def _input(self, feature: str, plan: Plan) -> Port:
        """The input of the package that a feature is."""
        if feature == TASK:
            return Port(dtype="uint8", shape=(1, _TEXT_BYTES), kind=TEXT, source="command")
        takers = [(model, port) for model, port in self._joiner.taken() if self._joiner.feature(port) == feature]
        known = self._known(feature)
        if known is None:
            padded = feature == STATE and any(one.processor.type == "pi05_prepare_state" for one in plan.before)
            if padded or not takers:
                raise PackageError(
                    f"{self._manifest_where}: hardware: says nothing of {feature!r}, so its length is not known"
                )
            model, port = takers[0]
            known = model.shape(port)
        if known[0] != 1:
            raise PackageError(
                f"{self._where}: {feature!r} has the shape {list(known)}; expected one row, for one robot"
            )
        image = feature.startswith("observation.image") and len(known) == 4
        dtype = "float32" if feature in plan.touched or not takers else takers[0][0].dtype(takers[0][1])
        kind = "sensor/image/rgb" if image and known[1] == 3 else "observation"
        robot = self._robot()
        names = robot.state.order if feature == STATE and robot is not None and robot.state is not None else None
        return Port(
            dtype=dtype,
            shape=known,
            kind=kind,
            source="sensor",
            element_names=None if names is None else (*(None,) * (len(known) - 1), names),
        )

    def _known(self, feature: str) -> tuple[Dim, ...] | None:
        """The shape that the hardware block says."""
        robot = self._robot()
        if feature == STATE and robot is not None and robot.state is not None:
            if robot.state.dtype != "float32":
                raise PackageError(
                    f"{self._manifest_where}: hardware.robots: the state is {robot.state.dtype}; expected float32"
                )
            return (1, *robot.state.shape)
        for camera in self._document.hardware.cameras or ():
            if feature == f"{IMAGES}{camera.name}" and camera.shape is not None:
                return (1, *camera.shape)
        return None

    def _robot(self) -> Robot | None:
        robots = self._document.hardware.robots or ()
        if len(robots) > 1:
            raise PackageError(
                f"{self._manifest_where}: hardware.robots: expected one, got {[robot.name for robot in robots]}; "
                f"the format does not say which part of an action is whose"
            )
        return robots[0] if robots else None

    # --- what comes out ----------------------------------------------------------------------------------------------

    def _check_chunk(self) -> None:
        """Whether the models give what the runner says."""
        runner, port = self._document.runner, self._pipeline.port(ACTION)
        where, shape = f"{self._manifest_where}: model.runner", list(port.shape)
        if port.dtype != "float32" or len(shape) not in (2, 3) or shape[0] != 1:
            raise PackageError(
                f"{self._where}: {ACTION!r} is {port.dtype} {shape}; expected float32 [1, chunk, dim] or [1, dim]"
            )
        rows = shape[1] if len(shape) == 3 else 1
        for field, said, there in (
            ("chunk_size", runner.chunk_size, rows),
            ("action_dim", runner.action_dim, shape[-1]),
        ):
            if said is not None and said != there:
                raise PackageError(f"{where}.{field}: is {said}, and the models give actions of the shape {shape}")
        if runner.n_action_steps is not None and runner.n_action_steps > int(rows):
            raise PackageError(f"{where}.n_action_steps: is {runner.n_action_steps}, and a chunk has {rows} actions")

    def _trim(self, runner: KvCacheFlow) -> None:
        _, rows, dim = self._pipeline.port(ACTION).shape
        kept = dim if runner.output_action_dim is None else runner.output_action_dim
        if int(kept) > int(dim):
            raise PackageError(
                f"{self._manifest_where}: model.runner.output_action_dim: is {kept}, and an action has {dim} elements"
            )
        if kept != dim:
            apply(self._pipeline, {"type": "slice", "features": [ACTION], "shape": [rows, kept], "start": [0, 0]})

    def _queue(self) -> bool:
        """Add the queue; whether there is one."""
        shape = self._pipeline.port(ACTION).shape
        if len(shape) == 2:
            return False
        steps = self._document.runner.n_action_steps or shape[1]
        apply(self._pipeline, {"type": "action_queue", "features": [ACTION], "n_action_steps": steps})
        return True

    def _action(self) -> Port:
        port = self._pipeline.port(ACTION)
        robot, dim = self._robot(), int(port.shape[-1])
        said = robot.action if robot is not None else None
        if said is not None and said.shape != (dim,):
            raise PackageError(
                f"{self._manifest_where}: hardware.robots: the action has the shape {list(said.shape)}, and the models "
                f"give {dim} elements"
            )
        names = said.order if said is not None and said.order is not None else self._processing.action_names(dim)
        return Port(
            dtype=port.dtype, shape=port.shape, kind="action", element_names=None if names is None else (None, names)
        )

    # --- what is told ------------------------------------------------------------------------------------------------

    def _tell_images(self) -> None:
        inputs = self._pipeline.inputs
        images = [name for name in inputs if name.startswith("observation.image") and inputs[name].dtype != "uint8"]
        if not images:
            return
        mapped = isinstance(self._document.runner, KvCacheFlow)
        usual = "resized with padding, and mapped from [0, 1] to [-1, 1]" if mapped else "in the range [0, 1]"
        self._findings.append(
            Finding(
                name="image_range",
                severity="warning",
                message=f"the format does not say how {images} are resized and what range they have, and its runtime "
                f"does neither; they go into the policy as they are given",
                remedy=f"give float images as training prepared them, in LeRobot {usual}",
            )
        )

    def _tell_ensemble(self) -> None:
        source = self._document.policy.source
        if source is not None and (source.class_path or "").endswith("ACTPolicy"):
            self._findings.append(
                Finding(
                    name="temporal_ensemble",
                    severity="warning",
                    message="the format drops ACT's temporal ensembling; if temporal_ensemble_coeff was set, training "
                    "evaluated another policy",
                    remedy="export the policy by Ashore, which keeps it",
                )
            )

    def _about(self) -> dict[str, Any]:
        """What the directory says of itself, for the way back."""
        document = self._document
        said = {
            "policy": document.policy,
            "hardware": document.hardware,
            "metadata": document.about,
        }
        return {name: one for name, value in said.items() if (one := plain(value))}
