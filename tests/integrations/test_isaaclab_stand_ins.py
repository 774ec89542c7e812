"""The Isaac Lab adapter against stand-ins of its classes, with raw Warp arrays and with `ProxyArray`."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import ashore
from ashore.errors import ExportError, InputError
from ashore.package import Package

wp = pytest.importorskip("warp", reason="these stand-ins keep their state in Warp arrays; pip install warp-lang")

from ashore.deploy.arrays import shared_tensor  # noqa: E402
from ashore.integrations import isaaclab_data  # noqa: E402
from ashore.integrations.exporting import export_managed  # noqa: E402
from ashore.integrations.isaaclab import FRAMEWORK, IsaacLab, without_randomness  # noqa: E402
from ashore.integrations.isaaclab_configs import override, split_overrides  # noqa: E402
from ashore.integrations.semantics import meaning_of  # noqa: E402
from integrations.isaac_stand_ins import JOINTS, Actor, Environment, Physics, ProxyArray, as_torch  # noqa: E402


@wp.struct
class Contact:
    depth: float


WIDTH = 3 * 3 + 2 * 4 + 4 + 3 + 4
QUICK: dict[str, Any] = {"picture": False, "summary": False}


def export(env: Environment, actor: Any, out: Path, **options: Any) -> Package:
    return export_managed(env, actor, out, IsaacLab(), groups=actor.groups, **QUICK, **options)


@pytest.fixture(scope="module", params=[True, False], ids=["proxy arrays", "warp arrays"])
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Environment, Actor, Package]:
    env, actor = Environment(proxies=request.param), Actor(WIDTH)
    return env, actor, export(env, actor, tmp_path_factory.mktemp("isaac") / "toy")


def inputs_of(env: Environment, policy: Any, names: Any) -> dict[str, np.ndarray]:
    """What the ports of a package are in an environment, by their connections."""
    found: dict[str, np.ndarray] = {}
    for name in names:
        where, owner, *path = str(policy.inputs[name].connection).split(":")
        value: Any = env.command_manager.get_term(owner) if where == "command" else env.scene[owner].data
        for one in path:
            value = getattr(value, one)
        tensor = value if isinstance(value, torch.Tensor) else as_torch(value)
        found[name] = tensor.numpy().copy()
    return found


@torch.no_grad()
def check(env: Environment, actor: Actor, package: Package, decisions: int = 60) -> int:
    """Drive the environment by its own step, and the package beside it, at both rates; how often it was reset."""
    policy, resets = ashore.load(package), 0
    ports = {name: port for name, port in policy.outputs.items() if port.connection}
    ticks: list[dict[str, np.ndarray]] = []

    def tick() -> None:
        ticks.append(dict(policy.substep(inputs_of(env, policy, policy.substep_inputs))))

    env.before_apply = tick
    try:
        obs, _ = env.reset(seed=3)
        done = torch.ones(1, dtype=torch.bool)
        for decision in range(decisions):
            if bool(done.any()):
                resets += decision > 0
                actor.reset(done)
                policy.reset()
            got = policy.step(inputs_of(env, policy, policy.step_inputs))
            actions = actor(obs)
            np.testing.assert_allclose(got["obs.policy"], obs["policy"].numpy(), atol=1e-5, err_msg=str(decision))
            np.testing.assert_allclose(got["actions"], actions.numpy(), atol=1e-5, err_msg=str(decision))
            ticks.clear()
            obs, _, terminated, truncated, _ = env.step(actions)
            assert len(ticks) == 2
            written = env.robot.targets.numpy()
            for name, port in ports.items():
                columns = [JOINTS.index(one) for one in port.element_names[-1]]  # type: ignore[index]
                np.testing.assert_allclose(ticks[-1][name], written[:, columns], atol=1e-5, err_msg=name)
            done = terminated | truncated
    finally:
        env.before_apply = lambda: None
    return resets


# --- the package ------------------------------------------------------------------------------------------------------


def test_the_package_is_exact_at_both_rates_over_many_resets(case: tuple[Environment, Actor, Package]) -> None:
    env, _, package = case
    proxies = isinstance(env.robot.data.joint_pos, ProxyArray)
    assert check(Environment(proxies=proxies, noisy=False), Actor(WIDTH), package) >= 4


def test_inputs_are_named_by_the_property_they_come_from(case: tuple[Environment, Actor, Package]) -> None:
    inputs = case[2].manifest.inputs
    assert {name: (port.connection, port.kind) for name, port in inputs.items()} == {
        "joint_pos": ("state:robot:joint_pos", "state/joint/position"),
        "joint_vel": ("state:robot:joint_vel", "state/joint/velocity"),
        "projected_gravity_b": ("state:robot:projected_gravity_b", "state/body/gravity"),
        "velocity": ("command:velocity:command", "command/body/velocity"),
    }
    assert inputs["joint_pos"].element_names[-1] == JOINTS  # type: ignore[index]
    assert inputs["joint_pos"].unit == ("rad", "m", "rad", "rad")
    assert inputs["velocity"].element_names[-1] == ("vx", "vy", "wz")  # type: ignore[index]


def test_outputs_keep_the_order_of_the_joints_that_an_action_names(case: tuple[Environment, Actor, Package]) -> None:
    outputs = {name: port for name, port in case[2].manifest.outputs.items() if port.connection}
    assert {port.element_names[-1]: port.connection for port in outputs.values()} == {  # type: ignore[index]
        ("ankle", "hip"): "write:robot:set_joint_position_target",
        ("slide", "knee"): "write:robot:set_joint_position_target_index",
    }
    assert {port.unit for port in outputs.values()} == {("rad", "rad"), ("m", "rad")}


def test_history_modifier_hidden_state_and_last_action_are_states(case: tuple[Environment, Actor, Package]) -> None:
    states = case[2].manifest.states
    assert {"policy.gravity.history.frames", "policy.joint_pos.history.frames", "before", "hidden"} <= states.keys()
    assert "last_action" in {state.role for state in states.values()}


def test_gains_and_limits_come_from_the_actuators(case: tuple[Environment, Actor, Package]) -> None:
    joints = {joint.name: joint for joint in case[2].manifest.joints}
    assert [joint.name for joint in case[2].manifest.joints] == list(JOINTS)
    hip, slide, knee = joints["hip"], joints["slide"], joints["knee"]
    assert (hip.kp, hip.kd, hip.effort_limit, hip.velocity_limit) == (7.0, 0.5, 30.0, None)
    assert (slide.type, slide.kd, slide.actuator) == ("prismatic", 0.25, "implicit")
    assert (knee.kp, knee.kd, knee.effort_limit, knee.actuator) == (20.0, 0.4, 12.0, "delayed_pd")
    assert (hip.default_position, hip.position_limits) == (pytest.approx(0.1), None)
    delays = [one.message for one in case[2].manifest.findings if one.name == "actuator_delay"]
    assert delays == ["the actuators of knee, ankle act 1 to 3 physics steps late"]


def test_noise_and_what_the_critic_sees_are_left_out(case: tuple[Environment, Actor, Package]) -> None:
    env, _, package = case
    assert "obs.critic" not in package.manifest.outputs
    assert env.observation_manager._group_obs_term_cfgs["policy"][1].noise is not None, "and it is still there"


def test_the_environment_is_as_it_was_even_in_what_a_class_holds(tmp_path: Path) -> None:
    def run(exporting: bool) -> np.ndarray:
        env, actor = Environment(), Actor(WIDTH)
        torch.manual_seed(1)
        env.reset(seed=4)
        seen = [env.step(torch.full((1, 4), 0.3))[0]["policy"] for _ in range(7)]
        if exporting:
            export(env, actor, tmp_path / "toy")
        seen += [env.step(torch.full((1, 4), -0.2))[0]["policy"] for _ in range(20)]
        return np.concatenate([torch.stack(seen).numpy().ravel(), [Physics.steps], Physics.warmstart.numpy().ravel()])

    np.testing.assert_array_equal(run(True), run(False))


def test_several_robots_make_a_package_for_one(tmp_path: Path) -> None:
    env, actor = Environment(3), Actor(WIDTH, 3)
    package = export(env, actor, tmp_path / "toy")
    assert package.manifest.inputs["joint_pos"].shape == (1, 4)
    assert check(Environment(noisy=False), Actor(WIDTH), package) >= 4


# --- conversions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shown", [lambda array: array, ProxyArray, as_torch], ids=["warp", "proxy", "torch"])
def test_a_value_is_shown_to_torch_without_a_copy(shown: Any) -> None:
    array = wp.zeros((2, 3), dtype=float)
    tensor = shared_tensor(shown(array))
    assert tensor is not None
    array.fill_(4.0)
    assert tensor.tolist() == [[4.0] * 3] * 2


def test_what_is_no_array_is_none() -> None:
    assert [shared_tensor(one) for one in (None, 3, "x", np.zeros(2), SimpleNamespace(torch=1))] == [None] * 5


def test_an_array_that_torch_cannot_show_is_an_error_and_not_handed_on() -> None:
    with pytest.raises(InputError, match=r"array of Contact, shape \[2\], cannot be shown to torch: .*structured"):
        shared_tensor(wp.zeros(2, dtype=Contact))


def test_a_proxy_that_fails_is_an_error_that_names_it() -> None:
    class Broken(ProxyArray):
        @property
        def torch(self) -> torch.Tensor:
            raise RuntimeError("the memory is gone")

    with pytest.raises(InputError, match=r"a Broken of float32, shape \[1\], cannot be shown .*: the memory is gone"):
        shared_tensor(Broken(wp.zeros(1, dtype=float)))


# --- the order of quaternions -----------------------------------------------------------------------------------------


def matrix_from_quat(order: tuple[str, ...]) -> Any:
    """The arithmetic of a version that has quaternions in an order."""

    def matrix(quaternions: torch.Tensor) -> torch.Tensor:
        x, y, z, w = (quaternions[:, order.index(one)] for one in "xyzw")
        rows = (1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w))
        rows += (2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w))
        rows += (2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y))
        return torch.stack(rows, dim=-1).reshape(-1, 3, 3)

    return matrix


@pytest.mark.parametrize("order", [isaaclab_data.XYZW, isaaclab_data.WXYZ], ids=["3.x", "2.x"])
def test_the_order_of_quaternions_is_that_of_the_installed_arithmetic(
    monkeypatch: pytest.MonkeyPatch, order: tuple[str, ...]
) -> None:
    monkeypatch.setitem(sys.modules, "isaaclab.utils.math", SimpleNamespace(matrix_from_quat=matrix_from_quat(order)))  # type: ignore[arg-type]
    meaning = meaning_of(Environment().robot.data, "root_quat_w")
    assert meaning is not None
    assert meaning.kind == "state/body/rotation"
    assert meaning.names[-1] == order


def test_without_it_the_type_of_a_warp_array_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "isaaclab.utils.math", raising=False)
    assert isaaclab_data.quaternion_order(wp.zeros(1, dtype=wp.quatf)) == isaaclab_data.XYZW
    assert isaaclab_data.quaternion_order(ProxyArray(wp.zeros(1, dtype=wp.transformf))) == isaaclab_data.XYZW


def test_an_order_that_cannot_be_told_is_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "isaaclab.utils.math", raising=False)
    data = Environment().robot.data
    data._proxies["quat"] = torch.tensor([[0.0, 0.0, 0.0, 1.0]])
    meaning = meaning_of(data, "root_quat_w")
    assert meaning is not None
    assert meaning.names == ()


# --- what is refused --------------------------------------------------------------------------------------------------


def test_physics_that_runs_all_substeps_at_once_is_refused(tmp_path: Path) -> None:
    env = Environment()
    env._physics_handles_decimation = True  # type: ignore[attr-defined]
    with pytest.raises(ExportError, match="runs all substeps of a decision at once.*use_newton_actuators = False"):
        export(env, Actor(WIDTH), tmp_path / "toy")


def test_a_property_that_nobody_described_is_captured_and_listed(tmp_path: Path) -> None:
    env = Environment()
    env.observation_manager._group_obs_term_cfgs["policy"][3].func = lambda env, name: (
        env.command_manager.get_command(name) + as_torch(env.scene["robot"].data.wobble)[:, :3]
    )
    env.robot.data.arrays["effort_target"].fill_(0.5)
    package = export(env, Actor(WIDTH), tmp_path / "toy")
    assert package.manifest.inputs["wobble"].connection == "state:robot:wobble"
    assert [one.tensor for one in package.manifest.findings if one.name == "no_semantics"] == ["state:robot:wobble"]


def test_a_position_target_without_stiffness_is_a_finding(tmp_path: Path) -> None:
    env = Environment()
    env.robot.cfg.actuators["feet"].stiffness = 0.0
    with pytest.raises(ExportError, match="joint 'knee' is driven by position targets, its stiffness is 0"):
        export(env, Actor(WIDTH), tmp_path / "toy")


# --- configurations ---------------------------------------------------------------------------------------------------


def test_overrides_are_read_as_isaac_lab_writes_them() -> None:
    given = ["physics=newton_mjwarp", "presets=a,b", "env.scene.ground=null", "env.sim.dt=0.01", "agent.name=x"]
    assert split_overrides(given) == (
        ["newton_mjwarp", "a", "b"],
        [("env.scene.ground", None), ("env.sim.dt", 0.01), ("agent.name", "x")],
    )
    with pytest.raises(InputError, match=r"'scene.ground=null': expected env.PATH=VALUE"):
        split_overrides(["scene.ground=null"])


def test_an_override_that_leads_nowhere_says_what_there_is() -> None:
    config = {"env": SimpleNamespace(sim=SimpleNamespace(dt=0.1), actions={"legs": 1})}
    override(config, "env.sim.dt", 0.2)
    override(config, "env.actions.legs", 2)
    assert (config["env"].sim.dt, config["env"].actions) == (0.2, {"legs": 2})
    with pytest.raises(InputError, match=r"env.sim.step: there is no 'step' in env.sim; there are \['dt'\]"):
        override(config, "env.sim.step", 1)


def test_without_randomness_leaves_resets_and_switches_noise_off() -> None:
    events = SimpleNamespace(mass=SimpleNamespace(mode="startup"), pose=SimpleNamespace(mode="reset"), none=None)
    cfg = SimpleNamespace(events=events, observations=SimpleNamespace(policy=SimpleNamespace(enable_corruption=True)))
    without_randomness(cfg)
    assert events.mass is None
    assert events.pose.mode == "reset"
    assert not cfg.observations.policy.enable_corruption


def test_a_state_that_is_not_newtons_cannot_be_copied() -> None:
    with pytest.raises(InputError, match="only Newton's can"):
        FRAMEWORK.snapshot(Environment())
