"""Pictures of a package for people: its stages, ports, wires and states as one drawing."""

from ashore.view.drawing import Drawing, draw

__all__ = ["Drawing", "draw"]
