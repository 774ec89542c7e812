"""``ashore export``, ``deploy`` and ``compare-sim`` with mjlab.

Each runs once as a user runs it, in a process of its own; to import mjlab takes seconds, so that what else there is to
see of a command runs in this one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import support
from ashore.cli import main
from ashore.cli.simulators import find_checkpoint
from ashore.errors import InputError
from ashore.package import read
from integrations.mjlab_tasks import CARTPOLE, opened, save_weights

TASK = ("--task", CARTPOLE)


def ashore(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ashore", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env={**os.environ, "COLUMNS": "200"})


def machine(*arguments: object) -> Any:
    done = ashore(*arguments, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


Here = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Here:
    """Runs a command in this process."""

    def run_command(*arguments: object) -> subprocess.CompletedProcess[str]:
        given = ["ashore", *map(str, arguments)]
        monkeypatch.setattr(sys, "argv", given)
        capfd.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        return subprocess.CompletedProcess(given, int(stop.value.code or 0), *capfd.readouterr())

    return run_command


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a training run, with random weights in it."""
    env, actor = opened(CARTPOLE)
    env.close()
    folder = tmp_path_factory.mktemp("runs") / "2026-01-02_03-04-05"
    save_weights(actor, folder / "model_7.pt")
    return folder


@pytest.fixture(scope="module")
def package(run: Path) -> Path:
    """Exported with the option names that the neighbour has, spelled as it spells them."""
    options = ("--export_save_path", run / "out", "--export_task_name", "cart", "--export_method", "onnx-dynamo")
    told = machine(
        *("export", "mjlab", *TASK, "--checkpoint", run / "model_7.pt", *options, "--validation_steps", "3"),
        *("--disable_graph_visualization", "--num-steps", "12", "--model", run / "cart.mjb"),
    )
    assert told["package"] == str(run / "out" / "cart")
    assert told["inputs"] == {"joint_pos": "state:cartpole:joint_pos", "joint_vel": "state:cartpole:joint_vel"}
    assert told["outputs"]["joint_effort_target"] == "write:cartpole:set_joint_effort_target"
    assert told["joints"] == 2
    assert told["verification"]["status"] == "passed"
    assert told["verification"]["max_abs_error"] < 1e-5
    assert told["seconds"].keys() == {"environment", "export"}
    return run / "out" / "cart"


# --- export ----------------------------------------------------------------------------------------------------------


def test_an_exported_package_is_what_was_asked_for(package: Path, here: Here) -> None:
    manifest = read(package).manifest
    assert manifest.name == "cart"
    assert manifest.provenance.task == CARTPOLE
    assert manifest.provenance.checkpoint is not None
    assert manifest.provenance.checkpoint.name == "model_7.pt"
    assert not (package / "graph.svg").exists()
    assert here("verify", package).returncode == 0


def test_without_out_the_package_lies_beside_the_checkpoint_of_the_newest_run(run: Path, here: Here) -> None:
    """And the summary is a table; what the simulator prints goes elsewhere."""
    arguments = ("--checkpoint", run.parent, "--load_run", "2026.*", "--load_checkpoint", r"model_\d+.pt")
    done = here("export", "mjlab", *TASK, *arguments, "--validation-steps", "0")
    assert done.returncode == 0, done.stderr
    assert (run / CARTPOLE / "manifest.json").is_file()
    assert (run / CARTPOLE / "graph.svg").is_file()
    for text in ("joint_pos", "m rad", "state:cartpole:joint_pos", "write:cartpole:set_joint_effort_target"):
        assert text in done.stdout
    assert "not verified" in done.stdout
    assert "2 joints, decides every 0.05 s, 5 substeps" in done.stdout
    assert "MLPModel" not in done.stdout
    assert "MLPModel" in done.stderr


def test_the_exported_model_is_one_to_play_in(package: Path, run: Path) -> None:
    told = machine("play", package, "--mjcf", run / "cart.mjb", "--seconds", "0.5")
    assert told["decisions"] == 10
    assert told["signals"]["joint_effort_target"] == "joint_effort_target"


Refused = Callable[..., str]


@pytest.fixture
def refused(here: Here) -> Refused:
    """Gives the message of a command that is refused, to people and to machines."""

    def refuse(*arguments: object) -> str:
        done = here(*arguments)
        assert done.returncode == 3, done.stdout + done.stderr
        told = here(*arguments, "--json")
        assert told.returncode == 3
        message = json.loads(told.stdout)["message"]
        assert message in done.stderr
        return message

    return refuse


def test_a_missing_checkpoint_is_named(tmp_path: Path, refused: Refused) -> None:
    message = refused("export", "mjlab", *TASK, "--checkpoint", tmp_path / "model_1.pt")
    assert f"--checkpoint {tmp_path / 'model_1.pt'}: there is no such file" in message


def test_a_folder_without_runs_is_named(tmp_path: Path, refused: Refused) -> None:
    message = refused("export", "mjlab", *TASK, "--checkpoint", tmp_path)
    assert "there is no run that matches '.*'; give --checkpoint, or --load-run" in message


def test_an_unknown_task_is_refused_with_the_one_that_was_meant(run: Path, refused: Refused) -> None:
    message = refused("export", "mjlab", "--task", "Mjlab-Cartpole-Balanc", "--checkpoint", run / "model_7.pt")
    assert "mjlab has no task 'Mjlab-Cartpole-Balanc'; did you mean 'Mjlab-Cartpole-Balance'?" in message


def test_a_task_that_follows_a_motion_asks_for_it(run: Path, refused: Refused) -> None:
    task = ("--task", "Mjlab-Tracking-Flat-Unitree-G1", "--checkpoint", run / "model_7.pt")
    assert "follows a motion; say which file has it, with motion (--motion-file)" in refused("export", "mjlab", *task)


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "model.pt").write_text("weights")
    message = refused("export", "mjlab", *TASK, "--checkpoint", tmp_path / "model.pt")
    assert f"{tmp_path / 'model.pt'}: " in message
    assert [one.name for one in tmp_path.iterdir()] == ["model.pt"]


class Evil:
    """Runs code when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_a_checkpoint_that_would_run_code_is_refused_unless_it_is_trusted(
    run: Path, tmp_path: Path, here: Here, refused: Refused
) -> None:
    checkpoint, trace = tmp_path / "model.pt", tmp_path / "was_here"
    weights = torch.load(run / "model_7.pt")
    torch.save({**weights, "infos": OrderedDict(evil=Evil(trace))}, checkpoint)
    command = ("export", "mjlab", *TASK, "--checkpoint", checkpoint)
    assert "reading it could run code" in refused(*command)
    assert not trace.exists()
    assert [one.name for one in tmp_path.iterdir()] == ["model.pt"]
    done = here(*command, "--trust", "--validation-steps", "0", "--no-graph")
    assert done.returncode == 0, done.stderr
    assert trace.exists()


def test_what_is_wrong_on_the_command_line_is_exit_code_2(run: Path, here: Here) -> None:
    command = ("export", "mjlab", *TASK, "--checkpoint", run / "model_7.pt")
    for wrong in (("--export-method", "onnx"), ("--num-steps", "1"), ("--batch", "2")):
        assert here(*command, *wrong).returncode == 2
    assert here("export", "mjlab").returncode == 2


def test_the_newest_checkpoint_of_the_newest_run_is_found(tmp_path: Path) -> None:
    for name in ("2025-01-01/model_900.pt", "2026-01-01/model_50.pt", "2026-01-01/model_100.pt", "2026-01-01/a.onnx"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    pattern = r"model_.*\.pt"
    assert find_checkpoint(tmp_path, ".*", pattern) == tmp_path / "2026-01-01" / "model_100.pt"
    assert find_checkpoint(tmp_path, "2025.*", pattern) == tmp_path / "2025-01-01" / "model_900.pt"
    assert find_checkpoint(tmp_path, ".*", "model_50.pt") == tmp_path / "2026-01-01" / "model_50.pt"
    with pytest.raises(InputError, match="there is no checkpoint that matches 'best.*'"):
        find_checkpoint(tmp_path, ".*", "best.*")


# --- deploy ----------------------------------------------------------------------------------------------------------


def test_a_deployment_is_told_to_machines(package: Path) -> None:
    told = machine("deploy", "mjlab", package, *TASK, "--steps", "20")
    assert (told["steps"], told["interrupted"], told["num_envs"], told["finite"]) == (20, False, 1, True)
    assert len(told["state"]["qpos"][0]) == 2
    assert told["state"]["qpos"][0] != [0.0, 0.0]


def test_a_deployment_is_told_in_words_and_refuses_what_does_not_fit(
    package: Path, here: Here, refused: Refused
) -> None:
    done = here("deploy", "mjlab", package, *TASK, "--steps", "3")
    assert done.stdout == f"cart ran for 3 decisions in {CARTPOLE}, 1 environments\n"
    assert "num_envs is 2" in refused("deploy", "mjlab", package, *TASK, "--num-envs", "2")
    wrong = ("--command", "joint_pos=a,b")
    assert "expected numbers with commas between them, got 'a,b'" in refused("deploy", "mjlab", package, *TASK, *wrong)


INTERRUPT = """
import os, signal, sys
from ashore.cli import main
from ashore.deploy.mjlab import MjlabDeploymentEnv
from ashore.errors import BindError

stepped, step = [], MjlabDeploymentEnv.step

def interrupted(self, *given):
    stepped.append(self)
    if len(stepped) == 5:
        os.kill(os.getpid(), signal.SIGINT)
    return step(self, *given)

MjlabDeploymentEnv.step = interrupted
sys.argv = ["ashore", "deploy", "mjlab", *sys.argv[1:], "--json"]
try:
    main()
except SystemExit as stop:
    assert stop.code in (0, None), stop.code
try:
    stepped[0].step()
except BindError as error:
    print(error)
"""


def test_an_interrupt_ends_a_deployment_and_closes_it(package: Path) -> None:
    """As Ctrl-C does in the middle of a step, which is finished."""
    done = support.run_python(INTERRUPT, str(package), *TASK, "--steps", "1000000")
    assert done.returncode == 0, done.stderr
    told, _, closed = done.stdout.rpartition("this deployment environment is closed")
    assert closed == "\n"
    report = json.loads(told)
    assert report["interrupted"] is True
    assert report["steps"] == 5
    assert "Traceback" not in done.stderr


# --- compare-sim -----------------------------------------------------------------------------------------------------


def test_a_comparison_is_told_and_kept_in_the_package(package: Path, run: Path, here: Here) -> None:
    command = ("compare-sim", "mjlab", package, *TASK, "--checkpoint", run / "model_7.pt", "--steps", "12")
    told = machine(*command, "--seed", "3")
    assert (told["ok"], told["steps"], told["first"]) == (True, 12, None)
    assert told["worst"]["sim.qpos"] <= 1e-5
    again = read(package)
    assert json.loads(again.read("report/compare_sim.json"))["steps"] == 12
    assert "report/compare_sim.safetensors" in again.manifest.files
    assert here("verify", package).returncode == 0


def test_a_difference_is_exit_code_1_and_named_by_port(package: Path, tmp_path: Path, here: Here) -> None:
    env, actor = opened(CARTPOLE, seed=55)
    env.close()
    other = save_weights(actor, tmp_path / "other.pt")
    before = (package / "manifest.json").read_bytes()
    done = here("compare-sim", "mjlab", package, *TASK, "--checkpoint", other, "--steps", "4", "--no-report")
    assert done.returncode == 1
    assert "first divergence at step 0: actions[0, 0] is " in done.stdout
    assert (package / "manifest.json").read_bytes() == before
