"""Calling a compiled policy: the same inputs, checks, errors and states as on every other backend.

The policy is the one of `handmade`, so that what is tested is the way into it and out of it.
"""

from __future__ import annotations

import copy
import gc
import re
import sys
import threading
import tracemalloc
from collections import defaultdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import ashore
import support
from ashore.backends.c import calling, loading
from ashore.errors import BackendError, InputError, NonFiniteError, OrderError
from ashore.package import Package
from ashore.runtime import Policy
from ashore.verify import replay
from native import handmade
from native.conftest import Use

pytestmark = pytest.mark.usefixtures("generated")
Q, V = support.f32(1, 2), support.f32(3, 4)


@pytest.fixture
def policy(arm_package: Package, called: str) -> Policy:
    return ashore.load(arm_package, backend="c")


@pytest.fixture
def onnx(arm_package: Package) -> Policy:
    return ashore.load(arm_package, backend="onnx")


def test_steps_substeps_and_resets_follow_the_reference(policy: Policy) -> None:
    reference, rng = support.Arm(), np.random.default_rng(8)
    for decision in range(300):
        if decision % 37 in (7, 8, 15):
            policy.reset()
            reference.reset()
        q = {"q": rng.standard_normal((1, 2)).astype(np.float32)}
        np.testing.assert_allclose(policy.step(q)["action"], reference.step(q)["action"], rtol=1e-6)
        for _ in range(int(rng.integers(0, 6))):
            v = {"v": rng.standard_normal((1, 2)).astype(np.float32)}
            np.testing.assert_allclose(
                policy.substep(v)["torque"], reference.substep(v)["torque"], rtol=1e-5, atol=1e-6
            )
        for name, value in reference.states().items():
            np.testing.assert_allclose(policy.state()[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_the_golden_rollout_is_replayed(arm_package: Package, called: str) -> None:
    report = replay(arm_package, backend="c")
    assert report.passed, report.mismatches
    assert report.backend == "c"


# --- inputs ----------------------------------------------------------------------------------------------------------


class Forgetful(dict):
    def __contains__(self, name: object) -> bool:
        return True


@pytest.mark.parametrize(
    "inputs",
    [
        {},
        {"y": Q},
        {"q": Q, "z": Q},
        {"q ": Q},
        {1: Q},
        {"q": Q.astype(np.float64)},
        {"q": Q.astype(">f4")},
        {"q": Q.view(np.int32)},
        {"q": Q[0]},
        {"q": Q[:, :1]},
        {"q": np.float32(1)},
        {"q": Q.repeat(2, 0)},
        {"q": [[1.0, 2.0]]},
        {"q": None},
        {"q": np.ma.masked_array(Q, Q > 1)},
        {"q": support.f32(1, np.nan)},
        {"q": support.f32(-np.inf, 2)},
        {"q": support.f32(3e38, 0)},
        {"q": Q, "decide/q": Q},
        {"decide/last": Q},
        {"act/v": Q},
        {"decide/q": Q[0]},
        {"decide/q": support.f32(1, np.nan)},
        None,
        [Q],
        Q,
        defaultdict(lambda: Q),
        Forgetful(),
    ],
    ids=lambda inputs: re.sub(r" at 0x\w+", "", str(inputs)),
)
def test_what_is_refused_is_refused_in_the_same_words_and_changes_nothing(
    policy: Policy, onnx: Policy, inputs: Any
) -> None:
    told: list[tuple[type, str]] = []
    for one in (policy, onnx):
        one.step({"q": Q})
        one.substep({"v": V})
        before = one.state()
        with pytest.raises((InputError, NonFiniteError)) as caught:
            one.step(inputs)
        told.append((type(caught.value), str(caught.value)))
        assert one.state() == before
    assert told[0] == told[1]


def test_an_error_of_a_substep_names_the_substep(policy: Policy, onnx: Policy) -> None:
    for one in (policy, onnx):
        one.step({"q": Q})
        with pytest.raises(InputError, match=r"substep: input 'v'\[0, 1\] \(elbow\) is nan; expected finite values"):
            one.substep({"v": support.f32(1, np.nan)})
        with pytest.raises(InputError, match="substep: input 'v' is given twice, as 'v' and as 'act/v'"):
            one.substep({"v": V, "act/v": V})
        with pytest.raises(NonFiniteError, match=r"substep: output 'torque'\[0, 0\] \(shoulder\) is -inf"):
            one.restore({**one.state(), "filter": support.f32(-3.4e38, 0), "action": support.f32(-3.4e38, 0)})
            one.step({"q": support.f32(-8.4e37, 0)})
            one.substep({"v": support.f32(3.4e38, 0)})


def test_unusual_arrays_that_are_right_are_taken(policy: Policy, tmp_path: Path) -> None:
    expected = policy.step({"q": Q})["action"]
    mapped = np.memmap(tmp_path / "m", np.float32, "w+", shape=(1, 2))
    mapped[:] = Q
    strided = np.zeros((2, 2), np.float32)
    strided[:, 1] = Q
    read_only = Q.copy()
    read_only.flags.writeable = False
    shifted = np.frombuffer(b"\0" + Q.tobytes(), np.uint8)[1:].view(np.float32)[None]
    for inputs in (
        {"q": mapped},
        {"q": strided[:, 1][None]},
        {"q": np.asfortranarray(Q)},
        {"q": Q.view(np.dtype("f4", metadata={"unit": "rad"}))},
        {"q": read_only},
        {"q": shifted},
        {"q": np.array([[2.0, 1.0]], np.float32)[:, ::-1]},
        MappingProxyType({"q": Q}),
        {"decide/q": Q},
    ):
        policy.restore({**policy.state(), "action": support.f32(0.25, -0.25)})
        np.testing.assert_array_equal(policy.step(inputs)["action"], expected)


def test_the_callers_arrays_are_left_alone_and_results_are_the_callers(policy: Policy) -> None:
    reference, q = support.Arm(), Q.copy()
    for _ in range(4):
        action = policy.step({"q": q})["action"]
        np.testing.assert_array_equal(action, reference.step({"q": q})["action"])
        assert action.base is None or not np.shares_memory(action, q)
        action[:] = 1e9
        torque = policy.substep({"v": V})["torque"]
        np.testing.assert_allclose(torque, reference.substep({"v": V})["torque"], rtol=1e-6)
    np.testing.assert_array_equal(q, Q)


# --- states ----------------------------------------------------------------------------------------------------------


def test_substeps_need_a_decision(policy: Policy) -> None:
    for _ in range(2):
        with pytest.raises(OrderError, match="nothing has been decided since the last reset; call step first"):
            policy.substep({"v": V})
        with pytest.raises(InputError):
            policy.step({"q": support.f32(np.nan, 0)})
        with pytest.raises(OrderError):
            policy.substep({"v": V})
        policy.step({"q": Q})
        policy.substep({"v": V})
        policy.reset()


def test_state_and_restore_come_back_to_the_same_future(policy: Policy) -> None:
    policy.step({"q": Q})
    snapshot = policy.state()
    first = policy.substep({"v": V})["torque"]
    assert policy.state() != snapshot
    policy.reset()
    assert policy.state()["ticks"].tolist() == [1], "kept"
    policy.restore(snapshot)
    assert policy.state() == snapshot
    np.testing.assert_array_equal(policy.substep({"v": V})["torque"], first)
    snapshot["filter"][:] = 7
    assert policy.state()["filter"].tolist() != [[7, 7]]
    policy.restore(dict(snapshot))
    with pytest.raises(OrderError):
        policy.substep({"v": V})
    with pytest.raises(InputError, match="restore: state 'ticks' is missing"):
        policy.restore({"action": Q, "filter": Q})


class InterruptError(Exception):
    pass


@pytest.mark.parametrize("call", ["step", "reset", "restore"])
def test_whatever_interrupts_a_call_it_happens_at_once_or_not_at_all(policy: Policy, call: str) -> None:
    """Every line of Python that runs inside the call gets an exception once, as a signal handler could raise it."""
    initial = policy.state()
    policy.step({"q": Q})
    policy.substep({"v": V})
    before = policy.state()
    calls = {
        "step": lambda: policy.step({"decide/q": Q}),
        "reset": policy.reset,
        "restore": lambda: policy.restore(initial),
    }
    calls[call]()
    done = policy.state()
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
            calls[call]()
        except InterruptError:
            finished = False
        else:
            finished = True
        finally:
            sys.settrace(None)
        after = policy.state()
        assert after in (before, done), f"half done, interrupted at line {moment}"
        if finished:
            assert after == done
            return
    raise AssertionError("never finished")


def test_the_check_for_finite_values_can_be_switched_off(arm_package: Package, called: str) -> None:
    policy = ashore.load(arm_package, backend="c", check_finite=False)
    assert np.isnan(policy.step({"q": support.f32(np.nan, 1)})["action"][0, 0])
    policy.restore(policy.state())
    assert np.isnan(policy.state()["action"][0, 0])


def test_policies_share_nothing(arm_package: Package, called: str) -> None:
    one, other = (ashore.load(arm_package, backend="c") for _ in range(2))
    before = other.state()
    one.step({"q": Q})
    assert other.state() == before
    del one
    gc.collect()
    other.step({"q": Q})
    with pytest.raises(TypeError, match="a policy cannot be copied or pickled"):
        copy.copy(other)


# --- nothing is lost -------------------------------------------------------------------------------------------------


def grown(call: Any, count: int) -> int:
    """Bytes that so many calls leave behind, the second time: what is kept once is no leak."""
    return [_grown(call, count) for _ in range(2)][-1]


def _grown(call: Any, count: int) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(count):
            call()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def quietly(call: Any) -> Any:
    def run() -> None:
        with pytest.raises((InputError, NonFiniteError)):
            call()

    return run


def test_calls_leave_nothing_behind(policy: Policy) -> None:
    policy.step({"q": Q})
    calls: dict[str, Any] = {
        "step": lambda: policy.step({"q": Q}),
        "alias": lambda: policy.step({"decide/q": Q}),
        "strided": lambda: policy.substep({"v": np.array([[2.0, 1.0]], np.float32)[:, ::-1]}),
        "substep": lambda: policy.substep({"v": V}),
        "states": lambda: policy.restore(policy.state()),
        "unknown": quietly(lambda: policy.step({"k": Q})),
        "not finite": quietly(lambda: policy.step({"q": support.f32(np.nan, 0)})),
        "result": quietly(lambda: policy.step({"q": support.f32(3e38, 0)})),
    }
    for name, call in calls.items():
        count = 200
        assert grown(call, count) < 64 * count, (
            name
        )  # the smallest array takes 112; Python keeps some tuples for itself


def test_policies_leave_nothing_behind(arm_package: Package, called: str) -> None:
    def load() -> None:
        ashore.load(arm_package, backend="c").step({"q": Q})

    assert grown(load, 10) < 10 * 1500


def test_arrays_that_are_handed_in_are_let_go(policy: Policy) -> None:
    q, name = Q.copy(), "q"
    counts = sys.getrefcount(q), sys.getrefcount(name), sys.getrefcount(q.dtype)
    kept = [policy.step({name: q}) for _ in range(100)]
    del kept
    assert sys.getrefcount(q) == counts[0]
    assert abs(sys.getrefcount(q.dtype) - counts[2]) < 20


# --- threads ---------------------------------------------------------------------------------------------------------

POSIX = b"""#define _POSIX_C_SOURCE 200809L
#include <time.h>
#include <unistd.h>
"""
WAITS = """
    while (q[0] == 7.0f && access("@FILE@", F_OK) != 0) { /* until somebody says go */
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, 0);
    }
"""


def refusal(policy: Policy) -> str | None:
    try:
        policy.state()
    except OrderError as error:
        return str(error)
    return None


def test_a_policy_that_runs_long_lets_other_threads_run_but_not_into_itself(
    arm_package: Package, generated: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = handmade.arm("/* here */", WAITS.replace("@FILE@", str(tmp_path / "go")))
    source.files["policy.c"] = POSIX + source.files["policy.c"]
    generated(source)
    monkeypatch.setattr(loading, "_LONG_BYTES", 0)
    package = support.write_arm(tmp_path / "p", version=str(tmp_path))
    policy = ashore.load(package, backend="c")
    before = policy.state()
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(policy.step({"q": support.f32(7, 0)})))
    thread.start()
    try:
        while (told := refusal(policy)) is None:  # the other thread may not have come to it yet
            pass
        assert told.startswith("step: another thread is in the middle of a call of this policy; load one for each")
        for call in (lambda: policy.step({"q": Q}), lambda: policy.restore(before)):
            with pytest.raises(OrderError, match="another thread is in the middle of a call of this policy"):
                call()
    finally:
        (tmp_path / "go").touch()
        thread.join()
    assert results[0]["action"].tolist() == [[14.125, -0.125]]
    policy.step({"q": Q})


# --- libraries that are not right ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('ASHORE_ABI_VERSION, "arm"', '99, "arm"', "cannot be opened: its interface has the version 99, and this is 1"),
        ("ashore_arm_contract", "ashore_leg_contract", "cannot be opened: it has no symbol ashore_arm_contract"),
        ("PAIR(q, step_in)", "PAIR(v, substep_in)", "expected a policy with"),
        ("ASHORE_FLOAT32, 1, 0, 2, {1, 2}", "ASHORE_INT32, 1, 0, 2, {1, 2}", "expected a policy with"),
        ('"by hand", 1,', '"by hand", 3,', r"for 1 rows, got .* for 3"),
    ],
)
def test_a_library_that_is_not_what_it_should_be_is_not_used(
    tmp_path: Path, called: str, generated: Use, old: str, new: str, message: str
) -> None:
    generated(handmade.arm(old, new))
    package = support.write_arm(tmp_path / "p", version=f"{old} {new}")
    with pytest.raises(BackendError, match=rf"policy\.so: .*{message}"):
        ashore.load(package, backend="c")


def test_an_unknown_status_is_an_error(tmp_path: Path, called: str, generated: Use) -> None:
    generated(handmade.arm("/* here */", "if (q[0] == 9.0f) return 99;"))
    policy = ashore.load(support.write_arm(tmp_path / "p", version="status"), backend="c")
    with pytest.raises(BackendError, match="step: the library failed with the status 99; the state is unchanged"):
        policy.step({"q": support.f32(9, 0)})


def test_a_function_that_cannot_be_found_is_an_error_when_loading(tmp_path: Path, called: str, generated: Use) -> None:
    generated(handmade.arm("/* here */", "extern void nowhere(void); nowhere();"))
    with pytest.raises(
        BackendError, match=r"policy\.so: cannot be opened: .*undefined symbol: nowhere; if its folder is"
    ):
        ashore.load(support.write_arm(tmp_path / "p", version="lost"), backend="c")


def test_names_elsewhere_in_the_process_are_not_taken_for_those_of_the_library(tmp_path: Path, generated: Use) -> None:
    """A function with a name that everybody uses must be the library's own."""
    policies = []
    for factor in ("2.0f", "3.0f"):
        source = handmade.arm("static ashore_status step(", "ashore_status step(")
        source.files["policy.c"] = source.files["policy.c"].replace(b"* 2.0f", f"* {factor}".encode())
        generated(source)
        policies.append(ashore.load(support.write_arm(tmp_path / factor, version=f"step {factor}"), backend="c"))
    assert [policy.step({"q": Q})["action"].tolist() for policy in policies] == [[[2.125, 3.875]], [[3.125, 5.875]]]


# --- what is missing -------------------------------------------------------------------------------------------------


def test_no_compiler_says_what_to_install(
    arm_package: Package, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(
        BackendError,
        match=r"there is no C compiler here \(cc, gcc, clang\); the backend 'c' needs one: install one \(Debian: "
        r"apt-get install gcc\), or name it in the environment variable CC",
    ):
        ashore.load(arm_package, backend="c")
    monkeypatch.setenv("CC", "/nonexistent/cc -m64")
    with pytest.raises(BackendError, match="CC names the C compiler '/nonexistent/cc', which is not there"):
        ashore.load(arm_package, backend="c")
    monkeypatch.setenv("CC", "'")
    with pytest.raises(BackendError, match='CC: expected a command, got "\'"'):
        ashore.load(arm_package, backend="c")
    for command in ("/usr/bin/env false", "/bin/true"):
        monkeypatch.setenv("CC", command)
        with pytest.raises(BackendError, match=f"{command}: is not a C compiler that works"):
            ashore.load(arm_package, backend="c")
    script = tmp_path / "notrunnable"
    script.write_bytes(b"\x7fELF")
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    with pytest.raises(BackendError, match="notrunnable' cannot be started: Exec format error"):
        ashore.load(arm_package, backend="c")


WITHOUT = """
import importlib, logging, sys
sys.path[:0] = sys.argv[2:]
logging.basicConfig(format="%(message)s", stream=sys.stdout)
import ashore, support
from ashore.backends.c import calling
from native import handmade

calling.sysconfig.get_path = lambda *_: "/nonexistent"
importlib.import_module("ashore.backends.c").generate = lambda *_, **__: handmade.arm()
print(ashore.load(sys.argv[1], backend="c").step({"q": support.f32(1, 2)})["action"].tolist())
print("ashore_native" in sys.modules)
"""


def test_without_the_headers_of_python_calls_go_through_ctypes_and_say_so(arm_package: Package) -> None:
    done = support.run_python(WITHOUT, str(arm_package.path), str(Path(support.__file__).parent))
    assert done.stdout.splitlines() == [
        (
            "compiled policies are called through ctypes, which takes a few microseconds longer: Python's headers are "
            "not installed here (Debian: apt-get install python3-dev)"
        ),
        "[[2.125, 3.875]]",
        "False",
    ], done.stderr


def test_an_extension_that_cannot_be_compiled_is_done_without_and_says_why(
    fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "Python.h").write_text("#error another version")
    monkeypatch.setattr(calling.sysconfig, "get_path", lambda name: str(tmp_path))
    assert calling.caller.__wrapped__().__name__ == "Foreign"
    assert "are called through ctypes" in caplog.text
    assert "the extension that calls compiled policies: cc cannot compile it" in caplog.text
    assert "#error another version" in caplog.text
    assert not list(fresh_cache.iterdir())


def test_the_extension_is_used_where_it_can_be(arm_package: Package) -> None:
    assert calling.caller().__name__ == "Native"


# --- what is chosen --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": 2}, "threads: the backend 'c' runs on one thread, got 2; leave it out"),
        ({"device": "cuda"}, r"device 'cuda' is not there; the backend 'c' runs on \['cpu'\]"),
        ({"providers": ["CPUExecutionProvider"]}, "providers: the backend 'c' has none; leave them out"),
        ({"properties": {"a": 1}}, "properties: the backend 'c' has none; leave them out"),
        ({"batch": 2}, "exported for a fixed batch; it cannot be loaded with batch=2"),
        (
            {"backend": {"act": "c"}},
            r"the backend 'c' runs all stages of a package or none, and was chosen for \['act'\]",
        ),
        ({"backend": {"act": "c", "decide": "onnx"}}, "the backend 'c' runs all stages of a package or none"),
        ({"backend": {"act": "c", "decid": "c"}}, r"there is no stage 'decid'; did you mean 'decide'\?"),
    ],
)
def test_options_that_mean_nothing_are_refused(arm_package: Package, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ashore.AshoreError, match=message):
        ashore.load(arm_package, **{"backend": "c", **options})


def test_options_that_mean_something_are_taken(arm_package: Package) -> None:
    for options in ({"device": "CPU"}, {"backend": {"act": "c", "decide": "c"}}):
        ashore.load(arm_package, **{"backend": "c", **options}).step({"q": Q})


def test_a_package_is_not_run_by_it_unless_it_is_named(arm_package: Package) -> None:
    assert type(ashore.load(arm_package)._memory).__name__ == "Memory"
