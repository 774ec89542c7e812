"""Proof that a package computes what the environment computed, and how fast it does."""

from ashore.verify.replay import DEFAULT_ATOL, DEFAULT_RTOL, MODES, Mismatch, Report, replay
from ashore.verify.timing import Bare, Latency, Timing, bench, take_turns

__all__ = [
    "DEFAULT_ATOL",
    "DEFAULT_RTOL",
    "MODES",
    "Bare",
    "Latency",
    "Mismatch",
    "Report",
    "Timing",
    "bench",
    "replay",
    "take_turns",
]
