"""The statistics of such a directory: float32, finite, and there."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ashore.errors import PackageError
from ashore.interop.folders import read_inside
from ashore.package import Array, load_arrays
from ashore.processors.normalize import STATISTICS
from ashore.spec import path_problem

MAX_STATISTICS_BYTES = 64 << 20
"""Statistics of a feature are as long as the feature; a whole image for each of them would be a mistake."""

EPS = 1e-8
"""What the runtime of that format adds to a standard deviation, and takes for an empty range."""


class Statistics:
    """A file of statistics, read and checked."""

    def __init__(self, folder: Path, path: str, where: str) -> None:
        if problem := path_problem(path):
            raise PackageError(f"{where}.artifact: {path!r}: {problem}")
        self.path = path
        self.data = read_inside(folder, path, where, MAX_STATISTICS_BYTES + 1)
        if len(self.data) > MAX_STATISTICS_BYTES:
            raise PackageError(f"{where}: {path!r} is longer than {MAX_STATISTICS_BYTES} bytes")
        self._arrays = load_arrays(self.data, f"{where}: {path}")
        for name, array in self._arrays.items():
            if array.dtype != np.float32:
                raise PackageError(f"{where}: {path}: {name!r} is {array.dtype}; expected float32")
            if not np.isfinite(array).all():
                raise PackageError(f"{where}: {path}: {name!r} holds NaN or an infinity")

    def pair(self, feature: str, mode: str, where: str) -> tuple[Array, Array]:
        """The two statistics that a mode uses."""
        names = [f"{feature}/{name}" for name in STATISTICS[mode]]
        for name in names:
            if name not in self._arrays:
                raise PackageError(f"{where}: {self.path} holds no {name!r}, but {sorted(self._arrays)}")
        first, second = (self._arrays[name] for name in names)
        if first.shape != second.shape:
            raise PackageError(
                f"{where}: {self.path}: {names[0]!r} has the shape {list(first.shape)}, and {names[1]!r} has "
                f"{list(second.shape)}; expected the same"
            )
        return first, second


def changes_nothing(first: Array, second: Array, mode: str, eps: float) -> bool:
    """Whether scaling by two statistics gives what it gets, as it does where training scaled nothing."""
    with np.errstate(all="ignore"):
        if mode == "mean_std":
            return bool((first == 0).all() and (second + np.float32(eps) == 1).all())
        return bool((first == -1).all() and (second - first == 2).all())
