"""Actions that look at the robot in every substep: relative positions, and inverse kinematics with Warp's Jacobians."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mjlab.envs.mdp.actions import DifferentialIKActionCfg, RelativeJointPositionActionCfg

from ashore.deploy import MjlabDeploymentEnv
from ashore.integrations.comparing import compare_sim
from ashore.integrations.mjlab import FRAMEWORK, task_configs
from ashore.spec import Wiring
from integrations.mjlab_tasks import export, opened, plain

TASK = "Mjlab-Lift-Cube-Yam"
ACTIONS = {
    "relative": RelativeJointPositionActionCfg(entity_name="robot", actuator_names=(".*",), scale=0.1),
    "inverse kinematics": DifferentialIKActionCfg(
        entity_name="robot",
        actuator_names=("joint.*",),
        frame_type="site",
        frame_name="grasp_site",
        delta_pos_scale=0.05,
        delta_ori_scale=0.1,
    ),
}
SUBSTEP_INPUTS = {
    "relative": {"joint_pos"},
    "inverse kinematics": {
        "joint_pos",
        "site_xpos",
        "site_xmat",
        "robot.site.grasp_site.linear",
        "robot.site.grasp_site.angular",
    },
}


@pytest.mark.parametrize("which", ACTIONS)
def test_what_an_action_reads_in_every_substep_is_an_input_there(which: str, tmp_path: Path) -> None:
    def change(cfg: Any, _: Any) -> None:
        cfg.actions = {"action": ACTIONS[which]}

    env, actor = opened(TASK, change=plain(change, episode_steps=20))
    package = export(env, actor, tmp_path / "arm")
    assert set(Wiring(package.manifest).inputs_of("substep")) == SUBSTEP_INPUTS[which]
    cfg, _, _ = task_configs(TASK)
    with MjlabDeploymentEnv(cfg, package) as deployment:
        found = compare_sim(env, actor, deployment, FRAMEWORK, steps=45, atol=1e-5)
    env.close()
    assert found.resets == 2
    assert found.ok, found.first
    assert found.worst["sim.qpos"] < 1e-5
