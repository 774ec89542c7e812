"""Where a policy goes: the protocol for your own robot, MuJoCo, and the simulators it was trained in.

Nothing here needs torch but the deployment environments, which are imported when they are asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ashore.deploy.mujoco import Film, Latency, MujocoRobot, Play, Range, Tracking, play
from ashore.deploy.simulated import DeploymentEnv
from ashore.runtime.binding import bind
from ashore.runtime.bound import Bound
from ashore.runtime.guard import Guard
from ashore.runtime.robot import Robot, Setup, Signal

if TYPE_CHECKING:
    from ashore.deploy.isaaclab import IsaacLabDeploymentEnv
    from ashore.deploy.mjlab import MjlabDeploymentEnv

__all__ = [
    "Bound",
    "DeploymentEnv",
    "Film",
    "Guard",
    "IsaacLabDeploymentEnv",
    "Latency",
    "MjlabDeploymentEnv",
    "MujocoRobot",
    "Play",
    "Range",
    "Robot",
    "Setup",
    "Signal",
    "Tracking",
    "bind",
    "play",
]

_SIMULATORS = {"MjlabDeploymentEnv": "mjlab", "IsaacLabDeploymentEnv": "isaaclab"}


def __getattr__(name: str) -> Any:
    if name not in _SIMULATORS:
        raise AttributeError(f"module 'ashore.deploy' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"ashore.deploy.{_SIMULATORS[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "ashore":
            raise
        message = f"ashore.deploy.{name} needs {error.name}; install {_SIMULATORS[name]}"
        raise ModuleNotFoundError(message, name=error.name) from error
