"""Parity in the loop: an environment with its own policy, and a package in a deployment environment, side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from ashore.deploy.arrays import follow
from ashore.deploy.simulated import DeploymentEnv, places
from ashore.integrations.framework import Framework
from ashore.package import Array, Package, add_files, read, save_arrays
from ashore.runtime import Policy
from ashore.spec import plain

REPORT = "report/compare_sim"


@dataclass(frozen=True)
class Divergence:
    """Where two runs differ for the first time by more than the tolerance."""

    step: int
    port: str
    element: tuple[int, ...]
    environment: float
    package: float


@dataclass
class Comparison:
    """What a comparison found."""

    steps: int = 0
    resets: int = 0
    worst: dict[str, float] = field(default_factory=dict[str, float])
    """Port, or ``sim.…`` for an array of the simulator -> the largest absolute difference."""

    first: Divergence | None = None
    """Where the two differ first; None if they never do."""

    trajectories: dict[str, Array] = field(default_factory=dict[str, Array])
    """``environment/PORT`` and ``package/PORT`` -> what was there, one row a step."""

    @property
    def ok(self) -> bool:
        """Whether everything agreed."""
        return self.first is None


@dataclass(frozen=True)
class Moment:
    """One decision of an environment."""

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    """Observations and actions, and the targets that the simulation had in the end, where no reset has changed them."""

    state: Mapping[str, Array] | None
    """Of the simulation after it; None where a reset has moved the robot already."""

    start: Mapping[str, Array] | None
    """What to begin an episode with, where one begins with this decision."""


def compare_sim(
    env: Any,
    actor: Callable[[Any], torch.Tensor],
    deployment: DeploymentEnv,
    framework: Framework,
    *,
    steps: int = 100,
    seed: int = 0,
    atol: float = 1e-4,
    advance: Callable[[], object] = lambda: None,
) -> Comparison:
    """Run both from the same state, and compare inputs, observations, actions, targets and the robot at every step.

    Args:
        env: the training environment, with one robot.
        actor: its policy.
        deployment: the package in the same scene; it gets the state of the environment after every reset, and its
            commands at every step. Everything else it does by itself.
        framework: where the environment keeps things.
        steps: decisions.
        seed: of the environment.
        atol: what counts as a difference.
        advance: called after every decision, for a progress bar.
    """
    moments = record_run(env, actor, deployment.policy, framework, steps=steps, seed=seed)
    return replay_run(moments, deployment, framework, atol=atol, advance=advance)


def record_run(
    env: Any,
    actor: Callable[[Any], torch.Tensor],
    policy: Policy,
    framework: Framework,
    *,
    steps: int = 100,
    seed: int = 0,
    advance: Callable[[], object] = lambda: None,
) -> list[Moment]:
    """Run an environment with its own policy, and keep what a package in a deployment environment has to do, too.

    Where a process has room for one simulation only, the environment is closed before the deployment is made.

    Args:
        env: the training environment, with one robot.
        actor: its policy.
        policy: the package, which says what to look at.
        framework: where the environment keeps things.
        steps: decisions.
        seed: of the environment.
        advance: called after every decision, for a progress bar.
    """
    there = ("state:", "sim:", "jacobian:")  # a deployment environment reads these by itself
    elsewhere = [name for name, port in policy.inputs.items() if not (port.connection or "").startswith(there)]
    names = list(dict.fromkeys([*policy.step_inputs, *elsewhere]))
    found: list[Moment] = []
    torch.manual_seed(seed)
    obs, _ = env.reset(seed=seed)
    begins = True
    with torch.no_grad():
        for _ in range(steps):
            start = framework.snapshot(env) if begins else None
            reset = getattr(actor, "reset", None)
            if begins and callable(reset):
                reset(torch.ones(env.num_envs, dtype=torch.bool, device=env.device))
            inputs = {name: _value(env, framework, policy.inputs[name].connection) for name in names}
            actions = actor(obs)
            outputs = {f"obs.{group}": value for group, value in obs.items() if f"obs.{group}" in policy.outputs}
            outputs = {key: value.cpu().numpy().copy() for key, value in (*outputs.items(), ("actions", actions))}
            obs, _, terminated, truncated, _ = env.step(actions)
            begins = bool((terminated | truncated).any())
            if not begins:
                outputs |= _targets(env.scene.__getitem__, framework, policy)
            state = None if begins else framework.state(env)
            found.append(Moment(inputs, outputs, state, start))
            advance()
    return found


def replay_run(
    moments: Sequence[Moment],
    deployment: DeploymentEnv,
    framework: Framework,
    *,
    atol: float = 1e-4,
    advance: Callable[[], object] = lambda: None,
) -> Comparison:
    """Have a package do what an environment did, and compare.

    Args:
        moments: what the environment did.
        deployment: the package in the same scene.
        framework: where both keep things.
        atol: what counts as a difference.
        advance: called after every decision, for a progress bar.
    """
    found, rows = Comparison(), dict[str, list[Array]]()
    for step, one in enumerate(moments):
        if one.start is not None:
            found.resets += step > 0
            deployment.reset()
            framework.put(deployment, one.start)
        outputs = deployment.step({name: one.inputs[name] for name in deployment.external_inputs})
        pairs = {name: (one.inputs[name], value) for name, value in deployment.inputs.items() if name in one.inputs}
        outputs |= _targets(deployment.element, framework, deployment.policy)
        pairs |= {name: (value, outputs[name]) for name, value in one.outputs.items()}
        if one.state is not None:
            ours = framework.state(deployment)
            pairs |= {f"sim.{name}": (value, ours[name]) for name, value in one.state.items()}
        _note(found, rows, step, pairs, atol)
        found.steps += 1
        advance()
    if moments and moments[-1].state is None:
        found.resets += 1
    found.trajectories = {name: np.stack(values) for name, values in rows.items()}
    return found


def write_report(package: Package, found: Comparison) -> Package:
    """Keep a comparison in the package, as ``report/compare_sim.json`` and its trajectories beside it."""
    about = {key: value for key, value in asdict(found).items() if key != "trajectories"}
    files = {
        f"{REPORT}.json": (json.dumps(plain(about), indent=2, sort_keys=True, allow_nan=False) + "\n").encode(),
        f"{REPORT}.safetensors": save_arrays(found.trajectories),
    }
    return read(add_files(package, files).path)


def _value(env: Any, framework: Framework, connection: str | None) -> Array:
    """What a connection reads in the training environment."""
    where, _, path = (connection or "").partition(":")
    owner, _, name = path.partition(":")
    if where == "command":
        value = getattr(env.command_manager.get_term(owner), name)
    elif where == "state":
        value = follow(env.scene[owner].data, name.split(".") if name else ())
    else:
        value = framework.arrays(env)[owner] if where == "sim" else getattr(env, owner)
    tensor = framework.tensor(value)
    if tensor is None:
        raise TypeError(f"{connection}: expected a tensor, got {type(value).__name__}")
    return tensor.detach().cpu().numpy().copy()


def _targets(element: Callable[[str], Any], framework: Framework, policy: Policy) -> dict[str, Array]:
    """Output -> the target that a simulation has now where that output is written, in the simulation's own unit.

    An entity that does not show its targets is left out.
    """
    found: dict[str, Array] = {}
    for name, port in policy.outputs.items():
        where, _, path = (port.connection or "").partition(":")
        owner, _, method = path.partition(":")
        if where != "write" or method not in framework.writes or not port.element_names:
            continue
        entity, write = element(owner), framework.writes[method]
        tensor = framework.tensor(getattr(entity.data, write.port, None))
        if tensor is not None:
            there = getattr(entity, write.names)
            found[name] = tensor.detach().cpu().numpy()[:, places(there, port.element_names[-1] or there)]
    return found


def _note(
    found: Comparison, rows: dict[str, list[Array]], step: int, pairs: Mapping[str, tuple[Array, Array]], atol: float
) -> None:
    for port, (theirs, ours) in pairs.items():
        rows.setdefault(f"environment/{port}", []).append(theirs)
        rows.setdefault(f"package/{port}", []).append(np.asarray(ours))
        apart = _apart(theirs.astype(np.float64), np.asarray(ours, np.float64).reshape(theirs.shape))
        worst = float(apart.max(initial=0.0))
        found.worst[port] = max(found.worst.get(port, 0.0), worst)
        if worst > atol and found.first is None:
            place = tuple(int(one) for one in np.unravel_index(int(apart.argmax()), apart.shape))
            values = float(theirs[place]), float(np.asarray(ours).reshape(theirs.shape)[place])
            found.first = Divergence(step, port, place, *values)


def _apart(theirs: Array, ours: Array) -> Array:
    """How far numbers are apart; infinitely, where only one of two is no number."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(theirs - ours)
    same = (theirs == ours) | (np.isnan(theirs) & np.isnan(ours))
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))
