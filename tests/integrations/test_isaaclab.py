"""Isaac Lab for real: stock tasks on Newton, on the CPU. Skipped where it is not installed.

Run with Isaac Lab 3.0 (develop of June 2026, 150acf09), Newton 1.2.0, MuJoCo-Warp 3.8.1, Warp 1.13.0, torch 2.13.0 and
rsl-rl-lib 5.0.1, without Isaac Sim.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ashore
from ashore.errors import BindError, InputError
from ashore.package import Package
from integrations.isaac_tasks import ANT, CARTPOLE, OVERRIDES, checkpoint, deployed, enrich, here, look, opened, why_not

reason = why_not()
if reason is not None:
    pytest.skip(reason, allow_module_level=True)

from ashore.deploy.isaaclab import IsaacLabDeploymentEnv, LeappDeploymentEnv  # noqa: E402
from ashore.integrations.comparing import Comparison, record_run, replay_run  # noqa: E402
from ashore.integrations.exporting import export_managed  # noqa: E402
from ashore.integrations.isaaclab import FRAMEWORK, open_task, without_randomness  # noqa: E402
from ashore.integrations.isaaclab_configs import task_configs  # noqa: E402

# Isaac Lab warns of itself, and so do the libraries it comes with.
pytestmark = [pytest.mark.filterwarnings("ignore")]

QUICK: dict[str, Any] = {"picture": False, "summary": False}
UPRIGHT_RAD = 0.3
EPISODE_STEPS = 150
"""More than Ant is compared for: after a reset Isaac Lab shows the gravity of the episode before, once."""


def calm(cfg: Any, agent: Any = None) -> None:
    """Nothing random but where episodes start; they are short."""
    without_randomness(cfg)
    cfg.episode_length_s = EPISODE_STEPS * cfg.decimation * cfg.sim.dt


def both(*changes: Any) -> Any:
    def change(cfg: Any, agent: Any = None) -> None:
        for one in changes:
            one(cfg, agent)

    return change


def export(env: Any, actor: Any, out: Path, **options: Any) -> Package:
    return export_managed(env, actor, out, FRAMEWORK, groups=actor.groups, **{**QUICK, **options})


def exported(
    task: str, variant: str | None, out: Path, *, change: Any = None, steps: int = 100, **options: Any
) -> tuple[Package, list[Any]]:
    """The package of the stock task, and what the environment with nothing random does by itself.

    It is not the same environment: a process has room for one, and this one must not know what an export does.
    """
    with opened(task, variant, change=change) as (env, actor):
        package = export(env, actor, out, **options)
    torch.manual_seed(0)
    with opened(task, variant, change=both(change, calm) if change else calm) as (env, actor):
        if variant is None:
            actor.policy.load_state_dict(weights_of(package))
        moments = record_run(env, actor, ashore.load(package), FRAMEWORK, steps=steps, seed=5)
    return package, moments


def replayed(task: str, package: Package, moments: list[Any], *, change: Any = None, atol: float = 1e-4) -> Comparison:
    with deployed(task, package, change=both(change, calm) if change else calm) as deployment:
        return replay_run(moments, deployment, FRAMEWORK, atol=atol)


_WEIGHTS: dict[str, Mapping[str, torch.Tensor]] = {}


def weights_of(package: Package) -> Mapping[str, torch.Tensor]:
    return _WEIGHTS[str(package.path)]


def show(record_property: Any, what: str, figure: str) -> None:
    """Have a figure printed below the tests."""
    record_property("figures", {"what": what, "figure": figure})


def simulated(found: Comparison) -> float:
    """The largest difference of a position, of the base or of a joint."""
    return max(found.worst[f"sim.robot.{what}"] for what in ("joint_pos", "root_link_pose_w"))


# --- stock tasks ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["mlp", "lstm"])
def cartpole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Package, list[Any]]:
    return exported(CARTPOLE, request.param, tmp_path_factory.mktemp("isaac") / request.param, steps=200)


def test_cartpole_is_verified_and_says_what_it_drives(cartpole: tuple[Package, list[Any]]) -> None:
    manifest = cartpole[0].manifest
    assert manifest.verification is not None
    assert manifest.verification.status == "passed"
    assert {name: port.connection for name, port in manifest.inputs.items()} == {
        "joint_pos": "state:robot:joint_pos",
        "joint_vel": "state:robot:joint_vel",
    }
    assert manifest.inputs["joint_pos"].unit == ("m", "rad")
    target = manifest.outputs["joint_effort_target"]
    assert (target.connection, target.unit) == ("write:robot:set_joint_effort_target_index", ("N",))
    assert target.element_names[-1] == ("slider_to_cart",)  # type: ignore[index]
    cart, pole = manifest.joints
    assert (cart.type, cart.kd, cart.effort_limit, cart.actuator) == ("prismatic", 10.0, 400.0, "implicit")
    assert (cart.position_limits.lower, pole.type, pole.position_limits) == (-4.0, "revolute", None)  # type: ignore[union-attr]
    assert manifest.timing is not None
    assert (manifest.timing.decimation, manifest.timing.physics_dt_s) == (2, pytest.approx(1 / 120))


def test_cartpole_moves_in_the_deployment_as_in_training(
    cartpole: tuple[Package, list[Any]], record_property: Any
) -> None:
    package, moments = cartpole
    found = replayed(CARTPOLE, package, moments)
    show(record_property, f"{package.manifest.name}, 200 decisions: joint positions", f"{simulated(found):.1e}")
    assert found.first is None
    assert (found.steps, found.resets) == (200, 1)
    assert simulated(found) <= 1e-5


def test_the_pole_stays_up_for_600_steps(cartpole: tuple[Package, list[Any]], record_property: Any) -> None:
    package, leans = cartpole[0], []
    with deployed(CARTPOLE, package) as deployment:
        assert balance(deployment, 600, leans=leans) == 600
    show(record_property, f"{package.manifest.name}, 600 decisions: largest lean", f"{max(leans):.3f} rad")


@pytest.mark.parametrize("cartpole", ["lstm"], indirect=True)
def test_a_recurrent_policy_without_its_state_loses_the_pole(cartpole: tuple[Package, list[Any]]) -> None:
    with deployed(CARTPOLE, cartpole[0]) as deployment:
        assert balance(deployment, 600, before=deployment.policy.reset) < 300


def balance(deployment: Any, steps: int, before: Any = lambda: None, leans: list[float] | None = None) -> int:
    """How many steps the pole stays up, if it starts a little off; and how far it leans in each."""
    robot = deployment.element("robot")
    deployment.reset()
    start = robot.data.joint_pos.torch.clone()
    start[:, 1] = 0.2
    robot.write_joint_position_to_sim_index(position=start)
    deployment.settle()
    for step in range(steps):
        before()
        deployment.step()
        lean = abs(float(robot.data.joint_pos.torch[0, 1]))
        if leans is not None:
            leans.append(lean)
        if lean > UPRIGHT_RAD:
            return step
    return steps


def test_ant_as_onnx_follows_until_rounding_has_grown(tmp_path: Path, record_property: Any) -> None:
    """Contacts make a hundredfold of a difference in ten steps, so that it is compared for a short time only."""
    package, moments = exported(ANT, "mlp", tmp_path / "ant", steps=20)
    manifest = package.manifest
    assert manifest.verification is not None
    assert manifest.verification.status == "passed"
    assert manifest.inputs["root_quat_w"].element_names[-1] == ("x", "y", "z", "w")  # type: ignore[index]
    wrench = manifest.inputs["joint_wrench.force"]
    assert (wrench.kind, wrench.connection) == ("state/wrench", "state:joint_wrench:force")
    assert not [one for one in manifest.findings if one.severity != "info"]
    apart = simulated(replayed(ANT, package, moments))
    show(record_property, "ant, ONNX, 20 decisions: positions", f"{apart:.1e}")
    assert apart <= 1e-4


def test_ant_as_torchscript_is_the_environment_bit_for_bit(tmp_path: Path) -> None:
    package, moments = exported(ANT, "lstm", tmp_path / "ant", backend="jit-trace")
    found = replayed(ANT, package, moments, atol=0.0)
    assert found.first is None
    assert (found.steps, found.resets) == (100, 0)
    assert set(found.worst.values()) == {0.0}


# --- what stock tasks do not have -------------------------------------------------------------------------------------


def test_everything_that_a_configuration_may_ask_for(tmp_path: Path) -> None:
    torch.manual_seed(3)
    with opened(ANT, change=enrich) as (env, actor):
        package = export(env, actor, tmp_path / "rich", backend="jit-trace")
        _WEIGHTS[str(package.path)] = {name: value.clone() for name, value in actor.policy.state_dict().items()}
    with opened(ANT, change=both(enrich, calm)) as (env, actor):
        actor.policy.load_state_dict(weights_of(package))
        moments = record_run(env, actor, ashore.load(package), FRAMEWORK, steps=100, seed=5)
    with deployed(ANT, package, change=both(enrich, calm)) as deployment:
        for part in (moments[:10], moments):  # the second starts as the first did
            assert replay_run(part, deployment, FRAMEWORK, atol=0.0).first is None

    manifest = package.manifest
    joints = {joint.name: joint for joint in manifest.joints}
    leg, foot = joints["front_left_leg"], joints["right_back_foot"]
    assert (leg.kp, leg.kd, leg.effort_limit, leg.actuator) == (20.0, 0.5, 12.0, "delayed_pd")
    assert (foot.kp, foot.kd, foot.effort_limit, foot.velocity_limit, foot.actuator) == (16, 0.4, 10, 20, "dc_motor")
    delays = [one.message for one in manifest.findings if one.name == "actuator_delay"]
    assert [message.partition(" act ")[2] for message in delays] == ["2 to 2 physics steps late"]
    names = {port.element_names[-1] for port in manifest.outputs.values() if port.connection}  # type: ignore[index]
    assert ("right_back_foot", "front_left_foot", "left_back_foot", "front_right_foot") in names
    assert (manifest.inputs["velocity"].connection, manifest.inputs["velocity"].source) == (
        "command:velocity:command",
        "command",
    )
    inputs = manifest.inputs
    assert {"imu.ang_vel_b", "imu.lin_acc_b", "contact.net_forces_w", "contact.net_forces_w_history"} <= inputs.keys()
    assert (inputs["contact.net_forces_w"].kind, inputs["contact.current_air_time"].unit) == ("state/contact", "s")
    assert len(inputs["contact.net_forces_w"].element_names[-2]) == 4  # type: ignore[index,arg-type]
    states = manifest.states
    assert {"policy.gravity.history.frames", "policy.command.history.frames"} <= states.keys()
    assert not [one for one in manifest.findings if one.name == "no_semantics"]


def test_images_of_a_camera_are_inputs(tmp_path: Path) -> None:
    class Looking(torch.nn.Module):
        groups = ("policy", "seen")

        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(16 * 24 * 3, 1)

        def forward(self, obs: Any) -> torch.Tensor:
            return 0.01 * self.layer(obs["seen"].flatten(1)) - 0.1 * obs["policy"].sum(dim=-1, keepdim=True)

    torch.manual_seed(2)
    actor = Looking()
    with opened(CARTPOLE, change=look) as (env, _):
        package = export(env, actor, tmp_path / "seeing")
    with opened(CARTPOLE, change=both(look, calm)) as (env, _):
        moments = record_run(env, actor, ashore.load(package), FRAMEWORK, steps=10, seed=5)
    image = package.manifest.inputs["camera.output.rgb"]
    assert (image.kind, image.connection, image.shape) == (
        "sensor/image/rgb",
        "state:camera:output.rgb",
        (1, 16, 24, 3),
    )
    assert np.ptp(moments[-1].inputs["camera.output.rgb"]) > 50, "it sees something"
    found = replayed(CARTPOLE, package, moments, change=look, atol=1e-3)
    assert found.first is None
    assert found.worst["camera.output.rgb"] <= 1.0, "rounding may turn a pixel by one"


def test_an_open_batch_drives_several_robots_each_as_if_it_were_alone(tmp_path: Path) -> None:
    with opened(CARTPOLE, "mlp", num_envs=2) as (env, actor):
        package = export(env, actor, tmp_path / "open", batch="dynamic")
    starts = np.array([-0.15, 0.0, 0.2], np.float32)
    together = poles(package, starts)
    assert np.ptp(together, axis=1).max() > 0.1  # they do different things
    assert np.abs(together).max() < UPRIGHT_RAD
    for row in range(len(starts)):
        np.testing.assert_allclose(together[:, row], poles(package, starts[row : row + 1])[:, 0], atol=1e-5, rtol=0)


def poles(package: Package, starts: np.ndarray) -> np.ndarray:
    """The angles of poles that start where they are told, in 20 decisions."""
    with deployed(CARTPOLE, package, num_envs=len(starts)) as deployment:
        deployment.reset()
        snapshot = dict(FRAMEWORK.snapshot(deployment))
        snapshot["state.joint_q"].reshape(len(starts), 2)[:, 1] = starts
        FRAMEWORK.put(deployment, snapshot)
        rows = []
        for _ in range(20):
            outputs = deployment.step()
            assert outputs["actions"].shape == (len(starts), 1)
            rows.append(deployment.element("robot").data.joint_pos.torch[:, 1].numpy().copy())
    return np.stack(rows)


# --- nothing is left behind -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [CARTPOLE, ANT])
def test_the_environment_is_as_it_was(task: str, tmp_path: Path) -> None:
    """The same seed gives the same, bit for bit, whether there was an export on the way or not."""

    def run(exporting: bool) -> np.ndarray:
        with opened(task, "mlp", change=calm) as (env, actor), torch.no_grad():
            generator = torch.Generator().manual_seed(3)
            width = env.action_manager.total_action_dim
            obs, _ = env.reset(seed=7)
            seen = [obs["policy"]]
            for step in range(EPISODE_STEPS + 20):
                if exporting and step == 20:
                    export(env, actor, tmp_path / "package")
                seen.append(env.step(torch.randn(1, width, generator=generator))[0]["policy"])
            return torch.stack(seen).numpy()

    np.testing.assert_array_equal(run(True), run(False))


def test_an_export_patches_nothing_and_switches_nothing_off(tmp_path: Path) -> None:
    import warp

    def looked_at() -> dict[str, object]:
        modules = {name: module for name, module in sys.modules.items() if name.startswith(("isaaclab", "rsl_rl"))}
        classes = {f"{name}.{key}": one for name, module in modules.items() for key, one in vars(module).items()}
        kept = {path: dict(vars(one)) for path, one in classes.items() if isinstance(one, type)}
        functions = {
            f"{path}.{key}": value for path, inner in kept.items() for key, value in inner.items() if callable(value)
        }
        return {**functions, "to_torch": warp.to_torch, "scripting": torch.jit._state._enabled.enabled}

    with opened(CARTPOLE, "mlp") as (env, actor):
        before = looked_at()
        export(env, actor, tmp_path / "package")
        after = looked_at()
    assert before["scripting"] is True
    changed = [name for name, value in before.items() if after.get(name) is not value]
    assert changed == []


# --- the deployment environment ---------------------------------------------------------------------------------------


def context() -> Any:
    from isaaclab.sim import SimulationContext

    return SimulationContext.instance()


@pytest.mark.parametrize("cartpole", ["mlp"], indirect=True)
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupt_closes_the_simulation(cartpole: tuple[Package, list[Any]], error: type[BaseException]) -> None:
    with pytest.raises(error), deployed(CARTPOLE, cartpole[0]) as deployment:
        deployment.reset()
        deployment.step()
        raise error
    assert context() is None
    with pytest.raises(BindError, match="is closed"):
        deployment.step()
    deployment.close()


@pytest.mark.parametrize("cartpole", ["mlp"], indirect=True)
def test_a_second_simulation_is_refused_and_the_first_goes_on(cartpole: tuple[Package, list[Any]]) -> None:
    with deployed(CARTPOLE, cartpole[0]) as deployment:
        with pytest.raises(BindError, match="room for one simulation in a process"), deployed(CARTPOLE, cartpole[0]):
            pass
        deployment.reset()
        deployment.step()


@pytest.mark.parametrize("cartpole", ["mlp"], indirect=True)
def test_a_package_that_does_not_fit_says_so_and_leaves_no_simulation(cartpole: tuple[Package, list[Any]]) -> None:
    said = r"(?s)expected shape \[1, 2\], the scene has \[1, 8\].*slider_to_cart.*robot"
    with pytest.raises(BindError, match=said), deployed(ANT, cartpole[0]):
        pass
    assert context() is None


@pytest.mark.parametrize("cartpole", ["mlp"], indirect=True)
def test_it_has_the_name_and_the_arguments_that_isaac_lab_gives_it(cartpole: tuple[Package, list[Any]]) -> None:
    assert LeappDeploymentEnv is IsaacLabDeploymentEnv
    cfg, _ = task_configs(CARTPOLE, overrides=OVERRIDES)
    here(CARTPOLE)(cfg)
    with LeappDeploymentEnv(cfg, str(cartpole[0].path)) as deployment:
        deployment.reset()
        outputs = deployment.step(external_inputs={"joint_pos": np.zeros((1, 2), np.float32)})
    assert outputs["joint_effort_target"].shape == (1, 1)


def test_commands_are_given_by_the_caller_or_by_the_task(tmp_path: Path) -> None:
    with opened(ANT, change=enrich) as (env, actor):
        package = export(env, actor, tmp_path / "rich")
    with deployed(ANT, package, change=enrich) as deployment:
        assert deployment.external_inputs == {"velocity"}
        deployment.reset()
        with pytest.raises(InputError, match=r"expected \['velocity'\] too"):
            deployment.step()
        deployment.step({"velocity": np.zeros((1, 3), np.float32)})
    with deployed(ANT, package, change=enrich, commands=True) as deployment:
        deployment.reset()
        deployment.step()
        assert np.abs(deployment.inputs["velocity"]).max() > 0


# --- tasks ------------------------------------------------------------------------------------------------------------


def test_a_misspelt_task_is_refused_with_what_there_is() -> None:
    with pytest.raises(InputError, match=r"no task 'Isaac-Cartpol-v0'.*Isaac-Cartpole"):
        open_task("Isaac-Cartpol-v0")


def test_a_task_that_cannot_be_opened_leaves_room_for_another() -> None:
    with pytest.raises(InputError, match=r"(?s)ant_mlp.pt: its weights do not fit the task: .*size mismatch"):
        open_task(CARTPOLE, checkpoint(ANT, "mlp"), overrides=OVERRIDES, change=here(CARTPOLE))
    assert context() is None


def test_an_override_changes_the_configuration_that_is_opened() -> None:
    cfg, agent = task_configs(CARTPOLE, overrides=[*OVERRIDES, "env.decimation=4", "agent.clip_actions=2.5"])
    assert (cfg.decimation, agent.clip_actions, cfg.sim.device) == (4, 2.5, "cpu")
    with pytest.raises(InputError, match="env.sim.physics.graph: there is no 'graph' in env.sim.physics"):
        task_configs(CARTPOLE, overrides=[*OVERRIDES, "env.sim.physics.graph=1"])
