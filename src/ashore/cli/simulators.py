"""``ashore export``, ``ashore deploy`` and ``ashore compare-sim``: between a simulator and a package."""

from __future__ import annotations

import contextlib
import importlib
import logging
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np

from ashore.cli.output import console, evidence, print_json, progress, table
from ashore.errors import InputError
from ashore.package import Package
from ashore.runtime.commands import as_command

Simulator = Literal["mjlab", "isaaclab"]


@dataclass(frozen=True)
class Source:
    """Which policy, as the command line says it."""

    task: str
    checkpoint: Path | None
    motion: Path | None
    device: str
    trust: bool
    num_envs: int = 1
    load_run: str | None = None
    load_checkpoint: str | None = None
    agent: str | None = None
    """The configuration of the runner, where the task is a function to import."""

    overrides: Sequence[str] = ()
    """Changes of the configurations, as Isaac Lab's own scripts take them."""

    pretrained: bool = False
    """Whether the weights are those that the framework publishes for the task."""


def run_export(
    simulator: Simulator,
    source: Source,
    *,
    out: Path | None,
    name: str | None,
    model: Path | None,
    options: Mapping[str, Any],
    as_json: bool,
) -> None:
    """Export a task with its checkpoint, and print what is in the package."""
    if model is not None and simulator != "mjlab":
        raise InputError("--model: only mjlab has a MuJoCo model to write")
    front = _front(simulator)
    if model is not None:
        front.check_model_place(model)
    checkpoint = _checkpoint(front, source)
    target = (out or checkpoint.parent) / _identifier(name or _task_name(source.task))
    from ashore.integrations.direct import export_direct
    from ashore.integrations.exporting import export_managed

    with quiet(), progress(f"opening {source.task}", None) as bar:
        began = perf_counter()
        env, actor, said = _opened(front, source, checkpoint)
        opened = perf_counter()
        try:
            about = {
                "task": source.task,
                "checkpoint": checkpoint,
                "summary": False,
                "told": lambda what: bar.update(bar.task_ids[0], description=what),
                **said,
                **options,
            }
            if hasattr(env, "observation_manager"):
                package = export_managed(env, actor, target, front.FRAMEWORK, groups=actor.groups, **about)
            else:
                package = export_direct(env, actor, target, front.FRAMEWORK, **about)
            if model is not None:
                front.write_model(env, model)
        finally:
            getattr(env, "close", lambda: None)()
    seconds = {"environment": opened - began, "export": perf_counter() - opened}
    if as_json:
        print_json(_about(package, seconds))
    else:
        _print(package, seconds)


def run_deploy(
    simulator: Simulator,
    package: Path,
    source: Source,
    *,
    steps: int,
    commands: Sequence[str],
    task_commands: bool,
    backend: str | None,
    as_json: bool,
) -> None:
    """Let a package drive the scene of a task. An interrupt ends it, and the simulator is let go of in any case."""
    front = _front(simulator)
    with contextlib.ExitStack() as stack:
        stack.enter_context(quiet())
        deployment = stack.enter_context(
            front.open_deployment(
                source.task,
                package,
                num_envs=source.num_envs,
                device=source.device,
                motion=source.motion,
                backend=backend,
                commands=task_commands,
                **_changes(front, source),
            )
        )
        external = _external(deployment, commands)
        deployment.reset()
        bar = stack.enter_context(progress("deployed", steps))
        interrupted = stack.enter_context(_interrupts())
        done = 0
        while done < steps and not interrupted():
            deployment.step(external)
            done += 1
            bar.advance(bar.task_ids[0])
        state = front.FRAMEWORK.state(deployment)
    report = {
        "package": deployment.policy.manifest.name,
        "task": source.task,
        "steps": done,
        "interrupted": done < steps,
        "num_envs": source.num_envs,
        "finite": bool(all(np.isfinite(value).all() for value in state.values())),
        "state": {key: value.tolist() for key, value in state.items()},
    }
    if as_json:
        print_json(report)
    else:
        how = "interrupted after" if done < steps else "ran for"
        print(f"{report['package']} {how} {done} decisions in {source.task}, {source.num_envs} environments")
        if not report["finite"]:
            print("the simulation is no longer finite")


def run_compare(
    simulator: Simulator,
    package: Path,
    source: Source,
    *,
    steps: int,
    seed: int,
    atol: float,
    write: bool,
    as_json: bool,
) -> bool:
    """Compare the environment with the package in a deployment environment; whether they agree."""
    front = _front(simulator)
    checkpoint = _checkpoint(front, source)
    from ashore.integrations.comparing import record_run, replay_run, write_report
    from ashore.package import read
    from ashore.runtime import load

    with progress("comparing", 2 * steps) as bar, quiet():

        def advance() -> None:
            bar.advance(bar.task_ids[0])

        env, actor = front.open_task(
            source.task,
            checkpoint,
            device=source.device,
            motion=source.motion,
            trust=source.trust,
            change=front.without_randomness,
            **_changes(front, source),
        )
        try:
            if not hasattr(env, "observation_manager"):
                raise InputError(f"{source.task} has no managers; compare-sim is for environments with them")
            moments = record_run(env, actor, load(package), front.FRAMEWORK, steps=steps, seed=seed, advance=advance)
        finally:
            env.close()  # a process may have room for one simulation only
        with front.open_deployment(
            source.task,
            package,
            device=source.device,
            motion=source.motion,
            change=front.without_randomness,
            **_changes(front, source),
        ) as deployment:
            found = replay_run(moments, deployment, front.FRAMEWORK, atol=atol, advance=advance)
    if write:
        write_report(read(package), found)
    if as_json:
        print_json({key: value for key, value in asdict(found).items() if key != "trajectories"} | {"ok": found.ok})
        return found.ok
    out = console()
    shown = table(f"{found.steps} decisions, {found.resets} resets", "what", ">largest difference")
    for port, worst in found.worst.items():
        shown.add_row(port, f"{worst:.3g}")
    out.print(shown)
    if found.first is not None:
        first = found.first
        out.print(
            f"first divergence at step {first.step}: {first.port}{list(first.element)} is {first.environment:.7g} in "
            f"the environment, {first.package:.7g} in the package",
            style="red",
        )
    else:
        out.print(f"equal within {atol:g}", style="green")
    return found.ok


def _front(simulator: Simulator) -> Any:
    return importlib.import_module(f"ashore.integrations.{simulator}")


def _changes(front: Any, source: Source) -> dict[str, Any]:
    if source.overrides and front.FRAMEWORK.name != "isaaclab":
        raise InputError(f"--set {source.overrides[0]}: only configurations of Isaac Lab can be changed this way")
    return {"overrides": source.overrides} if source.overrides else {}


def _opened(front: Any, source: Source, checkpoint: Path) -> tuple[Any, Any, Mapping[str, Any]]:
    """The environment of a task, its actor, and what else it wants to have in the package."""
    about: dict[str, Any] = {"num_envs": source.num_envs, "device": source.device, "trust": source.trust}
    if not _is_function(source.task):
        if source.agent is not None:
            raise InputError(
                f"--agent {source.agent}: the registered task {source.task} has a configuration of its own"
            )
        env, actor = front.open_task(source.task, checkpoint, motion=source.motion, **about, **_changes(front, source))
        return env, actor, {}
    if source.agent is None:
        raise InputError(
            f"--task {source.task} is a function; say with --agent package.module:NAME how the actor is configured"
        )
    from ashore.integrations.direct import open_function

    if front.FRAMEWORK.name == "isaaclab":
        from ashore.integrations.isaaclab_configs import launch

        launch(source.device)  # before anything of Isaac Lab is imported
    return open_function(source.task, source.agent, checkpoint, **about)


def _is_function(task: str) -> bool:
    from ashore.integrations.importing import is_import_path

    return is_import_path(task)


def _task_name(task: str) -> str:
    """What a package is called after: the task, or the module that has the function."""
    return task.partition(":")[0].rpartition(".")[2] if _is_function(task) else task


def _checkpoint(front: Any, source: Source) -> Path:
    """The file with the weights: named, found among the runs of a log folder, or published by the framework."""
    if source.pretrained:
        return _pretrained(front, source)
    if source.checkpoint is not None and source.checkpoint.is_file():
        return source.checkpoint
    if source.checkpoint is not None and not source.checkpoint.is_dir():
        raise InputError(f"--checkpoint {source.checkpoint}: there is no such file")
    if source.checkpoint is None and _is_function(source.task):
        raise InputError(f"--task {source.task} is a function; say with --checkpoint where the weights are")
    root = source.checkpoint or front.log_root(source.task)
    return find_checkpoint(root, source.load_run or ".*", source.load_checkpoint or r"model_.*\.pt")


def _pretrained(front: Any, source: Source) -> Path:
    option, named = "--use-pretrained-checkpoint", (source.checkpoint, source.load_run, source.load_checkpoint)
    if any(one is not None for one in named):
        raise InputError(f"{option} and --checkpoint, --load-run or --load-checkpoint: give one or the other")
    if not hasattr(front, "published_checkpoint") or _is_function(source.task):
        raise InputError(f"{option}: only registered tasks of Isaac Lab have published weights; give --checkpoint")
    with quiet():
        return front.published_checkpoint(source.task, device=source.device)


def find_checkpoint(root: Path, run: str, checkpoint: str) -> Path:
    """The newest checkpoint of the newest run in a log folder, by name.

    Args:
        root: the folder with a folder for each run.
        run: a regular expression for the name of the run.
        checkpoint: a regular expression for the name of the file.
    """
    runs = sorted(one for one in root.iterdir() if one.is_dir() and re.match(run, one.name)) if root.is_dir() else []
    if not runs:
        raise InputError(f"{root}: there is no run that matches {run!r}; give --checkpoint, or --load-run")
    files = [one for one in runs[-1].iterdir() if one.is_file() and re.match(checkpoint, one.name)]
    if not files:
        raise InputError(f"{runs[-1]}: there is no checkpoint that matches {checkpoint!r}")
    return max(files, key=lambda one: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", one.name)])


def _external(deployment: Any, given: Sequence[str]) -> dict[str, Any]:
    """Input -> a row for each environment, from texts such as ``twist=0.5,0,0``."""
    wanted, found = sorted(deployment.external_inputs), dict[str, Any]()
    for text in given:
        name, _, numbers = text.rpartition("=")
        if not name and len(wanted) != 1:
            raise InputError(f"--command {text}: say which of {wanted} it is, with NAME={text}")
        name = name or wanted[0]
        if name not in deployment.policy.inputs:
            raise InputError(
                f"--command {text}: the policy has no input {name!r}; it has {list(deployment.policy.inputs)}"
            )
        try:
            row = as_command(name, deployment.policy.inputs[name], [float(one) for one in numbers.split(",")])
        except ValueError as error:
            raise InputError(f"--command {text}: expected numbers with commas between them, got {numbers!r}") from error
        found[name] = np.repeat(row, deployment.num_envs, axis=0) if len(row) == 1 else row
    missing = [name for name in wanted if name not in found]
    if missing:
        said = " ".join(f"--command {name}=…" for name in missing)
        raise InputError(f"the policy takes what the scene does not give: {missing}; use {said}, or --task-commands")
    return found


def _identifier(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", name)


@contextlib.contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Says whether somebody has pressed Ctrl-C: the step that runs is finished, unless they press it once more."""
    pressed = threading.Event()

    def note(_signal: int, _frame: object) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What simulators and trainers print goes to the error stream, so that output can be piped."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    with contextlib.redirect_stdout(sys.stderr):
        yield


def _about(package: Package, seconds: Mapping[str, float]) -> dict[str, Any]:
    manifest = package.manifest
    return {
        "package": str(package.path),
        "inputs": {name: port.connection for name, port in manifest.inputs.items()},
        "outputs": {name: port.connection for name, port in manifest.outputs.items()},
        "states": {name: state.role for name, state in manifest.states.items()},
        "joints": len(manifest.joints),
        **evidence(manifest, substeps=True),
        "seconds": dict(seconds),
    }


def _print(package: Package, seconds: Mapping[str, float]) -> None:
    manifest, out = package.manifest, console()
    shown = table(f"{package.path}", "", "!port", "kind", "unit", "shape", "connection")
    for group, ports in (("input", manifest.inputs), ("output", manifest.outputs)):
        for name, port in ports.items():
            unit = port.unit if isinstance(port.unit, str | None) else " ".join(dict.fromkeys(port.unit))
            shown.add_row(group, name, port.kind or "", unit or "", str(list(port.shape)), port.connection or "")
    for name, state in manifest.states.items():
        shown.add_row("state", name, state.role, "", str(list(state.shape)), "")
    out.print(shown)
    for one in manifest.findings:
        if one.severity != "info":
            out.print(f"{one.severity}: {one.message}", style="yellow")
    proof, timing = manifest.verification, manifest.timing
    if proof is not None and proof.status == "passed":
        worst = max(one.max_abs_error_free_running for one in proof.results)
        out.print(
            f"verified: {proof.steps} decisions and {proof.substeps} substeps with {proof.resets} resets, "
            f"largest error {worst:.2g}",
            style="green",
        )
    else:
        out.print("not verified", style="yellow")
    if timing is not None and timing.policy_dt_s is not None:
        out.print(
            f"{len(manifest.joints)} joints, decides every {timing.policy_dt_s:g} s, {timing.decimation} substeps"
        )
    out.print(f"environment {seconds['environment']:.1f} s, export {seconds['export']:.1f} s")
