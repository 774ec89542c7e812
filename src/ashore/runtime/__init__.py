"""Running packages, without PyTorch."""

from ashore.runtime.backend import BACKENDS, Backend, Options, Session, backend_name, default_backend
from ashore.runtime.inference import InferenceManager
from ashore.runtime.loading import BackendChoice, load, open_stages
from ashore.runtime.policy import Policy, Snapshot
from ashore.runtime.whole import whole_backend

__all__ = [
    "BACKENDS",
    "Backend",
    "BackendChoice",
    "InferenceManager",
    "Options",
    "Policy",
    "Session",
    "Snapshot",
    "backend_name",
    "default_backend",
    "load",
    "open_stages",
    "whole_backend",
]
