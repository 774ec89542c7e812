"""Configurations of Isaac Lab's tasks: from Gymnasium's registry, alternatives chosen, values overridden."""

# pyright: reportMissingImports=false
# Isaac Lab comes with a simulator of several gigabytes, and is not installed where types are checked.

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from collections.abc import Sequence
from typing import Any

from ashore.errors import InputError, suggestion

_SELECTORS = ("presets", "physics", "renderer")
"""Overrides that choose alternatives of the configuration by name, as Isaac Lab's own scripts take them."""


def task_configs(task: str, *, device: str = "cpu", overrides: Sequence[str] = ()) -> tuple[Any, Any]:
    """The configurations of a registered task: of the environment, and of the RSL-RL agent.

    Isaac Sim is started where it is installed, which has to be done before anything else.

    Args:
        task: its name in Gymnasium's registry.
        device: of torch and of the simulation.
        overrides: as on the command line of Isaac Lab: ``physics=newton_mjwarp``, ``env.scene.ground=null``,
            ``agent.clip_actions=1.0``.
    """
    launch(device)
    try:
        import gymnasium
        import isaaclab_tasks  # noqa: F401 - registers them
        from isaaclab_rl import rsl_rl
        from isaaclab_tasks.utils import load_cfg_from_registry
    except ModuleNotFoundError as error:
        raise InputError(
            f"Isaac Lab tasks need {error.name}; see https://isaac-sim.github.io/IsaacLab for how to install it"
        ) from error
    if task not in gymnasium.registry:
        known = [name for name in gymnasium.registry if name.startswith("Isaac-")]
        raise InputError(f"Isaac Lab has no task {task!r}{suggestion(task, known, f'; there are {known}')}")
    if gymnasium.spec(task).kwargs.get("rsl_rl_cfg_entry_point") is None:
        raise InputError(f"{task} has no configuration for RSL-RL: its registration lacks rsl_rl_cfg_entry_point")
    presets, values = split_overrides(overrides)
    try:
        env_config = _resolved(load_cfg_from_registry(task, "env_cfg_entry_point"), presets)
        agent: Any = _resolved(load_cfg_from_registry(task, "rsl_rl_cfg_entry_point"), presets)
    except ModuleNotFoundError as error:
        raise InputError(f"{task} needs {error.name}, which is not installed") from error
    modernise = getattr(rsl_rl, "handle_deprecated_rsl_rl_cfg", None)
    if modernise is not None:
        agent = modernise(agent, importlib.metadata.version("rsl-rl-lib"))
    env_config.sim.device = agent.device = device
    env_config.seed = agent.seed
    for path, value in values:
        override({"env": env_config, "agent": agent}, path, value)
    return env_config, agent


def split_overrides(overrides: Sequence[str]) -> tuple[list[str], list[tuple[str, Any]]]:
    """The names of alternatives, and the paths with their values, of texts such as ``env.sim.dt=0.01``."""
    presets: list[str] = []
    values: list[tuple[str, Any]] = []
    for text in overrides:
        path, equals, value = text.partition("=")
        if not equals or not (path in _SELECTORS or path.startswith(("env.", "agent."))):
            raise InputError(f"{text!r}: expected env.PATH=VALUE, agent.PATH=VALUE or {'=, '.join(_SELECTORS)}=NAME")
        if path in _SELECTORS:
            presets += [one for one in value.split(",") if one]
        else:
            values.append((path, _parsed(value)))
    return presets, values


def override(root: Any, path: str, value: Any) -> None:
    """Set what a path leads to in a configuration; a path that leads nowhere is an error."""
    owner, *parts = [root, *path.split(".")]
    for place, part in enumerate(parts):
        there = list(owner) if isinstance(owner, dict) else [name for name in vars(owner) if not name.startswith("_")]
        if part not in there:
            raise InputError(f"{path}: there is no {part!r} in {'.'.join(parts[:place])}; there are {there}")
        if place == len(parts) - 1:
            owner.__setitem__(part, value) if isinstance(owner, dict) else setattr(owner, part, value)
        else:
            owner = owner[part] if isinstance(owner, dict) else getattr(owner, part)


def _parsed(text: str) -> Any:
    try:
        return json.loads({"None": "null", "True": "true", "False": "false"}.get(text, text))
    except json.JSONDecodeError:
        return text


def _resolved(config: Any, presets: Sequence[str]) -> Any:
    """A configuration with its alternatives chosen, in versions that have them."""
    from isaaclab_tasks.utils import hydra

    resolve = getattr(hydra, "resolve_presets", None)
    if resolve is None and presets:
        raise InputError(f"presets {list(presets)}: this version of Isaac Lab has none")
    return config if resolve is None else resolve(config, tuple(presets))


def launch(device: str) -> None:
    """Start Isaac Sim where it is installed and not running."""
    if importlib.util.find_spec("isaacsim") is None:
        return
    try:
        running = importlib.util.find_spec("omni.kit.app") is not None
    except ModuleNotFoundError:
        running = False
    if not running:
        from isaaclab.app import AppLauncher

        AppLauncher(headless=True, device=device)
