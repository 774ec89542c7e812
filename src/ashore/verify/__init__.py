"""Proof that a package computes what the environment computed, and how fast it does."""

from ashore.runtime.ranges import Alarm, Ranges, RangeWatch
from ashore.verify.changes import Change, changes
from ashore.verify.comparing import ArrayChange, Difference, OutputChange, compare
from ashore.verify.drift import Drift, drifts
from ashore.verify.evidence import check_evidence
from ashore.verify.examination import BackendReport, Examination, examine
from ashore.verify.fuzz import Compared
from ashore.verify.pace import Pace
from ashore.verify.problems import Problem
from ashore.verify.replay import DEFAULT_ATOL, DEFAULT_RTOL, MODES, Mismatch, Report, Trace, replay
from ashore.verify.sensitivity import Sensitivity
from ashore.verify.timing import Bare, Latency, Timing, bench, take_turns

__all__ = [
    "DEFAULT_ATOL",
    "DEFAULT_RTOL",
    "MODES",
    "Alarm",
    "ArrayChange",
    "BackendReport",
    "Bare",
    "Change",
    "Compared",
    "Difference",
    "Drift",
    "Examination",
    "Latency",
    "Mismatch",
    "OutputChange",
    "Pace",
    "Problem",
    "RangeWatch",
    "Ranges",
    "Report",
    "Sensitivity",
    "Timing",
    "Trace",
    "bench",
    "changes",
    "check_evidence",
    "compare",
    "drifts",
    "examine",
    "replay",
    "take_turns",
]
