"""LeRobot's policies as packages, from the folders that its training writes. Using this imports LeRobot."""

from __future__ import annotations

from ashore.integrations.lerobot.checkpoint import Checkpoint, load_checkpoint
from ashore.integrations.lerobot.exporting import export_lerobot
from ashore.integrations.lerobot.policy import ExportedLeRobotPolicy

__all__ = ["Checkpoint", "ExportedLeRobotPolicy", "export_lerobot", "load_checkpoint"]
