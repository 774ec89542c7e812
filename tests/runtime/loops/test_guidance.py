from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import looping
import numpy as np
import pytest
from looping import COUNT, OBSERVATION, SAMPLE, Loop, drawn, port

import ashore
from ashore.errors import InputError, ManifestError
from ashore.package import load_arrays
from ashore.runtime.loops import Body, open_loop
from ashore.runtime.loops.guidance import Guidance, GuidanceParams, gains, weigh
from ashore.spec import Port, Stage

DATA = Path(__file__).parents[2] / "data" / "rtc"
RECORDED = json.loads((DATA / "cases.json").read_text())
CASES = list(enumerate(RECORDED["cases"]))
REFERENCE = load_arrays((DATA / "reference.safetensors").read_bytes(), "reference.safetensors")
CHUNK = port("float32", 1, 8, 3)
DOWN = {"num_steps": 5, "t_start": 1.0, "t_end": 0.0}
UP = {"num_steps": 5, "t_start": 0.0, "t_end": 1.0}
LINEAR = {"horizon": 3, "schedule": "linear", "max_weight": 10.0}
TIME = port("float32", 1)
DENOISE = """
denoise (float[1,8,3] x_t, float[1] timestep, float[1,1,3] context) => (float[1,8,3] v_t) {
    pulled = Mul(x_t, context)
    late = Add(pulled, timestep)
    v_t = Tanh(late)
}
"""


def velocity(x_t: np.ndarray, timestep: np.ndarray, context: np.ndarray) -> np.ndarray:
    return np.tanh(x_t * context + timestep.reshape(-1, 1, 1))


def mirrored(x_t: np.ndarray, timestep: np.ndarray, context: np.ndarray) -> np.ndarray:
    """The same flow, run the other way round."""
    return -velocity(x_t, 1 - timestep, context)


def stage(sample: Port, guidance: dict[str, Any], **params: Any) -> Stage:
    inputs = {"noise": sample, "context": OBSERVATION, "prev_chunk": sample, "delay": COUNT, "prev_length": COUNT}
    return looping.loop_stage("flow", {**DOWN, **params, "guidance": guidance}, inputs, sample)


def body(sample: Port) -> Stage:
    return looping.body_stage({"x_t": sample, "timestep": TIME, "context": OBSERVATION}, {"v_t": sample})


def case_of(index: int) -> tuple[dict[str, Any], dict[str, Any], dict[str, np.ndarray]]:
    """The guidance of a recorded case, the values of its inputs, and what LeRobot made of them."""
    case, arrays = (
        CASES[index][1],
        {key.split("/")[1]: REFERENCE[key] for key in REFERENCE if key.startswith(f"{index}/")},
    )
    chunk = np.zeros(CHUNK.shape, np.float32)
    chunk[:, : case["rows"], : case["width"]] = arrays["old"]
    values = {
        "noise": arrays["noise"],
        "context": arrays["context"],
        "prev_chunk": chunk,
        "delay": np.array([case["delay"]]),
        "prev_length": np.array([case["rows"]]),
    }
    return {key: case[key] for key in ("horizon", "schedule", "max_weight")}, values, arrays


# --- against LeRobot -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", range(len(CASES)))
def test_a_chunk_is_that_of_lerobot(index: int) -> None:
    guidance, values, arrays = case_of(index)
    loop = Loop(stage(CHUNK, guidance, num_steps=CASES[index][1]["num_steps"]), body(CHUNK), velocity)
    np.testing.assert_allclose(loop(**values), arrays["actions"], atol=3e-6)


@pytest.mark.parametrize("index", range(len(CASES)))
def test_a_flow_the_other_way_round_makes_the_same_chunk(index: int) -> None:
    guidance, values, arrays = case_of(index)
    steps = CASES[index][1]["num_steps"]
    loop = Loop(stage(CHUNK, guidance, **{**UP, "num_steps": steps}), body(CHUNK), mirrored)
    np.testing.assert_allclose(loop(**values), arrays["actions"], atol=5e-6)


@pytest.mark.parametrize("index", range(len(CASES)))
def test_each_evaluation_is_that_of_lerobot_also_where_the_formula_has_no_value(index: int) -> None:
    guidance, values, arrays = case_of(index)
    params = GuidanceParams(**guidance)
    v, times = np.zeros(CHUNK.shape, np.float32), RECORDED["times"]
    correct = Guidance("here", params, CHUNK.shape).bind(values["noise"], v, values).begin()
    assert correct is not None
    for time, gain, expected in zip(
        times, gains([1 - time for time in times], params.max_weight), arrays["guided"], strict=False
    ):
        v[...] = velocity(values["noise"], np.array([time], np.float32), values["context"])
        correct(np.float32(-time), -gain)
        np.testing.assert_allclose(v, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("index", range(len(CASES)))
def test_the_weights_are_those_of_lerobot(index: int) -> None:
    case, weights = CASES[index][1], np.zeros(8, np.float32)
    end = min(case["horizon"], case["rows"])
    weigh(weights, case["schedule"], min(case["delay"], end), end)
    np.testing.assert_allclose(weights, REFERENCE[f"{index}/weights"], atol=1e-7)


def test_the_reference_covers_what_it_is_for() -> None:
    assert {case["schedule"] for _, case in CASES} == {"linear", "exp", "ones", "zeros"}
    assert {0.0, 1.0} < set(RECORDED["times"])
    assert any(case["rows"] < case["horizon"] for _, case in CASES)
    assert any(case["delay"] > case["horizon"] for _, case in CASES)
    assert any(case["width"] < 3 for _, case in CASES)


# --- by itself -------------------------------------------------------------------------------------------------------


def test_the_gain_is_the_greatest_at_the_start_and_nothing_at_the_end() -> None:
    assert gains([0.0, 0.5, 1.0], 10.0).tolist() == [10, 2, 0]
    assert gains([0.5], 1.5).tolist() == [1.5]
    assert gains([0.0, 0.5, 1.0], 10.0).dtype == np.float32


def test_weights_are_made_anew_for_each_call() -> None:
    weights = np.zeros(8, np.float32)
    for start, end, expected in [
        (2, 5, [1, 1, 0.75, 0.5, 0.25, 0, 0, 0]),
        (0, 1, [0.5, 0, 0, 0, 0, 0, 0, 0]),
        (4, 4, [1, 1, 1, 1, 0, 0, 0, 0]),
        (0, 8, [8 / 9, 7 / 9, 6 / 9, 5 / 9, 4 / 9, 3 / 9, 2 / 9, 1 / 9]),
    ]:
        weigh(weights, "linear", start, end)
        np.testing.assert_allclose(weights, expected, rtol=1e-6)


@pytest.mark.parametrize("method", ["euler", "rk4"])
def test_without_a_chunk_before_a_flow_is_not_guided(method: str) -> None:
    values = {"noise": drawn(*CHUNK.shape), "context": drawn(*OBSERVATION.shape)}
    old = {"prev_chunk": drawn(*CHUNK.shape), "delay": np.array([2])}
    guided = Loop(stage(CHUNK, LINEAR, method=method), body(CHUNK), velocity)
    inputs = {"noise": CHUNK, "context": OBSERVATION}
    free = Loop(looping.loop_stage("flow", {**DOWN, "method": method}, inputs, CHUNK), body(CHUNK), velocity)
    expected = free(**values)
    np.testing.assert_array_equal(guided(**values, **old, prev_length=np.array([0])), expected)
    assert np.abs(guided(**values, **old, prev_length=np.array([8])) - expected).max() > 0.1
    np.testing.assert_array_equal(guided(**values, **old, prev_length=np.array([0])), expected)


@pytest.mark.parametrize("direction", [DOWN, UP], ids=["one to zero", "zero to one"])
@pytest.mark.parametrize("method", ["euler", "rk4"])
def test_rows_of_the_delay_come_to_the_old_chunk_and_later_rows_are_free(
    method: str, direction: dict[str, Any]
) -> None:
    params = {**direction, "num_steps": 40, "method": method}
    function = velocity if direction is DOWN else mirrored
    loop = Loop(stage(CHUNK, {**LINEAR, "horizon": 6}, **params), body(CHUNK), function)
    values = {"noise": drawn(*CHUNK.shape), "context": drawn(*OBSERVATION.shape), "delay": np.array([3])}
    old = drawn(*CHUNK.shape)
    free = loop(**values, prev_chunk=old, prev_length=np.array([0]))
    made = loop(**values, prev_chunk=old, prev_length=np.array([8]))
    assert np.abs(made - old)[:, :3].max() < 0.15 * np.abs(free - old)[:, :3].max()
    np.testing.assert_allclose(made[:, 6:], free[:, 6:], atol=1e-6)


def test_runge_kutta_is_guided_at_each_evaluation() -> None:
    """One step, said again in double precision."""
    loop = Loop(stage(CHUNK, {**LINEAR, "horizon": 4}, num_steps=1, method="rk4"), body(CHUNK), velocity)
    noise, context, old = drawn(*CHUNK.shape), drawn(*OBSERVATION.shape), drawn(*CHUNK.shape)
    weights = np.array([1, 3 / 4, 2 / 4, 1 / 4, 0, 0, 0, 0]).reshape(1, 8, 1)

    def guided(x: np.ndarray, time: float, gain: float) -> np.ndarray:
        v = velocity(x, np.array([time]), context)
        return v - gain * (old - (x - time * v)) * weights

    one = guided(noise, 1.0, 10.0)
    two = guided(noise - one / 2, 0.5, 2.0)
    three = guided(noise - two / 2, 0.5, 2.0)
    four = guided(noise - three, 0.0, 0.0)
    made = loop(noise=noise, context=context, prev_chunk=old, delay=np.array([1]), prev_length=np.array([8]))
    np.testing.assert_allclose(made, noise - (one + 2 * two + 2 * three + four) / 6, rtol=1e-5, atol=1e-5)


def test_a_symbolic_batch_is_guided_row_by_row() -> None:
    rows, context = port("float32", "batch", 8, 3), port("float32", "batch", 1, 3)
    inputs = {"noise": rows, "context": context, "prev_chunk": rows, "delay": COUNT, "prev_length": COUNT}
    loop = Loop(
        looping.loop_stage("flow", {**DOWN, "guidance": LINEAR}, inputs, rows),
        looping.body_stage({"x_t": rows, "timestep": port("float32", "batch"), "context": context}, {"v_t": rows}),
        velocity,
        batch=2,
    )
    single = Loop(stage(CHUNK, LINEAR), body(CHUNK), velocity)
    values = {"noise": drawn(2, 8, 3), "context": drawn(2, 1, 3), "prev_chunk": drawn(2, 8, 3)}
    counts = {"delay": np.array([1]), "prev_length": np.array([8])}
    made = loop(**values, **counts)
    for row in range(2):
        one = {name: value[row : row + 1] for name, value in values.items()}
        np.testing.assert_allclose(made[row : row + 1], single(**one, **counts), atol=1e-6)


def test_a_package_with_guidance_runs_for_several_decisions_with_a_reset(tmp_path: Path) -> None:
    package = looping.package(tmp_path / "p", stage(CHUNK, LINEAR, **UP), {"denoise": (body(CHUNK), DENOISE)})
    policy, reference = ashore.load(package), looping.Sum()
    again = Loop(stage(CHUNK, LINEAR, **UP), body(CHUNK), velocity)
    chunk, length = np.zeros(CHUNK.shape, np.float32), 0
    for tick in range(6):
        if tick == 3:
            policy.reset()
            reference.reset()
            length = 0
        seen = drawn(*OBSERVATION.shape)
        values = {
            "noise": drawn(*CHUNK.shape),
            "prev_chunk": chunk,
            "delay": np.array([tick % 4]),
            "prev_length": np.array([length]),
        }
        actions = policy.step({"seen": seen, **values})["actions"]
        np.testing.assert_allclose(actions, again(context=reference.step(seen), **values), atol=5e-6)
        length = 8 - 2
        chunk = np.concatenate([actions[:, 2:], np.zeros((1, 2, 3), np.float32)], axis=1)


def test_a_guided_step_allocates_no_arrays() -> None:
    wide = port("float32", 1, 100, 1000)
    inputs = {"noise": wide, "prev_chunk": wide, "delay": COUNT, "prev_length": COUNT}
    stage_ = looping.loop_stage("flow", {**DOWN, "num_steps": 50, "guidance": LINEAR}, inputs, wide)
    body_ = looping.body_stage({"x_t": wide, "timestep": TIME}, {"v_t": wide})
    looping.check_allocations(stage_, body_, delay=1, prev_length=50)


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"delay": -1, "prev_length": 8}, "stage 'sample': input 'delay': expected 0 or more rows, got -1"),
        ({"delay": 0, "prev_length": 9}, "stage 'sample': input 'prev_length': expected 0 to 8 rows, got 9"),
        ({"delay": 0, "prev_length": -1}, "stage 'sample': input 'prev_length': expected 0 to 8 rows, got -1"),
    ],
)
def test_rows_that_cannot_be_are_refused_and_nothing_changes(
    tmp_path: Path, values: dict[str, int], message: str
) -> None:
    package = looping.package(tmp_path / "p", stage(CHUNK, LINEAR), {"denoise": (body(CHUNK), DENOISE)})
    policy = ashore.load(package)
    before = policy.state()
    given = {name: np.array([value]) for name, value in values.items()}
    with pytest.raises(InputError) as caught:
        policy.step({"seen": INPUT, "noise": ZEROS, "prev_chunk": ZEROS, **given})
    assert str(caught.value).endswith(message)
    assert policy.state() == before


INPUT, ZEROS = np.zeros(OBSERVATION.shape, np.float32), np.zeros(CHUNK.shape, np.float32)


@pytest.mark.parametrize(
    ("guidance", "message"),
    [
        ({"horizon": 0}, "here: runner.params: Expected `int` >= 1 - at `$.guidance.horizon`"),
        ({"schedule": "cosine"}, "here: runner.params: Invalid enum value 'cosine' - at `$.guidance.schedule`"),
        ({"max_weight": 0.0}, "here: runner.params: Expected `float` > 0.0 - at `$.guidance.max_weight`"),
        ({"width": 3}, "here: runner.params: Object contains unknown field `width` - at `$.guidance`"),
        (
            {"delay": "prev_chunk"},
            (
                "here: runner.params.guidance: expected three different names, got "
                "['prev_chunk', 'prev_chunk', 'prev_length']"
            ),
        ),
        (
            {"delay": "late"},
            (
                "here: input 'late' is missing; expected int64 [1], got "
                "['context', 'delay', 'noise', 'prev_chunk', 'prev_length']"
            ),
        ),
    ],
)
def test_params_are_read_strictly(guidance: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        open_loop("here", stage(CHUNK, {**LINEAR, **guidance}), [Body("denoise", body(CHUNK), looping.Spy(velocity))])
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["horizon", "schedule", "max_weight"])
def test_what_has_no_default_must_be_there(name: str) -> None:
    guidance = {key: value for key, value in LINEAR.items() if key != name}
    with pytest.raises(ManifestError, match=f"Object missing required field `{name}` - at `\\$.guidance`"):
        open_loop("here", stage(CHUNK, guidance), [Body("denoise", body(CHUNK), looping.Spy(velocity))])


def test_guidance_needs_rows_and_a_flow_between_zero_and_one() -> None:
    flat = port("float32", 1, 24)
    with pytest.raises(
        ManifestError, match=r"expected samples with the axes batch, row and element, got shape \[1, 24"
    ):
        open_loop("here", stage(flat, LINEAR), [Body("denoise", body(flat), looping.Spy(velocity))])
    with pytest.raises(ManifestError, match=r"guidance is for flows from 1 to 0 or from 0 to 1, got 1.0 to 0.1"):
        open_loop("here", stage(CHUNK, LINEAR, t_end=0.1), [Body("denoise", body(CHUNK), looping.Spy(velocity))])


def test_inputs_of_guidance_have_their_form_and_are_not_taken_for_what_nothing_reads() -> None:
    bodies = [Body("denoise", body(CHUNK), looping.Spy(velocity))]
    inputs = {"noise": CHUNK, "context": OBSERVATION, "prev_chunk": SAMPLE, "delay": COUNT, "prev_length": COUNT}
    params = {**DOWN, "guidance": LINEAR}
    with pytest.raises(
        ManifestError, match=r"input 'prev_chunk': expected float32 \[1, 8, 3\], got float32 \[1, 4, 3\]"
    ):
        open_loop("here", looping.loop_stage("flow", params, inputs, CHUNK), bodies)
    inputs["prev_chunk"] = CHUNK
    with pytest.raises(ManifestError, match="here: nothing reads the input 'delay'"):
        open_loop("here", looping.loop_stage("flow", DOWN, inputs, CHUNK), bodies)
