"""Packages of every kind, compiled: beside ONNX Runtime, and against their own golden rollouts."""

from __future__ import annotations

import importlib
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

import ashore
import graphs
import support
from ashore.errors import AshoreError, BackendError
from ashore.package import Package, pack, read, write
from ashore.runtime import Policy
from ashore.spec import Artifact, Joint, Manifest, Wire, encode
from ashore.verify import bench, replay
from runtime import chunks
from runtime.test_random_wiring import World

ROOT = Path(__file__).parents[2]
SUBJECTS: dict[str, Callable[[], graphs.Subject]] = {
    "mlp": lambda: graphs.mlp(48, 256, 128, 64, 12),
    "wide mlp": lambda: graphs.mlp(235, 512, 256, 128, 12),
    "lstm": lambda: graphs.lstm(48, 64, 12),
    "gru": lambda: graphs.gru(96, 256, 12),
    "pipeline": graphs.pipeline,
    "transformer": lambda: graphs.transformer(8, 128, 2, 12),
}


def beside(policy: Policy, other: Policy, steps: int, *, atol: float) -> None:
    """Both do the same, over many steps with resets and substeps, each with its own states."""
    rng = np.random.default_rng(4)
    for step in range(steps):
        if step % 17 == 11:
            policy.reset()
            other.reset()
        for call, names in (("step", policy.step_inputs), ("substep", policy.substep_inputs)):
            for _ in range(1 if call == "step" else 2 * bool(names)):
                inputs = {name: values(rng, policy, name) for name in names}
                got, wanted = getattr(policy, call)(inputs), getattr(other, call)(inputs)
                assert list(got) == list(wanted)
                for name, value in wanted.items():
                    assert got[name].dtype == value.dtype
                    np.testing.assert_allclose(got[name], value, rtol=1e-6, atol=atol, err_msg=f"{call} {step}: {name}")
        state, wanted = policy.state(), other.state()
        assert state.decided == wanted.decided
        for name, value in wanted.items():
            np.testing.assert_allclose(state[name], value, rtol=1e-6, atol=atol, err_msg=f"step {step}: {name}")


def values(rng: np.random.Generator, policy: Policy, name: str) -> np.ndarray:
    port = policy.inputs[name]
    shape = [policy.batch if dim == "batch" else dim for dim in port.shape]
    return rng.standard_normal(shape).astype(port.dtype)


@pytest.mark.parametrize("name", SUBJECTS)
def test_what_is_measured_is_also_right(name: str, tmp_path: Path, called: str) -> None:
    package = graphs.write_subject(SUBJECTS[name](), tmp_path / "p")
    report = replay(package, backend="c", atol=2e-6, rtol=2e-6)
    assert report.passed, report.mismatches
    beside(ashore.load(package, backend="c"), ashore.load(package), 40, atol=2e-6)


@pytest.mark.parametrize("name", ["sum", "arm"])
def test_packages_of_the_first_schema_run(name: str, called: str) -> None:
    package = read(ROOT / "tests" / "data" / "v1" / f"{name}.ashore")
    assert replay(package, backend="c", atol=1e-6, rtol=1e-6).passed
    beside(ashore.load(package, backend="c"), ashore.load(package), 60, atol=1e-6)


@pytest.mark.parametrize("example", ["first_package", "record_policy", "environment_policy"])
def test_packages_of_the_examples_run(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [example, str(tmp_path / "p")])
    runpy.run_path(str(ROOT / "examples" / f"{example}.py"), run_name="__main__")
    (manifest,) = tmp_path.rglob("manifest.json")
    package = read(manifest.parent)
    report = replay(package, backend="c")
    assert report.passed, report.mismatches
    beside(ashore.load(package, backend="c"), ashore.load(package), 40, atol=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_a_random_package_runs_as_its_wires_say(seed: int, tmp_path: Path) -> None:
    world = World(seed)
    package = write(tmp_path / "p", world.manifest, files=world.files(), initial=world.initial)
    beside(ashore.load(package, backend="c"), ashore.load(package), 40, atol=1e-6)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_batch_has_the_length_that_was_asked_for(tmp_path: Path, batch: int, called: str) -> None:
    package = support.write_batched(tmp_path / "p", rows=batch)
    policy = ashore.load(package, backend="c", batch=batch)
    beside(policy, ashore.load(package, batch=batch), 20, atol=0)
    assert replay(package, backend="c").passed
    rows = np.arange(batch) % 2 == 0
    before = policy.state()["h"]
    policy.reset(rows=rows)
    after = policy.state()["h"]
    np.testing.assert_array_equal(after[:, rows], np.broadcast_to(np.float32([10, 20]), after[:, rows].shape))
    np.testing.assert_array_equal(after[:, ~rows], before[:, ~rows])


def test_actions_are_selected_and_robots_are_bound_as_on_every_backend(sum_package: Package, tmp_path: Path) -> None:
    policy, other = (ashore.load(sum_package, backend=backend) for backend in ("c", "onnx"))
    for x in support.inputs_like((3,), 5, seed=1):
        np.testing.assert_array_equal(policy.select_action({"x": x}), other.select_action({"x": x}))
    archive = pack(sum_package, tmp_path / "p.ashore")
    assert ashore.load(archive.path, backend="c").step({"x": support.f32(1, 2, 3)}).keys() == {"y"}


def test_a_package_is_measured(tmp_path: Path) -> None:
    package = graphs.write_subject(graphs.mlp(8, 8, 2), tmp_path / "p")
    (timing,) = bench(package, backend="c", samples=100)
    assert timing.rate == "policy"
    assert timing.policy.samples == 100
    with pytest.raises(BackendError, match="threads: the backend 'c' runs on one thread, got 2"):
        bench(package, backend="c", samples=100, threads=2)


def test_an_operator_that_cannot_be_compiled_is_named(sum_package: Package, fresh_cache: Path) -> None:
    text = support.SUM_MODEL.replace("y = Mul(h_out, x)", "size = Size(x)\n    flat = Det(x)\n    y = Mul(h_out, x)")
    support.change_file(sum_package.path, "artifacts/policy.onnx", support.model(text))
    with pytest.raises(BackendError, match=r"stage 'policy' .*artifacts/policy\.onnx.*Det"):
        ashore.load(sum_package.path, backend="c")
    assert not list(fresh_cache.glob("*")), "nothing is left of it"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("flow", r"stage '\w+' is run by 'flow', several times in a decision; the backend 'c' refuses it"),
        ("chunks", "the runner 'action_queue' decides only when .*so the backend 'c' refuses it; use another backend"),
        ("torch", r"stage 'policy': has no ONNX artifact to compile, only \['torchscript'\]"),
    ],
)
def test_packages_that_cannot_be_compiled_are_refused_by_name(
    tmp_path: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, kind: str, message: str
) -> None:
    if kind == "flow":
        monkeypatch.syspath_prepend(str(ROOT / "tests" / "runtime" / "loops"))
        flow, looping = (importlib.import_module(name) for name in ("test_flow", "looping"))
        package = looping.package(tmp_path / "p", flow.stage(), {"denoise": (flow.body(), flow.DENOISE)})
    elif kind == "chunks":
        package = chunks.write_chunks(tmp_path / "p")
    else:
        manifest = support.sum_manifest()
        artifact = Artifact(path="a.pt", inputs=("x", "h_in"), outputs=("y", "h_out"))
        stage = structs.replace(manifest.stages["policy"], artifacts={"torchscript": artifact})
        contents = {**support.sum_contents(), "files": {"a.pt": b"no file of torch"}}
        package = write(tmp_path / "p", structs.replace(manifest, stages={"policy": stage}), **contents)
    with pytest.raises(BackendError, match=message):
        ashore.load(package, backend="c")
    assert not list(fresh_cache.glob("*"))


HOSTILE = [
    '*/ #error "*/',
    'a"; int x = system("true"); //',
    "line\nbreak\n#error",
    "back\\",
    "tri??/graph??'",
    "percent%s%n",
    "int",
    "états",
    "1",
    "",
]


def renamed(manifest: Manifest, old: str, new: str) -> tuple[Wire, ...]:
    """The wires, with what an end begins with or is called replaced."""
    ends = [(one.source, one.target) for one in manifest.wires]
    return tuple(
        Wire(*(f"{new}{end.removeprefix(old)}" if end.startswith(old) else end for end in pair)) for pair in ends
    )


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
def test_what_a_package_calls_things_stays_text(tmp_path: Path, name: str) -> None:
    """Names go into comments, string literals and identifiers of the code that is compiled."""
    manifest = support.sum_manifest()
    policy = manifest.stages["policy"]
    candidates: list[Callable[[Manifest], Manifest]] = [
        lambda now: structs.replace(now, name=name),
        lambda now: structs.replace(now, version=name),
        lambda now: structs.replace(now, joints=(Joint(name=name),)),
        lambda now: structs.replace(now, stages={name: policy}, wires=renamed(now, "policy/", f"{name}/")),
        *(
            lambda now, field=field, value=value: structs.replace(
                now, inputs={"x": structs.replace(now.inputs["x"], **{field: value})}
            )
            for field, value in {
                "unit": name, "frame": name, "connection": name, "description": name,
                "element_names": (None, (name, "b", "c")),
            }.items()
        ),
        lambda now: structs.replace(
            now, inputs={name: now.inputs["x"]}, wires=renamed(now, "inputs/x", f"inputs/{name}")
        ),
    ]  # fmt: skip
    taken = 0
    for change in candidates:
        try:
            encode(change(manifest))
        except AshoreError:  # no package can have that
            continue
        manifest, taken = change(manifest), taken + 1
    assert taken >= (1 if name == "" else 3)
    contents = support.sum_contents()
    del contents["golden"]
    compiled = ashore.load(write(tmp_path / "p", manifest, **contents), backend="c")
    (given,) = compiled.step_inputs
    value = support.f32(1, 2, 3)
    np.testing.assert_array_equal(compiled.step({given: value})["y"], support.Sum().step(value))
