"""What the cameras of a MuJoCo model see, in the size, the layout and the type of number that a port asks for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np

from ashore.deploy.mujoco.engine import Data, Model, Reader, engine, open_renderer
from ashore.deploy.mujoco.names import Names
from ashore.deploy.mujoco.orders import CameraOrder, group_flags, read_order
from ashore.errors import BindError
from ashore.package import Array
from ashore.runtime.robot import Signal
from ashore.spec import Limits, Port, concrete


class _Format(NamedTuple):
    """What one picture of MuJoCo's is."""

    signal: Signal
    channels: int
    meaning: str


_FORMATS = {
    "rgb": _Format(Signal("sensor/image/rgb", unit="1", to_order="camera"), 3, "red, green, blue"),
    "depth": _Format(Signal("sensor/image/depth", unit="m", to_order="camera"), 1, "metres along the camera's axis"),
    "segmentation": _Format(
        Signal("sensor/image/segmentation", unit="1", to_order="camera"), 2, "number and type of the object"
    ),
}


class Cameras:
    """The cameras of a model. Pictures are opened when a port asks for one.

    Args:
        model: whose cameras these are.
        known: its names.
    """

    def __init__(self, model: Model, known: Names) -> None:
        self._model = model
        self._places = {
            f"{camera}.{what}": (index, what) for camera, index in known.all("camera").items() for what in _FORMATS
        }
        self._renderers: dict[tuple[int, int], Any] = {}

    def signals(self) -> dict[str, Signal]:
        """``CAMERA.rgb``, ``.depth`` and ``.segmentation`` of each."""
        return {name: _FORMATS[what].signal for name, (_, what) in self._places.items()}

    def make(self, name: str, port: Port) -> Reader:
        """The picture that a port asks for, of its shape and dtype.

        Raises:
            BindError: MuJoCo does not make such pictures.
            RobotError: no pictures can be made on this machine.
        """
        camera, what = self._places[name]
        order = read_order(name, port, "camera", CameraOrder)
        shape, (layout, height, width) = concrete(port.shape, 1), _layout(name, what, port, order)
        convert = _CONVERSIONS[what](name, port)
        sensor = self._sensor(name, camera, height, width, order)
        renderer = self._renderer(name, height, width)
        options: Any = engine().MjvOption()
        options.geomgroup[:] = group_flags(order.geom_groups)
        options.sitegroup[:] = 0  # marks in the file, which no camera sees
        shadow = engine().mjtRndFlag.mjRND_SHADOW

        def read(data: Data) -> Array:
            whole = self._model.cam_sensorsize[camera].copy()
            self._model.cam_sensorsize[camera] = sensor
            renderer.update_scene(data, camera=camera, scene_option=options)
            self._model.cam_sensorsize[camera] = whole
            renderer.scene.flags[shadow] = order.shadows
            picture = convert(_draw(renderer, what, order.miss)).reshape(height, width, -1)
            return (picture if layout == "HWC" else picture.transpose(2, 0, 1)).reshape(shape)

        return Reader(_FORMATS[what].signal, read, derived=True)

    def _sensor(self, name: str, camera: int, height: int, width: int, order: CameraOrder) -> Array:
        """The width and height of what is used of the camera's sensor, in metres; 0 if it has none."""
        wide, high = self._model.cam_sensorsize[camera].tolist()
        aspect = width / height
        if high == 0 or math.isclose(wide / high, aspect, rel_tol=1e-6) or order.fit == "stretch":
            return np.array([wide, high])
        if order.fit is None:
            raise BindError(
                f"{name!r}: the image is {width} x {height}, the camera's sensor {wide:g} x {high:g} m, of another "
                f"aspect; say in the port's metadata 'camera' whether it was fit='crop' or 'stretch'"
            )
        return np.array([min(wide, high * aspect), min(high, wide / aspect)])

    def _renderer(self, name: str, height: int, width: int) -> Any:
        if (height, width) not in self._renderers:
            made = open_renderer(self._model, height, width, repr(name), "give the image with commands={…}")
            finalize(self, made.close)  # before the interpreter takes the graphics library away
            self._renderers[height, width] = made
        return self._renderers[height, width]


def _layout(name: str, what: str, port: Port, order: CameraOrder) -> tuple[str, int, int]:
    """Layout, height and width of a picture, which the shape of the port says."""
    shape, channels = concrete(port.shape, 1), _FORMATS[what].channels
    lead, inner = shape[:-3], shape[-3:]
    axes = {"HWC": 2, "CHW": 0}
    found = [one for one, axis in axes.items() if len(inner) == 3 and inner[axis] == channels]
    if not found or any(length != 1 for length in lead):
        raise BindError(
            f"{name!r}: its shape is {list(port.shape)}; expected [1, height, width, {channels}] or "
            f"[1, {channels}, height, width] ({_FORMATS[what].meaning})"
        )
    if order.layout is not None and order.layout not in found:
        raise BindError(f"{name!r}: its shape is {list(port.shape)}, which is not {order.layout}")
    if order.layout is None and len(found) > 1:
        raise BindError(f"{name!r}: its shape is {list(port.shape)}, {' or '.join(found)}; say which in its metadata")
    layout = order.layout or found[0]
    height, width = inner[:2] if layout == "HWC" else inner[1:]
    return layout, height, width


def _draw(renderer: Any, what: str, miss: float | None) -> Array:
    """A picture as MuJoCo makes it; a depth of nothing becomes `miss`."""
    if what == "rgb":
        renderer.disable_depth_rendering()
        renderer.disable_segmentation_rendering()
        return renderer.render()
    if what == "segmentation":
        renderer.enable_segmentation_rendering()
        return renderer.render()
    renderer.enable_depth_rendering()
    picture = renderer.render()
    if miss is not None:
        renderer.enable_segmentation_rendering()
        picture[renderer.render()[:, :, 0] < 0] = miss
    return picture


def _rgb(name: str, port: Port) -> Callable[[Array], Array]:
    """Whole numbers from 0 to 255, or floats whose limits say whether that is 0 to 1 or 0 to 255."""
    if port.dtype == "uint8":
        return lambda picture: picture
    scales = {Limits(lower=0.0, upper=1.0): 255, Limits(lower=0.0, upper=255.0): 1}
    if not port.dtype.startswith("float") or port.limits not in scales:
        raise BindError(
            f"{name!r}: expected uint8, or floats whose limits are 0 to 1 or 0 to 255, got {port.dtype} with limits "
            f"{port.limits}; nothing else says how bright 1 is"
        )
    scale = np.float32(scales[port.limits])
    return lambda picture: picture.astype(np.float32) / scale


def _depth(name: str, port: Port) -> Callable[[Array], Array]:
    if port.unit != "m" or not port.dtype.startswith("float"):
        raise BindError(f"{name!r}: expected floats in 'm', got {port.dtype} in {port.unit!r}")
    return lambda picture: picture


def _segmentation(name: str, port: Port) -> Callable[[Array], Array]:
    if not port.dtype.startswith("int"):
        raise BindError(f"{name!r}: expected whole numbers that can be -1, got {port.dtype}")
    return lambda picture: picture


_CONVERSIONS = {"rgb": _rgb, "depth": _depth, "segmentation": _segmentation}
