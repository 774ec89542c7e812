"""Filming a simulation without a screen."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ashore.deploy.mujoco.engine import engine, open_renderer
from ashore.deploy.mujoco.robot import MujocoRobot
from ashore.errors import RobotError

FRAMES_PER_S = 25
SIZE = (640, 480)
_SHADOW_MAP = 2048
"""Shadows are drawn on at most this many pixels squared. Models ask for more, and without a GPU they then take most of
the time of a film."""


class Film:
    """A film of a robot, ``.gif`` or ``.mp4``. Opening it shows that pictures can be made here; closing it writes it.

    Args:
        robot: what to film.
        path: the file to write.
        camera: a camera of the model. Without it, one that follows the floating base, or looks at the whole model.
        size: width and height in pixels.
        frames_per_s: at most 50; a picture lasts a whole number of hundredths of a second.
    """

    def __init__(
        self,
        robot: MujocoRobot,
        path: Path,
        *,
        camera: str | None = None,
        size: tuple[int, int] = SIZE,
        frames_per_s: int = FRAMES_PER_S,
    ) -> None:
        if not 1 <= frames_per_s <= 50:
            raise RobotError(f"{path}: a film has 1 to 50 pictures a second, not {frames_per_s}")
        if min(size) < 16 or any(pixels % 2 for pixels in size):
            raise RobotError(f"{path}: width and height of a film are even, and at least 16, not {size[0]}x{size[1]}")
        self._robot = robot
        self._period_s = round(100 / frames_per_s) / 100
        self._writer = _writer(path, self._period_s)
        self._camera = self._find_camera(camera)
        self._next_s = 0.0
        self._renderer = self._open_renderer(size, path)

    def __enter__(self) -> Film:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._writer.close()
        finally:
            self._renderer.close()

    def look(self) -> None:
        """Take a picture if one is due; call it after every tick."""
        if self._robot.time_s >= self._next_s - 1e-9:
            self._writer.add(self._picture())
            self._next_s += self._period_s

    def _picture(self) -> Any:
        self._robot.refresh()
        self._renderer.update_scene(self._robot.data, camera=self._camera)
        self._renderer.scene.flags[engine().mjtRndFlag.mjRND_REFLECTION] = False
        return self._renderer.render()

    def _open_renderer(self, size: tuple[int, int], path: Path) -> Any:
        model = self._robot.model
        quality, wanted = model.vis.quality, int(model.vis.quality.shadowsize)
        quality.shadowsize = min(wanted, _SHADOW_MAP)
        try:
            return open_renderer(model, size[1], size[0], str(path), "do without the film")
        finally:
            quality.shadowsize = wanted  # cameras that a policy sees through are drawn as the model says

    def _find_camera(self, name: str | None) -> Any:
        mujoco, model = engine(), self._robot.model
        if name is not None:
            cameras = self._robot.names.all("camera")
            if name not in cameras:
                raise RobotError(f"the model has no camera {name!r}; there are {[*cameras]}")
            return cameras[name]
        camera = mujoco.MjvCamera()
        mujoco.mjv_defaultFreeCamera(model, camera)
        if self._robot.base is not None:
            camera.type = mujoco.mjtCamera.mjCAMERA_TRACKING
            camera.trackbodyid = self._robot.base.body
            camera.distance, camera.elevation, camera.azimuth = 3.0 * self._radius(self._robot.base.body), -30.0, 130.0
        return camera

    def _radius(self, body: int) -> float:
        """How far the geometry of a robot reaches from one of its bodies, in metres."""
        model, data = self._robot.model, self._robot.data
        self._robot.refresh()
        own = model.body_rootid[model.geom_bodyid] == model.body_rootid[body]
        reach = np.linalg.norm(data.geom_xpos[own] - data.xpos[body], axis=1) + model.geom_rbound[own]
        return float(reach.max(initial=0.1))


class _Gif:
    """Frames in 256 colours, written all at once."""

    def __init__(self, path: Path, period_s: float) -> None:
        try:
            from PIL import Image
        except ModuleNotFoundError as error:
            raise RobotError(f"{path}: a .gif needs pillow; use pip install 'ashore[mujoco]'") from error
        self._image: Any = Image
        self._path, self._period_s = path, period_s
        self._frames: list[Any] = []

    def add(self, picture: Any) -> None:
        self._frames.append(self._image.fromarray(picture).quantize())

    def close(self) -> None:
        if self._frames:
            first, *rest = self._frames
            first.save(self._path, save_all=True, append_images=rest, duration=round(1000 * self._period_s), loop=0)


class _Mp4:
    """Frames that ffmpeg encodes as they come."""

    def __init__(self, path: Path, period_s: float) -> None:
        try:
            import imageio_ffmpeg
        except ModuleNotFoundError as error:
            message = f"{path}: an .mp4 needs imageio-ffmpeg; use pip install 'ashore[video]', or write a .gif"
            raise RobotError(message) from error
        self._open: Any = imageio_ffmpeg.write_frames
        self._path, self._period_s = path, period_s
        self._pipe: Any = None

    def add(self, picture: Any) -> None:
        if self._pipe is None:
            height, width, _ = picture.shape
            self._pipe = self._open(str(self._path), (width, height), fps=1 / self._period_s, macro_block_size=2)
            self._pipe.send(None)
        self._pipe.send(picture.tobytes())

    def close(self) -> None:
        if self._pipe is not None:
            self._pipe.close()


def _writer(path: Path, period_s: float) -> _Gif | _Mp4:
    if path.suffix not in (".gif", ".mp4"):
        raise RobotError(f"{path}: a film ends in .gif or .mp4")
    if not path.parent.is_dir():
        raise RobotError(f"{path}: there is no folder {path.parent}")
    return (_Gif if path.suffix == ".gif" else _Mp4)(path, period_s)
