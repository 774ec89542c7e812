"""Torch-free transforms: stages that are computed in numpy."""

from ashore.processors.contract import Apply, Builder, Read
from ashore.processors.registry import PROCESSORS, build

__all__ = ["PROCESSORS", "Apply", "Builder", "Read", "build"]
