"""Environments without managers: the example is exported by the command line, and its package run beside it."""

from __future__ import annotations

import copy
import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ashore
from ashore import annotate
from ashore.errors import ExportError, InputError, OrderError
from ashore.integrations.direct import export_direct, open_function
from ashore.integrations.importing import is_import_path
from ashore.integrations.mjlab import FRAMEWORK
from ashore.integrations.rsl_rl import RslRlActor, make_actor
from ashore.package import Package, read

EXAMPLES = Path(__file__).parents[2] / "examples"
CHECKPOINT = EXAMPLES / "checkpoints" / "direct_lstm.pt"
TASK, AGENT = "direct_environment:make_env", "direct_environment:AGENT"
QUICK: dict[str, Any] = {"picture": False, "summary": False, "validation_steps": 5}


@pytest.fixture(scope="module")
def example() -> Iterator[Any]:
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield importlib.import_module("direct_environment")
    finally:
        sys.path.remove(str(EXAMPLES))


def ashore_command(*command: object, cwd: Path = EXAMPLES) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "ashore", *map(str, command)], capture_output=True, text=True, cwd=cwd
    )


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the command line says about the package that it made."""
    out = tmp_path_factory.mktemp("direct")
    done = ashore_command(
        *("export", "mjlab", "--task", TASK, "--agent", AGENT, "--checkpoint", CHECKPOINT, "--out", out, "--json")
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def package(told: dict[str, Any]) -> Package:
    return read(told["package"])


def actor_of(example: Any, env: Any) -> RslRlActor:
    with torch.no_grad():
        obs, _ = env.reset()
    return make_actor(copy.deepcopy(example.AGENT), obs, 1, CHECKPOINT)


def worst_difference(env: Any, actor: RslRlActor, policy: ashore.Policy, steps: int) -> tuple[float, int]:
    """How far apart the forces of an environment and of a package are, and how many resets there were."""
    worst, resets = 0.0, 0
    with torch.no_grad():
        obs, _ = env.reset()
        actor.reset(torch.ones(env.num_envs, dtype=torch.bool))
        policy.reset()
        for _ in range(steps):
            inputs = {"joint_pos": env.joint_pos.numpy().copy(), "command": env.command.numpy().copy()}
            obs, _, terminated, truncated, _ = env.step(actor(obs))
            ours = policy.step(inputs)["force"]
            worst = max(worst, float(np.abs(ours - env.applied).max()))
            done = terminated | truncated
            if done.any():
                resets += 1
                actor.reset(done)
                if env.num_envs == 1:
                    policy.reset()
                else:
                    policy.reset(rows=done.numpy())
    return worst, resets


def short_episodes(example: Any, rows: int = 1) -> Any:
    """The example with episodes of a few steps, rows that do not end together, and a note of what it applied."""

    class Short(example.CartPole):
        max_episode_length = 17

        def _pre_physics_step(self, actions: torch.Tensor) -> None:
            super()._pre_physics_step(actions)
            self.applied = self.force.detach().numpy().copy()

        def reset(self) -> Any:
            given = super().reset()
            self.episode_length_buf += 5 * torch.arange(self.num_envs)
            return given

    return Short(rows)


# --- what comes out --------------------------------------------------------------------------------------------------


def test_a_marked_environment_is_exported_by_the_command_line(told: dict[str, Any]) -> None:
    assert list(told["inputs"]) == ["joint_pos", "command"]
    assert list(told["outputs"]) == ["force"]
    assert sorted(told["states"].values()) == ["history", "last_action", "memory", "recurrent", "recurrent"]
    assert told["verification"]["status"] == "passed"
    assert told["verification"]["resets"] >= 2
    assert told["verification"]["max_abs_error"] < 1e-5
    assert not [one for one in told["findings"] if one.startswith(("error", "warning"))]


def test_marks_rates_and_joints_are_in_the_package(package: Package) -> None:
    manifest = package.manifest
    position, force = manifest.inputs["joint_pos"], manifest.outputs["force"]
    assert (position.kind, position.unit) == ("state/joint/position", ("m", "rad"))
    assert (force.kind, force.element_names) == ("target/joint/effort", (None, ("slider",)))
    timing = manifest.timing
    assert timing is not None
    assert (timing.policy_dt_s, timing.physics_dt_s, timing.decimation) == (0.02, 0.005, 4)
    assert {joint.name: joint.effort_limit for joint in manifest.joints} == {"slider": 2.0, "hinge": None}
    assert manifest.name == "direct_environment"
    assert manifest.description == "A cart that balances a pole."
    assert manifest.provenance.task == TASK


def test_the_package_gives_what_the_environment_gives_with_resets_in_the_middle(example: Any, package: Package) -> None:
    env = short_episodes(example)
    worst, resets = worst_difference(env, actor_of(example, env), ashore.load(package), 80)
    assert resets >= 4
    assert worst <= 1e-5


def test_the_package_gives_the_same_for_positions_that_no_cart_pole_has(example: Any, package: Package) -> None:
    env = short_episodes(example)
    env._measure = lambda: setattr(env, "joint_pos", 0.3 * torch.randn(1, 2))
    worst, resets = worst_difference(env, actor_of(example, env), ashore.load(package), 80)
    assert resets >= 4
    assert worst <= 1e-5


def test_without_its_states_the_package_would_differ(example: Any, package: Package) -> None:
    """The test above can fail."""
    env, policy = short_episodes(example), ashore.load(package)
    step = policy.step

    class Forgetful:
        def reset(self) -> None:
            policy.reset()

        def step(self, inputs: dict[str, np.ndarray]) -> Any:
            policy.reset()
            return step(inputs)

    worst, _ = worst_difference(env, actor_of(example, env), Forgetful(), 40)  # pyright: ignore[reportArgumentType]
    assert worst > 1e-3


@pytest.mark.parametrize("batch", ["one", "dynamic"])
def test_rows_that_are_reset_apart_are_told_apart(example: Any, tmp_path: Path, batch: str) -> None:
    env = short_episodes(example, rows=2)
    env.max_episode_length = 7
    made = export_direct(env, actor_of(example, env), tmp_path / "rows", FRAMEWORK, batch=batch, **QUICK)
    rows = 1 if batch == "one" else 3
    env = short_episodes(example, rows)
    policy = ashore.load(made) if batch == "one" else ashore.load(made, batch=rows)
    worst, resets = worst_difference(env, actor_of(example, env), policy, 60)
    assert resets >= 3
    assert worst <= 1e-5


def test_the_cart_goes_where_it_is_told_in_plain_mujoco(package: Package, tmp_path: Path) -> None:
    model = EXAMPLES / "cart_pole.xml"
    done = ashore_command("play", package.path, "--mjcf", model, "--command", "0.5", "--seconds", "10", "--json")
    assert done.returncode == 0, done.stderr
    joints = json.loads(done.stdout)["joints"]
    assert abs(joints["hinge"]["last"]) < 0.2
    assert abs(joints["slider"]["last"] - 0.5) < 0.3


def test_environments_of_rsl_rl_and_single_tensors_of_observations_are_taken(example: Any, tmp_path: Path) -> None:
    class Vectorised(example.CartPole):
        def step(self, actions: torch.Tensor) -> Any:
            obs, reward, terminated, truncated, extras = super().step(actions)
            return obs["policy"], reward, (terminated | truncated).long(), extras

        def reset(self) -> Any:
            return super().reset()[0]["policy"]

    env = Vectorised(1)
    actor = actor_of(example, example.CartPole(1))
    made = export_direct(env, actor, tmp_path / "vectorised", FRAMEWORK, **QUICK)
    assert list(made.manifest.outputs) == ["force"]


def test_an_environment_that_is_marked_for_leapp_needs_nothing_else(example: Any, tmp_path: Path) -> None:
    """As Isaac Lab's tutorial marks one: input by input, a state, an exporter, and no word about resets."""

    class Marked(example.CartPole):
        def _get_observations(self) -> dict[str, torch.Tensor]:
            joint_pos = annotate.input_tensors("Task-v0", {"joint_pos": self.joint_pos})
            command = annotate.input_tensors("Task-v0", {"command": self.command})
            previous = annotate.state_tensors("Task-v0", {"previous_actions": self.last_action})
            frame = torch.cat((joint_pos[:, :1] - command, joint_pos[:, 1:], previous), dim=-1)
            return {"policy": frame.repeat(1, 3)}

        def _pre_physics_step(self, actions: torch.Tensor) -> None:
            self.last_action = actions.clone()
            self.force = 2.0 * self.last_action
            annotate.update_state("Task-v0", {"previous_actions": actions})
            annotate.output_tensors("Task-v0", {"force": self.force}, export_with="onnx-dynamo")
            self.applied = self.force.numpy().copy()

        def _reset_idx(self, ids: torch.Tensor) -> None:
            self.last_action[ids] = 0.0
            self.command[ids] = torch.rand(len(ids), 1) - 0.5
            self.episode_length_buf[ids] = 0

    env = Marked()
    made = export_direct(env, actor_of(example, env), tmp_path / "marked", FRAMEWORK, **QUICK)
    assert list(made.manifest.stages) == ["Task-v0"]
    assert "previous_actions" in made.manifest.states
    worst, _ = worst_difference(env, actor_of(example, env), ashore.load(made), 60)
    assert worst <= 1e-5


def test_a_function_may_give_an_environment_with_managers(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "from ashore.integrations.mjlab import open_task\n"
        "AGENT = {'obs_groups': {'actor': ['actor']}, 'actor': {'class_name': 'MLPModel', 'hidden_dims': [8]}}\n"
        "def make():\n"
        "    return open_task('Mjlab-Cartpole-Balance')[0]\n"
    )
    network = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ELU(), torch.nn.Linear(8, 1))
    weights = {f"mlp.{name}": value for name, value in network.state_dict().items()}
    torch.save({"actor_state_dict": weights}, tmp_path / "model_0.pt")
    done = ashore_command(
        *("export", "mjlab", "--task", "mine:make", "--agent", "mine:AGENT", "--checkpoint", "model_0.pt", "--json"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["inputs"]["joint_pos"] == "state:cartpole:joint_pos"
    assert (tmp_path / "mine" / "manifest.json").is_file()


# --- what is refused -------------------------------------------------------------------------------------------------


def test_an_environment_without_marks_is_refused_by_the_command_line(tmp_path: Path) -> None:
    code = (EXAMPLES / "direct_environment.py").read_text()
    unmarked = code.replace("from ashore import", "from unmarked import annotate\nfrom ashore import").replace(
        "TensorSemantics, annotate", "TensorSemantics"
    )
    assert unmarked.count("annotate") == code.count("annotate")
    (tmp_path / "direct_environment.py").write_text(unmarked)
    (tmp_path / "unmarked.py").write_text(
        "class annotate:\n"
        "    reset = staticmethod(lambda: None)\n"
        "    output_tensors = staticmethod(lambda node, tensors: None)\n"
        "    input_tensors = staticmethod(lambda node, tensors: [one.ref for one in tensors])\n"
    )
    (tmp_path / "cart_pole.xml").write_text((EXAMPLES / "cart_pole.xml").read_text())
    done = ashore_command(
        *("export", "mjlab", "--task", TASK, "--agent", AGENT, "--checkpoint", CHECKPOINT, "--out", tmp_path / "out"),
        cwd=tmp_path,
    )
    assert done.returncode == 3
    assert "nothing is marked in this environment, and it has no managers" in done.stderr
    assert "annotate.input_tensors(node, …), where observations are computed (_get_observations)" in done.stderr
    assert "annotate.output_tensors(node, …), where actions have become targets (_pre_physics_step)" in done.stderr
    assert not (tmp_path / "out").exists()


def marked_in_every_substep(example: Any) -> Any:
    class Wrong(example.CartPole):
        def _pre_physics_step(self, actions: torch.Tensor) -> None:
            self.last_action = actions
            self.force = 2.0 * actions

        def _apply_action(self) -> None:
            annotate.output_tensors("policy", {"force": self.force})
            super()._apply_action()

    return Wrong()


def marked_without_outputs(example: Any) -> Any:
    class Wrong(example.CartPole):
        def _pre_physics_step(self, actions: torch.Tensor) -> None:
            self.last_action = actions
            self.force = 2.0 * actions

    return Wrong()


def marked_for_another_node(example: Any) -> Any:
    class Wrong(example.CartPole):
        def _pre_physics_step(self, actions: torch.Tensor) -> None:
            self.last_action = actions
            self.force = 2.0 * actions
            annotate.output_tensors("polici", {"force": self.force})

    return Wrong()


def reset_without_a_mark(example: Any) -> Any:
    class Wrong(example.CartPole):
        max_episode_length = 4

        def _reset_idx(self, ids: torch.Tensor) -> None:
            self.episode_length_buf[ids] = 0
            self.history[ids] = 0.0

    return Wrong()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (marked_in_every_substep, "node 'policy' has given its outputs in this step already; call it once a decision"),
        (marked_without_outputs, "inputs are marked for node 'policy', but no outputs; mark what goes in"),
        (marked_for_another_node, "node 'polici' is not open.*did you mean 'policy'"),
        (reset_without_a_mark, "an episode ended within step.*call annotate.reset.. first thing in .*_reset_idx"),
    ],
)
def test_wrong_marks_are_refused(example: Any, tmp_path: Path, make: Callable[[Any], Any], message: str) -> None:
    env = make(example)
    with pytest.raises(OrderError, match=message):
        export_direct(env, actor_of(example, env), tmp_path / "wrong", FRAMEWORK, **QUICK)
    assert not (tmp_path / "wrong").exists()
    assert annotate.input_tensors("policy", {"x": torch.ones(1)}) is not None  # nothing is left open


def forgets_the_command(env: Any) -> dict[str, torch.Tensor]:
    joint_pos = annotate.input_tensors("policy", {"joint_pos": env.joint_pos})
    frame = torch.cat((joint_pos[:, :1] - env.command, joint_pos[:, 1:], env.last_action), dim=-1)
    return {"policy": frame.repeat(1, 3)}


def marks_a_copy(env: Any) -> dict[str, torch.Tensor]:
    annotate.input_tensors("policy", {"joint_pos": env.joint_pos.clone(), "command": env.command})
    frame = torch.cat((env.joint_pos[:, :1] - env.command, env.joint_pos[:, 1:], env.last_action), dim=-1)
    return {"policy": frame.repeat(1, 3)}


def has_noise(env: Any) -> dict[str, torch.Tensor]:
    joint_pos, command = annotate.input_tensors("policy", {"joint_pos": env.joint_pos, "command": env.command})
    frame = torch.cat((joint_pos[:, :1] - command, joint_pos[:, 1:], env.last_action), dim=-1)
    return {"policy": (frame + 0.01 * torch.randn_like(frame)).repeat(1, 3)}


@pytest.mark.parametrize(
    ("observe", "finding", "line"),
    [
        (forgets_the_command, "reset_value", "self.command (float32 1x1) is drawn at random by a reset"),
        (marks_a_copy, "python_value", "self.joint_pos = torch.tensor"),
        (marks_a_copy, "unused_input", "joint_pos"),
        (has_noise, "randomness", "torch.randn_like"),
    ],
)
def test_what_is_not_marked_is_found(
    example: Any, tmp_path: Path, observe: Callable[[Any], Any], finding: str, line: str
) -> None:
    class Wrong(example.CartPole):
        def _get_observations(self) -> dict[str, torch.Tensor]:
            return observe(self)

    env = Wrong()
    with pytest.raises(ExportError) as error:
        export_direct(env, actor_of(example, env), tmp_path / "wrong", FRAMEWORK, **QUICK)
    found = {getattr(one, "name", ""): one for one in error.value.findings}
    assert finding in found
    place: Any = found[finding]
    assert line in f"{place.message} {place.line.text if place.line else ''} {place.tensor}"
    assert not (tmp_path / "wrong").exists()


# --- the command line ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "is_one"),
    [
        ("package.module:make_env", True),
        ("module:make", True),
        ("Mjlab-Cartpole-Balance", False),
        ("my_tasks:Isaac-Cartpole-Direct-v0", False),
        ("module:", False),
        (":make", False),
    ],
)
def test_a_function_is_told_from_a_registered_task(task: str, is_one: bool) -> None:
    assert is_import_path(task) is is_one


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--task", TASK), "is a function; say with --agent package.module:NAME how the actor is configured"),
        (("--task", "Mjlab-Cartpole-Balance", "--agent", AGENT), "has a configuration of its own"),
    ],
)
def test_an_agent_goes_with_a_function(options: tuple[str, ...], message: str) -> None:
    done = ashore_command("export", "mjlab", *options, "--checkpoint", CHECKPOINT)
    assert done.returncode == 3
    assert message in " ".join(done.stderr.split())


def test_a_function_needs_a_checkpoint() -> None:
    done = ashore_command("export", "mjlab", "--task", TASK, "--agent", AGENT)
    assert done.returncode == 3
    assert "is a function; say with --checkpoint where the weights are" in " ".join(done.stderr.split())


MINE = """
import torch
from direct_environment import AGENT, CartPole
nothing = None
number = lambda: 3
make = lambda: CartPole()
odd = lambda: (CartPole(), 3)
bare = {"algorithm": {}}
wide = {**AGENT, "obs_groups": {"actor": ["vision"]}}
class Silent(CartPole):
    num_actions = None
"""


@pytest.mark.parametrize(
    ("task", "agent", "message"),
    [
        ("nowhere:make", AGENT, "--task nowhere:make: there is no module 'nowhere', also not in "),
        ("mine:makes", AGENT, "mine has no 'makes'; did you mean 'make'"),
        ("mine:nothing", AGENT, "expected a function that makes an environment, got NoneType"),
        ("mine:number", AGENT, "expected an environment, got int without reset"),
        ("mine:odd", AGENT, "beside the environment, expected a dict of options, got 3"),
        ("mine:make", "mine", "--agent mine: expected package.module:name"),
        ("mine:make", "mine:bare", "--agent mine:bare: expected the configuration of a runner of RSL-RL 5"),
        ("mine:make", "mine:wide", "reads the observation groups .'vision'., the environment gives .'policy'."),
        ("mine:Silent", AGENT, "Silent has neither num_actions nor single_action_space"),
    ],
)
@pytest.mark.usefixtures("example")
def test_what_cannot_be_opened_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str, agent: str, message: str
) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    with pytest.raises(InputError, match=message):
        open_function(task, agent, CHECKPOINT)


def test_weights_that_do_not_fit_are_refused(example: Any, tmp_path: Path) -> None:
    saved = torch.load(CHECKPOINT, weights_only=True)
    saved["actor_state_dict"]["mlp.0.weight"] = torch.zeros(32, 7)
    torch.save(saved, tmp_path / "other.pt")
    env = example.CartPole()
    with pytest.raises(InputError, match="its weights do not fit the actor of the configuration"):
        make_actor(copy.deepcopy(example.AGENT), env.reset()[0], 1, tmp_path / "other.pt")
