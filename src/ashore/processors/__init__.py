"""Torch-free transforms: stages that are computed in numpy."""

from ashore.processors.registry import PROCESSORS, Apply, build

__all__ = ["PROCESSORS", "Apply", "build"]
