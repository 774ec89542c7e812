"""LEAPP directories: a YAML file, one model file per node, and the initial values of what is fed back.

Nothing here imports the ``leapp`` package, and nothing imports torch: a LEAPP directory is described by its YAML file,
and the model files are carried over byte for byte.
"""

from ashore.interop.leapp.reading import from_leapp
from ashore.interop.leapp.writing import Written, to_leapp

__all__ = ["Written", "from_leapp", "to_leapp"]
