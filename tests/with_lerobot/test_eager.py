"""The reference itself: what it loads, records and repeats can be trusted."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import policies
import pytest
import torch
from eager import CPU, Draw, Eager, run
from language import paligemma_tokenizer
from lerobot.configs.types import RTCAttentionSchedule
from lerobot.policies.rtc.configuration_rtc import RTCConfig
from lerobot.policies.rtc.modeling_rtc import RTCProcessor
from lerobot.utils.control_utils import predict_action
from statistics_of_data import CONSTANT, STILL_ACTION, STILL_JOINT, TASK, observations

TICKS, RESET = 14, 6

# For each policy: after how many ticks it asks its network again, and what it draws then.
PERIOD = {"act": 10, "act_ensembling": 1, "ddpm": 8, "ddim": 8, "vqbet": 5, "smolvla": 4, "pi05": 4}
DRAWS = {
    "act": [],
    "act_ensembling": [],
    "ddpm": [("normal", (1, 16, 6))] * 5,  # where it starts, and at each of 5 steps but the last
    "ddim": [("normal", (1, 16, 6))],
    "vqbet": [("exponential", (14, 8))],  # 7 queries for actions, 2 codes each; 8 codes to choose from
    "smolvla": [("normal", (1, 8, 12))],
    "pi05": [("normal", (1, 8, 12))],
}
HAS_HISTORY = {"ddpm", "ddim", "vqbet"}


def test_policies_act_alike_in_a_process_of_their_own(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in policies.POLICIES]
    for folder in folders:
        policies.POLICIES[folder.name](folder)
    out = tmp_path / "actions.npz"
    command = [sys.executable, str(Path(__file__).with_name("eager.py")), "5", str(TICKS), str(RESET), str(out)]
    subprocess.run([*command, *map(str, folders)], check=True, capture_output=True)
    with np.load(out) as there:
        for folder in folders:
            here = Eager(folder)
            torch.manual_seed(5)
            done = run(here, observations(here.config, TICKS), TASK, [RESET])
            np.testing.assert_allclose(there[folder.name], done.actions, rtol=1e-5, atol=1e-5, err_msg=folder.name)


def test_files_are_those_that_training_writes(saved: Path) -> None:
    assert json.loads((saved / "policy_postprocessor.json").read_text())["steps"][0]["registry_name"] == (
        "unnormalizer_processor"
    )
    steps = json.loads((saved / "policy_preprocessor.json").read_text())["steps"]
    (normalizer,) = [step for step in steps if step["registry_name"] == "normalizer_processor"]
    assert (saved / normalizer["state_file"]).is_file()
    assert (saved / "config.json").is_file()
    assert (saved / "model.safetensors").is_file()


def test_what_is_recorded_is_what_torch_draws(eager: Eager) -> None:
    seen = list(observations(eager.config, TICKS))
    torch.manual_seed(1)
    recorded = run(eager, seen, TASK).actions
    torch.manual_seed(1)
    eager.reset()
    for tick, one in enumerate(seen):
        action = predict_action(one, eager.policy, CPU, eager.before, eager.after, use_amp=False, task=TASK)
        np.testing.assert_array_equal(action.squeeze(0).numpy(), recorded[tick])


def test_draws_come_with_each_chunk_and_after_a_reset(eager: Eager, name: str) -> None:
    draws = run(eager, observations(eager.config, TICKS), TASK, [RESET]).draws
    for tick, drawn in enumerate(draws):
        since = tick if tick < RESET else tick - RESET
        expected = DRAWS[name] if since % PERIOD[name] == 0 else []
        assert [(draw.kind, draw.value.shape) for draw in drawn] == expected


def test_given_draws_repeat_the_actions_and_nothing_else_is_random(eager: Eager) -> None:
    seen = list(observations(eager.config, TICKS))
    first = run(eager, seen, TASK, [RESET])
    before = torch.get_rng_state()
    again = run(eager, seen, TASK, [RESET], given=first.draws)
    assert torch.equal(before, torch.get_rng_state())
    np.testing.assert_array_equal(first.actions, again.actions)


@pytest.mark.parametrize("name", ["ddpm"], indirect=True)
def test_draws_of_another_shape_are_refused(eager: Eager) -> None:
    (one,) = observations(eager.config, 1)
    eager.reset()
    with pytest.raises(
        ValueError, match=r"draws normal numbers of shape \(1, 16, 6\); given: \('normal', \(1, 8, 6\)\)"
    ):
        eager.act(one, TASK, [Draw("normal", np.zeros((1, 8, 6), np.float32))])


def test_a_reset_starts_anew(eager: Eager) -> None:
    seen = list(observations(eager.config, TICKS))
    torch.manual_seed(2)
    with_reset = run(eager, seen, TASK, [RESET])
    fresh = run(eager, seen[RESET:], TASK, given=with_reset.draws[RESET:])
    np.testing.assert_array_equal(with_reset.actions[RESET:], fresh.actions)
    torch.manual_seed(2)
    without = run(eager, seen, TASK)
    np.testing.assert_array_equal(with_reset.actions[:RESET], without.actions[:RESET])
    assert np.abs(with_reset.actions[RESET] - without.actions[RESET]).max() > 1e-4


def test_every_input_is_felt_in_the_actions(eager: Eager, name: str) -> None:
    one, other = observations(eager.config, 2)
    eager.reset()
    action, drawn = eager.act(one, TASK)
    for key in one:
        eager.reset()
        changed, _ = eager.act(one | {key: other[key]}, TASK, drawn)
        assert np.abs(changed - action).max() > 1e-3, key
    eager.reset()
    told, _ = eager.act(one, "open the drawer", drawn)
    listens = name in {"smolvla", "pi05"}
    assert (np.abs(told - action).max() > 1e-3) == listens


def test_history_is_felt_and_starts_as_copies_of_the_first_observation(eager: Eager, name: str) -> None:
    period = PERIOD[name]
    seen = list(observations(eager.config, period + 1))
    whole = run(eager, seen, TASK)
    shorter = run(eager, [seen[-1]], TASK, given=[whole.draws[-1]])
    difference = np.abs(whole.actions[-1] - shorter.actions[0]).max()
    if name in HAS_HISTORY or name == "act_ensembling":
        assert difference > 1e-4
    else:
        assert difference == 0
    if name == "act_ensembling":  # averages two elements of a chunk
        return
    copies = run(
        eager, [seen[-1]] * (period + 1), TASK, given=[whole.draws[-1] if draws else [] for draws in whole.draws]
    )
    np.testing.assert_array_equal(copies.actions[-1], shorter.actions[0])


def test_a_batch_is_one(eager: Eager) -> None:
    (one,) = observations(eager.config, 1)
    for key, value in eager.prepare(one, TASK).items():
        if isinstance(value, torch.Tensor):
            assert value.shape[0] == 1, key


def test_what_never_moves_stays_finite_and_in_place(eager: Eager) -> None:
    done = run(eager, observations(eager.config, 3), TASK)
    np.testing.assert_allclose(done.actions[:, STILL_ACTION], CONSTANT, atol=1e-7)
    (one,) = observations(eager.config, 1)
    state = eager.prepare(one, TASK)["observation.state"]
    assert state[0, STILL_JOINT] in (0.0, -1.0)
    assert bool(state.isfinite().all())


@pytest.mark.parametrize("name", ["pi05"], indirect=True)
def test_the_prompt_of_pi05_holds_32_binned_states_whatever_the_configuration_says(eager: Eager) -> None:
    (one,) = observations(eager.config, 1)
    ready = eager.prepare(one, TASK)
    tokens = ready["observation.language.tokens"][0]
    mask = ready["observation.language.attention_mask"][0]
    state = np.zeros(32)
    state[:7] = ready["observation.state"][0].numpy()
    bins = np.digitize(state, np.linspace(-1, 1, 257)[:-1]) - 1
    prompt = f"Task: pick up the red block, State: {' '.join(map(str, bins))};\nAction: "
    assert ready["task"] == [prompt]
    expected = paligemma_tokenizer()(prompt)["input_ids"]
    assert len(expected) < len(tokens)
    assert tokens[mask].tolist() == expected
    assert not mask[len(expected) :].any()


@pytest.mark.parametrize("name", ["smolvla", "pi05"], indirect=True)
def test_real_time_chunking_follows_what_is_left_over(eager: Eager) -> None:
    one, other = observations(eager.config, 2)
    raw, _, _ = eager.chunk(one, TASK)
    free, _, drawn = eager.chunk(other, TASK)
    eager.policy.config.rtc_config.enabled = True
    try:
        left = torch.from_numpy(raw[2:])
        guided, _, _ = eager.chunk(other, TASK, drawn, prev_chunk_left_over=left, inference_delay=2)
        alone, _, _ = eager.chunk(other, TASK, drawn)
    finally:
        eager.policy.config.rtc_config.enabled = False
    np.testing.assert_array_equal(alone, free)
    assert np.abs(guided[:2] - raw[2:4]).mean() < 0.5 * np.abs(free[:2] - raw[2:4]).mean()


@pytest.mark.parametrize("schedule", list(RTCAttentionSchedule))
def test_real_time_chunking_needs_no_gradient(schedule: RTCAttentionSchedule) -> None:
    """What an exported policy computes instead: LeRobot differentiates a velocity it holds constant."""
    steps, width, steps_left = 8, 3, 6
    rng = np.random.default_rng(0)
    x, left = rng.normal(size=(1, steps, width)), rng.normal(size=(1, steps_left, width))
    weight = torch.from_numpy(rng.normal(size=(width, width)))
    processor = RTCProcessor(RTCConfig(enabled=True, prefix_attention_schedule=schedule, execution_horizon=5))

    def velocity(of: torch.Tensor) -> torch.Tensor:
        return torch.tanh(of @ weight)

    for time in (1.0, 0.8, 0.2):
        for delay in (0, 2, 7):
            theirs = processor.denoise_step(
                torch.from_numpy(x), torch.from_numpy(left), delay, time, original_denoise_step_partial=velocity
            )
            v = velocity(torch.from_numpy(x)).numpy()
            previous = np.zeros_like(x)
            previous[:, :steps_left] = left
            correction = (previous - (x - time * v)) * prefix_weights(schedule, delay, 5, steps)[:, None]
            tau = 1 - time
            strength = math.inf if tau == 0 else (1 - tau) / tau * ((1 - tau) ** 2 + tau**2) / (1 - tau) ** 2
            np.testing.assert_allclose(theirs.numpy(), v - min(strength, 10.0) * correction, atol=1e-5)


def prefix_weights(schedule: RTCAttentionSchedule, delay: int, horizon: int, steps: int) -> np.ndarray:
    """How much each step of a chunk follows what is left over."""
    start = min(delay, horizon)
    weights = np.zeros(steps)
    ramp = np.linspace(1, 0, horizon - start + 2)[1:-1]
    if schedule == RTCAttentionSchedule.ONES:
        ramp = np.ones_like(ramp)
    elif schedule == RTCAttentionSchedule.ZEROS:
        ramp = np.zeros_like(ramp)
    elif schedule == RTCAttentionSchedule.EXP:
        ramp = ramp * np.expm1(ramp) / (math.e - 1)
    weights[:start] = 1
    weights[start:horizon] = ramp
    return weights
