"""Exporting an environment with its actor: recorded while it runs, written as a package and as one ONNX file."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import torch

from ashore.capture.contract import PortInfo
from ashore.capture.export import export
from ashore.capture.log import summary
from ashore.capture.operations import Op, schema_name
from ashore.capture.options import ExportOptions, check_name
from ashore.capture.session import Session
from ashore.capture.tape import Tape
from ashore.capture.tensors import Place
from ashore.environment.components import Component, Input, Memory, check_json
from ashore.environment.exportable import ExportableEnvironment, Observations
from ashore.environment.keeping import kept
from ashore.environment.meaning import meaning_of, timing_of
from ashore.environment.recognition import PartName
from ashore.environment.walking import Shapes, Walk, named_observations, prepare
from ashore.errors import ExportError, InputError
from ashore.interop.exploy import to_exploy
from ashore.package import Package, unpack
from ashore.spec import Rate

_NOT_RECOGNISED = (
    "What process_actions() and apply_actions() do was not recognised in step(), so they were called besides it, and"
    " what they keep moved twice. Let step() call the same functions as they do."
)
POLICY, SUBSTEP = "policy", "substep"
_NUM_STEPS = 24
_FEW, _RESETS = 3, 2
"""When to stop recording: so many decisions after so many resets, if there are as many."""


def export_environment(
    env: ExportableEnvironment,
    actor: Callable[[Any], torch.Tensor],
    out: str | os.PathLike[str],
    *,
    num_steps: int = _NUM_STEPS,
    told: Callable[[str], object] = lambda _: None,
    **options: Any,
) -> Package:
    """Run an environment with its actor, and write what they compute as a package.

    The environment runs by its own `step`. When this returns, it is as it was before.

    Args:
        env: the environment, with what was registered about it.
        actor: any callable from observations to actions: a module, a scripted module, a function.
        out: the directory of the package; its last part is the name of the package.
        num_steps: how many decisions to wait for a reset. Two are waited for; if there is none, a reset is taken to
            restore what was there at the start.
        told: is told what is being done, for a progress display.
        options: see `ashore.capture.options.ExportOptions`. With several environments, ``batch="dynamic"`` makes their
            number open; else the package is for one.

    Raises:
        ExportError: with everything that stands against it. Nothing was written.
    """
    target = Path(out)
    check_name(target.name)
    if not callable(actor):
        raise InputError(f"actor: expected a module or another callable, got {type(actor).__name__}")
    if not isinstance(num_steps, int) or num_steps < _FEW:
        raise InputError(f"num_steps: expected a whole number from {_FEW}, got {num_steps!r}")
    with ExitStack() as stack:
        stack.enter_context(kept(env, actor))
        stack.enter_context(torch.no_grad())
        prepare(env, actor)
        about = check_json("metadata()", dict(env.metadata()))
        settings = ExportOptions.of(
            {
                "timing": timing_of(about, env.decimation),
                "metadata": _metadata(env, about),
                "batch": "one" if Shapes.of(env).rows > 1 else "recorded",
                **options,
            }
        )
        session, recognised = _record(env, actor, num_steps, told)
        told("exporting and verifying")
        try:
            package = _export(session, target, settings)
        except ExportError as error:
            if recognised or "outside_write" not in _names(error):
                raise
            raise ExportError(f"{error}\n{_NOT_RECOGNISED}", error.findings) from error
        _warn_of_idle_memory(env, package)
    return package


def export_environment_as_onnx(
    env: ExportableEnvironment,
    actor: Callable[[Any], torch.Tensor],
    path: str | os.PathLike[str],
    filename: str = "policy.onnx",
    model_source: Mapping[str, Any] | None = None,
    verbose: bool = False,
    opset_version: int = 20,
    ir_version: int = 11,
    **options: Any,
) -> Package:
    """Export an environment as one ONNX file, and as a package beside it.

    Args:
        env: the environment, with what was registered about it.
        actor: any callable from observations to actions.
        path: the folder to write into.
        filename: of the ONNX file. The package lies beside it, under the same name without ``.onnx``.
        model_source: a JSON value about where the policy comes from, kept in the file.
        verbose: whether to print all that was found.
        opset_version: of the file.
        ir_version: of the file.
        options: as for `export_environment`.

    Returns:
        The package.
    """
    folder, source = Path(path), check_json("model_source", dict(model_source or {}))
    if Path(filename).name != filename or Path(filename).suffix != ".onnx":
        raise InputError(f"filename: expected a name that ends in .onnx, got {filename!r}")
    name, told = Path(filename).stem, options.pop("summary", verbose)
    settings = {"opset": opset_version, "ir_version": ir_version, **options, "summary": False}
    with tempfile.TemporaryDirectory() as scratch:
        package = export_environment(env, actor, Path(scratch) / name, **settings)
        to_exploy(package, folder / filename, metadata=env.metadata(), model_source=source, debug=True)
        package = unpack(package, folder / name)
    if told or verbose:
        sys.stderr.write(package.read("export.log").decode() if verbose else summary(package))
    return package


def _export(session: Session, target: Path, settings: ExportOptions) -> Package:
    """Write the package. An environment that was in the middle of an episode is recorded from its first reset on."""
    try:
        return cast("Package", export(session, target.name, target, settings))  # there is a target
    except ExportError as error:
        if "reset_value" not in _names(error) or not session.start_at_reset():
            raise
    return cast("Package", export(session, target.name, target, settings))


def _names(error: ExportError) -> set[str]:
    return {getattr(finding, "name", "") for finding in error.findings}


def _warn_of_idle_memory(env: ExportableEnvironment, package: Package) -> None:
    for one in env.context_manager().get_memory_components():
        if one.name not in package.manifest.states:
            message = f"the memory {one.name!r} is registered, but no step needs what an earlier one left in it"
            warnings.warn(f"{one.line}: {message}; it is not in the file", stacklevel=3)


def _metadata(env: ExportableEnvironment, about: Mapping[str, Any]) -> dict[str, Any]:
    groups = {group.name: group.metadata for group in env.context_manager().groups if group.metadata is not None}
    found = {"environment": dict(about), "groups": groups}
    return {key: value for key, value in found.items() if value}


def _record(
    env: ExportableEnvironment, actor: Callable[[Any], torch.Tensor], num_steps: int, told: Callable[[str], object]
) -> tuple[Session, bool]:
    """Run the environment and record it; also whether the parts of its step were recognised."""
    session = Session()
    session.nodes, session.rates = [POLICY, SUBSTEP], {SUBSTEP: "substep"}
    recorder = _Recorder(env, session)
    walk = Walk(env, actor, recorder)
    recorder.observes_often = walk.observes_often
    session.exclusive = walk.inside
    session.start()
    try:
        obs = walk.begin()
        resets = since = 0
        for decision in range(3 * num_steps):
            told(f"recording, decision {decision + 1}")
            obs, flags = walk.step(obs)
            since += 1
            if any(flags):
                resets, since = resets + 1, 0
            if since >= (num_steps if resets < _RESETS else _FEW):
                break
        session.discard_step()
    finally:
        session.stop()
    _refuse_written_inputs(session)
    return session, walk.inside


def _refuse_written_inputs(session: Session) -> None:
    """Refuse inputs that the environment itself writes: on the robot, what was written would not be read again."""
    made: set[Place] = set()
    for step in session.steps:
        tape = step.tape
        for (_, name), declared in tape.inputs.items():
            writes = [
                op for op in tape.ops if tape.groups[declared.slot] in op.mutates and not _copies_itself(tape, op)
            ]
            line = writes[0].line if writes else None
            if line is None and declared.place in made:
                line = declared.line
            if line is not None:
                raise ExportError(
                    f"{line}: the environment writes into the input {name!r} itself, so that it is no longer what came"
                    " in; let it write into a copy, or register the tensor that it reads first"
                )
        results = {slot for op in tape.ops for slot in op.results if slot is not None and slot not in op.reads()}
        found = {*tape.captures, *(tape.groups[one.slot] for one in tape.inputs.values())}
        made |= {tape.place(slot) for slot in results if tape.groups[slot] not in found}


def _copies_itself(tape: Tape, op: Op) -> bool:
    """Whether a tensor is given its own value, as connections may do."""
    return len({tape.groups[slot] for slot in op.reads()}) == 1 and schema_name(op) == "aten::copy_"


class _Recorder:
    """Listens to the parts of a step, and declares what was registered."""

    def __init__(self, env: ExportableEnvironment, session: Session) -> None:
        self._env, self._session = env, session
        self._context = env.context_manager()
        self._names = Shapes.of(env).names
        self._applied = 0
        self._decided = False
        self.observes_often = False

    def enter(self, part: PartName) -> None:
        session = self._session
        if part == "process":
            self._name_memory()
            session.resume()
            return
        if part == "observe" or not self._decided:  # what was observed before, nobody decided on
            session.discard_step()
        self._decided = self._decided and part == "apply"
        rate: Rate = "policy" if part == "observe" else "substep"
        session.begin_step(rate)
        node = POLICY if part == "observe" else SUBSTEP
        session.enter_node(node)
        session.pause()
        self._name_memory()
        session.resume()
        for one in self._context.get_input_components():
            if not isinstance(one, Memory) and rate in one.rates:
                one.take(session.declare_called((node, one.name), one.get_from_env_cb, self._info(one), one.line))
        if part == "observe":
            self._context.write_connections()

    def aside(self, going_on: bool) -> None:
        if going_on:
            self._session.pause()
        else:
            self._session.resume()

    def leave(self, part: PartName) -> None:
        session = self._session
        if part == "observe" and self.observes_often:
            session.resume_reset()
        elif part == "observe":
            session.pause()
        elif part == "process":
            session.end_step()
            self._applied = 0
        else:
            for one in self._context.get_output_components():
                if not isinstance(one, Memory):
                    value = one.get_from_env_cb()
                    session.declare_output((SUBSTEP, one.name), value, self._info(one), line=one.line)
            session.end_step()
            self._applied += 1
            if self._applied == self._env.decimation:
                session.watch()

    def observed(self, obs: Observations, resets: list[bool]) -> None:
        self._session.settle(resets)
        self._session.resume()
        for name, value in named_observations(obs).items():
            if any(name == one.input_name for one in self._context.get_input_components()):
                raise InputError(f"the input {name!r} is called as the observations are; choose another name")
            names = self._names if name == "obs" else []
            fitting = names if len(names) == value.shape[-1] and len(set(names)) == len(names) else None
            self._session.declare_output((POLICY, name), value, PortInfo(kind="observation", element_names=fitting))
        self._session.pause()

    def forgetting(self) -> None:
        self._session.resume_reset()

    def deciding(self) -> None:
        self._session.pause()
        self._name_memory()
        self._session.resume()

    def decided(self, actions: torch.Tensor) -> None:
        self._session.declare_output((POLICY, "actions"), actions, PortInfo(kind="action"))
        self._session.pause()
        self._decided = True

    def _name_memory(self) -> None:
        """Say what the tensors are called that are registered as memory, as far as they are there."""
        for one in self._context.get_memory_components():
            value = one.get_from_env_cb()
            if isinstance(value, torch.Tensor):
                self._session.name_tensor(one.name, value)

    def _info(self, one: Component) -> PortInfo:
        return one.info or meaning_of(one, self._context.groups, is_input=isinstance(one, Input))
