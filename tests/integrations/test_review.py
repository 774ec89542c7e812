"""What was held against a neighbour that exports from a simulator: each point is a test of the code that is shared.

A hard dependency, buffers rewritten for everybody, a buffer read after its reset, conversions that fail in silence,
state of the whole process that stays changed, a simulator left open by Ctrl-C, and a deployment environment, tests and
checkpoints that nobody has.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ashore
import support
from ashore.errors import BindError, ExportError
from ashore.integrations.buffers import History
from ashore.integrations.rsl_rl import read_checkpoint
from ashore.package import Package, read

warp = pytest.importorskip("warp", reason="the stand-ins keep their state in Warp arrays; pip install warp-lang")

from ashore.integrations.comparing import record_run, replay_run, write_report  # noqa: E402
from ashore.integrations.exporting import export_managed  # noqa: E402
from integrations.isaac_stand_ins import (  # noqa: E402
    Actor,
    CircularBuffer,
    Environment,
    ObservationManager,
    Physics,
    StandInDeployment,
    StandInLab,
)

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src" / "ashore"
FRAMEWORKS = (
    "isaaclab",
    "isaaclab_tasks",
    "isaaclab_newton",
    "mjlab",
    "mujoco",
    "warp",
    "rsl_rl",
    "gymnasium",
    "leapp",
)
WIDTH = 28


def export(env: Any, actor: Any, out: Path) -> Package:
    return export_managed(env, actor, out, StandInLab(), groups=actor.groups, picture=False, summary=False)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    return export(Environment(), Actor(WIDTH), tmp_path_factory.mktemp("review") / "toy")


# --- no hard dependency -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", ["integrations", "deploy"])
def test_every_module_is_imported_without_any_framework(layer: str) -> None:
    names = [f"ashore.{layer}.{path.stem}" for path in (SOURCE / layer).glob("*.py") if path.stem != "__init__"]
    assert f"ashore.{layer}.isaaclab" in names
    code = f"import importlib, sys; [importlib.import_module(one) for one in {names!r}]"
    code += f"; print(sorted(set({FRAMEWORKS!r}) & sys.modules.keys()))"
    done = support.run_python(code)
    assert done.stdout == "[]\n", done.stdout + done.stderr


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {path.parent for path in SOURCE.rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []


# --- buffers ----------------------------------------------------------------------------------------------------------


def test_a_buffer_that_was_reset_and_is_read_gives_what_the_frameworks_own_gives() -> None:
    ring, own = CircularBuffer(3, 2), CircularBuffer(3, 2)
    for buffer in (ring, own):
        buffer.append(torch.tensor([[1.0], [2.0]]))
    stand_in = History(ring, "here")
    for rows in (None, torch.tensor([1])):
        for buffer in (stand_in, own):
            buffer.reset(rows)
        torch.testing.assert_close(stand_in.buffer, own.buffer)
        assert stand_in.current_length.tolist() == own.current_length.tolist()
        for value in (5.0, 6.0, 7.0, 8.0):
            for buffer in (stand_in, own):
                buffer.append(torch.full((2, 1), value))
            torch.testing.assert_close(stand_in.buffer, own.buffer)


def test_a_history_that_was_never_filled_can_be_exported(tmp_path: Path) -> None:
    env = Environment()
    assert env.observation_manager._group_obs_term_history_buffer["policy"]["gravity"]._buffer is None
    export(env, Actor(WIDTH), tmp_path / "toy")
    assert env.observation_manager._group_obs_term_history_buffer["policy"]["gravity"]._buffer is None


def test_training_keeps_its_own_buffers_and_methods(tmp_path: Path) -> None:
    env = Environment()
    env.reset()
    rings = dict(env.observation_manager._group_obs_term_history_buffer["policy"])
    methods = {kind: dict(vars(kind)) for kind in (CircularBuffer, ObservationManager, Environment)}
    managers = {name: value for name, value in vars(env).items() if name.endswith("_manager")}
    export(env, Actor(WIDTH), tmp_path / "toy")
    after = env.observation_manager._group_obs_term_history_buffer["policy"]
    assert all(after[name] is ring for name, ring in rings.items())
    assert all(vars(kind) == before for kind, before in methods.items())
    assert all(vars(env)[name] is one for name, one in managers.items())


# --- nothing of the process stays changed -----------------------------------------------------------------------------


def process() -> dict[str, object]:
    """What an export could leave behind for others in the process."""
    return {
        "scripting": torch.jit._state._enabled.enabled,  # pyright: ignore[reportPrivateUsage]
        "to_torch": warp.to_torch,
        "profiler": sys.getprofile(),
        "modes": torch._C._len_torch_dispatch_stack(),
        "functions": torch._C._len_torch_function_stack(),
        "grad": torch.is_grad_enabled(),
        "dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "random": torch.get_rng_state().tolist(),
        "numpy": np.random.get_state()[1].tolist(),  # type: ignore[index]
    }


def test_an_export_leaves_the_process_as_it_was(tmp_path: Path) -> None:
    env, actor = Environment(), Actor(WIDTH)
    before = process()
    assert before["scripting"] is True
    export(env, actor, tmp_path / "toy")
    assert process() == before


def test_so_does_an_export_that_fails(tmp_path: Path) -> None:
    class Leaking(Actor):
        def forward(self, obs: Any) -> torch.Tensor:
            return super().forward(obs) * float(obs["policy"].sum())

    env, actor = Environment(), Leaking(WIDTH)
    before, steps = process(), Physics.steps
    with pytest.raises(ExportError, match="value_leak"):
        export(env, actor, tmp_path / "toy")
    assert process() == before
    assert Physics.steps == steps
    assert not (tmp_path / "toy").exists()


# --- the deployment environment ---------------------------------------------------------------------------------------


def test_the_deployment_moves_as_training_did(package: Package) -> None:
    env, actor = Environment(noisy=False), Actor(WIDTH)
    lab = StandInLab()
    moments = record_run(env, actor, ashore.load(package), lab, steps=40, seed=2)
    with StandInDeployment(package) as deployment:
        found = replay_run(moments, deployment, lab, atol=1e-5)
    assert found.first is None
    assert found.resets >= 2
    assert max(found.worst.values()) < 1e-5
    assert {"sim.pos", "sim.vel", "actions", "joint_pos"} <= found.worst.keys()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_deployment_that_is_no_longer_finite_is_no_equal_one(package: Package, value: float, tmp_path: Path) -> None:
    class Diverging(StandInLab):
        def state(self, env: Any) -> dict[str, np.ndarray]:
            found = super().state(env)
            if isinstance(env, StandInDeployment):
                found["vel"][0, -1] = value
            return found

    lab = Diverging()
    moments = record_run(Environment(noisy=False), Actor(WIDTH), ashore.load(package), lab, steps=3, seed=2)
    with StandInDeployment(package) as deployment:
        found = replay_run(moments, deployment, lab, atol=1e-5)
    assert not found.ok
    assert found.first is not None
    assert (found.first.step, found.first.port) == (0, "sim.vel")
    assert found.worst["sim.vel"] == np.inf
    kept = write_report(read(shutil.copytree(package.path, tmp_path / "p")), found).read("report/compare_sim.json")
    assert json.loads(kept, parse_constant=pytest.fail)["worst"]["sim.vel"] == "inf"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_an_interrupt_in_a_step_closes_the_simulator_once(package: Package, error: type[BaseException]) -> None:
    deployment = StandInDeployment(package)
    deployment.advance = lambda: (_ for _ in ()).throw(error)  # type: ignore[method-assign]
    with pytest.raises(error), deployment:
        deployment.reset()
        deployment.step({"velocity": np.zeros((1, 3), np.float32)})
    assert deployment.shut_times == 1
    deployment.close()
    assert deployment.shut_times == 1
    with pytest.raises(BindError, match="this deployment environment is closed"):
        deployment.reset()


def test_a_number_of_robots_that_the_package_is_not_for_is_refused(package: Package) -> None:
    with pytest.raises(
        BindError, match='the package is for 1 environment, and num_envs is 2; export it with batch="dyn'
    ):
        StandInDeployment(package, num_envs=2)


def test_outputs_are_written_again_in_every_substep(package: Package) -> None:
    """A relative action moves its target with the joint, between two decisions."""
    with StandInDeployment(package) as deployment:
        deployment.reset()
        deployment.robot.data.arrays["vel"].fill_(1.0)
        targets: list[np.ndarray] = []
        advance = deployment.advance
        deployment.advance = lambda: (targets.append(deployment.robot.targets.numpy().copy()), advance())  # type: ignore[method-assign,assign,func-returns-value]
        deployment.step({"velocity": np.zeros((1, 3), np.float32)})
    assert len(targets) == 2
    assert np.abs(targets[1] - targets[0]).max() > 1e-3


# --- tests that run everywhere ----------------------------------------------------------------------------------------


def test_checkpoints_are_here_and_hold_nothing_but_tensors() -> None:
    found = sorted(path.name for path in (HERE / "checkpoints").glob("*.pt"))
    assert found == ["ant_lstm.pt", "ant_mlp.pt", "cartpole_lstm.pt", "cartpole_mlp.pt"]
    for name in found:
        state = read_checkpoint(HERE / "checkpoints" / name)["actor_state_dict"]
        assert ("rnn.rnn.weight_hh_l0" in state) == ("lstm" in name)


def test_no_test_fetches_anything() -> None:
    fetching = re.compile(r"urllib|requests\.get|urlopen|use_pretrained|wget|retrieve_file_path\(")
    files = [path for path in HERE.glob("*.py") if path != Path(__file__)]
    assert [path.name for path in files if fetching.search(path.read_text())] == []
