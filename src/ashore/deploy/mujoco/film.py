"""Filming a simulation without a screen."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

from ashore.deploy.mujoco.engine import engine, open_renderer
from ashore.deploy.mujoco.robot import MujocoRobot
from ashore.errors import RobotError

FRAMES_PER_S = 25
_WIDTH, _HEIGHT = 640, 480


class Film:
    """A film of a robot, ``.gif`` or ``.mp4``. Opening it shows that pictures can be made here; closing it writes it.

    Args:
        robot: what to film.
        path: the file to write.
        camera: a camera of the model. Without it, one that follows the floating base, or looks at the whole model.
    """

    def __init__(self, robot: MujocoRobot, path: Path, *, camera: str | None = None) -> None:
        self._robot = robot
        self._writer = _writer(path)
        self._camera = self._find_camera(camera)
        self._next_s = 0.0
        self._renderer: Any = open_renderer(robot.model, *self._size(), str(path), "do without the film")

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
            self._next_s += 1 / FRAMES_PER_S

    def _picture(self) -> Any:
        self._robot.refresh()
        self._renderer.update_scene(self._robot.data, camera=self._camera)
        return self._renderer.render()

    def _size(self) -> tuple[int, int]:
        """Height and width; no larger than the buffer that the model asks for."""
        buffer = self._robot.model.vis.global_
        return min(_HEIGHT, int(buffer.offheight)), min(_WIDTH, int(buffer.offwidth))

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
        return camera


class _Gif:
    """Frames in 256 colours, written all at once."""

    def __init__(self, path: Path) -> None:
        try:
            from PIL import Image
        except ModuleNotFoundError as error:
            raise RobotError(f"{path}: a .gif needs pillow; use pip install 'ashore[mujoco]'") from error
        self._image: Any = Image
        self._path = path
        self._frames: list[Any] = []

    def add(self, picture: Any) -> None:
        self._frames.append(self._image.fromarray(picture).quantize())

    def close(self) -> None:
        if self._frames:
            first, *rest = self._frames
            first.save(self._path, save_all=True, append_images=rest, duration=1000 // FRAMES_PER_S, loop=0)


class _Mp4:
    """Frames that ffmpeg encodes as they come."""

    def __init__(self, path: Path) -> None:
        try:
            import imageio_ffmpeg
        except ModuleNotFoundError as error:
            message = f"{path}: an .mp4 needs imageio-ffmpeg; use pip install 'ashore[video]', or write a .gif"
            raise RobotError(message) from error
        self._open: Any = imageio_ffmpeg.write_frames
        self._path = path
        self._pipe: Any = None

    def add(self, picture: Any) -> None:
        if self._pipe is None:
            height, width, _ = picture.shape
            self._pipe = self._open(str(self._path), (width, height), fps=FRAMES_PER_S, macro_block_size=2)
            self._pipe.send(None)
        self._pipe.send(picture.tobytes())

    def close(self) -> None:
        if self._pipe is not None:
            self._pipe.close()


def _writer(path: Path) -> _Gif | _Mp4:
    if path.suffix not in (".gif", ".mp4"):
        raise RobotError(f"{path}: a film ends in .gif or .mp4")
    if not path.parent.is_dir():
        raise RobotError(f"{path}: there is no folder {path.parent}")
    return _Gif(path) if path.suffix == ".gif" else _Mp4(path)
