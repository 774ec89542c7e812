"""mjlab: where it keeps things, and how one of its tasks becomes a package."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from ashore.capture.findings import Finding
from ashore.errors import InputError, suggestion
from ashore.integrations.buffers import Delay, History, is_constant
from ashore.integrations.framework import Framework, Write, fix_terrain, joint_writes
from ashore.integrations.semantics import Meaning, describe
from ashore.integrations.vocabulary import XYZ, describe_all, entity_properties
from ashore.package import Array, Package
from ashore.spec import Joint, JointLimits
from ashore.spec.manifest import Source

if TYPE_CHECKING:
    from ashore.deploy.mjlab import MjlabDeploymentEnv
    from ashore.integrations.rsl_rl import RslRlActor

_WXYZ = ("w", "x", "y", "z")
_ACTUATORS = {
    "BuiltinPositionActuator": "implicit",
    "BuiltinPdActuator": "implicit",
    "BuiltinVelocityActuator": "implicit",
    "BuiltinMotorActuator": "motor",
    "BuiltinDcMotorActuator": "dc_motor",
    "BuiltinMuscleActuator": "muscle",
    "IdealPdActuator": "ideal_pd",
    "DcMotorActuator": "dc_motor",
    "LearnedMlpActuator": "learned",
    "XmlActuator": "xml",
}


def open_task(
    task: str,
    checkpoint: Path | None = None,
    *,
    num_envs: int = 1,
    device: str = "cpu",
    motion: Path | None = None,
    change: Callable[[Any, Any], object] = lambda *_: None,
    trust: bool = False,
) -> tuple[Any, RslRlActor]:
    """The environment of a registered task, in its play configuration, and its actor.

    Args:
        task: its name in mjlab's registry.
        checkpoint: the weights; without it they are as a new runner makes them.
        num_envs: how many environments.
        device: of torch.
        motion: the file with the motion, for tasks that follow one.
        change: may change the configurations of environment and agent before they are used.
        trust: whether the checkpoint may run code while it is read.
    """
    from ashore.integrations.rsl_rl import RslRlActor, fit_settings, load_policy, read_checkpoint

    env_config, agent, runner_class = task_configs(task)
    env_config.scene.num_envs = num_envs
    _follow(task, env_config, motion)
    change(env_config, agent)
    settings = dataclasses.asdict(agent)
    loaded = dict[str, Any]() if checkpoint is None else read_checkpoint(checkpoint, trust=trust)
    if checkpoint is not None:
        fit_settings(settings, loaded, checkpoint)
    from mjlab.envs import ManagerBasedRlEnv
    from mjlab.rl import MjlabOnPolicyRunner, RslRlVecEnvWrapper

    env = ManagerBasedRlEnv(env_config, device=device)
    try:
        wrapped = RslRlVecEnvWrapper(env, clip_actions=agent.clip_actions)
        runner = (runner_class or MjlabOnPolicyRunner)(wrapped, settings, device=device)
        if checkpoint is None:
            policy = runner.get_inference_policy(device=device)
        else:
            policy = load_policy(runner, checkpoint, loaded, device=device)
    except BaseException:
        env.close()
        raise
    return env, RslRlActor(policy, agent.clip_actions)


def open_deployment(
    task: str,
    package: Package | str | os.PathLike[str],
    *,
    num_envs: int = 1,
    device: str = "cpu",
    motion: Path | None = None,
    change: Callable[[Any, Any], object] = lambda *_: None,
    backend: str | None = None,
    commands: bool = False,
) -> MjlabDeploymentEnv:
    """A package in the scene of a registered task.

    Args:
        task: its name in mjlab's registry.
        package: the package.
        num_envs: how many robots.
        device: of torch.
        motion: the file with the motion, where the task's commands follow one.
        change: may change the configurations, as for `open_task`.
        backend: what runs the stages.
        commands: whether the task's own command terms give the commands.
    """
    from ashore.deploy.mjlab import MjlabDeploymentEnv

    cfg, agent, _ = task_configs(task)
    if commands:
        _follow(task, cfg, motion)
    change(cfg, agent)
    return MjlabDeploymentEnv(cfg, package, num_envs=num_envs, device=device, backend=backend, commands=commands)


def without_randomness(cfg: Any, _: Any = None) -> None:
    """Switch off in a configuration what makes one robot or its ground another: pushes, and what events change."""
    cfg.events = {
        name: event
        for name, event in cfg.events.items()
        if event.mode == "reset" and not hasattr(event.func, "model_fields")  # how mjlab marks such an event
    }
    for group in cfg.observations.values():
        group.enable_corruption = False
    fix_terrain(cfg)


def check_model_place(path: Path) -> None:
    """Refuse a place where `write_model` could not write, before anything is exported."""
    if path.suffix != ".mjb":
        raise InputError(f"{path}: expected a name that ends in .mjb")
    if path.is_dir():
        raise InputError(f"{path}: expected a file to write the model into, and this is a folder")


def write_model(env: Any, path: Path) -> None:
    """Write the scene of an environment as a MuJoCo model, with the options of its simulation, into an .mjb file."""
    check_model_place(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    _mujoco().mj_saveModel(env.sim.mj_model, str(scratch), None)
    if not scratch.is_file():  # MuJoCo only warns
        raise InputError(f"{path}: MuJoCo could not write the model there")
    scratch.replace(path)


def log_root(task: str) -> Path:
    """Where mjlab's training leaves the runs of a task."""
    return Path("logs") / "rsl_rl" / str(task_configs(task)[1].experiment_name)


def _follow(task: str, cfg: Any, motion: Path | None) -> None:
    """Say which motion a task follows, if it follows one."""
    for command in cfg.commands.values():
        if hasattr(command, "motion_file"):
            if motion is None:
                raise InputError(f"{task} follows a motion; say which file has it, with motion (--motion-file)")
            if not motion.is_file():
                raise InputError(f"{motion}: there is no such motion file")
            command.motion_file = str(motion)


def task_configs(task: str) -> tuple[Any, Any, type | None]:
    """The configurations of a registered task, for playing: of the environment, the agent and the runner."""
    try:
        import mjlab.tasks  # noqa: F401 - registers them
        from mjlab.tasks.registry import list_tasks, load_env_cfg, load_rl_cfg, load_runner_cls
    except ModuleNotFoundError as error:
        raise InputError(f"mjlab tasks need {error.name}; use pip install mjlab") from error
    if task not in list_tasks():
        raise InputError(f"mjlab has no task {task!r}{suggestion(task, list_tasks(), f'; there are {list_tasks()}')}")
    return load_env_cfg(task, play=True), load_rl_cfg(task), load_runner_cls(task)


class Mjlab(Framework):
    """Where mjlab keeps things."""

    name: ClassVar[str] = "mjlab"
    quaternion: ClassVar[tuple[str, ...]] = _WXYZ
    writes: ClassVar[Mapping[str, Write]] = {
        **joint_writes(),
        **{
            f"set_{what}_{part}_target": Write(
                f"custom/{what}/{name}", {}, f"{what}_names", f"{what}_{part}_target", (name,), (f"{what}_ids",)
            )
            for what, part, name in (
                ("tendon", "len", "length"),
                ("tendon", "vel", "velocity"),
                ("tendon", "effort", "effort"),
                ("site", "effort", "effort"),
            )
        },
    }

    def entities(self, env: Any) -> Mapping[str, Any]:
        """Everything in the scene but the terrain."""
        return {name: entity for name, entity in env.scene.entities.items() if name != "terrain"}

    def sensors(self, env: Any) -> Mapping[str, Any]:
        """The sensors of the scene, with those that the models themselves have."""
        return env.scene.sensors

    def joint_types(self, env: Any, entity: Any) -> Mapping[str, str]:
        """From the MuJoCo model; slides are prismatic."""
        types = env.sim.mj_model.jnt_type[entity.indexing.joint_ids.cpu().numpy()]
        return {
            name: "prismatic" if kind == 2 else "revolute" for name, kind in zip(entity.joint_names, types, strict=True)
        }

    def target_scale(self, env: Any, entity: Any, method: str, names: Sequence[str]) -> Sequence[float] | None:
        """Efforts are controls of MuJoCo, which a gear may make more of."""
        from ashore.deploy.mjlab import target_scale

        return target_scale(env.sim.mj_model, entity, method, names)

    def physics_dt(self, env: Any) -> float:
        """The time step of MuJoCo."""
        return float(env.physics_dt)

    def arrays(self, env: Any) -> Mapping[str, torch.Tensor]:
        """The arrays of MuJoCo that terms may read by themselves."""
        names = ("qpos", "qvel", "qacc", "ctrl", "xpos", "xquat", "cvel", "sensordata", "site_xpos", "site_xmat")
        return {name: getattr(env.sim.data, name)[:] for name in names if getattr(env.sim.wp_data, name).size}

    def meaning(self, env: Any, thing: Any, name: str) -> Meaning | None:
        """Sensors of MuJoCo mean what their type says; so do its arrays."""
        model = env.sim.mj_model
        if thing is env:
            return _array(model, name)
        label = next((label for label, sensor in self.sensors(env).items() if sensor is thing), None)
        names = [str(model.sensor(index).name) for index in range(model.nsensor)]
        if label not in names or name != "data":
            return None
        index = names.index(label)
        kind = _mujoco().mjtSensor(int(model.sensor_type[index])).name.removeprefix("mjSENS_")
        return _BUILTIN.get(kind) if model.sensor_refid[index] < 0 else None

    def metadata(self, thing: Any) -> Mapping[str, Any]:
        """How cameras see, and where rays start, as `ashore.deploy.MujocoRobot` understands it."""
        cfg: Any = getattr(thing, "cfg", None)
        kinds = {one.__name__ for one in type(thing).__mro__}
        if "CameraSensor" in kinds:
            groups = list(cfg.enabled_geom_groups)
            return {"camera": {"fit": "crop", "miss": 0, "geom_groups": groups, "shadows": bool(cfg.use_shadows)}}
        if "RayCastSensor" not in kinds or isinstance(cfg.frame, tuple):
            return {}
        directions = thing._local_directions.cpu().tolist()
        if any(one != directions[0] for one in directions):
            return {}
        scan = {
            "frame": cfg.frame.name,
            "frame_type": cfg.frame.type,
            "offsets": thing._local_offsets.cpu().tolist(),
            "direction": directions[0],
            "alignment": cfg.ray_alignment,
            "max_distance": float(cfg.max_distance),
            "miss": -1,
            "exclude": "body" if cfg.exclude_parent_body else "none",
        }
        groups = cfg.include_geom_groups
        return {"scan": scan if groups is None else {**scan, "geom_groups": list(groups)}}

    def computed(self, env: Any) -> Iterable[tuple[str, Any, Callable[[], torch.Tensor], Meaning]]:
        """The Jacobians that inverse kinematics asks Warp for."""
        for term in env.action_manager._terms.values():
            if not hasattr(term, "_jacp_torch"):
                continue
            cfg = term.cfg
            for part, name, unit in (("linear", "_jacp_torch", "m"), ("angular", "_jacr_torch", "rad")):
                connection = f"jacobian:{cfg.entity_name}/{cfg.frame_type}/{cfg.frame_name}:{part}"
                meaning = Meaning(
                    kind=f"custom/jacobian/{part}",
                    frame="world",
                    source="estimator",
                    description=f"of the {cfg.frame_type} {cfg.frame_name}, for each degree of freedom; in {unit}",
                )
                yield connection, term, _jacobian(term, name), meaning

    def prepare(self, env: Any) -> Iterable[Finding]:
        """Noise off, encoders without bias, stand-ins for histories and delays."""
        super().prepare(env)
        findings: list[Finding] = []
        for name, entity in self.entities(env).items():
            if bool(entity.data.encoder_bias.any()):
                message = (
                    f"the encoders of {name!r} are biased in the simulation; the package reads and writes encoders"
                )
                findings.append(Finding("encoder_bias", message, tensor=f"{name}.data.encoder_bias"))
            entity.data.encoder_bias.zero_()
        manager = env.observation_manager
        for group, buffers in manager._group_obs_term_delay_buffer.items():
            for term, buffer in buffers.items():
                if isinstance(buffer, Delay):
                    continue
                if is_constant(buffer):
                    buffers[term] = Delay(buffer, f"observation {group}/{term}")
                    continue
                message = (
                    f"observation {group}/{term} is delayed by {buffer.min_lag} to {buffer.max_lag} steps, at random"
                )
                findings.append(Finding("random_delay", message, tensor=f"{group}/{term}"))
        for group, buffers in manager._group_obs_term_history_buffer.items():
            for term, buffer in buffers.items():
                if not isinstance(buffer, History):
                    buffers[term] = History(buffer, f"observation {group}/{term}")
        return findings

    def histories(self, env: Any, groups: Sequence[str]) -> Mapping[str, History]:
        """Histories and delays of observation terms."""
        manager = env.observation_manager
        kinds = {"delay": manager._group_obs_term_delay_buffer, "history": manager._group_obs_term_history_buffer}
        return {
            f"{group}.{term}.{what}": buffer
            for what, buffers in kinds.items()
            for group in groups
            for term, buffer in buffers[group].items()
            if isinstance(buffer, History)
        }

    def state(self, env: Any) -> Mapping[str, Array]:
        """Positions and velocities of MuJoCo."""
        return {name: getattr(env.sim.wp_data, name).numpy().copy() for name in ("qpos", "qvel")}

    def snapshot(self, env: Any) -> Mapping[str, Array]:
        """Everything that MuJoCo integrates."""
        names = ("time", "qpos", "qvel", "act", "ctrl", "qacc_warmstart", "mocap_pos", "mocap_quat")
        arrays = {name: getattr(env.sim.wp_data, name) for name in names}
        return {name: array.numpy().copy() for name, array in arrays.items() if array.size}

    def put(self, deployment: Any, snapshot: Mapping[str, Array]) -> None:
        """Write it into MuJoCo."""
        for name, value in snapshot.items():
            getattr(deployment.sim.wp_data, name).assign(value)
        deployment.scene.reset(None)
        deployment.sense()

    def joints(self, env: Any, entity: Any) -> tuple[list[Joint], list[Finding]]:
        """Gains as the actuators were made, before anything was randomised."""
        data, model = entity.data, env.sim.mj_model
        types, gains = self.joint_types(env, entity), dict[str, dict[str, Any]]()
        findings: list[Finding] = []
        for actuator in entity.actuators:
            kind = next(
                (_ACTUATORS[one.__name__] for one in type(actuator).__mro__ if one.__name__ in _ACTUATORS), None
            )
            if actuator.transmission_type.value != "joint":
                continue
            for place, name in enumerate(actuator.target_names):
                gains[name] = {"actuator": kind or type(actuator).__name__, **_gains(actuator, place, model)}
            if actuator.has_delay:
                lags = f"{actuator.cfg.delay_min_lag} to {actuator.cfg.delay_max_lag} physics steps"
                message = f"the actuators of {', '.join(actuator.target_names)} act {lags} late"
                findings.append(Finding("actuator_delay", message))
        made: list[Joint] = []
        for place, name in enumerate(entity.joint_names):
            lower, upper = data.default_joint_pos_limits[0, place].tolist()
            limited = lower > float("-inf") and upper < float("inf")
            made.append(
                Joint(
                    name=name,
                    type="prismatic" if types[name] == "prismatic" else "revolute",
                    default_position=float(data.default_joint_pos[0, place]),
                    position_limits=JointLimits(lower=lower, upper=upper) if limited else None,
                    **gains.get(name, {}),
                )
            )
        return made, findings


def _array(model: Any, name: str) -> Meaning | None:
    """What an array of MuJoCo means that a term reads by itself."""
    what, found = ("site", name.removeprefix("site_")) if name.startswith("site_") else ("body", name)
    kinds = {"xpos": ("state/body/position", "m", XYZ), "xquat": ("state/body/rotation", "1", _WXYZ)}
    if found not in kinds:
        return None
    kind, unit, names = kinds[found]
    rows = [str(getattr(model, what)(index).name) for index in range(getattr(model, f"n{what}"))]
    return Meaning(kind=kind, unit=unit, frame="world", source="estimator", names=(rows, names))


def _jacobian(term: Any, name: str) -> Callable[[], torch.Tensor]:
    def get() -> torch.Tensor:
        term._point_torch[:] = term._get_frame_pose()[0]
        term._compute_jacobian()
        return getattr(term, name)

    return get


def _mujoco() -> Any:
    import mujoco

    return mujoco


def _gains(actuator: Any, place: int, model: Any) -> dict[str, Any]:
    """Stiffness, damping and limits of one target of an actuator."""
    explicit = getattr(actuator, "default_stiffness", None)
    found: dict[str, Any] = {}
    if explicit is not None:
        found = {"kp": float(explicit[0, place]), "kd": float(actuator.default_damping[0, place])}
        effort = float(actuator.cfg.effort_limit)
    else:
        names, effort = actuator.target_names, float("inf")
        own = [one for one in actuator.global_ctrl_ids.tolist() if _drives(model, one, names[place])]
        bias = model.actuator_biasprm[own].sum(axis=0)
        if actuator_is_servo(model, own):
            found = {"kp": 0.0 - float(bias[1]), "kd": 0.0 - float(bias[2])}  # and no -0
        for one in own:
            gear = abs(float(model.actuator_gear[one, 0]))
            if model.actuator_forcelimited[one]:
                effort = min(effort, gear * float(model.actuator_forcerange[one, 1]))
            if model.actuator_ctrllimited[one] and model.actuator_biastype[one] == 0:  # a motor takes no more
                gain = abs(float(model.actuator_gainprm[one, 0]))
                effort = min(effort, gear * gain * float(model.actuator_ctrlrange[one, 1]))
            joint = int(model.actuator_trnid[one, 0])
            if model.jnt_actfrclimited[joint]:
                effort = min(effort, float(model.jnt_actfrcrange[joint, 1]))
    if effort < float("inf"):
        found["effort_limit"] = effort
    speed = getattr(actuator.cfg, "velocity_limit", None)
    return {**found, **({} if speed is None else {"velocity_limit": float(speed)})}


def actuator_is_servo(model: Any, actuators: list[int]) -> bool:
    """Whether actuators close a loop in MuJoCo, over position or velocity."""
    return any(model.actuator_biastype[one] == 1 for one in actuators)


def _drives(model: Any, actuator: int, name: str) -> bool:
    joint = str(model.joint(int(model.actuator_trnid[actuator, 0])).name)
    return joint.rpartition("/")[2] == name.rpartition("/")[2]


def _sensor(kind: str, unit: str, source: Source, names: tuple[str, ...] = XYZ, frame: str | None = None) -> Meaning:
    return Meaning(kind=kind, unit=unit, names=(names,), source=source, frame=frame)


_BUILTIN = {
    "GYRO": _sensor("state/body/angular_velocity", "rad/s", "sensor"),
    "VELOCIMETER": _sensor("state/body/linear_velocity", "m/s", "estimator"),
    "ACCELEROMETER": _sensor("state/body/linear_acceleration", "m/s^2", "sensor"),
    "FRAMEPOS": _sensor("state/body/position", "m", "estimator", frame="world"),
    "FRAMEQUAT": _sensor("state/body/rotation", "1", "estimator", _WXYZ, frame="world"),
    "FRAMELINVEL": _sensor("state/body/linear_velocity", "m/s", "estimator", frame="world"),
    "FRAMEANGVEL": _sensor("state/body/angular_velocity", "rad/s", "estimator", frame="world"),
    "FRAMEZAXIS": _sensor("state/vector3d", "1", "estimator"),
    "FORCE": _sensor("state/wrench", "N", "sensor"),
    "TORQUE": _sensor("state/wrench", "N*m", "sensor"),
    "SUBTREEANGMOM": Meaning(names=(XYZ,), source="privileged", description="angular momentum"),
}
"""Type of a sensor of MuJoCo -> what it measures, if it is relative to no other frame."""

_TWIST = ("vx", "vy", "wz")
_COMMANDS = "mjlab.tasks.{}.mdp.{}"
_MOTION = _COMMANDS.format("tracking", "commands.MotionCommand")

describe_all("mjlab.entity.data.EntityData", entity_properties(_WXYZ))
describe(
    _COMMANDS.format("velocity", "velocity_command.UniformVelocityCommand"),
    "command",
    kind="command/body/velocity",
    unit=("m/s", "m/s", "rad/s"),
    frame="base",
    names=(_TWIST,),
    source="command",
)
for _name in ("LiftingCommand", "MultiCubeLiftingCommand"):
    for _property in ("command", "target_pos"):
        _owner = _COMMANDS.format("manipulation", f"commands.{_name}")
        describe(
            _owner, _property, kind="command/body/position", unit="m", frame="world", names=(XYZ,), source="command"
        )
describe(
    _MOTION, "command", lambda term: Meaning(kind="reference/motion", names=(_motion_names(term),), source="reference")
)
describe_all(
    _MOTION,
    {
        "joint_pos": Meaning(kind="reference/joint/position", names=("joint_names",), source="reference"),
        "joint_vel": Meaning(kind="reference/joint/velocity", names=("joint_names",), source="reference"),
        **{
            f"{what}_{part}_w": Meaning(
                kind=f"reference/body/{kind}", unit=unit, frame="world", source="reference", names=names
            )
            for what in ("anchor", "body")
            for part, kind, unit, names in (
                ("pos", "position", "m", (XYZ,)),
                ("quat", "rotation", "1", (_WXYZ,)),
                ("lin_vel", "velocity", "m/s", (XYZ,)),
                ("ang_vel", "velocity", "rad/s", (XYZ,)),
            )
        },
    },
)
describe_all(
    "mjlab.sensor.raycast_sensor.RayCastData",
    {
        "distances": Meaning(
            kind="sensor/height_scan", unit="m", source="sensor", description="along rays; -1: no hit"
        ),
        "hit_pos_w": Meaning(kind="custom/scan/points", unit="m", frame="world", names=(XYZ,), source="sensor"),
        "normals_w": Meaning(kind="custom/scan/normals", unit="1", frame="world", names=(XYZ,), source="sensor"),
        "pos_w": Meaning(kind="state/body/position", unit="m", frame="world", names=(XYZ,), source="estimator"),
        "frame_pos_w": Meaning(kind="state/body/position", unit="m", frame="world", names=(XYZ,), source="estimator"),
        "quat_w": Meaning(kind="state/body/rotation", unit="1", frame="world", names=(_WXYZ,), source="estimator"),
        "frame_quat_w": Meaning(
            kind="state/body/rotation", unit="1", frame="world", names=(_WXYZ,), source="estimator"
        ),
    },
)
describe_all(
    "mjlab.sensor.camera_sensor.CameraSensorData",
    {
        "rgb": Meaning(
            kind="sensor/image/rgb", unit="1", source="sensor", description="0 to 255, height width channel"
        ),
        "depth": Meaning(
            kind="sensor/image/depth", unit="m", source="sensor", finite=False, description="height width 1"
        ),
        "segmentation": Meaning(
            kind="sensor/image/segmentation",
            unit="1",
            source="sensor",
            description="object id and type, -1: background",
        ),
    },
)
describe_all(
    "mjlab.sensor.contact_sensor.ContactData",
    {
        "found": Meaning(kind="state/contact", unit="1", source="sensor"),
        "force": Meaning(kind="state/contact", unit="N", source="sensor", names=("primary_names", XYZ)),
        "torque": Meaning(kind="state/contact", unit="N*m", source="sensor"),
        **{
            name: Meaning(kind="state/contact", unit="s", source="sensor")
            for name in ("current_air_time", "last_air_time", "current_contact_time", "last_contact_time")
        },
    },
)


def _motion_names(term: Any) -> tuple[str, ...]:
    names = [str(name) for name in term.robot.joint_names]
    return (*(f"{name}.pos" for name in names), *(f"{name}.vel" for name in names))


FRAMEWORK = Mjlab()
