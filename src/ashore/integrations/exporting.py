"""From a manager-based environment and its actor to a package."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ashore.capture.findings import Finding
from ashore.capture.tensors import foreign_memory
from ashore.environment import export_environment
from ashore.errors import ExportError
from ashore.integrations.counters import idle_counters
from ashore.integrations.framework import Framework
from ashore.integrations.managed import ManagedEnvironment
from ashore.package import Package
from ashore.spec import Joint

_TOOLS = ("rsl-rl-lib", "warp-lang", "mujoco")
_MOTORS = ("motor", "xml")
"""Actuators that follow a position only if they have a stiffness."""


def export_managed(
    env: Any,
    actor: Callable[[Any], torch.Tensor],
    out: str | os.PathLike[str],
    framework: Framework,
    *,
    groups: Sequence[str],
    **options: Any,
) -> Package:
    """Write the package of a manager-based environment and its actor. The environment is left as it was.

    Args:
        env: the environment itself, not a wrapper.
        actor: takes a dict with the observations of the groups, and gives actions.
        out: the directory of the package.
        framework: where the environment keeps things.
        groups: the observation groups that the actor reads.
        options: as for `ashore.environment.export_environment`.
    """
    idle: set[str] = set()
    while True:
        managed = ManagedEnvironment(env, framework, groups, idle)
        joints, findings = _joints(managed, env, framework)
        try:
            with foreign_memory(managed.addresses):
                return export_environment(
                    managed,
                    actor,
                    out,
                    joints=joints,
                    findings=[*managed.findings, *findings],
                    counters=idle_counters(framework.counters, managed.terms),
                    tools=(framework.name, *_TOOLS),
                    **options,
                )
        except ExportError as error:
            found = _idle_reads(managed, error)
            if not found - idle:
                raise
            idle |= found


def _idle_reads(managed: ManagedEnvironment, error: ExportError) -> set[str]:
    """What terms read without using it; such a thing is no input."""
    names = {one.tensor for one in error.findings if isinstance(one, Finding) and one.name == "unused_input"}
    inputs = managed.context_manager().get_input_components()
    return {str(one.info.connection) for one in inputs if one.info is not None and one.name in names}


def _joints(managed: ManagedEnvironment, env: Any, framework: Framework) -> tuple[list[Joint], list[Finding]]:
    """The joints of what is driven, and what is odd about their gains."""
    entities = framework.entities(env)
    joints, owners = dict[str, Joint](), dict[str, str]()
    findings: list[Finding] = []
    for name in dict.fromkeys(one.entity for one in managed.writes):
        made, found = framework.joints(env, entities[name])
        findings += found
        for joint in made:
            if joint.name in joints:
                raise ExportError(
                    f"{owners[joint.name]!r} and {name!r} are both driven, and each has a joint {joint.name!r}; joints"
                    " are found by their names, so give them other names, or export one robot at a time"
                )
            joints[joint.name], owners[joint.name] = joint, name
    for output in managed.context_manager().get_output_components():
        if output.info is None or output.info.kind != "target/joint/position":
            continue
        for name in output.info.element_names or ():
            stiffness, actuator = joints[name].kp, joints[name].actuator
            if stiffness is not None and stiffness <= 0.0:
                said = f"its stiffness is {stiffness:g}"
            elif stiffness is None and actuator in _MOTORS:
                said = "its actuator is a motor, which has no stiffness"
            else:
                continue
            message = f"joint {name!r} is driven by position targets, {said}"
            findings.append(Finding("gain", message, tensor=name))
    return list(joints.values()), findings
