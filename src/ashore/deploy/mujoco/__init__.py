"""Robots that MuJoCo simulates: what a model offers, how it is driven, played and filmed. Nothing here needs torch."""

from __future__ import annotations

from ashore.deploy.mujoco.film import Film
from ashore.deploy.mujoco.playing import Latency, Play, Range, Tracking, play
from ashore.deploy.mujoco.robot import MujocoRobot

__all__ = ["Film", "Latency", "MujocoRobot", "Play", "Range", "Tracking", "play"]
