"""MuJoCo itself: opening models and pictures, and what all readers of a model are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ashore.errors import RobotError
from ashore.package import Array
from ashore.runtime.robot import Signal

Model: TypeAlias = Any
"""A `mujoco.MjModel`. MuJoCo has no type stubs, so its objects are not typed here."""

Data: TypeAlias = Any
"""A `mujoco.MjData`."""

XYZ = ("x", "y", "z")
WXYZ = ("w", "x", "y", "z")


class Reader(NamedTuple):
    """A signal, how to read it, and whether MuJoCo has to compute it first."""

    signal: Signal
    read: Callable[[Data], Array]
    derived: bool = False
    """Whether it is computed from positions and velocities by a forward pass, such as a sensor."""


def engine() -> Any:
    """The module `mujoco`, imported when it is first needed."""
    try:
        import mujoco
    except ModuleNotFoundError as error:
        raise RobotError("MuJoCo is not installed; use pip install 'ashore[mujoco]'") from error
    return mujoco


def open_model(model: Model | str | os.PathLike[str]) -> Model:
    """A model of the robot's own: read from an ``.xml`` or ``.mjb`` file, or a copy of the one that is given."""
    mujoco = engine()
    if isinstance(model, mujoco.MjModel):
        import copy

        return copy.deepcopy(model)
    if not isinstance(model, str | os.PathLike):
        raise RobotError(f"expected a path or a mujoco.MjModel, got {type(model).__name__}")
    path = Path(model)
    if not path.is_file():
        raise RobotError(f"{path}: there is no such file")
    read = mujoco.MjModel.from_binary_path if path.suffix == ".mjb" else mujoco.MjModel.from_xml_path
    try:
        return read(str(path))
    except ValueError as error:
        raise RobotError(f"{path}: MuJoCo cannot read it: {error}") from error


def open_renderer(model: Model, height: int, width: int, what: str, otherwise: str) -> Any:
    """A `mujoco.Renderer` that has drawn a picture.

    Args:
        model: what to draw. Its buffer for pictures is made large enough.
        height: in pixels.
        width: in pixels.
        what: the pictures are for, which an error begins with.
        otherwise: what one can do without them.
    """
    mujoco, buffer = engine(), model.vis.global_
    buffer.offheight, buffer.offwidth = max(height, int(buffer.offheight)), max(width, int(buffer.offwidth))
    # Every way to open a graphics library without a screen fails in its own way.
    try:
        renderer = mujoco.Renderer(model, height, width)
        renderer.render()
    except (mujoco.FatalError, RuntimeError, ImportError, AttributeError, OSError) as error:
        raise RobotError(
            f"{what}: MuJoCo cannot make pictures on this machine ({type(error).__name__}: {error}); "
            f"set MUJOCO_GL to egl or osmesa, or {otherwise}"
        ) from error
    return renderer
