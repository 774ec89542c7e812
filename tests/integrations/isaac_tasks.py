"""Isaac Lab's stock tasks on a CPU, without Isaac Sim and without downloads: `ManagerBasedRLEnv` on Newton.

The configurations are those of the registry. `here` changes what this needs: no CUDA graph, robots from the files that
come with Newton, and a ground of our own. A process has room for one environment at a time.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CARTPOLE, ANT = "Isaac-Cartpole-v0", "Isaac-Ant-v0"
OVERRIDES = ("physics=newton_mjwarp", "env.sim.physics.use_cuda_graph=false", "env.scene.clone_in_fabric=false")
CHECKPOINTS = Path(__file__).parent / "checkpoints"
_ROBOTS = {CARTPOLE: "cartpole_single_pendulum.usda", ANT: "ant.usda"}
_NEEDED = ("isaaclab", "isaaclab_newton", "isaaclab_tasks", "isaaclab_rl", "newton", "rsl_rl", "pxr")
_GROUND = """#usda 1.0
(
    defaultPrim = "ground"
    metersPerUnit = 1
    upAxis = "Z"
)
def Xform "ground"
{
    def Plane "plane" (prepend apiSchemas = ["PhysicsCollisionAPI", "MaterialBindingAPI"])
    {
        uniform token axis = "Z"
        rel material:binding:physics = </ground/material>
    }
    def Material "material" (prepend apiSchemas = ["PhysicsMaterialAPI"])
    {
        float physics:dynamicFriction = 1
        float physics:staticFriction = 1
    }
}
"""


def why_not() -> str | None:
    """Why these tasks cannot be opened here, or None."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        return f"Isaac Lab is not installed here: there is no {', '.join(missing)}; see docs/simulators.md"
    lacking = [name for name in _ROBOTS.values() if not _asset(name).is_file()]
    return f"Newton's examples lack {', '.join(lacking)}; install newton[examples]" if lacking else None


def checkpoint(task: str, variant: str) -> Path:
    """A policy that was trained a little, by `train_isaaclab.py`."""
    return CHECKPOINTS / f"{task.split('-')[1].lower()}_{variant}.pt"


def here(task: str, further: Callable[[Any, Any], object] = lambda *_: None) -> Callable[[Any, Any], None]:
    """Changes a stock configuration to what this machine has, and then perhaps further."""

    def change(cfg: Any, agent: Any = None) -> None:
        cfg.scene.robot.spawn.usd_path = str(_robot(task))
        cfg.seed = 0
        if task == CARTPOLE:
            cfg.scene.ground = None
        else:
            cfg.scene.terrain.terrain_type, cfg.scene.terrain.usd_path = "usd", str(_written("ground.usda", _GROUND))
        further(cfg, agent)

    return change


@contextlib.contextmanager
def opened(
    task: str, variant: str | None = None, *, change: Any = None, num_envs: int = 1
) -> Iterator[tuple[Any, Any]]:
    """An environment and its actor, trained or with random weights; it is closed at the end."""
    from ashore.integrations.isaaclab import open_task

    weights = None if variant is None else checkpoint(task, variant)
    env, actor = open_task(
        task, weights, num_envs=num_envs, overrides=OVERRIDES, change=here(task, change or (lambda *_: None))
    )
    try:
        yield env, actor
    finally:
        env.close()


@contextlib.contextmanager
def deployed(task: str, package: Any, *, change: Any = None, **options: Any) -> Iterator[Any]:
    """A package in the scene of a task."""
    from ashore.integrations.isaaclab import open_deployment

    with open_deployment(
        task, package, overrides=OVERRIDES, change=here(task, change or (lambda *_: None)), **options
    ) as deployment:
        yield deployment


def enrich(cfg: Any, agent: Any = None) -> None:
    """Give Ant what no stock task here has: delayed and saturating actuators, a relative action with joints out of
    order, clips, scales, histories, a filter, noise, a command, an IMU and a contact sensor."""
    from isaaclab.actuators import DCMotorCfg, DelayedPDActuatorCfg
    from isaaclab.envs import mdp
    from isaaclab.managers import ObservationTermCfg, SceneEntityCfg
    from isaaclab.sensors import ContactSensorCfg, ImuCfg
    from isaaclab.utils.configclass import configclass
    from isaaclab.utils.modifiers import DigitalFilterCfg
    from isaaclab.utils.noise import NoiseModelWithAdditiveBiasCfg, UniformNoiseCfg

    cfg.scene.robot.actuators = {
        "legs": DelayedPDActuatorCfg(
            joint_names_expr=[".*_leg"], stiffness=20.0, damping=0.5, effort_limit=12.0, min_delay=2, max_delay=2
        ),
        "feet": DCMotorCfg(
            joint_names_expr=[".*_foot"],
            stiffness={"front.*": 15.0, ".*back.*": 16.0},
            damping=0.4,
            effort_limit=10.0,
            saturation_effort=15.0,
            velocity_limit=20.0,
        ),
    }

    @configclass
    class Actions:
        legs = mdp.JointPositionActionCfg(
            asset_name="robot", joint_names=[".*_leg"], scale=0.5, clip={".*": (-0.4, 0.4)}
        )
        feet = mdp.RelativeJointPositionActionCfg(
            asset_name="robot",
            joint_names=["right_back_foot", "front_left_foot", "left_back_foot", "front_right_foot"],
            preserve_order=True,
            scale={".*front.*": 0.1, ".*back.*": 0.2},
        )

    @configclass
    class Commands:
        velocity = mdp.UniformVelocityCommandCfg(
            asset_name="robot",
            resampling_time_range=(0.2, 0.4),
            heading_command=False,
            ranges=mdp.UniformVelocityCommandCfg.Ranges(lin_vel_x=(-1, 1), lin_vel_y=(-1, 1), ang_vel_z=(-1, 1)),
        )

    cfg.actions, cfg.commands = Actions(), Commands()
    cfg.scene.contact = ContactSensorCfg(
        prim_path="{ENV_REGEX_NS}/Robot/.*_foot", history_length=3, track_air_time=True
    )
    cfg.scene.imu = ImuCfg(prim_path="{ENV_REGEX_NS}/Robot/torso")
    uniform = UniformNoiseCfg(n_min=-0.1, n_max=0.1)
    bias = NoiseModelWithAdditiveBiasCfg(noise_cfg=uniform, bias_noise_cfg=uniform)
    policy = cfg.observations.policy
    policy.enable_corruption = True
    policy.command = ObservationTermCfg(
        func=mdp.generated_commands, params={"command_name": "velocity"}, history_length=2
    )
    policy.gravity = ObservationTermCfg(
        func=mdp.projected_gravity, history_length=3, clip=(-0.99, 0.99), scale=(1.0, 2.0, 3.0), noise=bias
    )
    imu = {"asset_cfg": SceneEntityCfg("imu")}
    policy.turning = ObservationTermCfg(
        func=mdp.imu_ang_vel, params=imu, modifiers=[DigitalFilterCfg(A=[-0.5], B=[0.5])], noise=uniform
    )
    policy.pushed = ObservationTermCfg(func=mdp.imu_lin_acc, params=imu)
    policy.feet = ObservationTermCfg(func=feet_forces, scale=0.01)


def feet_forces(env: Any) -> Any:
    """What the feet feel, and for how long: of the sensor as it is, and as it was."""
    import torch

    data = env.scene["contact"].data
    parts = (data.net_forces_w.torch[..., 2], data.net_forces_w_history.torch[:, 1, :, 2], data.current_air_time.torch)
    return torch.cat(parts, dim=-1)


def look(cfg: Any, agent: Any = None) -> None:
    """Give cartpole a camera, whose image is a group of observations."""
    import isaaclab.sim as sim_utils
    from isaaclab.envs import mdp
    from isaaclab.managers import ObservationGroupCfg, ObservationTermCfg, SceneEntityCfg
    from isaaclab.sensors import CameraCfg
    from isaaclab.utils.configclass import configclass
    from isaaclab_newton.renderers import NewtonWarpRendererCfg

    @configclass
    class Seen(ObservationGroupCfg):
        image = ObservationTermCfg(func=mdp.image, params={"sensor_cfg": SceneEntityCfg("camera"), "data_type": "rgb"})

    cfg.scene.camera = CameraCfg(
        prim_path="{ENV_REGEX_NS}/Camera",
        offset=CameraCfg.OffsetCfg(pos=(-7.0, 0.0, 3.0), rot=(0.0, 0.1045, 0.0, 0.9945), convention="world"),
        data_types=["rgb"],
        spawn=sim_utils.PinholeCameraCfg(focal_length=24.0, horizontal_aperture=20.955, clipping_range=(0.1, 20.0)),
        width=24,
        height=16,
        renderer_cfg=NewtonWarpRendererCfg(),
    )
    cfg.observations.seen = Seen()


def _asset(name: str) -> Path:
    found = importlib.util.find_spec("newton")
    return Path(str(found.origin)).parent / "examples" / "assets" / name if found else Path(name)


def _robot(task: str) -> Path:
    """The robot's file; that of the cartpole misspells its default prim."""
    if task == ANT:
        return _asset(_ROBOTS[ANT])
    text = _asset(_ROBOTS[CARTPOLE]).read_text()
    return _written("cartpole.usda", text.replace('defaultPrim = "cartPole"', 'defaultPrim = "cartpole"'))


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="ashore-isaac-")


def _written(name: str, text: str) -> Path:
    path = Path(_folder().name) / name
    path.write_text(text)
    return path
