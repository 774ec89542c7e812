"""Recording what running code does, and making packages of it."""

from ashore.capture.annotate import annotate, compile_graph, start, stop
from ashore.capture.findings import KINDS, Finding
from ashore.capture.record import Recorder, record
from ashore.capture.semantics import GraphConfigs, InputKindEnum, OutputKindEnum, TemporalAxis, TensorSemantics

__all__ = [
    "KINDS",
    "Finding",
    "GraphConfigs",
    "InputKindEnum",
    "OutputKindEnum",
    "Recorder",
    "TemporalAxis",
    "TensorSemantics",
    "annotate",
    "compile_graph",
    "record",
    "start",
    "stop",
]
