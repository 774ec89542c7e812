"""A package in the making: features that flow through processors, stages and loops. Torch-free."""

from ashore.building.loops import add_loop
from ashore.building.pipeline import Kept, Pipeline, zeros
from ashore.building.specs import ProcessorSpec, apply, touched

__all__ = ["Kept", "Pipeline", "ProcessorSpec", "add_loop", "apply", "touched", "zeros"]
