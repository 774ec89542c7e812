from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import looping
import numpy as np
import pytest
from looping import OBSERVATION, ROWS, SAMPLE, WIDTH, Loop, drawn, port

import ashore
from ashore.errors import InputError, ManifestError
from ashore.package import load_arrays
from ashore.runtime.loops import Body, Stepped, open_loop
from ashore.runtime.loops.noise_schedule import NoiseParams, Spacing, retained, steps_problem
from ashore.spec import Port, Stage

DATA = Path(__file__).parents[2] / "data" / "diffusers"
CASES = json.loads((DATA / "cases.json").read_text())["cases"]
REFERENCE = load_arrays((DATA / "reference.safetensors").read_bytes(), "reference.safetensors")
STEP = port("int64", 1)
LEROBOT = {
    "num_train_timesteps": 100,
    "num_inference_steps": 10,
    "beta_schedule": "squaredcos_cap_v2",
    "prediction_type": "epsilon",
    "clip_sample": True,
}
DENOISE = f"""
denoise (float[1,{ROWS},{WIDTH}] sample, int64[1] timestep, float[1,1,{WIDTH}] context)
    => (float[1,{ROWS},{WIDTH}] model_output) {{
    hundred = Constant<value_float = 100.0>()
    time = Cast<to = 1>(timestep)
    share = Div(time, hundred)
    pulled = Mul(sample, context)
    late = Add(pulled, share)
    model_output = Tanh(late)
}}
"""


def predict(sample: np.ndarray, timestep: np.ndarray, context: np.ndarray) -> np.ndarray:
    return np.tanh(sample * context + timestep.astype(np.float32) / np.float32(100))


def stage(kind: str, inputs: dict[str, Port] | None = None, **params: Any) -> Stage:
    values = {**LEROBOT, **params}
    given = {"noise": SAMPLE, "context": OBSERVATION, **(inputs or {})}
    if kind == "ddpm" and "step_noise" not in given:
        given["step_noise"] = port("float32", values["num_inference_steps"], *SAMPLE.shape)
    return looping.loop_stage(kind, values, given)


def body(inputs: dict[str, Port] | None = None, output: Port = SAMPLE) -> Stage:
    given = {"sample": SAMPLE, "timestep": STEP, "context": OBSERVATION, **(inputs or {})}
    return looping.body_stage(given, {"model_output": output})


def reference(index: int, name: str) -> np.ndarray:
    return REFERENCE[f"{index}/{name}"]


def given(index: int) -> dict[str, np.ndarray]:
    """The inputs of a recorded case."""
    names = ("noise", "context", "step_noise") if CASES[index]["runner"] == "ddpm" else ("noise", "context")
    return {name: reference(index, name) for name in names}


# --- against diffusers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", range(len(CASES)))
def test_each_step_is_that_of_diffusers(index: int) -> None:
    """On the same predictions, so that nothing but the steps is compared."""
    case, along, outputs = CASES[index], reference(index, "along"), iter(reference(index, "outputs"))
    loop = Loop(stage(case["runner"], **case["params"]), body(), lambda sample, timestep, context: next(outputs))
    last = loop(**given(index))
    samples = [*(seen["sample"] for seen in loop.spy.seen[1:]), last]
    assert [int(seen["timestep"][0]) for seen in loop.spy.seen] == reference(index, "timesteps").tolist()
    np.testing.assert_allclose(samples, along, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("index", range(len(CASES)))
def test_a_package_makes_the_sample_of_diffusers(index: int, tmp_path: Path) -> None:
    case = CASES[index]
    package = looping.package(tmp_path / "p", stage(case["runner"], **case["params"]), {"denoise": (body(), DENOISE)})
    values = given(index)
    seen = values.pop("context") - looping.INITIAL
    actions = ashore.load(package).step({"seen": seen, **values})["actions"]
    np.testing.assert_allclose(actions, reference(index, "along")[-1], rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("index", range(len(CASES)))
def test_the_noise_schedule_is_that_of_diffusers_to_the_bit(index: int) -> None:
    names = set(NoiseParams.__struct_fields__)
    params = NoiseParams(**{name: value for name, value in CASES[index]["params"].items() if name in names})
    np.testing.assert_array_equal(retained(params), reference(index, "retained"))


def test_the_reference_covers_what_it_is_for() -> None:
    for name, values in {
        "prediction_type": {"epsilon", "sample", "v_prediction"},
        "beta_schedule": {"linear", "scaled_linear", "squaredcos_cap_v2"},
        "timestep_spacing": {"leading", "trailing", "linspace", None},
        "variance_type": {"fixed_small", "fixed_small_log", "fixed_large", None},
        "set_alpha_to_one": {False, None},
        "clip_sample": {True, False},
        "steps_offset": {1, None},
    }.items():
        assert {case["params"].get(name) for case in CASES} == values


# --- by itself -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ddpm", "ddim"])
def test_a_package_denoises_for_several_decisions_with_a_reset(tmp_path: Path, kind: str) -> None:
    package = looping.package(tmp_path / "p", stage(kind), {"denoise": (body(), DENOISE)})
    policy, memory, again = ashore.load(package), looping.Sum(), Loop(stage(kind), body(), predict)
    for tick in range(6):
        if tick == 4:
            policy.reset()
            memory.reset()
        values = {"noise": drawn(*SAMPLE.shape)}
        if kind == "ddpm":
            values["step_noise"] = drawn(10, *SAMPLE.shape)
        seen = drawn(*OBSERVATION.shape)
        actions = policy.step({"seen": seen, **values})["actions"]
        np.testing.assert_allclose(actions, again(context=memory.step(seen), **values), atol=2e-5)


def test_the_noise_of_a_step_after_which_none_is_added_is_not_looked_at() -> None:
    loop, noise, rows = Loop(stage("ddpm"), body(), predict), drawn(*SAMPLE.shape), drawn(10, *SAMPLE.shape)
    first = loop(noise=noise, step_noise=rows)
    assert loop.spy.seen[-1]["timestep"] == 0
    rows[9] = np.nan
    np.testing.assert_array_equal(loop(noise=noise, step_noise=rows), first)
    rows[8] += 1
    assert np.abs(loop(noise=noise, step_noise=rows) - first).max() > 1e-3


@pytest.mark.parametrize("kind", ["ddpm", "ddim"])
def test_a_float16_body_is_accumulated_in_float32(kind: str) -> None:
    half = port("float16", *SAMPLE.shape)
    loop = Loop(stage(kind), body({"sample": half}, half), predict)
    exact = Loop(stage(kind), body(), predict)
    noise, context = drawn(*SAMPLE.shape), drawn(*OBSERVATION.shape)
    made, expected = loop(noise=noise, context=context), exact(noise=noise, context=context)
    assert loop.spy.seen[0]["sample"].dtype == np.float16
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, expected, atol=0.05)
    assert not np.array_equal(made, made.astype(np.float16))


@pytest.mark.parametrize("kind", ["ddpm", "ddim"])
def test_a_symbolic_batch_gives_each_row_its_own_sample(kind: str) -> None:
    rows, context = port("float32", "batch", ROWS, WIDTH), port("float32", "batch", 1, WIDTH)
    inputs = {"noise": rows, "context": context}
    if kind == "ddpm":
        inputs["step_noise"] = port("float32", 10, "batch", ROWS, WIDTH)
    loop = Loop(
        looping.loop_stage(kind, LEROBOT, inputs, rows),
        looping.body_stage(
            {"sample": rows, "timestep": port("int64", "batch"), "context": context}, {"model_output": rows}
        ),
        lambda sample, timestep, context: predict(sample, timestep.reshape(-1, 1, 1), context),
        batch=3,
    )
    single = Loop(stage(kind), body(), predict)
    values = {"noise": drawn(3, ROWS, WIDTH), "context": drawn(3, 1, WIDTH)}
    fresh = {"step_noise": drawn(10, 3, ROWS, WIDTH)} if kind == "ddpm" else {}
    made = loop(**values, **fresh)
    for row in range(3):
        one = {name: value[row : row + 1] for name, value in values.items()}
        one |= {name: value[:, row : row + 1] for name, value in fresh.items()}
        np.testing.assert_allclose(made[row : row + 1], single(**one), atol=1e-6)


def test_the_number_of_steps_may_change_between_calls_as_far_as_there_is_noise() -> None:
    loop, values = Loop(stage("ddpm"), body(), predict), {"noise": drawn(*SAMPLE.shape), "context": drawn(1, 1, WIDTH)}
    assert isinstance(loop.session, Stepped)
    rows = drawn(10, *SAMPLE.shape)
    first = loop(**values, step_noise=rows)
    for count in (4, 1, 10):
        loop.session.num_steps = count
        made = loop(**values, step_noise=rows)
        again = Loop(stage("ddpm", num_inference_steps=count), body(), predict)
        np.testing.assert_array_equal(made, again(**values, step_noise=rows[:count]))
    np.testing.assert_array_equal(made, first)
    with pytest.raises(InputError, match="here: num_steps: expected at most the 10 rows of 'step_noise', got 11"):
        loop.session.check_steps(11)


def test_the_number_of_steps_of_ddim_goes_up_to_the_timesteps_of_the_training() -> None:
    loop = Loop(stage("ddim"), body(), predict)
    loop.session.num_steps = 100
    loop()
    assert len(loop.spy.seen) == 100
    with pytest.raises(InputError, match="num_steps: expected at most the 100 timesteps of the training, got 101"):
        loop.session.num_steps = 101
    assert loop.session.num_steps == 100


@pytest.mark.parametrize("kind", ["ddpm", "ddim"])
def test_the_context_is_bound_where_it_lies_and_nothing_is_bound_again(kind: str) -> None:
    loop = Loop(stage(kind), body(), predict)
    for _ in range(3):
        loop(noise=drawn(*SAMPLE.shape))
    ((inputs, _),) = loop.spy.bound
    assert inputs["context"] is loop.inputs["context"]
    assert inputs["sample"] is loop.outputs["last"]


@pytest.mark.parametrize("kind", ["ddpm", "ddim"])
@pytest.mark.parametrize("prediction", ["epsilon", "sample", "v_prediction"])
def test_steps_allocate_no_arrays(kind: str, prediction: str) -> None:
    wide = port("float32", 1, 100, 1000)
    inputs = {"noise": wide} | ({"step_noise": port("float32", 10, 1, 100, 1000)} if kind == "ddpm" else {})
    stage_ = looping.loop_stage(kind, {**LEROBOT, "prediction_type": prediction}, inputs, wide)
    looping.check_allocations(stage_, looping.body_stage({"sample": wide, "timestep": STEP}, {"model_output": wide}))


# --- what is refused -------------------------------------------------------------------------------------------------


def refused(stage_: Stage, body_: Stage | None = None) -> str:
    with pytest.raises(ManifestError) as caught:
        open_loop("here", stage_, [Body("denoise", body_ or body(), looping.Spy(predict))])
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "params", "message"),
    [
        ("ddim", {"num_inference_steps": 0}, "Expected `int` >= 1 - at `$.num_inference_steps`"),
        ("ddim", {"num_train_timesteps": 200_000}, "Expected `int` <= 100000 - at `$.num_train_timesteps`"),
        ("ddim", {"beta_schedule": "sigmoid"}, "Invalid enum value 'sigmoid' - at `$.beta_schedule`"),
        ("ddim", {"prediction_type": "score"}, "Invalid enum value 'score' - at `$.prediction_type`"),
        ("ddim", {"trained_betas": [0.1]}, "Object contains unknown field `trained_betas`"),
        ("ddim", {"variance_type": "fixed_small"}, "Object contains unknown field `variance_type`"),
        ("ddpm", {"variance_type": "learned"}, "Invalid enum value 'learned' - at `$.variance_type`"),
        ("ddpm", {"set_alpha_to_one": True}, "Object contains unknown field `set_alpha_to_one`"),
        ("ddim", {"thresholding": True}, "expected thresholding to be false, got true"),
        ("ddpm", {"rescale_betas_zero_snr": True}, "expected rescale_betas_zero_snr to be false, got true"),
        ("ddim", {"eta": 0.5}, "expected an eta of 0, got 0.5; use ddpm for fresh noise"),
        ("ddpm", {"step_noise": "noise"}, "noise and step_noise are both 'noise'"),
        ("ddim", {"beta_start": 0.0}, "expected beta_start and beta_end between 0 and 1, got 0.0 and 0.02"),
        ("ddim", {"beta_end": 1.0}, "expected beta_start and beta_end between 0 and 1, got 0.0001 and 1.0"),
        (
            "ddim",
            {"beta_schedule": "linear", "beta_start": 0.9, "beta_end": 0.95},
            (
                "expected some of the sample and some noise at every timestep; this schedule keeps 0.1 of the sample "
                "at the first and 0 at the last"
            ),
        ),
        ("ddim", {"sample": "timestep"}, "sample and time are both 'timestep'"),
    ],
)
def test_params_are_read_strictly(kind: str, params: dict[str, Any], message: str) -> None:
    assert refused(stage(kind, **params)) == f"here: runner.params: {message}"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"num_inference_steps": 101}, "expected at most the 100 timesteps of the training, got 101"),
        (
            {"num_inference_steps": 100, "steps_offset": 1},
            (
                "100 steps with the spacing 'leading' and steps_offset 1 go from 100 to 1, in 100 steps; expected 100 "
                "of the 100 timesteps of the training, which begin at 0"
            ),
        ),
    ],
)
def test_steps_that_the_training_did_not_have_are_refused(params: dict[str, Any], message: str) -> None:
    assert refused(stage("ddim", **params)) == f"here: runner.params.num_inference_steps: {message}"


@pytest.mark.parametrize(("spacing", "missed"), [("leading", []), ("trailing", [29, 31, 58, 62, 97]), ("linspace", [])])
def test_spacings_that_miss_the_number_of_steps_are_refused(spacing: Spacing, missed: list[int]) -> None:
    """``trailing`` counts down in fractions, which for these ends one step late, at a timestep of -1."""
    params = NoiseParams(**LEROBOT, timestep_spacing=spacing)
    problems = {count: steps_problem(params, count) for count in range(1, 101)}
    assert [count for count, problem in problems.items() if problem] == missed
    for count in missed:
        assert f"go from 99 to -1, in {count + 1} steps; expected {count} of the 100 timesteps" in str(problems[count])


@pytest.mark.parametrize(
    "name", ["num_train_timesteps", "num_inference_steps", "beta_schedule", "prediction_type", "clip_sample"]
)
@pytest.mark.parametrize("kind", ["ddpm", "ddim"])
def test_what_has_no_default_must_be_there(kind: str, name: str) -> None:
    params = {key: value for key, value in LEROBOT.items() if key != name}
    message = refused(looping.loop_stage(kind, params, {"noise": SAMPLE, "context": OBSERVATION}))
    assert message == f"here: runner.params: Object missing required field `{name}`"


def test_the_noise_of_the_steps_has_a_row_for_each() -> None:
    short = {"step_noise": port("float32", 9, *SAMPLE.shape)}
    assert refused(stage("ddpm", short)) == (
        "here: input 'step_noise': expected float32 [10, 1, 4, 3], got float32 [9, 1, 4, 3]"
    )
    given_ = {"noise": SAMPLE, "context": OBSERVATION}
    assert refused(looping.loop_stage("ddpm", LEROBOT, given_)) == (
        "here: input 'step_noise' is missing; expected float32 [10, 1, 4, 3], got ['context', 'noise']"
    )
    assert refused(stage("ddim", {"step_noise": port("float32", 10, *SAMPLE.shape)})) == (
        "here: nothing reads the input 'step_noise'; 'denoise' takes ['context', 'sample', 'timestep'], "
        "and the loop ['noise']"
    )


def test_a_body_that_does_not_fit_is_refused() -> None:
    assert refused(stage("ddim"), body({"timestep": port("float32", 1)})) == (
        "here: 'timestep' of 'denoise': expected int64, got float32"
    )
    assert refused(stage("ddim"), body(output=port("float32", 1, ROWS, 2 * WIDTH))) == (
        "here: 'model_output' of 'denoise': expected the shape of 'sample', [1, 4, 3], got [1, 4, 6]"
    )
    assert refused(stage("ddim", sample="x")) == (
        "here: expected an input 'x' of 'denoise', got ['context', 'sample', 'timestep']"
    )
