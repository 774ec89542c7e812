"""Isaac Lab: where it keeps things, and how one of its tasks becomes a package. Only opening one imports it."""

# pyright: reportMissingImports=false
# Isaac Lab comes with a simulator of several gigabytes, and is not installed where types are checked.

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from ashore.capture.findings import Finding
from ashore.deploy.arrays import is_warp_array, shared_tensor
from ashore.environment.keeping import Statics
from ashore.errors import ExportError, InputError
from ashore.integrations import isaaclab_data
from ashore.integrations.buffers import History
from ashore.integrations.framework import Framework, Write, fix_terrain, joint_writes
from ashore.integrations.isaaclab_configs import launch, task_configs
from ashore.package import Array, Package
from ashore.spec import Joint, JointLimits

if TYPE_CHECKING:
    from ashore.deploy.isaaclab import IsaacLabDeploymentEnv
    from ashore.integrations.rsl_rl import RslRlActor

_ACTUATORS = {
    "ImplicitActuator": "implicit",
    "DCMotor": "dc_motor",
    "DelayedPDActuator": "delayed_pd",
    "RemotizedPDActuator": "remotized_pd",
    "ActuatorNetMLP": "learned",
    "ActuatorNetLSTM": "learned",
    "IdealPDActuator": "ideal_pd",
}
"""Class of an actuator, or of its configuration without the ending ``Cfg`` -> how it is called in a package."""

_JOINT_TYPES = {"PhysicsRevoluteJoint": "revolute", "PhysicsPrismaticJoint": "prismatic"}
_NO_LIMIT = 1e6
"""From here on a limit is none: what Newton (1e6, 1e10) and PhysX (the largest float) put where nobody gave one."""


# --- tasks ------------------------------------------------------------------------------------------------------------


def open_task(
    task: str,
    checkpoint: Path | None = None,
    *,
    num_envs: int = 1,
    device: str = "cpu",
    motion: Path | None = None,
    overrides: Sequence[str] = (),
    change: Callable[[Any, Any], object] = lambda *_: None,
    trust: bool = False,
) -> tuple[Any, RslRlActor]:
    """The environment of a registered task, and its actor. Isaac Sim is started where it is installed.

    Args:
        task: its name in Gymnasium's registry.
        checkpoint: the weights; without it they are as a new runner makes them.
        num_envs: how many environments.
        device: of torch and of the simulation.
        motion: the file with the motion, for tasks whose commands follow one.
        overrides: of the configurations, such as ``physics=newton_mjwarp`` or ``env.scene.ground=null``.
        change: may change the configurations of environment and agent before they are used.
        trust: whether the checkpoint may run code while it is read.
    """
    from ashore.integrations.rsl_rl import RslRlActor, fit_settings, load_policy, read_checkpoint

    env_config, agent = task_configs(task, device=device, overrides=overrides)
    env_config.scene.num_envs = num_envs
    _follow(task, env_config, motion)
    change(env_config, agent)
    settings = agent.to_dict()
    loaded = dict[str, Any]() if checkpoint is None else read_checkpoint(checkpoint, trust=trust)
    if checkpoint is not None:
        fit_settings(settings, loaded, checkpoint)
    import gymnasium
    from isaaclab_rl.rsl_rl import RslRlVecEnvWrapper
    from rsl_rl import runners

    from ashore.deploy.isaaclab import forget_closed

    forget_closed()
    env: Any = gymnasium.make(task, cfg=env_config).unwrapped
    try:
        wrapped = RslRlVecEnvWrapper(env, clip_actions=agent.clip_actions)
        runner_class = getattr(runners, str(settings.get("class_name", "OnPolicyRunner")))
        runner = runner_class(wrapped, settings, log_dir=None, device=device)
        if checkpoint is None:
            policy = runner.get_inference_policy(device=device)
        else:
            policy = load_policy(runner, checkpoint, loaded, device=device)
        return env, RslRlActor(policy, agent.clip_actions)
    except BaseException:
        env.close()  # a process has room for one
        raise


def open_deployment(
    task: str,
    package: Package | str | os.PathLike[str],
    *,
    num_envs: int = 1,
    device: str = "cpu",
    motion: Path | None = None,
    overrides: Sequence[str] = (),
    change: Callable[[Any, Any], object] = lambda *_: None,
    backend: str | None = None,
    commands: bool = False,
) -> IsaacLabDeploymentEnv:
    """A package in the scene of a registered task.

    Args:
        task: its name in Gymnasium's registry.
        package: the package.
        num_envs: how many robots.
        device: of torch and of the simulation.
        motion: the file with the motion, where the task's commands follow one.
        overrides: of the configuration, as for `open_task`.
        change: may change the configurations, as for `open_task`.
        backend: what runs the stages.
        commands: whether the task's own command terms give the commands.
    """
    from ashore.deploy.isaaclab import IsaacLabDeploymentEnv

    cfg, agent = task_configs(task, device=device, overrides=overrides)
    if commands:
        _follow(task, cfg, motion)
    change(cfg, agent)
    return IsaacLabDeploymentEnv(cfg, package, num_envs=num_envs, backend=backend, commands=commands)


def without_randomness(cfg: Any, _: Any = None) -> None:
    """Switch off in a configuration what makes one robot or its ground another: what events change, and pushes."""
    for name, event in _items(cfg.events):
        if getattr(event, "mode", "reset") != "reset":
            setattr(cfg.events, name, None)
    for _, group in _items(cfg.observations):
        if hasattr(group, "enable_corruption"):
            group.enable_corruption = False
    fix_terrain(cfg)


def log_root(task: str) -> Path:
    """Where Isaac Lab's training leaves the runs of a task."""
    return Path("logs") / "rsl_rl" / str(task_configs(task)[1].experiment_name)


def published_checkpoint(task: str, *, device: str = "cpu") -> Path:
    """The weights that Isaac Lab publishes for a task, fetched by Isaac Lab itself and kept where it keeps them.

    Args:
        task: its name in Gymnasium's registry. A task for playing has the weights of the one for training.
        device: of the simulation.
    """
    launch(device)
    try:
        from isaaclab_rl.utils import pretrained_checkpoint
    except ModuleNotFoundError as error:
        raise InputError(f"published weights need {error.name}, which comes with Isaac Lab") from error
    found = pretrained_checkpoint.get_published_pretrained_checkpoint("rsl_rl", task.replace("-Play", ""))
    if not found:
        raise InputError(
            f"{task}: there are no published weights of it, or they could not be fetched; give --checkpoint"
        )
    return Path(found)


def _items(config: Any) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in vars(config).items() if value is not None] if config is not None else []


def _follow(task: str, cfg: Any, motion: Path | None) -> None:
    """Say which motion a task follows, if it follows one."""
    for _, command in _items(getattr(cfg, "commands", None)):
        if hasattr(command, "motion_file"):
            if motion is None:
                raise InputError(f"{task} follows a motion; say which file has it, with motion (--motion-file)")
            if not motion.is_file():
                raise InputError(f"{motion}: there is no such motion file")
            command.motion_file = str(motion)


# --- where things are -------------------------------------------------------------------------------------------------


class IsaacLab(Framework):
    """Where Isaac Lab keeps things."""

    name: ClassVar[str] = "isaaclab"
    quaternion: ClassVar[tuple[str, ...]] = ("x", "y", "z", "w")
    apart: ClassVar[bool] = True
    counters: ClassVar[Sequence[str]] = (*Framework.counters, "_sim_timestamp", "_physics_step_count")
    writes: ClassVar[Mapping[str, Write]] = {
        **joint_writes(("", "_index", "_mask")),
        "set_thrust_target": Write(
            "custom/thruster/thrust", {}, "thruster_names", "thrust_target", ("target",), ("thruster_ids",)
        ),
    }

    def entities(self, env: Any) -> Mapping[str, Any]:
        """Articulations and objects."""
        groups = ("articulations", "rigid_objects", "rigid_object_collections", "deformable_objects")
        return {name: one for group in groups for name, one in (getattr(env.scene, group, None) or {}).items()}

    def sensors(self, env: Any) -> Mapping[str, Any]:
        """The sensors of the scene."""
        return env.scene.sensors

    def joint_types(self, env: Any, entity: Any) -> Mapping[str, str]:
        """From the stage; joints of other types, such as those with several axes, are left out."""
        prims = _prims(env, entity)
        types = {str(prim.GetName()): _JOINT_TYPES.get(str(prim.GetTypeName())) for prim in prims}
        return {name: kind for name in getattr(entity, "joint_names", ()) if (kind := types.get(name)) is not None}

    def physics_dt(self, env: Any) -> float:
        """The time step of the physics."""
        return float(env.physics_dt)

    def tensor(self, value: Any) -> torch.Tensor | None:
        """Torch tensors, ``ProxyArray`` and Warp arrays; the memory stays the same.

        Raises:
            InputError: for an array that torch cannot show.
        """
        return shared_tensor(value)

    def prepare(self, env: Any) -> Iterable[Finding]:
        """Noise off, stand-ins for histories."""
        if getattr(env, "_physics_handles_decimation", False):
            raise ExportError(
                "the physics of this environment runs all substeps of a decision at once, so that actions are applied"
                " once; set sim.use_newton_actuators = False for the export"
            )
        super().prepare(env)
        manager = env.observation_manager
        instances = getattr(manager, "_group_obs_class_instances", None)
        if instances is not None:  # their reset draws random numbers
            instances[:] = [one for one in instances if not _is_a(one, "NoiseModel")]
        rings = manager._group_obs_term_history_buffer
        if any(one._buffer is None for terms in rings.values() for one in terms.values()):  # it was never reset
            manager.compute(update_history=True)
            manager.reset()
        for group, terms in rings.items():
            for term, ring in terms.items():
                if not isinstance(ring, History):
                    terms[term] = _Frames(ring, f"observation {group}/{term}")
        return ()

    def foreign(self) -> Iterable[Callable[..., Any]]:
        """Warp's conversion, and what Isaac Lab has put in its place."""
        own = getattr(sys.modules.get("isaaclab.utils.warp"), "_WP_TO_TORCH_ORIGINAL", None)
        return [one for one in (getattr(sys.modules.get("warp"), "to_torch", None), own) if one is not None]

    def elsewhere(self, env: Any) -> Iterable[object]:
        """The physics, of which there is one in a process: a class holds it."""
        owner = _physics(env)
        return (Statics(owner),) if isinstance(owner, type) else ()

    def histories(self, env: Any, groups: Sequence[str]) -> Mapping[str, History]:
        """Histories of observation terms."""
        rings = env.observation_manager._group_obs_term_history_buffer
        return {
            f"{group}.{term}.history": ring
            for group in groups
            for term, ring in rings.get(group, {}).items()
            if isinstance(ring, History)
        }

    def state(self, env: Any) -> Mapping[str, Array]:
        """Poses and velocities of everything that moves."""
        found: dict[str, Array] = {}
        for name, entity in self.entities(env).items():
            for what in ("root_link_pose_w", "root_com_vel_w", "joint_pos", "joint_vel"):
                tensor = self.tensor(getattr(entity.data, what, None))
                if tensor is not None:
                    found[f"{name}.{what}"] = tensor.detach().cpu().numpy().copy()
        return found

    def snapshot(self, env: Any) -> Mapping[str, Array]:
        """Everything that Newton integrates, so that another simulation can go on from there."""
        return {name: array.numpy().copy() for name, array in _integrated(env).items()}

    def put(self, deployment: Any, snapshot: Mapping[str, Array]) -> None:
        """Put the simulation of a deployment environment where a snapshot was taken."""
        for name, array in _integrated(deployment).items():
            array.assign(snapshot[name])
        deployment.settle()

    def joints(self, env: Any, entity: Any) -> tuple[list[Joint], list[Finding]]:
        """Gains as the actuators were configured, before anything was randomised."""
        data, types, gains = entity.data, self.joint_types(env, entity), dict[str, dict[str, Any]]()
        findings: list[Finding] = []
        names = [str(name) for name in entity.joint_names]
        for label, config in entity.cfg.actuators.items():
            actuator = entity.actuators.get(label)  # it is none where the physics itself has it
            kind = _actuator_kind(config if actuator is None else actuator)
            own = _matching(names, config.joint_names_expr) if actuator is None else list(actuator.joint_names)
            for place, name in enumerate(own):
                gains[name] = {"actuator": kind, **_gains(config, actuator, place, name)}
            if getattr(config, "max_delay", 0):
                lags = f"{config.min_delay} to {config.max_delay} physics steps"
                findings.append(Finding("actuator_delay", f"the actuators of {', '.join(own)} act {lags} late"))
        limits, defaults = self._values(data, "joint_pos_limits"), self._values(data, "default_joint_pos")
        made: list[Joint] = []
        for place, name in enumerate(names):
            lower, upper = limits[0, place].tolist()
            limited = lower > -_NO_LIMIT and upper < _NO_LIMIT
            made.append(
                Joint(
                    name=name,
                    type="prismatic" if types.get(name) == "prismatic" else "revolute",
                    default_position=float(defaults[0, place]),
                    position_limits=JointLimits(lower=lower, upper=upper) if limited else None,
                    **gains.get(name, {}),
                )
            )
        return made, findings

    def _values(self, data: Any, name: str) -> torch.Tensor:
        tensor = self.tensor(getattr(data, name))
        if tensor is None:
            raise ExportError(
                f"{type(data).__name__}.{name}: expected an array, got {type(getattr(data, name)).__name__}"
            )
        return tensor


class _Frames(History):
    """A history in place of Isaac Lab's, whose first push of an episode is a branch in Python."""

    @property
    def _buffer(self) -> torch.Tensor:
        """The observation manager asks whether there is one."""
        return self.frames.transpose(0, 1)


def _is_a(thing: object, name: str) -> bool:
    return any(kind.__name__ == name for kind in type(thing).__mro__)


def _prims(env: Any, entity: Any) -> list[Any]:
    """Everything on the stage that belongs to the first copy of an entity."""
    stage = getattr(env.sim, "stage", None)
    path = str(getattr(entity.cfg, "prim_path", ""))
    if stage is None or not path:
        return []
    first = re.compile(re.escape(path).replace(r"\.\*", "[^/]*") + r"(/|$)")
    found: dict[str, list[Any]] = {}
    for prim in stage.Traverse():
        match = first.match(str(prim.GetPath()))
        if match is not None:
            found.setdefault(match.group().rstrip("/"), []).append(prim)
    return next(iter(found.values()), [])


def _actuator_kind(thing: Any) -> str:
    names = [kind.__name__.removesuffix("Cfg") for kind in type(thing).__mro__]
    return next((_ACTUATORS[name] for name in names if name in _ACTUATORS), names[0])


def _matching(names: Sequence[str], expressions: str | Sequence[str]) -> list[str]:
    wanted = [expressions] if isinstance(expressions, str) else list(expressions)
    return [name for name in names if any(re.fullmatch(one, name) for one in wanted)]


def _gains(config: Any, actuator: Any, place: int, name: str) -> dict[str, Any]:
    """Stiffness, damping and limits of one joint of an actuator."""
    found: dict[str, Any] = {}
    for key, attributes in (
        ("kp", ("stiffness",)),
        ("kd", ("damping",)),
        ("effort_limit", ("effort_limit", "effort_limit_sim")),
        ("velocity_limit", ("velocity_limit", "velocity_limit_sim")),
    ):
        value = next((one for each in attributes if (one := _configured(config, each, name)) is not None), None)
        if value is None and actuator is not None:  # then it is as the file of the robot says
            value = float(getattr(actuator, attributes[0])[0, place])
        if value is not None and (not key.endswith("limit") or value < _NO_LIMIT):
            found[key] = value
    return found


def _configured(config: Any, attribute: str, name: str) -> float | None:
    """What a configuration gives a joint: one number for all, or by expressions."""
    value = getattr(config, attribute, None)
    if isinstance(value, Mapping):
        value = next((one for pattern, one in value.items() if re.fullmatch(pattern, name)), None)
    return None if value is None else float(value)


def _physics(env: Any) -> Any:
    """The class that is the physics."""
    step = getattr(getattr(env.sim, "physics_manager", None), "step", None)
    return getattr(step, "__self__", None)


def _integrated(env: Any) -> dict[str, Any]:
    """The arrays that the next step of Newton depends on."""
    manager = _physics(env)
    if not hasattr(manager, "get_state_0"):
        raise InputError("the state of this simulation cannot be copied: only Newton's can")
    state = {f"state.{name}": value for name, value in vars(manager.get_state_0()).items()}
    solver = getattr(getattr(manager, "_solver", None), "mjw_data", None)
    state |= {f"solver.{name}": getattr(solver, name, None) for name in ("time", "act", "qacc_warmstart")}
    return {name: value for name, value in state.items() if is_warp_array(value) and value.size}


FRAMEWORK = IsaacLab()
isaaclab_data.describe_isaaclab()
