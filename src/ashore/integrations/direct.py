"""Environments without managers: their own code is marked by hand, with `ashore.annotate`.

The environment runs by its own `step`, and its actor decides between two of them. What the marked inputs become in the
observations, in the actor and in what is done with its actions is one graph; nothing says where the actor is in it.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, cast

import torch

from ashore.capture.annotate import Door, annotate, recording, start
from ashore.capture.export import export
from ashore.capture.options import ExportOptions
from ashore.errors import InputError, OrderError
from ashore.integrations.counters import idle_counters
from ashore.integrations.framework import Framework
from ashore.integrations.importing import imported
from ashore.integrations.rsl_rl import RslRlActor, as_settings, make_actor
from ashore.package import Package
from ashore.spec import Joint, Timing

_EPISODES = 3
_MARKED = ("_get_observations", "_pre_physics_step", "_apply_action")
"""Where an Isaac Lab environment has what a policy does."""

_WHERE = (
    "mark what goes in with annotate.input_tensors(node, …), where observations are computed (_get_observations), and "
    "what comes out with annotate.output_tensors(node, …), where actions have become targets (_pre_physics_step); "
    "annotate is in ashore"
)


def open_function(
    task: str, agent: str, checkpoint: Path, *, num_envs: int = 1, device: str = "cpu", trust: bool = False
) -> tuple[Any, RslRlActor, Mapping[str, Any]]:
    """The environment that a function gives, its actor, and what else the function wants to have in the package.

    Args:
        task: the function, as ``package.module:make_env``. It is given ``num_envs`` and ``device`` if it takes them.
        agent: the configuration of the runner, likewise: a dict, a dataclass, or a function that gives one.
        checkpoint: the weights of the actor.
        num_envs: how many environments.
        device: of torch.
        trust: whether the checkpoint may run code while it is read.
    """
    make, config = imported("--task", task), imported("--agent", agent)
    if not callable(make):
        raise InputError(f"--task {task}: expected a function that makes an environment, got {type(make).__name__}")
    settings = as_settings(f"--agent {agent}", config() if inspect.isroutine(config) else config)
    wanted = inspect.signature(make).parameters
    made = make(**{key: value for key, value in (("num_envs", num_envs), ("device", device)) if key in wanted})
    env, options = cast("tuple[Any, Any]", made) if isinstance(made, tuple) else (made, {})
    if options is not None and not isinstance(options, Mapping):
        raise InputError(f"--task {task}: beside the environment, expected a dict of options, got {options!r}")
    env: Any = getattr(env, "unwrapped", env)
    for method in ("reset", "step"):
        if not callable(getattr(env, method, None)):
            raise InputError(f"--task {task}: expected an environment, got {type(env).__name__} without {method}()")
    known = sorted({"joints", "timing"} & (options or {}).keys())
    if known and hasattr(env, "observation_manager"):
        raise InputError(f"--task {task}: {known} of an environment with managers are found, and cannot be given")
    with torch.no_grad():
        obs = _observations(env.reset())
    actor = make_actor(settings, obs, _num_actions(task, env), checkpoint, device=device, trust=trust)
    return env, actor, options or {}


def export_direct(
    env: Any,
    actor: Callable[[Any], torch.Tensor],
    out: str | os.PathLike[str],
    framework: Framework,
    *,
    num_steps: int = 24,
    told: Callable[[str], object] = lambda _: None,
    **options: Any,
) -> Package:
    """Write the package of an environment whose code is marked, and of its actor. The environment is run for that.

    Args:
        env: the environment itself, with the ``reset()`` and ``step(actions)`` of Gymnasium, or of RSL-RL.
        actor: any callable from observations by group to actions; its ``reset(dones)`` is called where it has one.
        out: the directory of the package.
        framework: where an environment of that kind keeps things.
        num_steps: how many decisions to record, in three episodes.
        told: is called with what is being done.
        options: see `ashore.capture.options.ExportOptions`.
    """
    target = Path(out)
    found = {"timing": _timing(env), "feedback": True, "counters": _counters(env, framework), "tools": ("rsl-rl-lib",)}
    if getattr(env, "num_envs", 1) > 1 and options.get("batch", "recorded") == "recorded":
        options["batch"] = "one"
    settings = ExportOptions.of({**found, **options})
    told("recording")
    start(target.name, save_path=target.parent)
    door = cast("Door", recording())
    door.session.simulates = True
    try:
        with torch.no_grad():
            _run(env, actor, door, num_steps)
    finally:
        door.close()
    if not settings.joints:
        settings = ExportOptions.of({**found, **options, "joints": _joints(env, framework, door)})
    told("exporting")
    return cast("Package", export(door.session, target.name, target, settings))  # there is a target


# --- running ----------------------------------------------------------------------------------------------------------


def _run(env: Any, actor: Callable[[Any], torch.Tensor], door: Door, num_steps: int) -> None:
    length, since = max(num_steps // _EPISODES, 2), 0
    obs = _begin(env, actor, door)
    for _ in range(num_steps):
        stepped = env.step(actor(obs))
        _check_marked(door)
        door.session.pause()  # which rows are done is nothing that the policy knows
        obs, done, since = _observations(stepped), _done(stepped), since + 1
        ended = bool(done.any())
        if ended:
            if not door.session.opens_episode:
                raise OrderError(
                    "an episode ended within step(), and nothing said so; call annotate.reset() first thing in the "
                    "function that resets rows (_reset_idx)"
                )
            door.session.limit_reset(done.tolist())
        door.session.resume()
        if ended:
            _forget(actor, door, done)
            since = 0
        elif since >= length:
            obs, since = _begin(env, actor, door), 0
    if not door.complete:
        door.session.discard_step()  # nobody has decided on it


def _begin(env: Any, actor: Callable[[Any], torch.Tensor], door: Door) -> Mapping[str, torch.Tensor]:
    door.session.discard_step()
    annotate.reset()
    obs = _observations(env.reset())
    _forget(actor, door, torch.ones(len(next(iter(obs.values()))), dtype=torch.bool))
    return obs


def _forget(actor: object, door: Door, done: torch.Tensor) -> None:
    """The actor is reset after the first observation of an episode; it belongs to the reset all the same."""
    reset = getattr(actor, "reset", None)
    if callable(reset):
        door.session.resume_reset()
        reset(done)
        door.session.resume()


def _check_marked(door: Door) -> None:
    if not (door.session.open or door.session.steps):
        raise OrderError(f"nothing is marked in this environment, and it has no managers; {_WHERE}")
    if not door.session.nodes:
        raise OrderError(f"inputs are marked for node {door.entered[-1]!r}, but no outputs; {_WHERE}")


def _observations(given: Any) -> Mapping[str, torch.Tensor]:
    """What the actor sees, of what ``reset`` or ``step`` gave."""
    obs = given[0] if isinstance(given, tuple) else given
    return {"policy": obs} if isinstance(obs, torch.Tensor) else obs


def _done(stepped: Any) -> torch.Tensor:
    """Which rows were reset."""
    if not isinstance(stepped, tuple) or len(stepped) not in (4, 5):
        what = f"{len(stepped)} things" if isinstance(stepped, tuple) else type(stepped).__name__
        raise InputError(f"step() gave {what}, expected observations, rewards, terminated, truncated and extras")
    done = stepped[2] if len(stepped) == 4 else stepped[2] | stepped[3]
    return done.flatten().to(torch.bool)


# --- what an environment says about itself ----------------------------------------------------------------------------


def _timing(env: Any) -> Timing | None:
    physics, decision = getattr(env, "physics_dt", None), getattr(env, "step_dt", None)
    steps = getattr(env, "decimation", None) or getattr(getattr(env, "cfg", None), "decimation", None) or 1
    if physics is not None:
        return Timing(policy_dt_s=float(physics) * int(steps), physics_dt_s=float(physics), decimation=int(steps))
    return None if decision is None else Timing(policy_dt_s=float(decision))


def _counters(env: Any, framework: Framework) -> list[str]:
    """Attributes of the simulator that count, and that the marked methods do not look at."""
    methods = (getattr(type(env), name, None) for name in _MARKED)
    return idle_counters(framework.counters, [one for one in methods if one is not None])


def _joints(env: Any, framework: Framework, door: Door) -> list[Joint]:
    """The joints that the outputs drive, where the environment has a scene of the framework with them in it."""
    if not hasattr(env, "scene"):
        return []
    driven: set[str] = set()
    for info in door.session.ports.values():
        kind, names = info.kind.value if isinstance(info.kind, Enum) else info.kind, info.element_names
        if names and str(kind).startswith("target/joint/"):
            driven |= set(names if isinstance(names[-1], str) else names[-1] or ())
    for entity in framework.entities(env).values():
        if driven and driven <= {str(name) for name in getattr(entity, "joint_names", ())}:
            return framework.joints(env, entity)[0]
    return []


def _num_actions(task: str, env: Any) -> int:
    shape = getattr(getattr(env, "single_action_space", None), "shape", None)
    count = getattr(env, "num_actions", None if shape is None else math.prod(shape))
    if count is None:
        raise InputError(f"--task {task}: {type(env).__name__} has neither num_actions nor single_action_space")
    return int(count)
