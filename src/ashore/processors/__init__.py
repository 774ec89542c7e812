"""Torch-free transforms of package inputs before the stages, and of outputs after them."""

from ashore.processors.registry import PROCESSORS, Transform, build

__all__ = ["PROCESSORS", "Transform", "build"]
