"""A stage that a runner runs several times, and the stage that runs it.

denoise (x_t, timestep, context) -> velocity      runs at the rate of the loop; it has no wires
generate (context, noise) -> action               runs it, with the runner `flow`
"""

from __future__ import annotations

from typing import Any

import pytest

from ashore.building import Pipeline, add_loop
from ashore.building.loops import ACTION
from ashore.errors import ExportError, ManifestError
from ashore.spec import NOISE, Artifact, Manifest, Port, Runner, Stage, check

B = "batch"
SAMPLE = (B, 4, 2)


def port(*shape: int | str, dtype: str = "float32", **meaning: Any) -> Port:
    return Port(dtype=dtype, shape=shape, **meaning)  # type: ignore[arg-type]


def body(sample: str = "x_t", output: str = "velocity", **context: Port) -> Stage:
    """A stage that looks at a sample, the time, and a context."""
    inputs = {sample: port(*SAMPLE), "timestep": port(B), **(context or {"context": port(B, 3)})}
    return Stage(
        rate="policy",
        inputs=inputs,
        outputs={output: port(*SAMPLE)},
        artifacts={"onnx": Artifact(path="denoise.onnx", opset=18)},
    )


def looped(
    kind: str = "flow",
    stage: Stage | None = None,
    *,
    features: dict[str, str] | None = None,
    inputs: dict[str, Port] | None = None,
    **params: Any,
) -> Pipeline:
    """A pipeline with one loop."""
    pipeline = Pipeline()
    for name, one in ({"context": port(B, 3)} if inputs is None else inputs).items():
        pipeline.add_input(name, one)
    add_loop(pipeline, kind, "denoise", body() if stage is None else stage, features or {}, params)
    return pipeline


def finished(pipeline: Pipeline) -> Manifest:
    pipeline.add_output(ACTION, ACTION)
    manifest = pipeline.manifest("policy", Runner(type="single_pass"))
    check(manifest)
    return manifest


def wires(manifest: Manifest) -> set[tuple[str, str]]:
    return {(wire.source, wire.target) for wire in manifest.wires}


def test_a_body_runs_at_the_rate_of_the_loop_and_the_stage_that_runs_it_at_that_of_the_policy() -> None:
    manifest = finished(looped(num_steps=10))
    assert {name: stage.rate for name, stage in manifest.stages.items()} == {"denoise": "loop", "generate": "policy"}
    assert manifest.stages["denoise"].artifacts == body().artifacts
    runner = manifest.stages["generate"].runner
    assert runner == Runner(type="flow", params={"t_start": 1.0, "t_end": 0.0, "num_steps": 10}, stages=("denoise",))


def test_the_action_is_a_sample() -> None:
    pipeline = looped(num_steps=10)
    assert pipeline.port(ACTION) == port(*SAMPLE)
    assert finished(pipeline).stages["generate"].outputs == {ACTION: port(*SAMPLE)}


def test_the_noise_that_a_sample_begins_with_is_an_input() -> None:
    manifest = finished(looped(num_steps=10))
    assert manifest.inputs["noise"] == port(*SAMPLE, kind=NOISE)
    assert manifest.stages["generate"].inputs == {"context": port(B, 3), "noise": port(*SAMPLE)}
    assert wires(manifest) == {
        ("inputs/context", "generate/context"),
        ("inputs/noise", "generate/noise"),
        ("generate/action", "outputs/action"),
    }


def test_what_is_said_about_times_goes_before_what_is_usual() -> None:
    runner = looped(num_steps=10, t_start=0.0, t_end=1.0).stages["generate"].runner
    assert runner is not None
    assert runner.params == {"t_start": 0.0, "t_end": 1.0, "num_steps": 10}


def test_ports_of_the_body_may_have_other_names() -> None:
    stage = body("noisy", context=port(B, 3))
    manifest = finished(looped(stage=stage, sample="noisy", noise="seed", num_steps=3))
    assert set(manifest.inputs) == {"context", "seed"}
    assert set(manifest.stages["generate"].inputs) == {"context", "seed"}


def test_a_context_may_be_a_feature_of_another_name() -> None:
    stage = body(tokens=port(B, 3), mask=port(B, 3))
    inputs = {"observation": port(B, 3), "mask": port(B, 3)}
    manifest = finished(looped(stage=stage, features={"tokens": "observation"}, inputs=inputs, num_steps=3))
    assert {("inputs/observation", "generate/tokens"), ("inputs/mask", "generate/mask")} <= wires(manifest)


def test_noise_that_was_made_of_something_is_taken_from_there() -> None:
    pipeline = Pipeline()
    pipeline.add_input("context", port(B, 3))
    pipeline.add_input("noise", port(B, 8, 2))
    pipeline.process("slice", {"x": "noise"}, {"y": ("noise", port(*SAMPLE))}, params={"start": [0, 0, 0]})
    add_loop(pipeline, "flow", "denoise", body(), {}, {"num_steps": 3})
    manifest = finished(pipeline)
    assert manifest.inputs["noise"] == port(B, 8, 2)
    assert ("slice.noise/y", "generate/noise") in wires(manifest)


DIFFUSION = {"num_train_timesteps": 100, "beta_schedule": "linear", "prediction_type": "epsilon"}


def test_a_diffusion_that_draws_in_each_step_takes_that_too() -> None:
    manifest = finished(looped("ddpm", body("sample"), num_inference_steps=7, **DIFFUSION))
    assert manifest.inputs["step_noise"] == port(7, *SAMPLE, kind=NOISE)
    assert manifest.inputs["noise"].kind == NOISE
    assert ("inputs/step_noise", "generate/step_noise") in wires(manifest)


def test_a_diffusion_that_draws_once_takes_one_noise() -> None:
    manifest = finished(looped("ddim", body("sample"), num_inference_steps=7, **DIFFUSION))
    assert set(manifest.inputs) == {"context", "noise"}


def test_a_loop_that_is_guided_by_the_chunk_before_takes_what_is_left_of_it() -> None:
    guidance = {"schedule": "linear", "horizon": 3, "max_weight": 5.0}
    pipeline = looped(num_steps=10, guidance=guidance)
    assert pipeline.inputs["prev_chunk"].shape == SAMPLE
    for name in ("prev_length", "delay"):
        assert (pipeline.inputs[name].dtype, pipeline.inputs[name].shape) == ("int64", (1,))
    assert {"prev_chunk", "prev_length", "delay", "noise", "context"} == set(pipeline.stages["generate"].inputs)


def test_a_body_that_lacks_what_the_runner_gives_it_is_refused() -> None:
    expected = "expected the inputs \\['x_t', 'timestep'\\] for the runner 'flow'"
    with pytest.raises(ExportError, match=f"stage 'denoise': {expected}, got \\['context', 'timestep', 'x'\\]"):
        looped(stage=body("x"), num_steps=3)


def test_a_context_that_nobody_gives_is_refused() -> None:
    with pytest.raises(ExportError, match="there is no feature 'context'"):
        looped(inputs={"image": port(B, 3)}, num_steps=3)


def test_a_runner_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ManifestError, match="flown"):
        looped("flown")
