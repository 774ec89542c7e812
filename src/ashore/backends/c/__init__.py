"""Packages as C: a policy without a runtime, for a controller in C++ or a processor without an operating system."""

from ashore.backends.c.generating import TARGETS, Source, generate

__all__ = ["TARGETS", "Source", "generate"]
