from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import support
from ashore.environment.session import SessionWrapper
from ashore.errors import BackendError, InputError, NonFiniteError, OrderError, PackageError
from ashore.interop.exploy import to_exploy
from ashore.spec import Port, State, Timing
from interop.exploy.exploy_cases import Arrays, PackageTicks, draw, foreign_model, write_arm

TICKS, RESETS = 50, (7, 8, 22, 37)


@pytest.fixture
def arm(tmp_path: Path) -> SessionWrapper:
    to_exploy(write_arm(tmp_path / "arm"), tmp_path / "policy.onnx")
    return SessionWrapper(tmp_path, "policy.onnx", optimize=False)


@pytest.fixture
def foreign(tmp_path: Path) -> SessionWrapper:
    onnx.save(foreign_model(), tmp_path / "foreign.onnx")
    return SessionWrapper(tmp_path, "foreign.onnx", optimize=False)


def inputs(seed: int = 0) -> Arrays:
    q, v = support.inputs_like((1, 2), 2, seed=seed)
    return {"q": q, "v": v}


def test_run_gives_what_the_package_gives_tick_after_tick(tmp_path: Path) -> None:
    package = write_arm(tmp_path / "arm")
    to_exploy(package, tmp_path / "policy.onnx")
    wrapper, reference, count = SessionWrapper(tmp_path, "policy.onnx"), PackageTicks(package), 0
    for tick, given in enumerate(draw(package.manifest, TICKS)):
        if tick in RESETS:
            wrapper.reset()
            reference.reset()
            count = 0
        got = wrapper.run(given)
        assert list(got) == ["action", "torque"]
        for name, value in reference.tick(count, given).items():
            np.testing.assert_array_equal(got[name], value)
        for name, value in reference.policy.state().items():
            np.testing.assert_array_equal(wrapper.get_output_value(f"memory.{name}.out"), value)
        count += 1


def test_a_call_feeds_back_the_memory_that_is_not_given(arm: SessionWrapper) -> None:
    first = arm(**inputs(1))
    second = arm(**inputs(2))
    arm.reset()
    np.testing.assert_array_equal(arm(**inputs(1))[1], first[1])
    state = {name.replace(".out", ".in"): arm.get_output_value(name) for name in arm.output_names if "memory" in name}
    arm.reset()
    again = arm(**inputs(2), **state, **{"ctx.step_count": np.array(1, np.int32)})
    for one, two in zip(again, second, strict=True):
        np.testing.assert_array_equal(one, two)


def test_writing_to_what_a_call_gave_changes_no_memory(arm: SessionWrapper) -> None:
    arm(**inputs(1))
    expected = arm(**inputs(2))[1]
    arm.reset()
    for result in arm(**inputs(1)):
        result[...] = 0
    np.testing.assert_array_equal(arm(**inputs(2))[1], expected)


def test_writing_to_a_memory_that_was_asked_for_changes_none(arm: SessionWrapper) -> None:
    arm.run(inputs(1))
    expected = arm.run(inputs(2))["torque"]
    arm.reset()
    arm.run(inputs(1))
    arm.get_output_value("memory.filter.out")[...] = 7
    np.testing.assert_array_equal(arm.run(inputs(2))["torque"], expected)


def test_ports_that_may_hold_nan_may(tmp_path: Path) -> None:
    port = Port(dtype="float32", shape=(1, 3), finite=False)
    state = State(dtype="float32", shape=(1, 3), role="memory", finite=False)
    changes = {
        "inputs": {"x": port},
        "outputs": {"y": port},
        "states": {"h": state},
        "timing": Timing(decimation=2),  # so that the output is held
    }
    to_exploy(support.write_sum(tmp_path / "sum", **changes), tmp_path / "policy.onnx")
    wrapper = SessionWrapper(tmp_path, "policy.onnx", optimize=False)
    for _ in range(3):
        assert np.isnan(wrapper.run({"x": support.f32(1, np.nan, 2)})["y"]).tolist() == [[False, True, False]]


def test_who_gives_memory_continues_from_it_even_on_the_first_tick(arm: SessionWrapper) -> None:
    memory = {
        "memory.action.in": support.f32(9.0, 9.0),
        "memory.filter.in": support.f32(1.0, 1.0),
        "memory.ticks.in": np.array([3]),
    }
    got = arm(**inputs(1), **memory, **{"ctx.step_count": np.array(0, np.int32)})
    expected = inputs(1)["q"] * np.float32(2) + support.f32(4.5, 4.5)
    np.testing.assert_array_equal(got[0], expected)
    arm.reset()
    told = arm(**inputs(1), **memory, **{"memory.decided.in": np.array([False])})
    np.testing.assert_array_equal(told[0], inputs(1)["q"] * np.float32(2) + support.f32(0.125, -0.125))
    arm.reset()
    acted = arm(**inputs(1), **memory, **{"ctx.step_count": np.array([1])})
    np.testing.assert_array_equal(acted[0], support.f32(0.0, 0.0))  # nothing was decided
    assert arm.get_output_value("memory.ticks.out") == [4]


def test_a_count_that_is_given_goes_on_from_there(arm: SessionWrapper) -> None:
    for count in (4, 5, 6, 7):
        arm(**inputs(count), **{"ctx.step_count": np.array([count])})
    arm(**inputs(8))  # 8 decides
    assert arm.get_output_value("memory.ticks.out") == [1]


def test_the_count_starts_again_before_int32_ends_and_misses_no_decision(arm: SessionWrapper) -> None:
    since: list[int] = []
    for tick in range(12):
        start = {"ctx.step_count": np.array(2**31 - 8)} if tick == 0 else {}
        arm(**inputs(tick), **start)
        since.append(arm.get_output_value("memory.ticks.out").item())
    assert since == [1, 2, 3, 4] * 3


def test_it_lists_what_the_session_lists(arm: SessionWrapper) -> None:
    assert arm.input_names == [port.name for port in arm.session.get_inputs()]
    assert arm.output_names == [port.name for port in arm.session.get_outputs()]
    assert arm.decimation == 4
    assert arm.metadata["update_rate"] == "200.0"
    assert arm.metadata.custom_metadata_map["decimation"] == "4"
    assert arm.onnx_file_path.name == "policy.onnx"
    assert len(arm(**inputs())) == len(arm.output_names)


def test_the_actor_is_given_back(tmp_path: Path) -> None:
    onnx.save(foreign_model(), tmp_path / "f.onnx")
    actor = object()
    assert SessionWrapper(tmp_path, "f.onnx", actor, optimize=False).get_actor() is actor
    assert SessionWrapper(tmp_path, "f.onnx", optimize=False).get_actor() is None


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"v": None}, "input 'v' is missing; expected ['q', 'v']"),
        ({"w": support.f32(0, 0)}, "input 'w' is unknown"),
        ({"q": support.f32(1, 2, 3)}, "input 'q': expected shape [1, 2], got [1, 3]"),
        ({"q": np.zeros(2, np.float32)}, "a batch axis is missing"),
        ({"q": np.zeros((1, 2))}, "input 'q': expected dtype float32, got float64"),
        ({"q": [[0.0, 0.0]]}, "input 'q': expected a numpy array"),
        ({"q": support.f32(0, np.nan)}, "input 'q'[0, 1] is nan"),
        ({"v": support.f32(-np.inf, 0)}, "input 'v'[0, 0] is -inf"),
    ],
)
@pytest.mark.parametrize("verb", ["call", "run"])
def test_what_does_not_fit_is_refused_and_changes_nothing(
    arm: SessionWrapper, verb: str, changes: Arrays, message: str
) -> None:
    arm.run(inputs(1))
    expected = arm.run(inputs(2))["torque"]
    arm.reset()
    arm.run(inputs(1))
    given = {name: value for name, value in {**inputs(2), **changes}.items() if value is not None}
    with pytest.raises(InputError) as refused:
        arm(**given) if verb == "call" else arm.run(given)
    assert f"{verb}: " in str(refused.value)
    assert message in str(refused.value)
    np.testing.assert_array_equal(arm.run(inputs(2))["torque"], expected)


def test_run_takes_neither_memory_nor_count(arm: SessionWrapper) -> None:
    with pytest.raises(InputError, match="'ctx.step_count' is unknown"):
        arm.run({**inputs(), "ctx.step_count": np.array(0, np.int32)})
    with pytest.raises(InputError, match="'memory.filter.in' is unknown"):
        arm.run({**inputs(), "memory.filter.in": support.f32(0, 0)})


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (np.array([0, 1]), "expected one whole number, got int64 of shape [2]"),
        (np.array(0.0), "expected one whole number, got float64"),
        (np.array(-1), "expected a count from 0"),
        (np.array(2**31), "expected a count from 0"),
    ],
)
def test_a_count_that_is_none_is_refused(arm: SessionWrapper, count: np.ndarray, message: str) -> None:
    with pytest.raises(InputError) as refused:
        arm(**inputs(), **{"ctx.step_count": count})
    assert message in str(refused.value)


def test_given_memory_is_checked_too(arm: SessionWrapper) -> None:
    with pytest.raises(InputError, match=r"input 'memory.filter.in'\[0, 0\] is nan"):
        arm(**inputs(), **{"memory.filter.in": support.f32(np.nan, 0)})
    with pytest.raises(InputError, match=r"'memory.filter.in': expected shape \[1, 2\], got \[2\]"):
        arm(**inputs(), **{"memory.filter.in": np.zeros(2, np.float32)})


def test_a_result_that_is_not_finite_is_refused_and_changes_nothing(arm: SessionWrapper) -> None:
    arm.run(inputs(1))
    big = {"memory.filter.in": support.f32(3.4e38, 0), "memory.action.in": support.f32(-3.4e38, 0)}
    with pytest.raises(NonFiniteError, match=r"output 'torque'\[0, 0\] is -inf; expected finite values. Nothing was"):
        arm(**inputs(3), **big, **{"ctx.step_count": np.array(1)})
    after = arm.run(inputs(2))["torque"]
    arm.reset()
    arm.run(inputs(1))
    np.testing.assert_array_equal(arm.run(inputs(2))["torque"], after)


def test_outputs_are_there_once_something_ran(arm: SessionWrapper) -> None:
    with pytest.raises(OrderError, match="run a tick first"):
        arm.get_output_value("torque")
    arm.run(inputs())
    arm.get_output_value("torque")
    with pytest.raises(InputError, match="output 'torqe' is unknown; did you mean 'torque'"):
        arm.get_output_value("torqe")
    arm.reset()
    with pytest.raises(OrderError, match="run a tick first"):
        arm.get_output_value("torque")


def test_a_file_that_is_missing_or_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="cannot be read: No such file"):
        SessionWrapper(tmp_path, "policy.onnx")
    (tmp_path / "policy.onnx").write_bytes(b"not onnx at all")
    with pytest.raises(BackendError, match="not a readable ONNX file|ONNX Runtime refuses it"):
        SessionWrapper(tmp_path, "policy.onnx")
    assert not (tmp_path / "debug").exists()


def test_a_note_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    model = foreign_model(metadata={"ashore": "{}"})
    onnx.save(model, tmp_path / "f.onnx")
    with pytest.raises(PackageError, match="its 'ashore' note cannot be read"):
        SessionWrapper(tmp_path, "f.onnx")


# --- files of other people -------------------------------------------------------------------------------------------


def foreign_inputs(seed: int) -> Arrays:
    foo, bar = support.inputs_like((1, 2), 2, seed=seed)
    return {"foo": foo, "g.bar": bar}


def test_a_foreign_file_runs_as_a_bare_session_fed_by_hand(foreign: SessionWrapper) -> None:
    memory = {name: np.zeros((1, 2), np.float32) for name in ("memory.actions.in", "memory.out.in")}
    for tick in range(12):
        given = foreign_inputs(tick)
        expected = foreign.session.run(None, {"ctx.step_count": np.array(tick, np.int32), **given, **memory})
        memory = {"memory.actions.in": expected[3], "memory.out.in": expected[4]}
        got = foreign.run(given)
        np.testing.assert_array_equal(got["out"], expected[2])
        assert list(got) == ["actions", "obs", "out"]
    assert foreign.decimation is None


def test_memory_that_the_file_gives_a_value_starts_from_it(tmp_path: Path) -> None:
    model = foreign_model()
    model.graph.initializer.append(helper.make_tensor("memory.out.in", TensorProto.FLOAT, (1, 2), [5.0, 6.0]))
    onnx.save(model, tmp_path / "f.onnx")
    wrapper, given = SessionWrapper(tmp_path, "f.onnx", optimize=False), foreign_inputs(0)
    started = wrapper.run(given)["out"]
    wrapper.run(given)
    wrapper.reset()
    other = wrapper(**given, **{"memory.out.in": np.array([[5.0, 6.0]], np.float32)})
    np.testing.assert_array_equal(other[2], started)
    wrapper.reset()
    plain = wrapper(**given, **{"memory.out.in": np.zeros((1, 2), np.float32)})
    np.testing.assert_allclose(plain[2] + [[5.0, 6.0]], started, rtol=1e-6)


def test_a_file_without_count_or_memory_runs_too(tmp_path: Path) -> None:
    (tmp_path / "f.onnx").write_bytes(
        support.model("g (float[1,2] x) => (float y, bool[1,2] b) {y = ReduceSum<keepdims=0>(x) b = Less(x, x)}")
    )
    wrapper = SessionWrapper(tmp_path, "f.onnx", optimize=False)
    assert wrapper.run({"x": support.f32(1, 2)})["y"] == 3
    with pytest.raises(InputError, match="'ctx.step_count' is unknown; there are \\['x'\\]"):
        wrapper(x=support.f32(1, 2), **{"ctx.step_count": np.array(0)})


def test_a_memory_of_one_number_is_fed_back(tmp_path: Path) -> None:
    text = """g (float x, float "memory.n.in") => (float y, float "memory.n.out") {
        y = Add(x, "memory.n.in")
        "memory.n.out" = Add(y, x)
    }"""
    (tmp_path / "f.onnx").write_bytes(support.model(text))
    wrapper = SessionWrapper(tmp_path, "f.onnx", optimize=False)
    one = np.array(1, np.float32)
    assert [float(wrapper.run({"x": one})["y"]) for _ in range(3)] == [1, 3, 5]
    assert [float(wrapper(x=one)[0]) for _ in range(2)] == [7, 9]


def test_a_batch_is_what_the_inputs_say_until_a_reset(tmp_path: Path) -> None:
    package = support.write_batched(tmp_path / "p")
    to_exploy(package, tmp_path / "policy.onnx")
    wrapper = SessionWrapper(tmp_path, "policy.onnx", optimize=False)
    for rows in (3, 1):
        reference = PackageTicks(package, batch=rows)
        wrapper.reset()
        for tick, given in enumerate(draw(package.manifest, 4, batch=rows)):
            np.testing.assert_array_equal(wrapper.run(given)["y"], reference.tick(tick, given)["y"])
    with pytest.raises(InputError, match="reset before another batch"):
        wrapper.run(draw(package.manifest, 1, batch=2)[0])
    with pytest.raises(InputError, match=r"expected shape \[1, 2\], got \[2\]"):
        wrapper.run({"x": np.zeros(2, np.float32)})
    with pytest.raises(InputError, match="input 'x' is missing"):
        wrapper.run({})


# --- the optimised copy ----------------------------------------------------------------------------------------------


def test_the_optimised_graph_is_written_beside_and_computes_the_same(tmp_path: Path) -> None:
    to_exploy(write_arm(tmp_path / "arm"), tmp_path / "policy.onnx")
    wrapper = SessionWrapper(tmp_path, "policy.onnx")
    assert [path.name for path in (tmp_path / "debug").iterdir()] == ["policy_optimized.onnx"]
    optimised = SessionWrapper(tmp_path / "debug", "policy_optimized.onnx", optimize=False)
    for seed in range(9):
        np.testing.assert_allclose(
            optimised.run(inputs(seed))["torque"], wrapper.run(inputs(seed))["torque"], rtol=1e-6
        )


def test_a_folder_that_cannot_be_written_to_is_only_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    onnx.save(foreign_model(), tmp_path / "f.onnx")
    (tmp_path / "debug").write_text("a file")
    with caplog.at_level(logging.WARNING):
        SessionWrapper(tmp_path, "f.onnx").run(foreign_inputs(0))
    assert "the optimised graph could not be written" in caplog.text


def test_it_needs_neither_torch_nor_onnx(tmp_path: Path) -> None:
    to_exploy(write_arm(tmp_path / "arm"), tmp_path / "policy.onnx")
    code = f"""
import sys
import numpy as np
from ashore.environment.session import SessionWrapper
wrapper = SessionWrapper({str(tmp_path)!r}, "policy.onnx")
wrapper.run({{"q": np.zeros((1, 2), np.float32), "v": np.zeros((1, 2), np.float32)}})
print(sorted({{name.split(".")[0] for name in sys.modules}} & {{"torch", "onnx"}}))
"""
    done = support.run_python(code)
    assert done.stdout == "[]\n", done.stdout + done.stderr
