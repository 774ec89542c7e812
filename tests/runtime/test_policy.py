from __future__ import annotations

import copy
import pickle
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import ashore
import support
from ashore.errors import InputError, NonFiniteError, OrderError
from ashore.package import Package, Recording, pack, write
from ashore.runtime import Policy, load, single_pass
from ashore.runtime.inputs import admit
from ashore.spec import Artifact, Feedback, Manifest, Port, Stage, State, Wire, single_stage
from ashore.verify import replay


@pytest.fixture
def policy(sum_package: Package) -> Policy:
    return ashore.load(sum_package.path)


def test_steps_and_resets_follow_the_reference(policy: Policy) -> None:
    reference = support.Sum()
    for tick, x in enumerate(support.inputs_like((1, 3), 30, seed=7)):
        if tick in (11, 12, 25):
            policy.reset()
            reference.reset()
        np.testing.assert_array_equal(policy.step({"x": x})["y"], reference.step(x))
        np.testing.assert_array_equal(policy.state()["h"], reference.h)


def test_two_rates_follow_the_reference(arm_package: Package) -> None:
    policy, reference = load(arm_package), support.Arm()
    rng = np.random.default_rng(8)
    for decision in range(20):
        if decision in (7, 8, 15):
            policy.reset()
            reference.reset()
        q = {"q": rng.standard_normal((1, 2)).astype(np.float32)}
        np.testing.assert_array_equal(policy.step(q)["action"], reference.step(q)["action"])
        for _ in range(int(rng.integers(0, 6))):  # any number of substeps, also none
            v = {"v": rng.standard_normal((1, 2)).astype(np.float32)}
            np.testing.assert_array_equal(policy.substep(v)["torque"], reference.substep(v)["torque"])
        for name, value in reference.states().items():
            np.testing.assert_array_equal(policy.state()[name], value, err_msg=name)


def test_reset_restores_the_initial_state_of_every_stage_and_keeps_what_is_to_be_kept(arm_package: Package) -> None:
    policy = load(arm_package)
    before = policy.state()
    policy.step({"q": support.f32(1, 2)})
    for _ in range(3):
        policy.substep({"v": support.f32(1, 2)})
    policy.reset()
    after = policy.state()
    np.testing.assert_array_equal(after["action"], before["action"])
    np.testing.assert_array_equal(after["filter"], before["filter"])
    assert after["ticks"].tolist() == [3]


def test_a_substep_needs_a_decision_first(arm_package: Package) -> None:
    policy = load(arm_package)
    v = {"v": support.f32(0, 0)}
    with pytest.raises(OrderError, match="nothing has been decided since the last reset; call step first"):
        policy.substep(v)
    policy.step({"q": support.f32(0, 0)})
    policy.substep(v)
    policy.reset()
    with pytest.raises(OrderError, match="call step first"):
        policy.substep(v)


def test_a_failed_decision_is_no_decision(arm_package: Package) -> None:
    policy = load(arm_package)
    with pytest.raises(InputError):
        policy.step({"q": support.f32(0, np.nan)})
    with pytest.raises(OrderError):
        policy.substep({"v": support.f32(0, 0)})


def test_a_package_without_substeps_says_so(policy: Policy) -> None:
    with pytest.raises(OrderError, match="has no stage at the substep rate"):
        policy.substep({})


X = support.f32(1, 2, 3)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, r"step: input 'x' is missing; expected \['x'\], got \[\]"),
        ({"y": X}, r"step: input 'y' is unknown; there are \['x'\]"),
        ({"x": X, "z": X}, "step: input 'z' is unknown"),
        ({"x ": X}, "step: input 'x ' is unknown; did you mean 'x'?"),
        ({"x": X.astype(np.float64)}, r"input 'x': expected dtype float32, got float64; use \.astype\(np\.float32\)"),
        ({"x": X.astype(">f4")}, "input 'x': expected dtype float32, got >f4"),
        ({"x": X[0]}, r"input 'x': expected shape \[1, 3\], got \[3\]; a batch axis is missing, use \[None\]"),
        ({"x": X[:, :1]}, r"input 'x': expected shape \[1, 3\], got \[1, 1\]"),
        ({"x": np.float32(1)}, r"input 'x': expected shape \[1, 3\], got \[\]"),
        ({"x": X.repeat(2, 0)}, r"input 'x': expected shape \[1, 3\], got \[2, 3\]"),
        ({"x": [[1.0, 2.0, 3.0]]}, "input 'x': expected a numpy array of float32, got list; use np.asarray"),
        ({"x": None}, "input 'x': expected a numpy array of float32, got NoneType"),
        ({"x": np.ma.masked_array(X, X > 2)}, "a masked array would lose its mask"),
        ({"x": support.f32(1, np.nan, 3)}, r"input 'x'\[0, 1\] \(b\) is nan; expected finite values"),
        ({"x": support.f32(1, 2, -np.inf)}, r"input 'x'\[0, 2\] \(c\) is -inf; expected finite values"),
        (None, "step: inputs: expected a mapping from name to array, got NoneType"),
        ([X], "step: inputs: expected a mapping from name to array, got list"),
        (X, "step: inputs: expected a mapping from name to array, got ndarray"),
    ],
)
def test_inputs_that_are_not_exactly_right_are_refused_and_change_nothing(
    policy: Policy, inputs: Any, message: str
) -> None:
    policy.step({"x": X})
    before = policy.state()
    with pytest.raises(InputError, match=message):
        policy.step(inputs)
    np.testing.assert_array_equal(policy.state()["h"], before["h"])
    np.testing.assert_array_equal(policy.step({"x": X})["y"], (before["h"] + X) * X)


class Forgetful(dict):
    def __contains__(self, name: object) -> bool:
        return True


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (defaultdict(lambda: X), "step: input 'x' is missing"),
        (defaultdict(lambda: X, {"xx": X}), r"step: input 'xx' is unknown; did you mean 'x'\?"),
        (Forgetful(y=X), "step: input 'y' is unknown"),
        (Forgetful(), "a mapping that says it has 'x' but does not"),
    ],
)
def test_a_mapping_that_makes_things_up_is_not_believed(policy: Policy, inputs: Any, message: str) -> None:
    size = len(inputs)
    with pytest.raises(InputError, match=message):
        policy.step(inputs)
    assert len(inputs) == size, "nothing was put into the caller's mapping"


def test_unusual_arrays_that_are_right_are_taken(policy: Policy, tmp_path: Path) -> None:
    expected = policy.step({"x": X})["y"]
    mapped = np.memmap(tmp_path / "m", np.float32, "w+", shape=(1, 3))
    mapped[:] = X
    strided = np.zeros((3, 2), np.float32)
    strided[:, 1] = X
    fortran = np.asfortranarray(X)
    renamed = X.view(np.dtype("f4", metadata={"unit": "m"}))
    read_only = X.copy()
    read_only.flags.writeable = False
    from types import MappingProxyType

    for inputs in (
        {"x": mapped},
        {"x": strided[:, 1][None]},
        {"x": fortran},
        {"x": renamed},
        {"x": read_only},
        MappingProxyType({"x": X}),
    ):
        policy.reset()
        np.testing.assert_array_equal(policy.step(inputs)["y"], expected)


# --- two spellings of an input ---------------------------------------------------------------------------------------


def test_an_input_may_be_given_by_the_stage_port_that_it_goes_to(arm_package: Package) -> None:
    policy, reference = load(arm_package), support.Arm()
    for tick, (q, v) in enumerate(zip(*(support.inputs_like((1, 2), 6, seed=seed) for seed in (31, 32)), strict=True)):
        if tick == 3:
            policy.reset()
            reference.reset()
        q_name, v_name = ("q", "v") if tick % 2 else ("decide/q", "act/v")
        out = policy.step({q_name: q})
        assert out.keys() == {"action"}
        np.testing.assert_array_equal(out["action"], reference.step({"q": q})["action"])
        out = policy.substep({v_name: v})
        assert out.keys() == {"torque"}
        np.testing.assert_array_equal(out["torque"], reference.substep({"v": v})["torque"])


Q = support.f32(1, 2)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"q": Q, "decide/q": Q}, "step: input 'q' is given twice, as 'q' and as 'decide/q'; give it once"),
        ({"decide/q": Q, "q": Q}, "step: input 'q' is given twice, as 'q' and as 'decide/q'; give it once"),
        ({"decid/q": Q}, r"step: input 'decid/q' is unknown; did you mean 'decide/q'\?"),
        ({"decide/last": Q}, r"step: input 'decide/last' is unknown"),  # a state feeds it
        ({"inputs/q": Q}, r"step: input 'inputs/q' is unknown"),
        ({"act/v": Q}, r"step: input 'act/v' is unknown"),  # it is one of substeps
        ({"decide/q": Q, "z": Q}, r"step: input 'z' is unknown"),
        ({"decide/q": Q[0]}, r"step: input 'q': expected shape \[1, 2\], got \[2\]"),
        ({"decide/q": support.f32(1, np.nan)}, r"step: input 'q'\[0, 1\] \(elbow\) is nan"),
    ],
)
def test_the_other_spelling_is_checked_as_strictly(arm_package: Package, inputs: Any, message: str) -> None:
    policy = load(arm_package)
    policy.step({"q": Q})
    before = policy.state()
    with pytest.raises(InputError, match=message):
        policy.step(inputs)
    assert policy.state() == before


def test_substeps_refuse_both_spellings_at_once(arm_package: Package) -> None:
    policy = load(arm_package)
    policy.step({"q": Q})
    with pytest.raises(InputError, match="substep: input 'v' is given twice, as 'v' and as 'act/v'; give it once"):
        policy.substep({"v": Q, "act/v": Q})
    with pytest.raises(InputError, match="substep: input 'decide/q' is unknown"):
        policy.substep({"decide/q": Q})


def test_a_state_has_one_spelling(policy: Policy) -> None:
    with pytest.raises(InputError, match="restore: state 'policy/h_in' is unknown"):
        policy.restore({"policy/h_in": X})


def two_nodes(out: Path, *wires: tuple[str, str]) -> Package:
    """Stages a and b, each with a port x; output a/y is twice what a gets, b/y three times what b gets."""
    port = Port(dtype="float32", shape=(1, 2))
    text = "p (float[1,2] x) => (float[1,2] y) {{\nk = Constant<value_float = {}>()\ny = Mul(x, k)\n}}"
    stages = {
        name: Stage(
            rate="policy", inputs={"x": port}, outputs={"y": port}, artifacts={"onnx": Artifact(path=f"{name}.onnx")}
        )
        for name in "ab"
    }
    manifest = Manifest(
        name="two",
        inputs={source: port for source, _ in wires},
        outputs={"a/y": port, "b/y": port},
        stages=stages,
        wires=(
            *(Wire(f"inputs/{source}", target) for source, target in wires),
            Wire("a/y", "outputs/a/y"),
            Wire("b/y", "outputs/b/y"),
        ),
    )
    recording = Recording()
    given = {source: support.f32(1, number) for number, source in enumerate(manifest.inputs)}
    factors = {"a": np.float32(2), "b": np.float32(3)}
    results = {f"{target[0]}/y": given[source] * factors[target[0]] for source, target in wires}
    recording.step(given, results)
    files = {f"{name}.onnx": support.model(text.format(f"{factor}")) for name, factor in factors.items()}
    return write(out, manifest, files=files, golden=recording.golden())


def test_package_ports_may_be_called_node_slash_port(tmp_path: Path) -> None:
    """Where two nodes share a port name, that is what tells them apart."""
    package = pack(two_nodes(tmp_path / "p", ("a/x", "a/x"), ("b/x", "b/x")), tmp_path / "p.ashore")
    assert replay(package).passed
    policy = load(package.path)
    assert policy.step_inputs == ("a/x", "b/x")
    out = policy.step({"a/x": support.f32(1, 2), "b/x": support.f32(10, 20)})
    assert {name: value.tolist() for name, value in out.items()} == {"a/y": [[2, 4]], "b/y": [[30, 60]]}
    with pytest.raises(InputError, match=r"input 'x' is unknown"):
        policy.step({"x": support.f32(1, 2), "b/x": support.f32(10, 20)})


def test_a_name_of_the_package_means_itself_even_if_it_looks_like_another_end(tmp_path: Path) -> None:
    policy = load(two_nodes(tmp_path / "p", ("b/x", "a/x"), ("z", "b/x")))
    out = policy.step({"b/x": support.f32(1, 2), "z": support.f32(10, 20)})
    assert {name: value.tolist() for name, value in out.items()} == {"a/y": [[2, 4]], "b/y": [[30, 60]]}
    out = policy.step({"a/x": support.f32(1, 2), "z": support.f32(10, 20)})
    assert out["a/y"].tolist() == [[2, 4]]
    with pytest.raises(InputError, match="input 'b/x' is given twice, as 'b/x' and as 'a/x'"):
        policy.step({"a/x": support.f32(1, 2), "b/x": support.f32(10, 20)})


def test_an_input_that_goes_to_several_ports_has_a_spelling_for_each(tmp_path: Path) -> None:
    policy = load(two_nodes(tmp_path / "p", ("x", "a/x"), ("x", "b/x")))
    for name in ("x", "a/x", "b/x"):
        out = policy.step({name: support.f32(1, 2)})
        assert (out["a/y"].tolist(), out["b/y"].tolist()) == ([[2, 4]], [[3, 6]])
    with pytest.raises(InputError, match="input 'x' is given twice, as 'a/x' and as 'b/x'; give it once"):
        policy.step({"a/x": support.f32(1, 2), "b/x": support.f32(1, 2)})


def test_the_usual_spelling_never_takes_the_slow_path(arm_package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, slow = load(arm_package), []
    monkeypatch.setattr(single_pass, "admit", lambda *given: slow.append(given) or admit(*given))
    policy.step({"q": Q})
    policy.substep({"v": Q})
    assert not slow
    policy.step({"decide/q": Q})
    assert len(slow) == 1


def test_the_callers_arrays_are_never_written(policy: Policy) -> None:
    x = X.copy()
    for _ in range(5):
        policy.step({"x": x})
        policy.reset()
    np.testing.assert_array_equal(x, X)


def test_outputs_are_the_callers_to_keep_and_to_write(policy: Policy) -> None:
    reference = support.Sum()
    kept = []
    for x in support.inputs_like((1, 3), 6, seed=9):
        y = policy.step({"x": x})["y"]
        expected = reference.step(x)
        np.testing.assert_array_equal(y, expected)
        kept.append((y, expected.copy()))
    for y, expected in kept:
        np.testing.assert_array_equal(y, expected, err_msg="a later step changed an output that was given away")
        y[:] = 1e9
    x = support.f32(0.5, 0.5, 0.5)
    np.testing.assert_array_equal(policy.step({"x": x})["y"], reference.step(x))


def test_writing_to_an_output_that_is_also_a_state_does_not_change_the_state(arm_package: Package) -> None:
    policy, reference = load(arm_package), support.Arm()
    for q in support.inputs_like((1, 2), 4, seed=10):
        action = policy.step({"q": q})["action"]
        np.testing.assert_array_equal(action, reference.step({"q": q})["action"])
        action[:] = 1e9
        v = {"v": support.f32(0, 0)}
        np.testing.assert_array_equal(policy.substep(v)["torque"], reference.substep(v)["torque"])


def test_a_non_finite_output_raises_and_leaves_the_state(policy: Policy) -> None:
    policy.step({"x": X})
    before = policy.state()
    with pytest.raises(NonFiniteError, match=r"step: output 'y'\[0, 0\] \(a\) is inf; expected finite values"):
        policy.step({"x": support.f32(3e30, 1, 1)})
    np.testing.assert_array_equal(policy.state()["h"], before["h"])
    np.testing.assert_array_equal(policy.step({"x": X})["y"], (before["h"] + X) * X)


GROWS = """
policy (float[1,1] x, float[1,1] h_in) => (float[1,1] y, float[1,1] h_out) {
    y = Identity(x)
    h_out = Mul(h_in, x)
}
"""


def grows(out: Path, **fields: Any) -> Policy:
    port = Port(dtype="float32", shape=(1, 1))
    state = State(dtype="float32", shape=(1, 1), role="memory", **fields)
    manifest = single_stage(
        "grows",
        inputs={"x": port},
        outputs={"y": port},
        states={"h": Feedback(state, "h_out", "h_in")},
        artifacts={"onnx": Artifact(path="a.onnx")},
    )
    return load(write(out, manifest, files={"a.onnx": support.model(GROWS)}, initial={"h": support.f32(1e30)}))


def test_a_state_that_stops_being_finite_raises_before_it_is_kept(tmp_path: Path) -> None:
    policy = grows(tmp_path / "p")
    with pytest.raises(NonFiniteError, match=r"state 'h'\[0, 0\] is inf"):
        policy.step({"x": support.f32(1e30)})
    assert policy.state()["h"].tolist() == support.f32(1e30).tolist()


def test_a_state_that_may_hold_infinities_may(tmp_path: Path) -> None:
    policy = grows(tmp_path / "p", finite=False)
    policy.step({"x": support.f32(1e30)})
    assert policy.state()["h"].tolist() == [[np.inf]]
    policy.restore(policy.state())


def test_the_check_for_finite_values_can_be_switched_off(sum_package: Package) -> None:
    policy = load(sum_package, check_finite=False)
    assert np.isnan(policy.step({"x": support.f32(np.nan, 1, 1)})["y"][0, 0])
    policy.restore(policy.state())
    assert np.isnan(policy.state()["h"][0, 0])


def test_a_value_that_feeds_several_must_be_finite_if_any_of_them_must(tmp_path: Path) -> None:
    """The state may hold infinities, the output that shows it may not."""
    port, free = Port(dtype="float32", shape=(1, 1)), Port(dtype="float32", shape=(1, 1), finite=False)
    state = State(dtype="float32", shape=(1, 1), role="memory", finite=False)
    for outputs, bad in (({"h_out": port}, True), ({"h_out": free}, False)):
        manifest = single_stage(
            "grows",
            inputs={"x": port},
            outputs={**outputs, "y": port},
            states={"h": Feedback(state, "h_out", "h_in")},
            artifacts={"onnx": Artifact(path="a.onnx")},
        )
        files = {"a.onnx": support.model(GROWS)}
        policy = load(write(tmp_path / "p", manifest, files=files, initial={"h": support.f32(1e30)}))
        if bad:
            with pytest.raises(NonFiniteError, match=r"state 'h'\[0, 0\] is inf"):
                policy.step({"x": support.f32(1e30)})
        else:
            assert policy.step({"x": support.f32(1e30)})["h_out"].tolist() == [[np.inf]]


def test_a_policy_is_not_copied_by_accident(policy: Policy) -> None:
    """A copy would share the buffers, and its steps would move the state of the original."""
    for copier in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a policy cannot be copied or pickled; load the package again"):
            copier(policy)


def test_state_and_restore_come_back_to_the_same_future(arm_package: Package) -> None:
    policy = load(arm_package)
    q, v = {"q": support.f32(0.3, -0.2)}, {"v": support.f32(1, 1)}
    policy.step(q)
    policy.substep(v)
    snapshot = policy.state()

    def future() -> list[np.ndarray]:
        return [policy.substep(v)["torque"], policy.step(q)["action"], policy.substep(v)["torque"]]

    first = future()
    policy.reset()
    policy.restore(snapshot)
    for ours, theirs in zip(future(), first, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_snapshot_is_a_copy(policy: Policy) -> None:
    snapshot = policy.state()
    kept = snapshot["h"].copy()
    policy.step({"x": X})
    np.testing.assert_array_equal(snapshot["h"], kept)
    snapshot["h"][:] = 5
    assert policy.state()["h"].tolist() != snapshot["h"].tolist()


def test_snapshots_compare_by_value(policy: Policy) -> None:
    before = policy.state()
    assert before == policy.state()
    policy.step({"x": X})
    assert before != policy.state()
    policy.restore(before)
    assert before == policy.state()


class InterruptError(Exception):
    pass


@pytest.mark.parametrize("call", ["reset", "restore"])
def test_whatever_interrupts_a_reset_or_restore_it_happens_at_once_or_not_at_all(
    arm_package: Package, call: str
) -> None:
    """Every line of Python that runs inside the call gets an exception once, as a signal handler could raise it."""
    policy = load(arm_package)
    initial = policy.state()
    policy.step({"q": support.f32(1, 2)})
    policy.substep({"v": support.f32(1, 2)})
    before = policy.state()
    outcomes = set()
    for moment in range(10_000):
        policy.restore(before)
        lines = 0

        def trace(frame: Any, event: str, _: object, moment: int = moment) -> Any:
            nonlocal lines
            if event == "line" and "ashore" in frame.f_code.co_filename:
                lines += 1
                if lines == moment + 1:
                    raise InterruptError
            return trace

        sys.settrace(trace)
        try:
            policy.reset() if call == "reset" else policy.restore(initial)
        except InterruptError:
            finished = False
        else:
            finished = True
        finally:
            sys.settrace(None)
        after = policy.state()
        # The count of ticks is kept by a reset.
        unchanged = after == before
        changed = not after.decided and all(np.array_equal(after[name], initial[name]) for name in ("action", "filter"))
        assert unchanged != changed, f"half done, interrupted at line {moment}"
        outcomes.add(unchanged)
        if finished:
            break
    assert outcomes == {True, False}


def test_a_plain_mapping_restores_the_state_but_asks_for_a_decision(arm_package: Package) -> None:
    policy = load(arm_package)
    policy.step({"q": support.f32(0, 0)})
    policy.restore(dict(policy.state()))
    with pytest.raises(OrderError):
        policy.substep({"v": support.f32(0, 0)})


def test_a_snapshot_from_before_the_first_decision_does_not_allow_substeps(arm_package: Package) -> None:
    policy = load(arm_package)
    snapshot = policy.state()
    policy.step({"q": support.f32(0, 0)})
    policy.restore(snapshot)
    with pytest.raises(OrderError):
        policy.substep({"v": support.f32(0, 0)})


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, "restore: state 'h' is missing"),
        ({"h": X, "g": X}, "restore: state 'g' is unknown"),
        ({"h": X[:, :2]}, r"restore: state 'h': expected shape \[1, 3\]"),
        ({"h": X.astype(np.float64)}, "restore: state 'h': expected dtype float32"),
        ({"h": support.f32(1, np.nan, 2)}, "restore: state 'h' holds NaN"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(policy: Policy, state: Any, message: str) -> None:
    before = policy.state()
    with pytest.raises(InputError, match=message):
        policy.restore(state)
    np.testing.assert_array_equal(policy.state()["h"], before["h"])


def test_a_policy_says_what_it_is(arm_package: Package) -> None:
    policy = load(arm_package)
    assert policy.inputs.keys() == {"q", "v"}
    assert policy.outputs.keys() == {"action", "torque"}
    assert policy.states.keys() == {"action", "filter", "ticks"}
    assert policy.manifest.name == "arm"
    assert (policy.step_inputs, policy.substep_inputs, policy.batch) == (("q",), ("v",), 1)
    assert repr(policy) == "Policy('arm': q, v -> action, torque)"
    with pytest.raises(TypeError):
        policy.inputs["q"] = policy.inputs["v"]  # type: ignore[index]


# --- a symbolic batch ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 3])
def test_one_package_serves_any_batch(tmp_path: Path, batch: int) -> None:
    policy = load(support.write_batched(tmp_path / "p"), batch=batch)
    expected = np.tile(np.array([10, 20], np.float32), (batch, 1))
    for x in support.inputs_like((batch, 2), 4, seed=11):
        expected = expected + x
        np.testing.assert_array_equal(policy.step({"x": x})["y"], expected)


def test_rows_of_a_batch_are_reset_one_by_one(tmp_path: Path) -> None:
    policy = load(support.write_batched(tmp_path / "p"), batch=3)
    ones = np.ones((3, 2), np.float32)
    policy.step({"x": ones})
    policy.reset(rows=np.array([False, True, False]))
    assert policy.step({"x": ones})["y"].tolist() == [[12, 22], [11, 21], [12, 22]]


def test_resetting_no_row_changes_nothing(tmp_path: Path) -> None:
    policy = load(support.write_batched(tmp_path / "p"), batch=2)
    policy.step({"x": np.ones((2, 2), np.float32)})
    before = policy.state()
    policy.reset(rows=np.array([False, False]))
    np.testing.assert_array_equal(policy.state()["h"], before["h"])
    assert policy.state().decided


@pytest.mark.parametrize("rows", [np.array([True]), np.array([0, 1, 0]), [True, False, True]])
def test_rows_are_a_boolean_array_of_the_batch(tmp_path: Path, rows: Any) -> None:
    policy = load(support.write_batched(tmp_path / "p"), batch=3)
    with pytest.raises(InputError, match="reset: rows: expected a boolean array of length 3"):
        policy.reset(rows=rows)


def test_rows_need_a_batch_axis_in_every_state(policy: Policy) -> None:
    with pytest.raises(InputError, match="state 'h' has no batch axis"):
        policy.reset(rows=np.array([True]))


def test_the_batch_of_the_inputs_is_the_batch_that_was_loaded(tmp_path: Path) -> None:
    policy = load(support.write_batched(tmp_path / "p"), batch=3)
    with pytest.raises(InputError, match=r"expected shape \[3, 2\], got \[1, 2\]"):
        policy.step({"x": np.ones((1, 2), np.float32)})


def test_a_fixed_package_refuses_another_batch(sum_package: Package) -> None:
    with pytest.raises(InputError, match="exported for a fixed batch; it cannot be loaded with batch=2"):
        load(sum_package, batch=2)
    with pytest.raises(InputError, match="batch: expected a whole number from 1, got 0"):
        load(sum_package, batch=0)


# --- several stages, several dtypes ----------------------------------------------------------------------------------

FIRST = """
first (float[1,2] x, bool[1] on, int32[1] n_in, float16[1] s_in)
    => (float[1,2] wide, int32[1] n_out, bool[1] off, float16[1] s_out, double[1,2] fine) {
    one = Constant<value = int32[1] {1}>()
    n_out = Add(n_in, one)
    off = Not(on)
    wide = Add(x, x)
    s_out = Add(s_in, s_in)
    fine = Cast<to = 11>(x)
}
"""
SECOND = """
second (float[1,2] wide, float[1,2] k_in) => (float[1,2] y, float[1,2] k_out) {
    y = Mul(wide, k_in)
    k_out = Add(k_in, wide)
}
"""


def mixed_package(out: Path) -> Package:
    f2, flag, count = (
        Port(dtype="float32", shape=(1, 2)),
        Port(dtype="bool", shape=(1,)),
        Port(dtype="int32", shape=(1,)),
    )
    half, fine = Port(dtype="float16", shape=(1,)), Port(dtype="float64", shape=(1, 2))
    manifest = Manifest(
        name="mixed",
        inputs={"x": f2, "on": flag},
        outputs={"y": f2, "off": flag, "n": count, "fine": fine},
        stages={
            "b_second": Stage(
                rate="policy",
                inputs={"wide": f2, "k_in": f2},
                outputs={"y": f2, "k_out": f2},
                artifacts={"onnx": Artifact(path="second.onnx")},
            ),
            "a_first": Stage(
                rate="policy",
                inputs={"x": f2, "on": flag, "n_in": count, "s_in": half},
                outputs={"wide": f2, "n_out": count, "off": flag, "s_out": half, "fine": fine},
                artifacts={"onnx": Artifact(path="first.onnx")},
            ),
        },
        wires=(
            Wire("a_first/wide", "b_second/wide"),
            Wire("b_second/y", "outputs/y"),
            Wire("inputs/x", "a_first/x"),
            Wire("inputs/on", "a_first/on"),
            Wire("a_first/off", "outputs/off"),
            Wire("a_first/fine", "outputs/fine"),
            Wire("a_first/n_out", "outputs/n"),
            Wire("a_first/n_out", "states/n"),
            Wire("a_first/n_out", "states/n_again"),
            Wire("states/n", "a_first/n_in"),
            Wire("b_second/k_out", "states/k"),
            Wire("b_second/k_out", "states/k_again"),
            Wire("states/k", "b_second/k_in"),
            Wire("a_first/s_out", "states/s"),
            Wire("states/s", "a_first/s_in"),
        ),
        states={
            "n": State(dtype="int32", shape=(1,), role="counter"),
            "k": State(dtype="float32", shape=(1, 2), role="memory"),
            "s": State(dtype="float16", shape=(1,), role="memory"),
        },
    )
    twins = {
        "n_again": State(dtype="int32", shape=(1,), role="counter"),
        "k_again": State(dtype="float32", shape=(1, 2), role="memory"),
    }
    spare = Stage(
        rate="policy",
        inputs={"n": count, "k": f2},
        outputs={"n_same": count, "k_same": f2},
        artifacts={"onnx": Artifact(path="spare.onnx")},
    )
    manifest = msgspec.structs.replace(
        manifest,
        states={**manifest.states, **twins},
        stages={**manifest.stages, "c_spare": spare},
        wires=(
            *manifest.wires,
            Wire("states/n_again", "c_spare/n"),
            Wire("states/k_again", "c_spare/k"),
            Wire("c_spare/n_same", "outputs/n_before"),
            Wire("c_spare/k_same", "outputs/k_before"),
        ),
        outputs={**manifest.outputs, "n_before": count, "k_before": f2},
    )
    spare_model = "spare (int32[1] n, float[1,2] k) => (int32[1] n_same, float[1,2] k_same) {\n"
    spare_model += "n_same = Identity(n)\nk_same = Identity(k)\n}"
    files = {
        "first.onnx": support.model(FIRST),
        "second.onnx": support.model(SECOND),
        "spare.onnx": support.model(spare_model),
    }
    zero, ones = np.array([5], np.int32), support.f32(1, 1)
    initial = {"n": zero, "n_again": zero, "k": ones, "k_again": ones, "s": np.array([0.5], np.float16)}
    return write(out, manifest, files=files, initial=initial)


def test_stages_run_in_the_order_of_their_wires_with_every_dtype(tmp_path: Path) -> None:
    policy = load(mixed_package(tmp_path / "p"))
    k, n, s = support.f32(1, 1), 5, np.float16(0.5)
    for tick, x in enumerate(support.inputs_like((1, 2), 6, seed=12)):
        on = np.array([tick % 2 == 0])
        out = policy.step({"x": x, "on": on})
        np.testing.assert_array_equal(out["k_before"], k)
        assert out["n_before"].tolist() == [n]
        np.testing.assert_array_equal(out["y"], (x + x) * k)
        k, n, s = k + (x + x), n + 1, s + s
        np.testing.assert_array_equal(out["fine"], x.astype(np.float64))
        assert out["off"].tolist() == [tick % 2 == 1]
        assert out["n"].tolist() == [n]
        assert policy.state()["s"].tolist() == [s]


def test_a_half_precision_state_that_overflows_is_found(tmp_path: Path) -> None:
    policy = load(mixed_package(tmp_path / "p"))
    inputs = {"x": support.f32(0, 0), "on": np.array([True])}
    with pytest.raises(NonFiniteError, match=r"state 's'\[0\] is inf"):
        for _ in range(20):
            policy.step(inputs)
    assert policy.state()["s"].tolist() == [32768.0]


def test_a_policy_without_inputs_runs_from_its_state(tmp_path: Path) -> None:
    text = "policy (float[1] t_in) => (float[1] phase, float[1] t_out) {\n"
    text += "dt = Constant<value_float = 0.25>()\nt_out = Add(t_in, dt)\nphase = Sin(t_out)\n}"
    port = Port(dtype="float32", shape=(1,))
    clock = Feedback(State(dtype="float32", shape=(1,), role="counter"), "t_out", "t_in")
    manifest = single_stage(
        "clock",
        inputs={},
        outputs={"phase": port},
        states={"t": clock},
        artifacts={"onnx": Artifact(path="a.onnx")},
    )
    policy = load(
        write(
            tmp_path / "p",
            manifest,
            files={"a.onnx": support.model(text)},
            initial={"t": np.zeros(1, np.float32)},
        )
    )
    for nothing in ([], (), "", np.zeros(0), None):
        with pytest.raises(InputError, match="expected a mapping"):
            policy.step(nothing)  # type: ignore[arg-type]
    phases = [policy.step({})["phase"][0] for _ in range(3)]
    np.testing.assert_allclose(phases, np.sin([0.25, 0.5, 0.75]), rtol=1e-6)


def test_scalar_ports_work(tmp_path: Path) -> None:
    port = Port(dtype="float32", shape=())
    manifest = single_stage(
        "scalar", inputs={"x": port}, outputs={"y": port}, artifacts={"onnx": Artifact(path="a.onnx")}
    )
    text = "policy (float x) => (float y) {\ny = Add(x, x)\n}"
    policy = load(write(tmp_path / "p", manifest, files={"a.onnx": support.model(text)}))
    assert policy.step({"x": np.array(2, np.float32)})["y"] == 4
    assert policy.step({"x": np.float32(3)})["y"] == 6
    with pytest.raises(InputError, match=r"input 'x'\[\] is nan"):
        policy.step({"x": np.float32(np.nan)})


def test_ports_that_may_hold_infinities_may(tmp_path: Path) -> None:
    depth = Port(dtype="float32", shape=(1, 2), kind="sensor/image/depth", unit="m", finite=False)
    near = Port(dtype="float32", shape=(1, 2))
    manifest = single_stage(
        "depth", inputs={"depth": depth, "x": near}, outputs={"y": near}, artifacts={"onnx": Artifact(path="a.onnx")}
    )
    text = "policy (float[1,2] depth, float[1,2] x) => (float[1,2] y) {\n"
    text += "far = Constant<value_float = 5.0>()\nclipped = Min(depth, far)\ny = Add(clipped, x)\n}"
    policy = load(write(tmp_path / "p", manifest, files={"a.onnx": support.model(text)}))
    out = policy.step({"depth": support.f32(np.inf, 1), "x": support.f32(0, 1)})
    assert out["y"].tolist() == [[5, 2]]
    with pytest.raises(InputError, match=r"input 'x'\[0, 0\] is inf"):
        policy.step({"depth": support.f32(1, 1), "x": support.f32(np.inf, 1)})


def test_many_steps_allocate_nothing_that_stays(policy: Policy) -> None:
    import gc
    import tracemalloc

    inputs = {"x": support.f32(0, 0, 0)}

    def memory_after(steps: int) -> tuple[int, int]:
        for _ in range(steps):
            policy.step(inputs)
        gc.collect()
        return tracemalloc.get_traced_memory()

    tracemalloc.start()
    try:
        memory_after(1000)
        tracemalloc.reset_peak()
        before, _ = memory_after(1000)
        after, peak = memory_after(10_000)
    finally:
        tracemalloc.stop()
    # The smallest object that could leak, once a step, would be ten times this.
    assert after - before < 16_000
    assert peak - before < 16_000
