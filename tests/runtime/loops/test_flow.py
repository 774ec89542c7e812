from __future__ import annotations

from pathlib import Path
from typing import Any

import looping
import msgspec
import numpy as np
import pytest
from looping import COUNT, OBSERVATION, ROWS, SAMPLE, WIDTH, Loop, drawn, port

import ashore
from ashore.errors import BackendError, InputError, ManifestError, NonFiniteError
from ashore.runtime.loops import Body, Stepped, open_loop
from ashore.spec import Port, Stage

DOWN = {"num_steps": 5, "t_start": 1.0, "t_end": 0.0}
UP = {"num_steps": 5, "t_start": 0.0, "t_end": 1.0}
TIME = port("float32", 1)
DENOISE = f"""
denoise (float[1,{ROWS},{WIDTH}] x_t, float[1] timestep, float[1,1,{WIDTH}] context) => (float[1,{ROWS},{WIDTH}] v_t) {{
    pulled = Mul(x_t, context)
    late = Add(pulled, timestep)
    v_t = Tanh(late)
}}
"""
CONVERT = "{target} = Cast<to = {to}>({source})"


def velocity(x_t: np.ndarray, timestep: np.ndarray, context: np.ndarray) -> np.ndarray:
    return np.tanh(x_t * context + timestep.reshape(-1, 1, 1))


def stage(inputs: dict[str, Port] | None = None, result: Port = SAMPLE, **params: Any) -> Stage:
    given = {"noise": SAMPLE, "context": OBSERVATION, **(inputs or {})}
    return looping.loop_stage("flow", {**DOWN, **params}, given, result)


def body(inputs: dict[str, Port] | None = None, outputs: dict[str, Port] | None = None) -> Stage:
    given = {"x_t": SAMPLE, "timestep": TIME, "context": OBSERVATION} if inputs is None else inputs
    return looping.body_stage(given, {"v_t": SAMPLE} if outputs is None else outputs)


def integrate(noise: np.ndarray, context: np.ndarray, params: dict[str, Any]) -> np.ndarray:
    """Euler in double precision."""
    x = noise.astype(np.float64)
    step = (params["t_end"] - params["t_start"]) / params["num_steps"]
    for index in range(params["num_steps"]):
        x = x + step * velocity(x, np.array([params["t_start"] + index * step]), context.astype(np.float64))
    return x


# --- what it computes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", [DOWN, UP], ids=["one to zero", "zero to one"])
def test_a_package_with_a_flow_integrates_it_for_several_decisions_with_a_reset(
    tmp_path: Path, direction: dict[str, Any]
) -> None:
    package = looping.package(tmp_path / "p", stage(**direction), {"denoise": (body(), DENOISE)})
    policy, reference = ashore.load(package), looping.Sum()
    for tick in range(7):
        if tick == 4:
            policy.reset()
            reference.reset()
        seen, noise = drawn(*OBSERVATION.shape), drawn(*SAMPLE.shape)
        actions = policy.step({"seen": seen, "noise": noise})["actions"]
        expected = integrate(noise, reference.step(seen), direction)
        assert actions.dtype == np.float32
        np.testing.assert_allclose(actions, expected, atol=2e-6)
        assert np.abs(expected - noise).max() > 0.1


def test_euler_rounds_as_the_training_side_does() -> None:
    """Times are multiples of the step in double precision, samples are float32: ``x_t = x_t + dt * v_t``."""
    loop, noise, context = Loop(stage(num_steps=7), body(), velocity), drawn(*SAMPLE.shape), drawn(*OBSERVATION.shape)
    x = noise.copy()
    times = []
    for index in range(7):
        times.append(np.float32(1.0 + index * (-1.0 / 7)))
        x = x + np.float32(-1.0 / 7) * velocity(x, np.array([times[-1]]), context)
    np.testing.assert_array_equal(loop(noise=noise, context=context), x)
    np.testing.assert_array_equal([seen["timestep"][0] for seen in loop.spy.seen], times)


def test_one_step_is_the_whole_way() -> None:
    loop = Loop(stage(num_steps=1), body(), lambda x_t, timestep, context: x_t * 0 + 3)
    np.testing.assert_array_equal(loop(noise=np.ones(SAMPLE.shape, np.float32)), np.full(SAMPLE.shape, -2, np.float32))


@pytest.mark.parametrize(("method", "counts", "order"), [("euler", (32, 64), 1), ("rk4", (4, 8), 4)])
def test_the_order_of_convergence_is_that_of_the_method(method: str, counts: tuple[int, int], order: int) -> None:
    """dx/dt = -2 x + t, whose solution is known."""

    def exact(x: np.ndarray) -> np.ndarray:
        return 1 / 2 - 1 / 4 + (x + 1 / 4) * np.exp(-2.0)

    noise, errors = drawn(*SAMPLE.shape), []
    for count in counts:
        loop = Loop(
            stage(**{**UP, "num_steps": count}, method=method),
            body(),
            lambda x_t, timestep, context: -2 * x_t + timestep.reshape(-1, 1, 1),
        )
        errors.append(np.abs(loop(noise=noise) - exact(noise.astype(np.float64))).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.35)
    assert errors[1] > 2e-6  # so that what is measured is the method, not rounding


def test_runge_kutta_looks_at_the_start_the_middle_twice_and_the_end() -> None:
    loop = Loop(stage(num_steps=2, method="rk4"), body(), velocity)
    loop(noise=drawn(*SAMPLE.shape), context=drawn(*OBSERVATION.shape))
    assert [float(seen["timestep"][0]) for seen in loop.spy.seen] == [1, 0.75, 0.75, 0.5, 0.5, 0.25, 0.25, 0]


def test_a_float16_body_is_accumulated_in_float32(tmp_path: Path) -> None:
    half = port("float16", 1, ROWS, WIDTH)
    stage_, body_ = stage(num_steps=64), body({"x_t": half, "timestep": TIME, "context": OBSERVATION}, {"v_t": half})
    text = DENOISE.replace(f"float[1,{ROWS},{WIDTH}]", f"float16[1,{ROWS},{WIDTH}]")
    text = text.replace("pulled = Mul(x_t,", "wide = Cast<to = 1>(x_t)\n    pulled = Mul(wide,")
    text = text.replace("v_t = Tanh(late)", "bent = Tanh(late)\n    v_t = Cast<to = 10>(bent)")
    policy = ashore.load(looping.package(tmp_path / "p", stage_, {"denoise": (body_, text)}))
    seen, noise = drawn(*OBSERVATION.shape), drawn(*SAMPLE.shape)
    x = noise.copy()
    rough = noise.astype(np.float16)
    for index in range(64):
        time, context = np.array([1 - index / 64], np.float32), looping.INITIAL + seen
        x = x - velocity(x.astype(np.float16).astype(np.float32), time, context).astype(np.float16) / np.float32(64)
        rough = rough - velocity(rough.astype(np.float32), time, context).astype(np.float16) / np.float16(64)
    actions = policy.step({"seen": seen, "noise": noise})["actions"]
    np.testing.assert_allclose(actions, x, atol=2e-5)
    assert np.abs(rough.astype(np.float32) - x).max() > 1e-3  # what it would have been


@pytest.mark.parametrize("shape", [(), (1,), (2,), (2, 1), (2, 1, 1)], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_time_has_the_shape_and_dtype_that_the_body_wants(shape: tuple[int, ...], dtype: str) -> None:
    pair = port("float32", 2, ROWS, WIDTH)
    loop = Loop(
        looping.loop_stage("flow", {**DOWN, "num_steps": 3}, {"noise": pair}, pair),
        body({"x_t": pair, "timestep": port(dtype, *shape)}, {"v_t": pair}),
        lambda x_t, timestep: x_t,
    )
    loop()
    for index, seen in enumerate(loop.spy.seen):
        assert seen["timestep"].shape == shape
        np.testing.assert_array_equal(seen["timestep"], np.full(shape, 1 + index * (-1 / 3)).astype(dtype))


def test_a_symbolic_batch_gives_each_row_its_own_sample() -> None:
    rows, context = port("float32", "batch", ROWS, WIDTH), port("float32", "batch", 1, WIDTH)
    loop = Loop(
        looping.loop_stage("flow", UP, {"noise": rows, "context": context}, rows),
        body({"x_t": rows, "timestep": port("float32", "batch"), "context": context}, {"v_t": rows}),
        velocity,
        batch=3,
    )
    noise, contexts = drawn(3, ROWS, WIDTH), drawn(3, 1, WIDTH)
    results = loop(noise=noise, context=contexts)
    for row in range(3):
        single = integrate(noise[row : row + 1], contexts[row : row + 1], UP)
        np.testing.assert_allclose(results[row : row + 1], single, atol=2e-6)


def test_ports_may_have_other_names() -> None:
    loop = Loop(
        looping.loop_stage(
            "flow", {**DOWN, "sample": "x", "time": "t", "velocity": "v", "noise": "eps"}, {"eps": SAMPLE}
        ),
        body({"x": SAMPLE, "t": TIME}, {"v": SAMPLE}),
        lambda x, t: x,
    )
    np.testing.assert_allclose(loop(eps=np.ones(SAMPLE.shape)), np.full(SAMPLE.shape, 0.8**5), rtol=1e-6)


# --- how many steps --------------------------------------------------------------------------------------------------


def test_the_number_of_steps_may_change_between_calls() -> None:
    loop, noise, context = Loop(stage(), body(), velocity), drawn(*SAMPLE.shape), drawn(*OBSERVATION.shape)
    assert isinstance(loop.session, Stepped)
    first = loop(noise=noise, context=context)
    for count in (2, 11, 5):
        loop.session.num_steps = count
        result = loop(noise=noise, context=context)
        assert len(loop.spy.seen) == loop.session.num_steps == count
        np.testing.assert_allclose(result, integrate(noise, context, {**DOWN, "num_steps": count}), atol=2e-6)
    np.testing.assert_array_equal(result, first)
    assert len(loop.spy.bound) == 1


@pytest.mark.parametrize("count", [0, -1, 10_001, 2.0, True, None, "5"])
def test_a_number_of_steps_that_is_none_is_refused_and_changes_nothing(count: Any) -> None:
    loop = Loop(stage(), body(), velocity)
    message = f"here: num_steps: expected a whole number from 1 to 10000, got {count!r}"
    with pytest.raises(InputError) as caught:
        loop.session.check_steps(count)
    assert str(caught.value) == message
    with pytest.raises(InputError):
        loop.session.num_steps = count
    loop()
    assert len(loop.spy.seen) == loop.session.num_steps == 5


# --- where the arrays are --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["euler", "rk4"])
def test_the_context_is_bound_where_it_lies_and_nothing_is_bound_again(method: str) -> None:
    loop = Loop(stage(method=method), body(), velocity)
    for _ in range(3):
        loop(noise=drawn(*SAMPLE.shape), context=drawn(*OBSERVATION.shape))
    ((inputs, _),) = loop.spy.bound
    assert inputs["context"] is loop.inputs["context"]
    assert not np.shares_memory(inputs["x_t"], loop.inputs["noise"])
    assert np.shares_memory(inputs["x_t"], loop.outputs["last"]) == (method == "euler")


def test_what_goes_in_is_not_written_to() -> None:
    loop, noise, context = Loop(stage(), body(), velocity), drawn(*SAMPLE.shape), drawn(*OBSERVATION.shape)
    loop(noise=noise, context=context)
    np.testing.assert_array_equal(loop.inputs["noise"], noise)
    np.testing.assert_array_equal(loop.inputs["context"], context)


@pytest.mark.parametrize("method", ["euler", "rk4"])
def test_steps_allocate_no_arrays(method: str) -> None:
    wide = port("float32", 1, 100, 1000)
    stage_ = looping.loop_stage("flow", {**DOWN, "num_steps": 50, "method": method}, {"noise": wide}, wide)
    looping.check_allocations(stage_, body({"x_t": wide, "timestep": TIME}, {"v_t": wide}))


# --- what is refused -------------------------------------------------------------------------------------------------


def opened(stage_: Stage, body_: Stage, *more: Body) -> None:
    bodies = [Body("denoise", body_, looping.Spy(velocity)), *more]
    open_loop("here", stage_, bodies)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"num_steps": 0}, "here: runner.params: Expected `int` >= 1 - at `$.num_steps`"),
        ({"num_steps": 10_001}, "here: runner.params: Expected `int` <= 10000 - at `$.num_steps`"),
        ({"num_steps": "5"}, "here: runner.params: Expected `int`, got `str` - at `$.num_steps`"),
        ({"method": "heun"}, "here: runner.params: Invalid enum value 'heun' - at `$.method`"),
        ({"steps": 5}, "here: runner.params: Object contains unknown field `steps`"),
        ({"t_end": 1.0}, "here: runner.params: expected t_end other than t_start, got 1.0 for both"),
        ({"time": "x_t"}, "here: runner.params: sample and time are both 'x_t'"),
        ({"sample": "x"}, "here: expected an input 'x' of 'denoise', got ['context', 'timestep', 'x_t']"),
        ({"velocity": "v"}, "here: expected 'v' and no other output of 'denoise', got ['v_t']"),
        ({"noise": "eps"}, "here: input 'eps' is missing; expected float32 [1, 4, 3], got ['context', 'noise']"),
    ],
)
def test_params_are_read_strictly(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        opened(stage(**params), body())
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["num_steps", "t_start", "t_end"])
def test_what_has_no_default_must_be_there(name: str) -> None:
    params = {key: value for key, value in DOWN.items() if key != name}
    with pytest.raises(ManifestError, match=f"here: runner.params: Object missing required field `{name}`"):
        opened(looping.loop_stage("flow", params, {"noise": SAMPLE, "context": OBSERVATION}), body())


SHORT = port("float32", 1, 2, WIDTH)
DOUBLE = port("float64", 1, ROWS, WIDTH)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x_t": DOUBLE}, "here: 'x_t' of 'denoise': expected float32 or float16, got float64"),
        ({"x_t": port("float32")}, "here: 'x_t' of 'denoise': expected at least one axis, got []"),
        ({"x_t": SHORT}, "here: 'v_t' of 'denoise': expected the shape of 'x_t', [1, 2, 3], got [1, 4, 3]"),
        ({"timestep": COUNT}, "here: 'timestep' of 'denoise': expected float32 or float64 or float16, got int64"),
        (
            {"timestep": port("float32", 2)},
            "here: 'timestep' of 'denoise': expected one number, or one for each of the 1 rows, got shape [2]",
        ),
        (
            {"context": port("float32", 1, 2, WIDTH)},
            "here: input 'context': expected float32 [1, 2, 3], got float32 [1, 1, 3]",
        ),
        (
            {"mask": OBSERVATION},
            (
                "here: nothing feeds the input 'mask' of 'denoise'; expected an input of that name here, "
                "got ['context', 'noise']"
            ),
        ),
    ],
)
def test_a_body_that_does_not_fit_is_refused(changes: dict[str, Port], message: str) -> None:
    inputs = {"x_t": SAMPLE, "timestep": TIME, "context": OBSERVATION, **changes}
    with pytest.raises(ManifestError) as caught:
        opened(stage(), body(inputs))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noise": SHORT}, "here: input 'noise': expected float32 [1, 4, 3], got float32 [1, 2, 3]"),
        ({"noise": DOUBLE}, "here: input 'noise': expected float32 [1, 4, 3], got float64 [1, 4, 3]"),
        (
            {"mask": OBSERVATION},
            (
                "here: nothing reads the input 'mask'; 'denoise' takes ['context', 'timestep', 'x_t'], "
                "and the loop ['noise']"
            ),
        ),
        (
            {"x_t": SAMPLE},
            (
                "here: input 'x_t' has the name of what the loop itself writes into 'denoise'; "
                "give the two different names"
            ),
        ),
    ],
)
def test_a_stage_that_does_not_fit_is_refused(changes: dict[str, Port], message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        opened(stage(changes), body())
    assert str(caught.value) == message


def test_the_output_is_the_last_sample_and_nothing_else() -> None:
    with pytest.raises(
        ManifestError, match=r"here: output 'last': expected float32 \[1, 4, 3\], got float32 \[1, 2, 3"
    ):
        opened(stage(result=SHORT), body())
    two = msgspec.structs.replace(stage(), outputs={"last": SAMPLE, "first": SAMPLE})
    with pytest.raises(ManifestError, match=r"here: expected one output, the last sample, got \['first', 'last'\]"):
        opened(two, body())
    with pytest.raises(
        ManifestError, match=r"here: expected 'v_t' and no other output of 'denoise', got \['n', 'v_t'\]"
    ):
        opened(stage(), body(outputs={"v_t": SAMPLE, "n": SAMPLE}))


def test_a_flow_has_one_body() -> None:
    with pytest.raises(ManifestError, match=r"here: runner.stages: expected the one stage of the loop, got \[\]"):
        open_loop("here", stage(), [])
    with pytest.raises(ManifestError, match=r"expected the one stage of the loop, got \['denoise', 'again'\]"):
        opened(stage(), body(), Body("again", body(), looping.Spy(velocity)))


def test_a_runner_of_a_stage_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(ManifestError, match=r"here: unknown runner 'flew'; did you mean 'flow'\?"):
        opened(looping.loop_stage("flew", {}, {"noise": SAMPLE}), body())


def test_a_misfit_is_found_when_a_package_is_loaded(tmp_path: Path) -> None:
    package = looping.package(tmp_path / "p", stage(velocity="v"), {"denoise": (body(), DENOISE)})
    with pytest.raises(ManifestError, match=r"p: stage 'sample': expected 'v' and no other output of 'denoise'"):
        ashore.load(package)


def test_a_sample_that_is_not_finite_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    text = DENOISE.replace("v_t = Tanh(late)", "v_t = Log(late)")
    policy = ashore.load(looping.package(tmp_path / "p", stage(), {"denoise": (body(), text)}))
    before = policy.state()
    with pytest.raises(NonFiniteError, match=r"step: output 'actions'\[0, 0, 0\] is nan"):
        policy.step(
            {"seen": np.full(OBSERVATION.shape, 50, np.float32), "noise": np.full(SAMPLE.shape, -1, np.float32)}
        )
    assert policy.state() == before


def test_a_body_that_fails_is_named_as_any_stage(tmp_path: Path) -> None:
    text = DENOISE.replace(
        "pulled = Mul(x_t, context)",
        "shape = Cast<to = 7>(context)\n    flat = Squeeze(shape)\n    pulled = Expand(x_t, flat)",
    )
    policy = ashore.load(looping.package(tmp_path / "p", stage(), {"denoise": (body(), text)}))
    with pytest.raises(BackendError, match="step: the backend failed; the state is unchanged"):
        policy.step({"seen": np.full(OBSERVATION.shape, 7, np.float32), "noise": drawn(*SAMPLE.shape)})
