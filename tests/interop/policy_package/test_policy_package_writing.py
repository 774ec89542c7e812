"""A package becomes a directory that computes the same by its published semantics; what those lack is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import ashore
import support
from ashore.building import Kept, Pipeline, add_loop, apply
from ashore.errors import AshoreError, ExportError, PackageError
from ashore.interop.policy_package import from_policy_package, to_policy_package
from ashore.package import Package, Recording, read, save_arrays, write
from ashore.runtime.observing import observe
from ashore.spec import ACTION_QUEUE, NOISE, TEXT, Artifact, Port, Runner, Stage, State, Verification, concrete
from interop.policy_package.policy_package_cases import (
    HEAD,
    ROWS,
    TOKENS,
    WIDE,
    denoise,
    encoder,
    numbers,
    statistics,
    tokenizer_json,
    write_act,
    write_pi05,
)
from interop.policy_package.published import Published

STATE, IMAGE = "observation.state", "observation.images.top"
DIM, CHUNK = 4, 5
MODEL = f"""
decide (float[1,{DIM}] state, float[1,3,6,6] image) => (float[1,{CHUNK},{DIM}] chunk) {{
    pixels = Constant<value = int64[3] {{1, 2, 3}}>()
    last = Constant<value = int64[2] {{1, 2}}>()
    one = Constant<value = int64[1] {{1}}>()
    ramp = Constant<value = float[1,{CHUNK},1] {{{numbers(CHUNK, 1)}}}>()
    seen = ReduceMean<keepdims = 0>(image, pixels)
    light = Unsqueeze(seen, last)
    row = Unsqueeze(state, one)
    moved = Mul(row, ramp)
    chunk = Add(moved, light)
}}
"""
CALLS, RESETS = 17, (6, 7)
Shapes = Mapping[str, tuple[int, ...]]


def f32(*shape: int) -> Port:
    return Port(dtype="float32", shape=shape)


def scale(kind: str, feature: str, mode: str = "mean_std", **more: Any) -> dict[str, Any]:
    eps = 0.0 if kind == "denormalize" and mode == "mean_std" else 1e-8
    own = {"type": kind, "features": [feature], "mode": mode, "artifact": "stats.safetensors", "eps": eps}
    return own | {"statistics": f"of {feature}"} | more


def stats(shapes: Shapes) -> bytes:
    return save_arrays({f"of {name}": value for name, value in statistics(shapes).items()})


class Chunked:
    """A pipeline with one model, and hooks before and behind it."""

    def __init__(self, *, n_action_steps: int | None = 3) -> None:
        self.made = Pipeline()
        self.made.files["stats.safetensors"] = stats({STATE: (DIM,), IMAGE: (3, 1, 1), "action": (DIM,)})
        self.steps = n_action_steps
        self.before: list[dict[str, Any]] = [scale("normalize", STATE), scale("normalize", IMAGE)]
        self.after: list[dict[str, Any]] = [scale("denormalize", "action")]
        self.inputs = {STATE: f32(1, DIM), IMAGE: f32(1, 3, 6, 6)}
        self.model = MODEL
        self.ports = {"state": f32(1, DIM), "image": f32(1, 3, 6, 6)}
        self.about: dict[str, Any] = {}

    def write(self, out: Path) -> Package:
        made = self.made
        for name, port in self.inputs.items():
            made.add_input(name, port)
        if any(spec["type"] == "absolute_actions" for spec in self.after):
            made.keep(STATE, f"raw:{STATE}")
        for spec in self.before:
            apply(made, spec)
        made.files["decide.onnx"] = support.model(self.model)
        stage = Stage(
            rate="policy",
            inputs=self.ports,
            outputs={"chunk": f32(1, CHUNK, DIM)},
            artifacts={"onnx": Artifact(path="decide.onnx")},
        )
        made.add_stage("decide", stage, {"state": STATE, "image": IMAGE}, {"chunk": "action"}, {})
        for spec in self.after:
            apply(made, spec)
        if self.steps is not None:
            apply(made, {"type": "action_queue", "features": ["action"], "n_action_steps": self.steps})
        made.add_output("act", "action")
        queued = any(stage.processor and stage.processor.type == "action_queue" for stage in made.stages.values())
        manifest = made.manifest("chunked", Runner(type=ACTION_QUEUE) if queued else Runner(), **self.about)
        return with_rollout(write(out, manifest, files=made.files, initial=made.initial))


class Flow:
    """A pipeline with an encoder and a flow."""

    def __init__(self) -> None:
        self.inputs: dict[str, Port] = {
            IMAGE: f32(1, 3, 8, 8),
            "mask": Port(dtype="bool", shape=(1,)),
            STATE: f32(1, 14),
            "task": Port(dtype="uint8", shape=(1, 64), kind=TEXT),
        }
        self.before: list[dict[str, Any]] = [
            scale("normalize", STATE, "quantiles"),
            {"type": "pad", "features": [STATE], "size": 32},
            {"type": "tokenize", "artifact": "words.json", "max_length": TOKENS, "pad_id": 0, "padding_side": "left"},
        ]
        self.params: dict[str, Any] = {"num_steps": 4}
        self.after: list[dict[str, Any]] = [
            {"type": "slice", "features": ["action"], "shape": [ROWS, 14], "start": [0, 0]},
            scale("denormalize", "action", "quantiles"),
            {"type": "absolute_actions", "features": ["action"], "mask": [True] * 12 + [False, True]},
        ]
        self.state: str = "denoise"

    def write(self, out: Path) -> Package:
        made = Pipeline()
        made.files |= {
            "stats.safetensors": stats({STATE: (14,), "action": (14,)}),
            "words.json": tokenizer_json(),
            "encoder.onnx": encoder("bool"),
            "denoise.onnx": denoise(state=32),
        }
        for name, port in self.inputs.items():
            made.add_input(name, port)
        made.keep(STATE, f"raw:{STATE}")
        for spec in self.before:
            apply(made, spec)
        past = {f"past_{part}_{layer}": f32(1, 1, TOKENS, HEAD) for layer in range(3) for part in ("key", "value")}
        cache = {"prefix_pad_mask": Port(dtype="bool", shape=(1, TOKENS)), **past}
        inputs = {
            "image_0": f32(1, 3, 8, 8),
            "img_mask_0": Port(dtype="bool", shape=(1,)),
            "lang_tokens": Port(dtype="int64", shape=(1, TOKENS)),
            "lang_masks": Port(dtype="bool", shape=(1, TOKENS)),
        }
        features = {
            "image_0": IMAGE,
            "img_mask_0": "mask",
            "lang_tokens": "observation.language.tokens",
            "lang_masks": "observation.language.attention_mask",
        }
        stage = Stage(rate="policy", inputs=inputs, outputs=cache, artifacts={"onnx": Artifact(path="encoder.onnx")})
        made.add_stage("look", stage, features, {name: name for name in cache}, {})
        sample = f32(1, ROWS, WIDE)
        body = Stage(
            rate="loop",
            inputs={"x_t": sample, "timestep": f32(1), **cache, "state": f32(1, 32)},
            outputs={"v_t": sample},
            artifacts={"onnx": Artifact(path="denoise.onnx")},
        )
        add_loop(made, "flow", "pull", body, {"state": STATE}, self.params)
        for spec in self.after:
            apply(made, spec)
        apply(made, {"type": "action_queue", "features": ["action"], "n_action_steps": 4})
        made.add_output("action", "action")
        manifest = made.manifest("flow", Runner(type=ACTION_QUEUE))
        return with_rollout(write(out, manifest, files=made.files, initial=made.initial))


def observation(package: Package, rng: np.random.Generator, batch: int = 1) -> dict[str, Any]:
    """Something to decide on, as a robot gives it; noise is drawn too."""
    found: dict[str, Any] = {}
    for name, port in package.manifest.inputs.items():
        shape = concrete(port.shape, batch)
        if port.kind == TEXT:
            found[name] = ("pick up the cube", "up the red")[int(rng.integers(2))]
        elif port.kind == NOISE:
            found[name] = rng.standard_normal(shape).astype(np.float32)
        elif port.dtype == "bool":
            found[name] = np.ones(shape, np.bool_)
        else:
            found[name] = rng.uniform(0, 1, shape).astype(port.dtype)
    return found


def with_rollout(package: Package, batch: int = 1) -> Package:
    """The package with a golden rollout of its own."""
    policy, recording, rng = ashore.load(package, batch=batch), Recording(), np.random.default_rng(4)
    for tick in range(9):
        if tick == 5:
            policy.reset()
            recording.reset()
        given = observe("test", observation(package, rng, batch), policy.inputs, batch=batch, generator=rng).inputs
        recording.step(given, policy.step(given), policy.state())
    files = {path: package.read(path) for path in package.manifest.files if path != "state.safetensors"}
    verification = Verification(status="skipped")
    manifest = msgspec.structs.replace(package.manifest, verification=verification)
    initial = package.initial_state()
    return write(package.path, manifest, files=files, initial=initial, golden=recording.golden())


def compare(package: Package, folder: Path, *, less: tuple[str, ...] = ()) -> None:
    """The package, the directory by its published semantics, and the directory read back decide alike."""
    back = ashore.load(from_policy_package(folder, folder.parent / "compared"))
    policy, published, rng = ashore.load(package), Published(folder), np.random.default_rng(8)
    actions: list[np.ndarray] = []
    for index in range(CALLS):
        if index in RESETS:
            for one in (policy, published, back):
                one.reset()
        given = observation(package, rng)
        noise = {"noise": given.pop("noise")} if "noise" in given else {}
        action = policy.select_action(given, **noise)[0]
        told = {name: value for name, value in given.items() if name not in less}
        np.testing.assert_allclose(published.select_action(dict(told), **noise), action, rtol=1e-5, atol=1e-5)
        own = {name: value for name, value in told.items() if name in back.inputs}
        np.testing.assert_allclose(back.select_action(own, **noise)[0], action, rtol=1e-5, atol=1e-5)
        actions.append(action)
    assert len(np.unique(np.stack(actions))) > CALLS, "actions that never change prove nothing"


def manifest_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "manifest.json").read_text())


# --- what can be said ------------------------------------------------------------------------------------------------


def test_a_queued_chunk_is_written(tmp_path: Path) -> None:
    package = Chunked().write(tmp_path / "package")
    written = to_policy_package(package, tmp_path / "out")
    assert (written.runner, written.replayed_steps) == ("single_pass", 9)
    assert written.inputs == {STATE: "state", IMAGE: "image"}
    assert written.size == sum(path.stat().st_size for path in written.path.rglob("*") if path.is_file())
    compare(package, written.path)
    document = manifest_of(written.path)
    assert document["model"]["runner"] == {
        "type": "single_pass",
        "chunk_size": 5,
        "n_action_steps": 3,
        "action_dim": 4,
    }
    assert document["hardware"]["robots"] == [
        {"name": "main", "state": {"shape": [4], "dtype": "float32"}, "action": {"shape": [4], "dtype": "float32"}}
    ]
    assert document["hardware"]["cameras"] == [{"name": "top", "shape": [3, 6, 6], "dtype": "float32"}]
    assert document["metadata"] == {"created_by": f"ashore {ashore.__version__}"}


@pytest.mark.parametrize("mode", ["mean_std", "min_max", "quantiles", "quantile10"])
def test_every_mode_is_written(mode: str, tmp_path: Path) -> None:
    made = Chunked()
    made.before = [scale("normalize", STATE, mode)]
    made.after = [scale("denormalize", "action", mode)]
    package = made.write(tmp_path / "package")
    compare(package, to_policy_package(package, tmp_path / "out").path)


def test_offsets_from_the_state_are_written(tmp_path: Path) -> None:
    made = Chunked()
    made.after.append({"type": "absolute_actions", "features": ["action"], "mask": [True, False, True, True]})
    package = made.write(tmp_path / "package")
    folder = to_policy_package(package, tmp_path / "out").path
    compare(package, folder)
    relative = manifest_of(folder)["model"]["preprocessors"][0]
    assert relative["exclude_joints"] == ["action_0001"]


def test_names_that_hold_one_another_are_not_used_to_find_a_mask(tmp_path: Path) -> None:
    """`joint_1` would also exclude `joint_10`."""
    made = Chunked()
    made.after.append({"type": "absolute_actions", "features": ["action"], "mask": [True, False, True, True]})
    package = made.write(tmp_path / "package")
    for names, word in (
        (("a", "joint_1", "joint_2", "b"), "joint_1"),
        (("a", "joint_1", "joint_10", "b"), "action_0001"),
    ):

        def name(document: dict[str, Any], names: tuple[str, ...] = names) -> None:
            document["outputs"]["act"]["element_names"] = [None, list(names)]

        support.edit_manifest(package.path, name)
        folder = to_policy_package(read(package.path), tmp_path / word).path
        assert manifest_of(folder)["model"]["preprocessors"][0]["exclude_joints"] == [word]


def test_a_flow_is_written(tmp_path: Path) -> None:
    package = Flow().write(tmp_path / "package")
    written = to_policy_package(package, tmp_path / "out")
    assert (written.runner, written.replayed_steps) == ("kv_cache_flow", 9)
    compare(package, written.path)
    runner = manifest_of(written.path)["model"]["runner"]
    assert runner["input_mapping"] == {
        IMAGE: "image_0",
        "mask": "img_mask_0",
        "observation.language.tokens": "lang_tokens",
        "observation.language.attention_mask": "lang_masks",
        STATE: "state",
    }
    assert (runner["num_inference_steps"], runner["n_action_steps"], runner["state_dim"]) == (4, 4, 32)
    assert (runner["action_dim"], runner["output_action_dim"], runner["chunk_size"]) == (32, 14, 10)
    assert (runner["num_layers"], runner["num_kv_heads"], runner["head_dim"]) == (3, 1, 16)
    types = [spec["type"] for spec in manifest_of(written.path)["model"]["preprocessors"]]
    assert types == ["relative_actions", "normalize", "pi05_prepare_state", "tokenize"]
    config = json.loads((written.path / "tokenizer" / "tokenizer_config.json").read_text())
    assert (config["pad_token"], config["padding_side"]) == ("<pad>", "left")


def test_a_decision_without_a_chunk_is_written(tmp_path: Path) -> None:
    package = support.write_batched(tmp_path / "with a state")
    with pytest.raises(ExportError, match=r"state 'h' \(recurrent\) lives from decision to decision"):
        to_policy_package(package, tmp_path / "out")
    made = Pipeline()
    made.add_input("x", Port(dtype="float32", shape=("batch", 2)))
    made.files["a.onnx"] = support.model("a (float[batch,2] x) => (float[batch,2] y) {\n    y = Neg(x)\n}")
    port = Port(dtype="float32", shape=("batch", 2))
    stage = Stage(rate="policy", inputs={"x": port}, outputs={"y": port}, artifacts={"onnx": Artifact(path="a.onnx")})
    made.add_stage("a", stage, {"x": "x"}, {"y": "y"}, {})
    made.add_output("y", "y")
    package = with_rollout(write(tmp_path / "package", made.manifest("neg", Runner()), files=made.files), batch=3)
    folder = to_policy_package(package, tmp_path / "out").path
    compare(package, folder)


# --- there and back --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [write_act, write_pi05])
def test_a_directory_comes_back_as_it_was(make: Callable[[Path], Path], tmp_path: Path) -> None:
    source = make(tmp_path / "source")
    package = from_policy_package(source, tmp_path / "package")
    folder = to_policy_package(package, tmp_path / "out").path
    before, after = manifest_of(source), manifest_of(folder)
    for key in ("format", "version", "policy", "hardware"):
        assert after[key] == before[key]
    runners = [{k: v for k, v in one["model"]["runner"].items() if v is not None} for one in (before, after)]
    assert runners[0] == runners[1]
    assert after["model"]["postprocessors"] == before["model"]["postprocessors"]
    for path in sorted((source / "artifacts").iterdir()):
        assert (folder / "artifacts" / path.name).read_bytes() == path.read_bytes()
    compare(package, folder)


@pytest.mark.parametrize("make", [Chunked, Flow])
def test_a_package_comes_back_with_what_it_computes(make: Callable[[], Any], tmp_path: Path) -> None:
    package = make().write(tmp_path / "package")
    back = from_policy_package(to_policy_package(package, tmp_path / "out").path, tmp_path / "back")
    again = to_policy_package(back, tmp_path / "again").path
    assert manifest_of(again)["model"] == manifest_of(tmp_path / "out")["model"]
    processors = [
        sorted(
            (s.processor.type, str(s.processor.params.get("mode"))) for s in one.manifest.stages.values() if s.processor
        )
        for one in (package, back)
    ]
    assert processors[0] == processors[1]


# --- what cannot be said ---------------------------------------------------------------------------------------------


def refused(package: Package, out: Path, *reasons: str) -> None:
    before = sorted(out.parent.iterdir())
    with pytest.raises(ExportError, match="a policy_package cannot express this package") as caught:
        to_policy_package(package, out)
    for reason in reasons:
        assert reason in str(caught.value)
    assert sorted(out.parent.iterdir()) == before


def change_chunked(**changes: Any) -> Chunked:
    made = Chunked()
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def converted() -> Chunked:
    made = Chunked()
    made.inputs[IMAGE] = Port(dtype="uint8", shape=(1, 6, 6, 3))
    made.before.insert(0, {"type": "image", "features": [IMAGE]})
    return made


def resized() -> Chunked:
    made = Chunked()
    made.inputs[IMAGE] = f32(1, 3, 12, 12)
    made.before.insert(0, {"type": "resize", "features": [IMAGE], "height": 6, "width": 6})
    return made


def looking_back() -> Chunked:
    made = Chunked()
    made.before.append({"type": "history", "features": [STATE], "steps": 2})
    made.ports["state"] = f32(1, 2, DIM)
    made.model = MODEL.replace(f"float[1,{DIM}] state", f"float[1,2,{DIM}] state").replace(
        "row = Unsqueeze(state, one)", "row = ReduceMean<keepdims = 1>(state, one)"
    )
    return made


def ensembling() -> Chunked:
    made = Chunked(n_action_steps=None)
    made.after = [{"type": "temporal_ensemble", "features": ["action"], "coefficient": 0.01}]
    return made


CHUNKED: dict[str, tuple[Callable[[], Chunked], str]] = {
    "history": (looking_back, "stage 'history.observation.state' is the processor 'history'"),
    "ensembling": (ensembling, "stage 'temporal_ensemble.action' is the processor 'temporal_ensemble'"),
    "image": (converted, "stage 'image.observation.images.top' is the processor 'image'"),
    "resize": (resized, "stage 'resize.observation.images.top' is the processor 'resize'"),
    "no queue": (lambda: Chunked(n_action_steps=None), "no stage is an action_queue"),
    "mixed modes": (
        lambda: change_chunked(before=[scale("normalize", STATE, "min_max"), scale("normalize", IMAGE)]),
        "features are normalised by ['mean_std', 'min_max']; that format's runtime scales each of them once for every",
    ),
    "another eps": (
        lambda: change_chunked(before=[scale("normalize", STATE, eps=1e-6)]),
        "stage 'normalize.observation.state' has eps 1e-06; that format's runtime has 1e-08",
    ),
    "another eps behind": (
        lambda: change_chunked(after=[scale("denormalize", "action", eps=1e-8)]),
        "stage 'denormalize.action' has eps 1e-08; that format's runtime has 0.0",
    ),
    "scaled twice": (
        lambda: change_chunked(before=[scale("normalize", STATE), scale("normalize", STATE)]),
        "'observation.state' goes through ['normalize', 'normalize']",
    ),
    "denormalized twice": (
        lambda: change_chunked(after=[scale("denormalize", "action"), scale("denormalize", "action")]),
        "there are 2 stages 'denormalize' behind the models; expected one",
    ),
    "a cut chunk": (
        lambda: change_chunked(after=[{"type": "slice", "features": ["action"], "shape": [3, DIM], "start": [1, 0]}]),
        "stage 'slice.action' is the processor 'slice', which a policy_package has not there",
    ),
    "whole numbers": (
        lambda: change_chunked(
            inputs={STATE: Port(dtype="float64", shape=(1, DIM)), IMAGE: f32(1, 3, 6, 6)},
            before=[],
            ports={"state": Port(dtype="float64", shape=(1, DIM)), "image": f32(1, 3, 6, 6)},
            model=MODEL.replace(f"float[1,{DIM}] state", f"double[1,{DIM}] state").replace(
                "row = Unsqueeze(state, one)", "single = Cast<to = 1>(state)\n    row = Unsqueeze(single, one)"
            ),
        ),
        "input 'observation.state' is float64, which its runtime takes through float32",
    ),
}


@pytest.mark.parametrize("case", CHUNKED)
def test_what_a_single_pass_cannot_say_is_refused(case: str, tmp_path: Path) -> None:
    make, reason = CHUNKED[case]
    refused(make().write(tmp_path / "package"), tmp_path / "out", reason)


def change_flow(**changes: Any) -> Flow:
    made = Flow()
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def changed(specs: list[dict[str, Any]], index: int, **changes: Any) -> list[dict[str, Any]]:
    return [spec | changes if place == index else spec for place, spec in enumerate(specs)]


FLOWS: dict[str, tuple[Callable[[], Flow], str]] = {
    "runge-kutta": (lambda: change_flow(params={"num_steps": 4, "method": "rk4"}), "has method 'rk4'"),
    "the other way": (
        lambda: change_flow(params={"num_steps": 4, "t_start": 0.0, "t_end": 1.0}),
        "has t_start 0.0; a policy_package has 1.0",
    ),
    "guidance": (
        lambda: change_flow(
            params={"num_steps": 4, "guidance": {"horizon": 10, "schedule": "linear", "max_weight": 5.0}}
        ),
        "has guidance",
    ),
    "no special tokens": (
        lambda: change_flow(before=changed(Flow().before, 2, add_special_tokens=False)),
        "adds no special tokens",
    ),
    "filled up with something": (
        lambda: change_flow(before=changed(Flow().before, 1, value=0.5)),
        "pads with 0.5; a policy_package pads with 0",
    ),
    "cut after scaling": (
        lambda: change_flow(
            after=[
                {"type": "slice", "features": ["action"], "shape": [6, 14], "start": [0, 0]},
                scale("denormalize", "action", "quantiles"),
            ]
        ),
        "stage 'slice.action' is the processor 'slice'",
    ),
}


@pytest.mark.parametrize("case", FLOWS)
def test_what_a_flow_cannot_say_is_refused(case: str, tmp_path: Path) -> None:
    make, reason = FLOWS[case]
    refused(make().write(tmp_path / "package"), tmp_path / "out", reason)


def test_other_packages_are_refused_with_every_reason(tmp_path: Path) -> None:
    arm = support.write_arm(tmp_path / "arm")
    refused(arm, tmp_path / "out", "outputs ['action', 'torque']: a policy_package gives one", "'act'", "'decide'")
    batched = support.write_sum(tmp_path / "sum")
    refused(batched, tmp_path / "out", "stage 'policy' gives ['h_out', 'y']", "state 'h' (memory) lives from decision")


def test_a_diffusion_and_a_flow_without_an_encoder_are_refused(tmp_path: Path) -> None:
    sample = f32(1, ROWS, WIDE)
    made = Pipeline()
    text = "pull (float[1,10,32] x_t, float[1] timestep) => (float[1,10,32] v_t) {\n    v_t = Mul(x_t, timestep)\n}"
    made.files["pull.onnx"] = support.model(text)
    body = Stage(
        rate="loop",
        inputs={"x_t": sample, "timestep": f32(1)},
        outputs={"v_t": sample},
        artifacts={"onnx": Artifact(path="pull.onnx")},
    )
    add_loop(made, "flow", "pull", body, {}, {"num_steps": 2})
    apply(made, {"type": "action_queue", "features": ["action"], "n_action_steps": 4})
    made.add_output("action", "action")
    manifest = made.manifest("alone", Runner(type=ACTION_QUEUE))
    package = write(tmp_path / "package", manifest, files=made.files, initial=made.initial)
    refused(package, tmp_path / "out", "has no encoder before it, which a policy_package needs")
    stage = msgspec.structs.replace(manifest.stages["generate"], runner=Runner(type="ddpm", stages=("pull",)))
    manifest = msgspec.structs.replace(manifest, stages={**manifest.stages, "generate": stage})
    package = write(tmp_path / "package", manifest, files=made.files, initial=made.initial)
    refused(package, tmp_path / "out", "has the runner 'ddpm'; the only loop of a policy_package is an Euler flow")


def test_a_state_that_a_processor_keeps_for_itself_is_refused(tmp_path: Path) -> None:
    made = Chunked()
    made.before = []
    kept = State(dtype="float32", shape=(1, DIM), role="filter")
    made.made.files["smooth.onnx"] = support.model(
        f"smooth (float[1,{DIM}] x, float[1,{DIM}] h) => (float[1,{DIM}] y, float[1,{DIM}] h_next) {{\n"
        "    y = Add(x, h)\n    h_next = Identity(y)\n}"
    )
    port = f32(1, DIM)
    smooth = Stage(
        rate="policy",
        inputs={"x": port, "h": port},
        outputs={"y": port, "h_next": port},
        artifacts={"onnx": Artifact(path="smooth.onnx")},
    )
    made.made.add_input(STATE, port)
    made.made.add_stage(
        "smooth", smooth, {"x": STATE}, {"y": STATE}, {"h": Kept("h_next", kept, np.zeros((1, DIM), np.float32))}
    )
    del made.inputs[STATE]
    package = made.write(tmp_path / "package")
    refused(package, tmp_path / "out", "stage 'smooth' is one model too many", "state 'smooth.h' (filter) lives from")


# --- the disk --------------------------------------------------------------------------------------------------------


def test_nothing_that_is_there_is_lost(tmp_path: Path) -> None:
    package = Chunked().write(tmp_path / "package")
    (tmp_path / "out").mkdir()
    to_policy_package(package, tmp_path / "out")
    with pytest.raises(PackageError, match="is there already; remove it or choose another place"):
        to_policy_package(package, tmp_path / "out")
    with pytest.raises(PackageError, match="lies in the package"):
        to_policy_package(package, package.path / "out")
    (tmp_path / "link").symlink_to(tmp_path / "out")
    with pytest.raises(PackageError, match="is a link; name the place it points to"):
        to_policy_package(package, tmp_path / "link")


def test_a_directory_that_computes_something_else_is_not_kept(tmp_path: Path) -> None:
    """The rollout of the package is replayed by what was read back from the disk."""
    package = Chunked().write(tmp_path / "package")
    golden = package.golden()
    assert golden is not None
    ticks = list(golden.ticks)
    outputs = {"act": ticks[4].outputs["act"] + np.float32(0.01)}
    ticks[4] = msgspec.structs.replace(ticks[4], outputs=outputs)
    golden = msgspec.structs.replace(golden, ticks=tuple(ticks))
    files = {path: package.read(path) for path in package.manifest.files if not path.startswith(("state", "golden"))}
    package = write(package.path, package.manifest, files=files, initial=package.initial_state(), golden=golden)
    with pytest.raises(ExportError, match="step 4 of the golden rollout: expected .* nothing was kept"):
        to_policy_package(package, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["package"]


def test_names_that_the_model_has_already_are_refused(tmp_path: Path) -> None:
    made = Chunked()
    made.model = MODEL.replace("light", "action")
    with pytest.raises(AshoreError, match="a port cannot be called 'action', since something in the file is"):
        to_policy_package(made.write(tmp_path / "package"), tmp_path / "out")


def test_the_same_package_gives_the_same_bytes(tmp_path: Path) -> None:
    package = Flow().write(tmp_path / "package")
    one, two = (to_policy_package(package, tmp_path / name).path for name in ("one", "two"))
    for path in sorted(one.rglob("*")):
        if path.is_file():
            assert path.read_bytes() == (two / path.relative_to(one)).read_bytes()
