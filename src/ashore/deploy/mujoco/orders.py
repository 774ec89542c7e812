"""How a port wants its values made, in its metadata: frozen structs, closed to unknown keys."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec
import numpy as np

from ashore.errors import BindError
from ashore.package import Array
from ashore.spec import Port

Group: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=5)]
Vector: TypeAlias = tuple[float, float, float]
_Order = TypeVar("_Order", bound="ScanOrder | CameraOrder")


class ScanOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``metadata["scan"]`` of a height scan: rays that go out from a frame."""

    frame: str
    """A body or a site."""

    frame_type: Literal["body", "site"] | None = None
    """Which of them, where both have that name."""

    offsets: tuple[Vector, ...]
    """Where each ray starts, in the frame, in metres."""

    direction: Vector = (0.0, 0.0, -1.0)
    """Where all rays go, in the frame."""

    alignment: Literal["base", "yaw", "world"] = "base"
    """How offsets and direction turn with the frame: wholly, about the vertical only, or not at all."""

    max_distance: Annotated[float, msgspec.Meta(gt=0)]
    """In metres; what is farther is a miss."""

    miss: float | None = None
    """The value of a miss; None is `max_distance`."""

    geom_groups: tuple[Group, ...] | None = None
    """The groups of geoms that a ray can hit; None is all."""

    exclude: Literal["robot", "body", "none"] = "robot"
    """What a ray passes through: all that hangs together with the frame, the body of the frame only, or nothing."""


class CameraOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``metadata["camera"]`` of an image. All of it may be left out."""

    layout: Literal["HWC", "CHW"] | None = None
    """The order of the last three axes, where the shape leaves it open."""

    fit: Literal["crop", "stretch"] | None = None
    """How a camera whose sensor has another aspect than the image fills it: mjlab cuts, MuJoCo stretches."""

    miss: float | None = None
    """The depth where there is nothing; None is the distance of the far plane, as MuJoCo has it."""

    geom_groups: tuple[Group, ...] = (0, 1, 2)
    """The groups of geoms that are seen."""

    shadows: bool = True


def read_order(signal: str, port: Port, part: str, kind: type[_Order]) -> _Order:
    """What a port asks for.

    Args:
        signal: what it was bound to, for the error.
        port: whose metadata are read.
        part: the key in them.
        kind: what has to stand there.
    """
    try:
        return msgspec.convert(port.metadata.get(part, {}), kind)
    except msgspec.ValidationError as error:
        raise BindError(f"{signal!r}: the port's metadata {part!r}: {error}") from error


def group_flags(groups: tuple[int, ...] | None) -> Array | None:
    """Groups of geoms as MuJoCo takes them; None is all."""
    return None if groups is None else np.array([group in groups for group in range(6)], np.uint8)
