"""Every way in which the neighbour's exports go wrong: here each is exact, or a clear error when exporting."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnxruntime
import pytest
import torch

import ashore
from ashore.capture.findings import Finding
from ashore.environment import (
    Memory,
    SessionWrapper,
    evaluate,
    export_environment_as_onnx,
)
from ashore.errors import ExportError, InputError, NonFiniteError, VerificationError
from environment.worlds import (
    FAST,
    Adapter,
    Arrays,
    Read,
    World,
    check_exact,
    check_one_file,
    check_package,
    export_world,
    linear,
    refuse,
    run_alone,
    same,
)


def check_refused(findings: list[Finding], name: str, text: str, tensor: str | None = None) -> None:
    """Among the findings is this one, at the line of this file that has this text."""
    for one in findings:
        if one.name == name and one.line is not None and one.line.text == text and one.line.file == __file__:
            assert tensor is None or one.tensor == tensor, one
            return
    pytest.fail(f"expected {name} at {text!r}, found {[(str(one), one.line and one.line.text) for one in findings]}")


# --- a tensor read by the observations but never registered ----------------------------------------------------------


class Wind(World):
    """The observations read a tensor that nobody registered, and that the simulator changes."""

    def make(self) -> None:
        self.wind = torch.full((1, 2), 0.5)

    def observe(self) -> torch.Tensor:
        return torch.cat([self.q + self.wind, self.qd * 0.5, self.command, self.actions], dim=-1)

    def simulate(self) -> None:
        super().simulate()
        self.wind[:] = 0.9 * self.wind + 0.1 * self.noise(2)


class StillWind(Wind):
    """The same, but it stays as it is while it is recorded."""

    def simulate(self) -> None:
        World.simulate(self)


class Gusts(StillWind):
    """The same, changed by resets only, as randomised parameters are."""

    def reset_parts(self) -> None:
        self.wind[:] = 0.5 + 0.1 * self.noise(2)


class Rebuilt(Gusts):
    """The same, and rebound."""

    def reset_parts(self) -> None:
        self.wind = 0.5 + 0.1 * self.noise(2)


class Breeze(Wind):
    """The same tensor, used at every substep."""

    def observe(self) -> torch.Tensor:
        return World.observe(self)

    def apply_actions(self) -> None:
        self.torque = self.target - self.wind


def test_an_unregistered_tensor_that_changes_is_refused_with_its_path_and_line(tmp_path: Path) -> None:
    text = "return torch.cat([self.q + self.wind, self.qd * 0.5, self.command, self.actions], dim=-1)"
    check_refused(refuse(Wind(seed=1), linear(), tmp_path), "undeclared_input", text, "self.wind")


def test_one_that_the_substeps_read_is_refused_too(tmp_path: Path) -> None:
    check_refused(
        refuse(Breeze(seed=1), linear(), tmp_path), "undeclared_input", "self.torque = self.target - self.wind"
    )


@pytest.mark.parametrize("kind", [Gusts, Rebuilt])
def test_one_that_only_resets_change_is_refused(kind: type[World], tmp_path: Path) -> None:
    findings = refuse(kind(seed=1), linear(), tmp_path)
    assert {one.name for one in findings} <= {"undeclared_input", "reset_value", "outside_write"}
    assert any(one.tensor == "self.wind" for one in findings)


def test_one_that_stays_constant_is_listed_as_frozen_by_its_path(tmp_path: Path) -> None:
    package = check_exact(StillWind, linear, tmp_path)
    frozen = {one.name: one for one in package.manifest.constants}
    assert any("wind" in name for name in frozen), sorted(frozen)


def test_registering_it_is_all_that_it_takes(tmp_path: Path) -> None:
    inputs = {**Wind.inputs, "wind": lambda world: world.wind}
    check_exact(type("Told", (Wind,), {"inputs": inputs}), linear, tmp_path)


# --- a tensor-dependent if -------------------------------------------------------------------------------------------


class BranchInObservations(World):
    def observe(self) -> torch.Tensor:
        seen = super().observe()
        if self.q.sum() > 100.0:
            seen = -seen
        return seen


class BranchInActions(World):
    def process_actions(self, actions: torch.Tensor) -> None:
        if actions.abs().max() > 100.0:
            actions = actions * 0.0
        super().process_actions(actions)


class BranchInSubsteps(World):
    def apply_actions(self) -> None:
        super().apply_actions()
        if self.qd[0, 0].item() > 100.0:
            self.torque = self.torque * 0.0


BRANCHES: dict[type[World], str] = {
    BranchInObservations: "if self.q.sum() > 100.0:",
    BranchInActions: "if actions.abs().max() > 100.0:",
    BranchInSubsteps: "if self.qd[0, 0].item() > 100.0:",
}


@pytest.mark.parametrize("kind", BRANCHES, ids=lambda kind: kind.__name__)
def test_a_branch_on_a_tensor_is_refused_at_its_line(kind: type[World], tmp_path: Path) -> None:
    check_refused(refuse(kind(seed=1), linear(), tmp_path), "value_leak", BRANCHES[kind])


def test_a_branch_on_a_tensor_in_the_actor_is_refused_at_its_line(tmp_path: Path) -> None:
    def careful(obs: torch.Tensor) -> torch.Tensor:
        return obs[:, :2] if obs.max() < 100.0 else obs[:, :2] * 0.0

    text = "return obs[:, :2] if obs.max() < 100.0 else obs[:, :2] * 0.0"
    check_refused(refuse(World(seed=1), careful, tmp_path), "value_leak", text)


# --- a rebound, sliced or computed input -----------------------------------------------------------------------------


class Rebound(World):
    """The simulator makes new tensors."""

    def simulate(self) -> None:
        self.qd = 0.9 * self.qd + 0.05 * self.torque + 0.1 * self.noise(2)
        self.q = 0.95 * self.q + 0.05 * self.qd

    def reset_simulation(self) -> None:
        self.q, self.qd = 0.3 * self.noise(2), 0.3 * self.noise(2)
        self.command = self.noise(1)


class Sliced(World):
    """The inputs are parts of one tensor."""

    inputs: ClassVar[Mapping[str, Read]] = {
        "q": lambda world: world.state[:, :2],
        "qd": lambda world: world.state[:, 2:],
        "command": lambda world: world.command,
    }

    def make(self) -> None:
        self.state = torch.zeros(self.rows, 4)

    def observe(self) -> torch.Tensor:
        self_q, self_qd = self.state[:, :2], self.state[:, 2:]
        return torch.cat([self_q, self_qd * 0.5, self.command, self.actions], dim=-1)

    def simulate(self) -> None:
        super().simulate()
        self.state[:] = torch.cat([self.q, self.qd], dim=-1)

    def reset_simulation(self) -> None:
        super().reset_simulation()
        self.state[:] = torch.cat([self.q, self.qd], dim=-1)


class SlicedButReadWhole(Sliced):
    """The observations read the tensor of which parts are registered."""

    def observe(self) -> torch.Tensor:
        return torch.cat([self.state * 0.5, self.command, self.actions], dim=-1)


class SlicedAndForgotten(SlicedButReadWhole):
    """One part of what they read is not registered."""

    inputs: ClassVar[Mapping[str, Read]] = {
        "q": lambda world: world.state[:, :2],
        "command": lambda world: world.command,
    }


class Computed(World):
    """What the callback computes, the observations compute too."""

    inputs: ClassVar[Mapping[str, Read]] = {**World.inputs, "q": lambda world: world.q * 2.0}

    def observe(self) -> torch.Tensor:
        return torch.cat([self.q * 2.0, self.qd * 0.5, self.command, self.actions], dim=-1)


class ComputedByProperty(World):
    """Both ask a property that computes it anew."""

    inputs: ClassVar[Mapping[str, Read]] = {**World.inputs, "q": lambda world: world.relative}

    @property
    def relative(self) -> torch.Tensor:
        return (self.q - 0.3) * torch.tensor([1.0, 2.0])

    def observe(self) -> torch.Tensor:
        return torch.cat([self.relative, self.qd * 0.5, self.command, self.actions], dim=-1)


def read_as(callback: Read, observed: Read | None = None) -> type[World]:
    """A world whose input q is one thing, and whose observations read another."""

    def observe(self: Any) -> torch.Tensor:
        return torch.cat([(observed or callback)(self), self.qd * 0.5, self.command, self.actions], dim=-1)

    return type("Read", (World,), {"inputs": {**World.inputs, "q": callback}, "observe": observe})


FORMS: dict[str, type[World]] = {
    "a copy": read_as(lambda world: world.q.clone(), lambda world: world.q),
    "detached": read_as(lambda world: world.q.detach(), lambda world: world.q),
    "all of it": read_as(lambda world: world.q[:], lambda world: world.q),
    "all columns": read_as(lambda world: world.q[:, :2], lambda world: world.q),
    "another shape": read_as(lambda world: world.q.view(1, 1, 2), lambda world: world.q),
    "the only row": read_as(lambda world: world.q[0], lambda world: world.q[0].unsqueeze(0)),
    "by a list": read_as(lambda world: world.q[:, [1, 0]]),
    "by a tensor": read_as(lambda world: world.q[:, torch.tensor([1, 0])]),
    "scaled by new numbers": read_as(lambda world: world.q * torch.tensor([1.0, 2.0])),
    "several operations": read_as(lambda world: (world.q - 0.3).clamp(-1.0, 1.0) * 2.0),
    "put together": read_as(lambda world: torch.cat([world.q[:, 1:], world.q[:, :1]], dim=-1)),
    "of a product": read_as(lambda world: world.q @ torch.eye(2)),
}


@pytest.mark.parametrize("form", FORMS)
def test_whatever_form_a_callback_gives_it_in_an_input_is_an_input(form: str, tmp_path: Path) -> None:
    package = check_exact(FORMS[form], linear, tmp_path)
    assert set(package.manifest.inputs) == {"q", "qd", "command"}


class Elsewise(World):
    """The callback computes what the observations do not."""

    inputs: ClassVar[Mapping[str, Read]] = {**World.inputs, "q": lambda world: world.q * 3.0}


@pytest.mark.parametrize(
    "kind", [Rebound, Sliced, SlicedButReadWhole, Computed, ComputedByProperty], ids=lambda kind: kind.__name__
)
def test_an_input_is_what_its_callback_gives(kind: type[World], tmp_path: Path) -> None:
    package = check_exact(kind, linear, tmp_path)
    assert set(package.manifest.inputs) == {"q", "qd", "command"}
    assert {"q", "qd", "command"} <= set(SessionWrapper(tmp_path, "policy.onnx", optimize=False).input_names)


def test_the_part_of_a_tensor_that_nobody_registered_is_refused(tmp_path: Path) -> None:
    findings = refuse(SlicedAndForgotten(seed=1), linear(), tmp_path)
    text = "return torch.cat([self.state * 0.5, self.command, self.actions], dim=-1)"
    check_refused(findings, "undeclared_input", text, "self.state")


def test_a_callback_that_computes_something_else_is_refused(tmp_path: Path) -> None:
    findings = refuse(Elsewise(seed=1), linear(), tmp_path)
    assert {one.name for one in findings} <= {"undeclared_input", "unused_input"}
    assert any(one.tensor == "self.q" or "q" in one.message for one in findings)


# --- exporting after evaluating, exporting twice ---------------------------------------------------------------------


def digests(folder: Path) -> dict[str, str]:
    files = sorted(one for one in folder.rglob("*") if one.is_file())
    return {str(one.relative_to(folder)): hashlib.sha256(one.read_bytes()).hexdigest() for one in files}


def test_exporting_twice_and_after_evaluating_gives_the_same_bytes(tmp_path: Path) -> None:
    adapter, actor = Adapter(World(seed=1)), linear()
    found = []
    for name in ("first", "second", "third"):
        folder = tmp_path / name / "out"
        export_environment_as_onnx(adapter, actor, folder, **FAST)
        found.append(digests(folder))
        wrapper = SessionWrapper(folder, "policy.onnx", actor, optimize=False)
        with torch.inference_mode():
            assert evaluate(adapter, adapter.context_manager(), wrapper, num_steps=10, verbose=False)[0]
    assert "policy.onnx" in found[0]
    assert "policy/manifest.json" in found[0]
    assert found[0] == found[1]
    assert found[0] == found[2]


def test_exporting_an_environment_that_was_used_gives_a_policy_that_starts_as_a_fresh_one(tmp_path: Path) -> None:
    world, actor = World(seed=1), linear()
    run_alone(world, actor, 10)
    export_world(world, actor, tmp_path)
    alone = run_alone(World(seed=2), linear(), 24)
    check_package(tmp_path / "policy", alone)
    check_one_file(tmp_path, alone)


def test_an_environment_in_the_middle_of_an_episode_can_be_evaluated(tmp_path: Path) -> None:
    world, actor = World(seed=1), linear()
    run_alone(world, actor, 10)
    adapter = Adapter(world)
    adapter.context_manager().add_component(Memory("actions", lambda: world.actions))
    export_environment_as_onnx(adapter, actor, tmp_path, **FAST)
    wrapper = SessionWrapper(tmp_path, "policy.onnx", actor, optimize=False)
    assert evaluate(adapter, adapter.context_manager(), wrapper, num_steps=20, verbose=False)[0]


# --- names -----------------------------------------------------------------------------------------------------------


class OddNames(World):
    inputs: ClassVar[Mapping[str, Read]] = {
        "zero": lambda world: world.q,
        "cond": lambda world: world.qd,
        "policy": lambda world: world.command,
    }
    outputs: ClassVar[Mapping[str, Read]] = {
        "decimation": lambda world: world.torque,
        "If_0": lambda world: world.target,
    }
    memories: ClassVar[Mapping[str, Read]] = {"actions": lambda world: world.actions}


def test_names_that_the_file_could_use_itself_do_not_collide(tmp_path: Path) -> None:
    package = check_exact(OddNames, linear, tmp_path)
    assert set(package.manifest.inputs) == {"zero", "cond", "policy"}
    wrapper = SessionWrapper(tmp_path, "policy.onnx", optimize=False)
    assert {"zero", "cond", "policy", "ctx.step_count", "memory.actions.in"} <= set(wrapper.input_names)
    assert wrapper.output_names[:2] == ["actions", "obs"]
    assert {"decimation", "If_0", "memory.actions.out"} <= set(wrapper.output_names)


@pytest.mark.parametrize("name", ["actions", "obs"])
def test_an_input_called_as_an_output_of_the_file_is_refused_by_name(name: str, tmp_path: Path) -> None:
    inputs = {name: lambda world: world.q, "qd": lambda world: world.qd, "command": lambda world: world.command}
    kind = type("Named", (World,), {"inputs": inputs})
    with pytest.raises((InputError, ExportError), match=f"'{name}'"):
        export_world(kind(seed=1), linear(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["policy.decided", "decided", "in", "default", "obs.x", "a b", "ä"])
def test_other_names_are_exact(name: str, tmp_path: Path) -> None:
    inputs = {**World.inputs, name: lambda world: world.q}
    del inputs["q"]
    outputs = {f"{name}_out": lambda world: world.torque}
    check_exact(type("Named", (World,), {"inputs": inputs, "outputs": outputs}), linear, tmp_path)


# --- metadata, decimation --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad", [{"x": object()}, {"x": float("nan")}, {"x": {1, 2}}, {"x": torch.zeros(1)}, {"x": b""}]
)
def test_metadata_that_is_not_json_is_refused_and_leaves_nothing(bad: dict[str, Any], tmp_path: Path) -> None:
    adapter = Adapter(World(seed=1))
    adapter.about = bad
    with pytest.raises(InputError, match=r"metadata\(\): expected a JSON value"):
        export_environment_as_onnx(adapter, linear(), tmp_path / "out", **FAST)
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="model_source: expected a JSON value"):
        export_environment_as_onnx(Adapter(World(seed=1)), linear(), tmp_path / "out", model_source=bad, **FAST)
    assert not (tmp_path / "out").exists()


def test_metadata_of_any_json_type_is_kept(tmp_path: Path) -> None:
    adapter, about = Adapter(World(seed=1)), {"list": [1, 2.5], "none": None, "dict": {"a": True}, "text": "ä", "no": 3}
    adapter.about = about
    source = {"commit": "abc", "dirty": False}
    package = export_environment_as_onnx(adapter, linear(), tmp_path, model_source=source, **FAST)
    assert package.manifest.metadata["environment"] == about
    properties = SessionWrapper(tmp_path, "policy.onnx", optimize=False).metadata
    assert json.loads(properties["model_source"]) == source
    assert properties["text"] == "ä"
    assert json.loads(properties["list"]) == [1, 2.5]
    assert json.loads(properties["dict"]) == {"a": True}


@pytest.mark.parametrize("decimation", [0, -1, 2.0, True, None, "4"])
@pytest.mark.parametrize("about", [{}, {"step_dt": 0.02}])
def test_a_decimation_that_is_none_is_refused(decimation: Any, about: dict[str, Any], tmp_path: Path) -> None:
    kind = type("Never", (World,), {"decimation": decimation})
    adapter = Adapter(kind(seed=1))
    adapter.about = about
    with pytest.raises(InputError, match="decimation: expected a whole number from 1"):
        export_environment_as_onnx(adapter, linear(), tmp_path / "out", **FAST)
    assert not (tmp_path / "out").exists()


# --- initial memory, NaN ---------------------------------------------------------------------------------------------


class Warm(World):
    """Memory that does not start at zero, at both rates."""

    def make(self) -> None:
        self.actions = torch.full((self.rows, 2), 0.3)
        self.smooth = torch.full((self.rows, 2), -0.4)

    def reset_parts(self) -> None:
        self.actions[:] = 0.3
        self.smooth[:] = -0.4

    def apply_actions(self) -> None:
        self.smooth.lerp_(self.target, 0.2)
        self.torque = self.smooth * 1.0


def test_memory_that_does_not_start_at_zero_is_in_the_files(tmp_path: Path) -> None:
    check_exact(Warm, linear, tmp_path)


def test_a_controller_that_starts_all_memory_at_zero_commands_the_right_thing_from_the_first_tick(
    tmp_path: Path,
) -> None:
    export_world(Warm(seed=1), linear(), tmp_path)
    session: Any = onnxruntime.InferenceSession(str(tmp_path / "policy.onnx"))
    dtypes = {
        "tensor(float)": np.float32,
        "tensor(int32)": np.int32,
        "tensor(int64)": np.int64,
        "tensor(bool)": np.bool_,
    }
    zeros = {one.name: np.zeros(one.shape, dtypes[one.type]) for one in session.get_inputs()}
    names, memory, count = [one.name for one in session.get_outputs()], dict[str, Any](), 0
    assert any(name.startswith("memory.") for name in zeros)
    for one in run_alone(Warm(seed=2), linear(), Warm.episode):
        for before, after in one.ticks:
            given = {name: value for name, value in before.items() if name in zeros}
            feed = {**zeros, **memory, **given, "ctx.step_count": np.array(count, np.int32)}
            got = dict(zip(names, session.run(names, feed), strict=True))
            same(got, after, f"tick {count}", 1e-5)
            memory = {f"{name.removesuffix('.out')}.in": got[name] for name in names if name.startswith("memory.")}
            count += 1


class Logarithm(World):
    """NaN for targets below -1."""

    def apply_actions(self) -> None:
        self.torque = torch.log(self.target + 1.0 + 0.1 * self.q)


def test_nan_never_reaches_the_robot(tmp_path: Path) -> None:
    export_world(Logarithm(seed=1), linear(), tmp_path)
    policy, wrapper = ashore.load(tmp_path / "policy"), SessionWrapper(tmp_path, "policy.onnx", optimize=False)
    good: Arrays = {
        "q": np.zeros((1, 2), np.float32),
        "qd": np.zeros((1, 2), np.float32),
        "command": np.zeros((1, 1), np.float32),
    }
    bad = {**good, "q": np.array([[0.0, np.nan]], np.float32)}
    with pytest.raises(InputError, match=r"'q'\[0, 1\] is nan"):
        policy.step(bad)
    with pytest.raises(InputError, match=r"'q'\[0, 1\] is nan"):
        wrapper.run(bad)
    far = {**good, "q": np.array([[-90.0, 0.0]], np.float32)}
    policy.step(good)
    with pytest.raises(NonFiniteError, match="'torque'"):
        policy.substep({"q": far["q"]})
    with pytest.raises(NonFiniteError, match="'torque'"):
        wrapper.run(far)


# --- evaluating ------------------------------------------------------------------------------------------------------


class Tampered(SessionWrapper):
    """A file that is wrong where it is told to be."""

    port = "torque"
    calls: range = range(0)
    made = 0

    def __call__(self, **inputs: Any) -> list[Any]:
        Tampered.made += 1
        return super().__call__(**inputs)

    def get_output_value(self, output_name: str) -> np.ndarray:
        value = super().get_output_value(output_name)
        return value + 1 if output_name == self.port and Tampered.made - 1 in self.calls else value


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Adapter, torch.nn.Module]:
    folder, world, actor = tmp_path_factory.mktemp("exported"), World(seed=1), linear()
    adapter = Adapter(world)
    adapter.context_manager().add_component(Memory("last", lambda: world.actions))
    adapter.get_observation_names = lambda: ["q0", "q1", "v0", "v1", "command", "last0", "last1"]  # type: ignore[method-assign]
    export_environment_as_onnx(adapter, actor, folder, **FAST)
    return folder, adapter, actor


def tampered(exported: tuple[Path, Adapter, torch.nn.Module], port: str, calls: range) -> Tampered:
    folder, _, actor = exported
    wrapper = Tampered(folder, "policy.onnx", actor, optimize=False)
    wrapper.port, wrapper.calls, Tampered.made = port, calls, 0
    return wrapper


Exported = tuple[Path, Adapter, torch.nn.Module]


def judge(exported: Exported, wrapper: SessionWrapper, **options: Any) -> bool:
    _, adapter, _ = exported
    return evaluate(adapter, adapter.context_manager(), wrapper, **{"verbose": False, **options})[0]


def test_the_verdict_is_the_worst_of_all_episodes(exported: Exported) -> None:
    assert judge(exported, tampered(exported, "torque", range(0)), num_steps=30)
    assert not judge(exported, tampered(exported, "torque", range(1)), num_steps=30)  # only the first tick of all
    assert not judge(exported, tampered(exported, "torque", range(119, 120)), num_steps=30)  # only the last
    assert judge(exported, tampered(exported, "torque", range(120, 121)), num_steps=30)  # after the last


@pytest.mark.parametrize(("port", "call"), [("obs", 4), ("actions", 8), ("memory.last.out", 9), ("torque", 7)])
def test_every_kind_of_port_is_compared_at_its_rate(exported: Exported, port: str, call: int) -> None:
    assert not judge(exported, tampered(exported, port, range(call, call + 1)), num_steps=10)


def test_evaluating_nothing_is_an_error(exported: Exported) -> None:
    wrapper = tampered(exported, "torque", range(0))
    for options in ({"num_steps": 0}, {"num_episodes": 0, "max_episode_steps": 5}, {"num_steps": -1}):
        with pytest.raises(VerificationError, match="expected a whole number from 1"):
            judge(exported, wrapper, **options)
    for options in ({}, {"num_steps": 3, "num_episodes": 2, "max_episode_steps": 5}):
        with pytest.raises(InputError, match="expected num_steps, or num_episodes with max_episode_steps"):
            judge(exported, wrapper, **options)
    with pytest.raises(VerificationError, match="max_episode_steps"):
        judge(exported, wrapper, num_episodes=2)


def test_episodes_are_counted_and_limited(exported: Exported) -> None:
    wrapper = tampered(exported, "torque", range(0))
    assert judge(exported, wrapper, num_episodes=3, max_episode_steps=100)
    assert Tampered.made == 3 * 7 * 4
    Tampered.made = 0
    assert judge(exported, wrapper, num_episodes=2, max_episode_steps=5)
    assert Tampered.made == 2 * 5 * 4


def test_evaluating_without_an_actor_is_an_error(exported: Exported) -> None:
    folder, adapter, _ = exported
    with pytest.raises(InputError, match="the session has no actor"):
        evaluate(adapter, adapter.context_manager(), SessionWrapper(folder, "policy.onnx", optimize=False), num_steps=3)


def test_an_actor_that_changed_since_is_found_and_each_element_is_named(
    exported: Exported, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _, actor = exported
    with torch.no_grad():
        actor[0].bias[1] += 0.25  # type: ignore[index]
    try:
        wrapper = SessionWrapper(folder, "policy.onnx", actor, optimize=False)
        assert not judge(exported, wrapper, num_steps=2, verbose=True)
    finally:
        with torch.no_grad():
            actor[0].bias[1] -= 0.25  # type: ignore[index]
    shown = capsys.readouterr().err
    assert "last1" in shown
    assert "last0" not in shown
    assert "differ in" in shown


def test_mismatches_of_several_environments_are_shown_by_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world, actor = World(seed=1, rows=3), linear()
    adapter = Adapter(world)
    export_environment_as_onnx(adapter, actor, tmp_path, **FAST)
    wrapper = SessionWrapper(tmp_path, "policy.onnx", actor, optimize=False)
    ok, obs = evaluate(adapter, adapter.context_manager(), wrapper, num_steps=20, verbose=True)
    assert ok
    assert tuple(obs.shape) == (3, 7)  # type: ignore[union-attr]
    with torch.no_grad():
        actor[0].bias[0] += 0.25  # type: ignore[index]
    wrapper = SessionWrapper(tmp_path, "policy.onnx", actor, optimize=False)
    capsys.readouterr()
    assert not evaluate(adapter, adapter.context_manager(), wrapper, num_steps=2, verbose=True)[0]
    rows = [line.split("│")[3].strip() for line in capsys.readouterr().err.splitlines() if line.startswith("│")]
    assert {"0", "1", "2"} <= set(rows)


def test_a_file_that_ignores_one_row_is_found(tmp_path: Path) -> None:
    """What is wrong in the last of several environments only is wrong."""

    class Uneven(World):
        def apply_actions(self) -> None:
            self.torque = 3.0 * self.target - 0.2

    world, actor = Uneven(seed=1, rows=3), linear()
    adapter = Adapter(world)
    export_environment_as_onnx(adapter, actor, tmp_path, **FAST)

    def uneven() -> None:
        Uneven.apply_actions(world)
        world.torque[2] += 0.1

    wrapper = SessionWrapper(tmp_path, "policy.onnx", actor, optimize=False)
    world.apply_actions = uneven  # type: ignore[method-assign]
    assert not evaluate(adapter, adapter.context_manager(), wrapper, num_steps=3, verbose=False)[0]


# --- what else a step can do ------------------------------------------------------------------------------------------


class Noisy(World):
    def observe(self) -> torch.Tensor:
        return super().observe() + 0.01 * self.noise(7)


def test_noise_in_the_observations_is_refused(tmp_path: Path) -> None:
    findings = refuse(Noisy(seed=1), linear(), tmp_path)
    assert findings[0].name == "randomness"


class Dropout(World):
    """A module in training mode that nobody registered."""

    def make(self) -> None:
        self.drop = torch.nn.Dropout(0.5)

    def observe(self) -> torch.Tensor:
        return self.drop(super().observe())


def test_a_module_in_training_mode_is_refused(tmp_path: Path) -> None:
    assert {one.name for one in refuse(Dropout(seed=1), linear(), tmp_path)} & {"training_mode", "randomness"}


def test_a_registered_module_is_put_in_evaluation_mode_for_the_export_only(tmp_path: Path) -> None:
    world = Dropout(seed=1)
    adapter = Adapter(world)
    adapter.context_manager().add_module(world.drop)
    export_environment_as_onnx(adapter, linear(), tmp_path, **FAST)
    assert world.drop.training
    alone = run_alone(World(seed=2), linear(), 24)
    check_package(tmp_path / "policy", alone)


def test_exporting_inside_inference_mode_is_exact(tmp_path: Path) -> None:
    with torch.inference_mode():
        export_world(World(seed=1), linear(), tmp_path)
    alone = run_alone(World(seed=2), linear(), 24)
    check_package(tmp_path / "policy", alone)
    check_one_file(tmp_path, alone)


class Endless(World):
    """No episode ends while it is recorded."""

    episode = 10_000

    def make(self) -> None:
        self.history = torch.zeros(self.rows, 3, 2)
        self.smooth = torch.full((self.rows, 2), 0.25)

    def observe(self) -> torch.Tensor:
        self.history[:, :-1] = self.history[:, 1:].clone()
        self.history[:, -1] = self.q
        return torch.cat([super().observe(), self.history.flatten(1)], dim=-1)

    def apply_actions(self) -> None:
        self.smooth[:] = 0.8 * self.smooth + 0.2 * self.target
        self.torque = self.smooth * 1.0


def test_without_a_reset_a_policy_starts_as_the_environment_did(tmp_path: Path) -> None:
    export_world(Endless(seed=1), linear(0, 13), tmp_path)
    alone = run_alone(Endless(seed=2), linear(0, 13), 40)
    check_package(tmp_path / "policy", alone)
    check_one_file(tmp_path, alone)
