"""Stages that run other stages several times within a decision: flow matching, diffusion."""

from ashore.runtime.loops.registry import LOOPS, Body, LoopBuilder, Stepped, open_loop

__all__ = ["LOOPS", "Body", "LoopBuilder", "Stepped", "open_loop"]
