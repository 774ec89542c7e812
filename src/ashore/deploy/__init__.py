"""Robots to bind a policy to: the protocol for your own, and MuJoCo. Nothing here needs torch."""

from ashore.deploy.film import Film
from ashore.deploy.mujoco import MujocoRobot
from ashore.deploy.playing import Latency, Play, Range, Tracking, play
from ashore.runtime.binding import bind
from ashore.runtime.bound import Bound
from ashore.runtime.robot import Robot, Setup, Signal

__all__ = [
    "Bound",
    "Film",
    "Latency",
    "MujocoRobot",
    "Play",
    "Range",
    "Robot",
    "Setup",
    "Signal",
    "Tracking",
    "bind",
    "play",
]
