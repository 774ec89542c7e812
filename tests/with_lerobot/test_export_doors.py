"""The ways to a package: a policy in a script, the command line, guidance; and the way back into LeRobot's loops."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from beside import noise_of, run_package
from eager import CPU, Eager, run
from language import paligemma_tokenizer
from lerobot.policies.act.modeling_act import ACTPolicy
from lerobot.policies.diffusion.modeling_diffusion import DiffusionPolicy
from lerobot.policies.factory import get_policy_class
from lerobot.policies.utils import prepare_observation_for_inference
from lerobot.utils.control_utils import predict_action
from statistics_of_data import TASK, observations, statistics
from typer.testing import CliRunner

from ashore import load
from ashore.cli.main import app
from ashore.errors import InputError
from ashore.integrations.lerobot import ExportedLeRobotPolicy, export_lerobot
from ashore.package import Package, read
from ashore.staged import export_policy, load_exported_policy


def batch_of(eager: Eager, seen: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """What LeRobot's datasets give: images as float32 from 0 to 1, channels first."""
    batch = prepare_observation_for_inference(dict(seen), CPU)
    return {key: value for key, value in batch.items() if isinstance(value, torch.Tensor)}


@pytest.mark.parametrize("name", ["act"], indirect=True)
def test_a_script_with_attached_statistics(saved: Path, eager: Eager, tmp_path: Path, monkeypatch: Any) -> None:
    """The example of LeRobot's pull request 3493: only imports, and how `export` is called, are others."""
    monkeypatch.chdir(tmp_path)
    seen = list(observations(eager.config, 12))
    example_batch = batch_of(eager, seen[0])
    policy = ACTPolicy.from_pretrained(saved)
    policy.config.stats = statistics(14, 14, ("top", "wrist"))  # required for normalized export

    export_policy(policy, "./act_export", backend="onnx", example_batch=example_batch, picture=False)

    exported = load_exported_policy("./act_export", backend="onnx", device="cpu")
    done = run(eager, seen, TASK)
    for tick, one in enumerate(seen):
        raw_observation = {key: value.numpy() for key, value in batch_of(eager, one).items()}
        action = exported.select_action(raw_observation)
        assert np.abs(action - done.actions[tick]).max() <= 1e-5
    _, chunk, _ = eager.chunk(seen[0], TASK)
    assert exported.predict_action_chunk({k: v.numpy() for k, v in example_batch.items()}).shape == (1, 20, 14)
    exported.reset()
    assert np.abs(exported.predict_action_chunk({k: v.numpy() for k, v in example_batch.items()}) - chunk).max() <= 1e-5

    exported = load_exported_policy("./act_export", backend="openvino", device="CPU")
    raw_observation = {key: value.numpy() for key, value in example_batch.items()}
    action = exported.select_action(raw_observation)
    assert np.abs(action - chunk[0]).max() <= 1e-4
    assert np.abs(exported.predict_action_chunk(raw_observation) - chunk).max() <= 1e-4


@pytest.mark.parametrize("name", ["ddim"], indirect=True)
def test_right_after_from_pretrained_the_processors_beside_are_found(saved: Path, eager: Eager, tmp_path: Path) -> None:
    policy = DiffusionPolicy.from_pretrained(saved)
    policy.config.pretrained_path = saved
    policy.train()
    package = export_policy(policy, tmp_path / "package", picture=False)
    assert policy.training
    assert package.manifest.metadata["lerobot"]["max_abs_error"] <= 1e-5
    seen = list(observations(eager.config, 9))
    done = run(eager, seen, TASK)
    assert np.abs(run_package(load(package), seen, TASK, [], done.draws) - done.actions).max() <= 1e-5


@pytest.mark.parametrize("name", ["pi05"], indirect=True)
def test_a_script_without_normalization_and_with_tokens_in_its_example(
    saved: Path, eager: Eager, tmp_path: Path, monkeypatch: Any
) -> None:
    """The second example of LeRobot's pull request 3493; what it takes from the hub lies in the current folder."""
    monkeypatch.chdir(tmp_path)
    paligemma_tokenizer().save_pretrained("google/paligemma-3b-pt-224")
    (one,) = observations(eager.config, 1)
    tokens = {"observation.language.tokens": torch.ones(1, 160, dtype=torch.int64)}
    masks = {"observation.language.attention_mask": torch.ones(1, 160, dtype=torch.bool)}
    policy = get_policy_class("pi05_shaped").from_pretrained(saved, strict=False)

    export_policy(
        policy,
        "./pi05_export",
        backend="onnx",
        example_batch=batch_of(eager, one) | tokens | masks,
        include_normalization=False,
        picture=False,
    )
    exported = load_exported_policy("./pi05_export", backend="onnx")
    assert not [name for name in exported.manifest.stages if "normalize" in name]
    raw = {key: value[0].numpy() for key, value in batch_of(eager, one).items()}
    chunk = exported.predict_action_chunk(raw | {"task": "pick up the red block"}, num_steps=3, seed=0)
    assert chunk.shape == (8, 6)


@pytest.mark.parametrize("name", ["vqbet"], indirect=True)
def test_the_command_line(saved: Path, tmp_path: Path) -> None:
    out = tmp_path / "package"
    done = CliRunner().invoke(
        app, ["export", "lerobot", str(saved), "--out", str(out), "--backend", "openvino", "--json", "--no-graph"]
    )
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["policy"]["policy"] == "vqbet"
    assert said["verification"]["status"] == "passed"
    assert said["policy"]["max_abs_error"] <= 1e-4
    assert "observation.images.top" in said["inputs"]
    assert set(read(out).manifest.stages["model"].artifacts) == {"openvino"}


def test_the_command_line_refuses(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ashore", "export", "lerobot", str(tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 3
    assert "there is no config.json" in json.loads(done.stdout)["message"]


# --- in LeRobot's loops -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["act", "act_ensembling", "ddpm", "smolvla"], indirect=True)
def test_a_package_runs_in_a_loop_that_was_written_for_a_policy(package: Package, eager: Eager) -> None:
    seen = list(observations(eager.config, 12))
    done = run(eager, seen, TASK, [5])
    policy = ExportedLeRobotPolicy(package.path)
    assert isinstance(policy, torch.nn.Module)
    policy.eval()
    inner = load(package)
    for tick, one in enumerate(seen):
        if tick in (0, 5):
            policy.reset()
        noise = noise_of(done.draws[tick], inner)
        given = _with_noise(policy, noise)
        action = predict_action(
            one, given, policy.device, policy.preprocessor, policy.postprocessor, use_amp=False, task=TASK
        )
        assert action.shape == (1, done.actions.shape[1])
        assert np.abs(action[0].numpy() - done.actions[tick]).max() <= 1e-5


def _with_noise(policy: ExportedLeRobotPolicy, noise: dict[str, np.ndarray]) -> Any:
    class Fixed:
        def select_action(self, batch: Any) -> torch.Tensor:
            return policy.select_action(batch, noise=noise or None)

    return Fixed()


@pytest.mark.parametrize("name", ["act", "act_ensembling"], indirect=True)
def test_chunks_and_what_the_wrapper_refuses(package: Package, eager: Eager, name: str) -> None:
    (one,) = observations(eager.config, 1)
    policy = ExportedLeRobotPolicy(package.path)
    batch = batch_of(eager, one)
    if name == "act_ensembling":
        with pytest.raises(InputError, match="averages chunks over time"):
            policy.predict_action_chunk(batch)
        return
    _, chunk, _ = eager.chunk(one, TASK)
    assert np.abs(policy.predict_action_chunk(batch)[0].numpy() - chunk).max() <= 1e-5
    with pytest.raises(InputError, match="no real-time chunking"):
        policy.predict_action_chunk(batch, inference_delay=1)
    with pytest.raises(InputError, match="were no bytes"):
        policy.select_action(batch | {"observation.images.top": batch["observation.images.top"] * 0.9})


# --- real-time chunking -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guided(name: str, saved: Path, tmp_path_factory: pytest.TempPathFactory) -> Package:
    return export_lerobot(saved, tmp_path_factory.mktemp("guided") / name, guidance=True, picture=False)


@pytest.mark.parametrize("name", ["smolvla", "pi05"], indirect=True)
def test_real_time_chunking_is_that_of_lerobot(guided: Package, eager: Eager, name: str) -> None:
    assert guided.manifest.metadata["lerobot"]["max_abs_error"] <= 1e-5
    policy = ExportedLeRobotPolicy(guided.path)
    with pytest.raises(InputError, match="real-time chunking gives chunks"):
        policy.select_action({})
    eager.policy.config.rtc_config.enabled = True
    left, worst = None, 0.0
    try:
        for tick, one in enumerate(observations(eager.config, 8)):
            delay = tick % 4
            rtc = {"prev_chunk_left_over": left, "inference_delay": delay}
            raw, actions, drawn = eager.chunk(one, TASK, **rtc)
            ours = policy.predict_action_chunk(batch_of(eager, one) | {"task": TASK}, noise=drawn[0].value, **rtc)
            assert policy.left_over is not None
            worst = max(worst, float(np.abs(ours[0].numpy() - actions).max()))
            worst = max(worst, float(np.abs(policy.left_over[0].numpy() - raw).max()))
            left = torch.from_numpy(raw[2 + delay :])
    finally:
        eager.policy.config.rtc_config.enabled = False
    assert worst <= 1e-5
    with pytest.raises(InputError, match="execution_horizon: this package was exported with 4"):
        policy.predict_action_chunk({}, execution_horizon=7)
    with pytest.raises(InputError, match="inference_delay: say how many"):
        policy.predict_action_chunk(
            batch_of(eager, one) | {"task": TASK}, prev_chunk_left_over=left, noise=drawn[0].value
        )
