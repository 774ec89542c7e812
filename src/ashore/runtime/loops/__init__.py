"""Stages that run other stages several times within a decision: flow matching, diffusion."""

from ashore.runtime.loops.body import Body
from ashore.runtime.loops.registry import LOOPS, LoopBuilder, open_loop
from ashore.runtime.loops.stepping import Stepped

__all__ = ["LOOPS", "Body", "LoopBuilder", "Stepped", "open_loop"]
