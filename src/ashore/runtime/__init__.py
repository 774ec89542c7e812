"""Running packages, without PyTorch."""

from ashore.runtime.backend import BACKENDS, Backend, Options, Session, Signature
from ashore.runtime.loading import load
from ashore.runtime.policy import Policy, Snapshot

__all__ = ["BACKENDS", "Backend", "Options", "Policy", "Session", "Signature", "Snapshot", "load"]
