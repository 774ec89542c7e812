"""Contacts: forces that hold a weight, and the contact sensors of mjlab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import rigs

import ashore
from ashore.deploy import Bound, MujocoRobot
from ashore.errors import BindError
from ashore.spec import Port

BLOCKS = """
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1"/>
    <body name="low" pos="0 0 0.1">
      <freejoint/><geom name="low" type="box" size="0.1 0.1 0.1" mass="3"/>
      <site name="sole" type="box" size="0.2 0.2 0.2"/>
    </body>
    <body name="high" pos="0 0 0.3">
      <freejoint/><geom name="high" type="box" size="0.1 0.1 0.1" mass="1"/>
    </body>
    <body name="aloft" pos="2 0 3"><freejoint/><geom name="aloft" size="0.1"/><site name="air" size="0.2"/></body>
  </worldbody>
  <sensor>
    <touch name="low_touch" site="sole"/><touch name="air_touch" site="air"/>
    <contact name="ground_low_found" geom1="low" geom2="floor" data="found" reduce="netforce"/>
    <contact name="ground_low_force" geom1="low" geom2="floor" data="force" reduce="netforce"/>
    <contact name="ground_aloft_found" geom1="aloft" geom2="floor" data="found" reduce="netforce"/>
    <contact name="ground_aloft_force" geom1="aloft" geom2="floor" data="force" reduce="netforce"/>
    <contact name="lone" geom1="low" data="force"/>
    <contact name="many_low_force" geom1="low" data="force" num="3"/>
  </sensor>
</mujoco>
"""
WEIGHT = 9.81
XYZ = ("x", "y", "z")


def settled() -> MujocoRobot:
    robot = MujocoRobot(mujoco.MjModel.from_xml_string(BLOCKS))
    for _ in range(400):
        mujoco.mj_step(robot.model, robot.data)
    robot.data.qpos[14:17], robot.data.qvel[12:] = (2, 0, 3), 0
    return robot


def test_forces_on_bodies_hold_their_weights() -> None:
    robot = settled()
    read = robot.read(["body_contact_force", "touch", "ground.found", "ground.force"])
    low, high, aloft = read["body_contact_force"]
    assert high == pytest.approx([0, 0, WEIGHT], abs=1e-2)
    assert low == pytest.approx([0, 0, 3 * WEIGHT], abs=1e-2), "what holds it, less what lies on it"
    assert aloft.tolist() == [0, 0, 0]
    assert read["touch"] == pytest.approx([5 * WEIGHT, 0], abs=1e-2), "all of it together, on both sides"
    assert (read["ground.found"] > 0).tolist() == [True, False]
    assert np.abs(read["ground.force"][0]) == pytest.approx([0, 0, 4 * WEIGHT], abs=1e-2)


def test_contact_sensors_are_put_together_as_mjlab_names_them() -> None:
    reads = settled().reads
    assert reads["touch"].names == ("low_touch", "air_touch")
    assert reads["ground.found"].names == reads["ground.force"].rows == ("low", "aloft")
    assert reads["ground.force"].frame == "world"
    contacts = [name for name, signal in reads.items() if signal.kind == "state/contact"]
    assert sorted(contacts) == ["body_contact_force", "ground.force", "ground.found", "touch"]


def bind(path: Path, port: Port) -> Bound:
    return ashore.load(rigs.watcher(path, {"contact": port})).bind(settled())


def test_ports_find_contacts_by_units_and_names(tmp_path: Path) -> None:
    def force(*names: str, **more: Any) -> Port:
        shape, element_names = (1, len(names), 3), (None, names, XYZ)
        return Port(dtype="float32", shape=shape, kind="state/contact", unit="N", element_names=element_names, **more)

    found = rigs.port("state/contact", "1", ("aloft", "low"))
    assert bind(tmp_path / "a", found).signals["contact"] == "ground.found"
    assert bind(tmp_path / "b", rigs.port("state/contact", "N", ("low_touch",))).signals["contact"] == "touch"
    assert bind(tmp_path / "c", force("high", "low")).signals["contact"] == "body_contact_force"
    named = force("low", "aloft", connection="state:ground:force")
    assert bind(tmp_path / "d", named).signals["contact"] == "ground.force"
    with pytest.raises(BindError, match="'ground.force', 'body_contact_force' all fit; choose one"):
        bind(tmp_path / "e", force("low", "aloft"))
    with pytest.raises(BindError, match=r"'low_tuch' is not on the robot; expected \['low_tuch'\]"):
        bind(tmp_path / "f", rigs.port("state/contact", "N", ("low_tuch",)))
