"""Stages that run other stages several times within a decision: flow matching, diffusion."""

from ashore.runtime.loops.body import Body
from ashore.runtime.loops.registry import LOOPS, Feeds, LoopBuilder, feeds, find_loop, open_loop
from ashore.runtime.loops.stepping import Stepped

__all__ = ["LOOPS", "Body", "Feeds", "LoopBuilder", "Stepped", "feeds", "find_loop", "open_loop"]
