"""Running packages, without PyTorch."""

from ashore.runtime.backend import BACKENDS, Backend, Options, Session
from ashore.runtime.loading import BackendChoice, load, open_stages
from ashore.runtime.policy import Policy, Snapshot

__all__ = ["BACKENDS", "Backend", "BackendChoice", "Options", "Policy", "Session", "Snapshot", "load", "open_stages"]
