"""What names and metadata say about a port: its kind, its elements, how fast the environment runs.

The names are those that controllers of the one-file form understand, such as ``obj.robot.joints.pos``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ashore.capture.contract import PortInfo
from ashore.environment.components import Component, Group
from ashore.errors import InputError
from ashore.spec import Timing

_INPUTS: tuple[tuple[str, str, str | None, str], ...] = (
    (r"obj\.[^.]+\.joints\.pos", "state/joint/position", "rad", "sensor"),
    (r"obj\.[^.]+\.joints\.vel", "state/joint/velocity", "rad/s", "sensor"),
    (r"obj\..+\.pos_b_rt_w_in_w", "state/body/position", "m", "estimator"),
    (r"(obj|sensor\.imu)\..+\.w_Q_b", "state/body/rotation", None, "estimator"),
    (r"(obj|sensor\.imu)\..+\.lin_vel_b_rt_w_in_b", "state/body/linear_velocity", "m/s", "estimator"),
    (r"(obj|sensor\.imu)\..+\.ang_vel_b_rt_w_in_b", "state/body/angular_velocity", "rad/s", "sensor"),
    (r"cmd\.se2_velocity\..+", "command/body/velocity", None, "command"),
)
_OUTPUTS: tuple[tuple[str, str, str], ...] = (
    (r"output\.joint_targets\..+\.pos", "target/joint/position", "rad"),
    (r"output\.joint_targets\..+\.vel", "target/joint/velocity", "rad/s"),
    (r"output\.joint_targets\..+\.effort", "target/joint/effort", "N*m"),
)


def meaning_of(component: Component, groups: Sequence[Group], *, is_input: bool) -> PortInfo:
    """What is known about a component from its name, its metadata and that of its groups."""
    metadata = component.metadata
    about = metadata if isinstance(metadata, dict) else {} if metadata is None else {"metadata": metadata}
    given: dict[str, Any] = {"metadata": about}
    if isinstance(description := about.get("description"), str):
        given["description"] = description
    if (names := _joints(component, groups)) is not None:
        given["element_names"] = names
    for pattern, kind, unit, *source in _INPUTS if is_input else _OUTPUTS:
        if re.fullmatch(pattern, component.name):
            given |= {"unit": unit, **({"source": source[0]} if source else {})}
            if names is not None or "joint" not in kind:
                given["kind"] = kind
            break
    return PortInfo(**given)


def _joints(component: Component, groups: Sequence[Group]) -> list[str] | None:
    """The names of joints, from the metadata of a component or of the innermost group around it that has them."""
    around = [one for one in groups if component.name.startswith(f"{one.name}.")]
    around.sort(key=lambda one: -len(one.name))
    for metadata in (component.metadata, *(group.metadata for group in around)):
        found = metadata if isinstance(metadata, dict) else {}
        names = found.get("joint_names", found.get("names"))
        if isinstance(names, list) and names and all(isinstance(name, str) for name in names):
            return names
    return None


def timing_of(about: Mapping[str, Any], decimation: int) -> Timing:
    """How fast an environment runs, from its metadata: ``sim_dt``, ``update_rate`` or ``step_dt``."""
    seconds = {key: _number(key, about[key]) for key in ("sim_dt", "update_rate", "step_dt") if key in about}
    physics = seconds.get("sim_dt")
    if physics is None and "update_rate" in seconds:
        physics = 1.0 / seconds["update_rate"]
    if physics is None and "step_dt" in seconds:
        physics = seconds["step_dt"] / decimation
    if physics is None:
        return Timing(decimation=decimation)
    return Timing(policy_dt_s=physics * decimation, physics_dt_s=physics, decimation=decimation)


def _number(key: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0.0 < number < math.inf:
        raise InputError(f"metadata(): {key}: expected a positive number, got {value!r}")
    return number
