"""Policies of one and several stages: what the package computes is what the policy computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import support
from ashore.errors import AshoreError, ExportError, InputError
from ashore.package import Package, read
from ashore.runtime import load
from ashore.staged import ExportInputs, adapts, export_policy, exporting, load_exported_policy
from ashore.verify import replay
from staged.policies import ACTION, CHUNK, QUEUED, STATE, STEPS, Flow, Policy, denormalised, example

QUICK: dict[str, Any] = {"picture": False, "validation_steps": 2}
TICKS = 60


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> tuple[Policy, Package]:
    policy = Policy()
    return policy, export_policy(policy, tmp_path_factory.mktemp("single") / "p", example_batch=example(), **QUICK)


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> tuple[Flow, Package]:
    policy = Flow()
    return policy, export_policy(policy, tmp_path_factory.mktemp("flow") / "p", example_batch=example(), **QUICK)


def arrays(seen: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in seen.items()}


def test_actions_of_a_single_pass_are_those_of_the_policy(single: tuple[Policy, Package]) -> None:
    policy, package = single
    exported, queue = load_exported_policy(package.path), list[torch.Tensor]()
    for tick in range(TICKS):
        if tick in (21, 40):  # one of them in the middle of a queue
            exported.reset()
            queue = []
        seen = example(seed=100 + tick)
        queue = queue or list(policy.chunk(seen)[0, :QUEUED])
        np.testing.assert_allclose(exported.select_action(arrays(seen))[0], queue.pop(0), atol=1e-5)


def test_actions_of_a_flow_are_those_of_the_policy(flow: tuple[Flow, Package]) -> None:
    policy, package = flow
    exported, queue = load_exported_policy(package.path), list[torch.Tensor]()
    for tick in range(TICKS):
        if tick in (21, 40):
            exported.reset()
            queue = []
        seen, noise = example(seed=200 + tick), torch.randn(1, CHUNK, ACTION)
        queue = queue or list(policy.chunk(seen, noise=noise)[0, :QUEUED])
        action = exported.select_action(arrays(seen), noise=noise.numpy())
        np.testing.assert_allclose(action[0], queue.pop(0), atol=1e-5)


@pytest.mark.parametrize("steps", [1, 3, STEPS, 12])
def test_a_flow_takes_as_many_steps_as_are_asked_for(flow: tuple[Flow, Package], steps: int) -> None:
    policy, package = flow
    exported = load_exported_policy(package.path)
    seen, noise = example(seed=5), torch.randn(1, CHUNK, ACTION)
    chunk = exported.predict_action_chunk(arrays(seen), num_steps=steps, noise=noise.numpy())
    np.testing.assert_allclose(chunk, policy.chunk(seen, noise=noise, steps=steps), atol=1e-5)
    again = exported.predict_action_chunk(arrays(seen), noise=noise.numpy())
    np.testing.assert_allclose(again, policy.chunk(seen, noise=noise), atol=1e-5)


@pytest.mark.parametrize("kind", [Policy, Flow])
@pytest.mark.parametrize("backend", ["onnx", "openvino"])
def test_several_rows_are_decided_at_once_and_each_by_itself(kind: type[Policy], backend: str, tmp_path: Path) -> None:
    policy, rows = kind(), [example(seed=3), example(seed=4)]
    both = {name: torch.cat([one[name] for one in rows]) for name in rows[0]}
    package = export_policy(policy, tmp_path / "p", example_batch=both, **QUICK)
    exported, noise = load_exported_policy(package.path, backend), torch.randn(2, CHUNK, ACTION)
    given = {"noise": noise.numpy()} if kind is Flow else {}
    chunk = exported.predict_action_chunk(arrays(both), **given)
    for row, seen in enumerate(rows):
        expected = policy.chunk(seen, noise=noise[row : row + 1])
        np.testing.assert_allclose(chunk[row : row + 1], expected, atol=1e-5)
    exported.reset()
    np.testing.assert_allclose(exported.select_action(arrays(both), **given), chunk[:, 0], atol=1e-6)
    exported.reset()
    with pytest.raises(InputError, match=r"observation\.(image|state)"):
        exported.select_action(arrays(rows[0]), **given)


def test_the_package_is_verified_and_verifies(single: tuple[Policy, Package], flow: tuple[Flow, Package]) -> None:
    for _, package in (single, flow):
        proof = package.manifest.verification
        assert proof is not None
        assert (proof.status, proof.resets) == ("passed", 2)
        report = replay(read(package.path))
        assert report.passed
        assert report.worst("free_running") < 1e-5
        assert package.golden() is not None


def test_a_cache_goes_from_stage_to_stage_and_no_further(flow: tuple[Flow, Package]) -> None:
    manifest = flow[1].manifest
    assert set(manifest.inputs) == {"observation.image", "observation.state", "noise"}
    assert set(manifest.outputs) == {"action"}
    assert manifest.stages["denoise"].rate == "loop"
    runner = manifest.stages["generate"].runner
    assert runner is not None
    assert (runner.type, runner.stages) == ("flow", ("denoise",))
    assert runner.params == {"t_start": 1.0, "t_end": 0.0, "num_steps": STEPS}


def test_scaling_can_be_left_out(tmp_path: Path) -> None:
    package = export_policy(Policy(), tmp_path / "p", example_batch=example(), include_normalization=False, **QUICK)
    assert not [
        stage for stage in package.manifest.stages.values() if stage.processor and "normal" in stage.processor.type
    ]


def test_modules_are_in_the_mode_they_were_in(tmp_path: Path) -> None:
    policy = Policy()
    policy.modules["model"].train()
    policy.modules["model"].eye.norm.eval()
    package = export_policy(policy, tmp_path / "p", example_batch=example(), **QUICK)
    assert policy.modules["model"].training
    assert not policy.modules["model"].eye.norm.training
    seen = example(seed=9)
    chunk = load_exported_policy(package.path).predict_action_chunk(arrays(seen))
    np.testing.assert_allclose(chunk, policy.chunk(seen), atol=1e-5)


def test_an_exported_policy_runs_without_torch(flow: tuple[Flow, Package]) -> None:
    code = """
import sys
import numpy as np
from ashore.staged import load_exported_policy

policy = load_exported_policy(sys.argv[1])
seen = {"observation.image": np.zeros((3, 6, 8), np.float32), "observation.state": np.zeros(3, np.float32)}
print(policy.select_action(seen, seed=3).shape, sorted({"torch", "onnx"} & set(sys.modules)))
"""
    done = support.run_python(code, str(flow[1].path))
    assert done.stdout == f"({ACTION},) []\n", done.stderr


def test_a_policy_of_somebody_else_is_adapted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "_ADAPTERS", [])

    class Foreign:
        inner = Policy()

    @adapts
    def adapt(policy: object) -> Policy | None:
        return policy.inner if isinstance(policy, Foreign) else None

    assert export_policy(Foreign(), tmp_path / "p", example_batch=example(), **QUICK).manifest.name == "p"


# --- what is refused -------------------------------------------------------------------------------------------------


class Leaky(torch.nn.Module):
    def forward(self, image: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        return image.mean() + state.unsqueeze(1).expand(-1, CHUNK, -1) * float(state[0, 0])


class Remembering(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1, STATE))

    def forward(self, image: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        self.seen.lerp_(state, 0.5)
        return image.mean() + self.seen.unsqueeze(1).expand(-1, CHUNK, -1)


class Blind(torch.nn.Module):
    def forward(self, image: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        return state.unsqueeze(1).expand(-1, CHUNK, -1) * 2.0


def with_module(module: torch.nn.Module) -> Policy:
    policy = Policy()
    policy.modules = {"model": module}
    return policy


class Misnamed(Policy):
    def prepare_inputs(self, example_batch: Mapping[str, Any]) -> Mapping[str, ExportInputs]:
        return {"modle": super().prepare_inputs(example_batch)["model"]}


class Unknown(Policy):
    kind = "teleport"


class Untouched(Policy):
    def export_processor_specs(self, *_: Any, **__: Any) -> Any:
        return [{"type": "normalize", "features": ["observation.stat"], "artifact": "stats.safetensors"}], []


class Featureless(Policy):
    def export_processor_specs(self, *_: Any, **__: Any) -> Any:
        return [{"type": "normalize", "artifact": "stats.safetensors"}], []


class WrongChunk(Policy):
    def get_runner_params(self) -> dict[str, Any]:
        return {"chunk_size": CHUNK + 1, "n_action_steps": QUEUED}


class Statistics(Policy):
    def export_assets(self) -> dict[str, bytes]:
        return {"stats.safetensors": b""}


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (with_module(Leaky()), r"test_exporting\.py:\d+: a value leaves the graph by .*value_leak"),
        (with_module(Remembering()), r"stage 'model': its module keeps \['seen'\] from call to call; expected a pure"),
        (with_module(Blind()), r"observation\.image"),
        (Misnamed(), r"expected inputs for each of the modules \['model'\], got \['modle'\]"),
        (Unknown(), r"unknown inference type 'teleport'; there are"),
        (Untouched(), r"there is no feature 'observation\.stat'; did you mean 'observation\.state'"),
        (Featureless(), r"processor 'normalize': expected the features that it works on, got None"),
        (WrongChunk(), r"the modules give chunks of 6 actions; the configuration says 7"),
        (Statistics(), r"stats\.safetensors"),
        (object(), r"policy: object has no .*get_inference_type"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_what_would_not_be_exact_is_refused_and_leaves_nothing(policy: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(AshoreError, match=message):
        export_policy(policy, tmp_path / "p", example_batch=example(), **QUICK)
    assert list(tmp_path.iterdir()) == []


def test_files_that_compute_something_else_are_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the exporter had written other weights than the module has."""
    capture = exporting.capture

    def distracted(name: str, module: torch.nn.Module, *rest: Any) -> Any:
        made = capture(name, module, *rest)
        with torch.no_grad():
            module.head.bias += 1e-3
        return made

    monkeypatch.setattr(exporting, "capture", distracted)
    with pytest.raises(ExportError, match=r"the saved files do not compute what the modules compute:\n  step 0"):
        export_policy(Policy(), tmp_path / "p", example_batch=example(), **QUICK)
    assert list(tmp_path.iterdir()) == []


def test_options_are_checked_before_anything_is_done(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown option 'pictures'; did you mean 'picture'"):
        export_policy(Policy(), tmp_path / "p", example_batch=example(), pictures=False)


class Knowing(Policy):
    """A policy that draws a number itself, gives its features too, knows what it is given, and checks its package."""

    def __init__(self, worst: float = 0.0) -> None:
        super().__init__()
        self.worst, self.imagined = worst, 0

    def get_export_modules(self) -> Mapping[str, torch.nn.Module]:
        class Noisy(torch.nn.Module):
            def __init__(self, inner: torch.nn.Module) -> None:
                super().__init__()
                self.inner = inner

            def forward(self, image: torch.Tensor, state: torch.Tensor, luck: torch.Tensor) -> torch.Tensor:
                return self.inner(image, state) + luck

        return {"model": Noisy(self.modules["model"])}

    def prepare_example(self, given: Mapping[str, Any] | None, *, include_normalization: bool) -> Mapping[str, Any]:
        assert include_normalization
        return example() if given is None else given

    def prepare_inputs(self, example_batch: Mapping[str, Any]) -> Mapping[str, ExportInputs]:
        names = ("observation.image", "observation.state")
        tensors = (*(example_batch[name] for name in names), torch.randn(1, 1, ACTION))
        return {"model": ExportInputs(tensors, (*names, "luck"), ("action",), noise=["luck"])}

    def export_assets(self) -> dict[str, bytes]:
        return super().export_assets() | {"unused.bin": b"nothing reads it"}

    def export_processor_specs(self, include_normalization: bool, stats_artifact: str, assets: Any = None) -> Any:
        before, after = super().export_processor_specs(
            include_normalization, stats_artifact, {"stats.safetensors": "stats.safetensors"}
        )
        return before, [{"type": "output", "features": ["action"], "name": "raw"}, *after]

    def get_runner_params(self) -> dict[str, Any]:
        return {}

    def imagine(self, manifest: Any) -> Iterator[Mapping[str, Any]]:
        for seed in range(1, 100):
            self.imagined += 1
            yield example(seed)

    def check_package(self, package: Package, *, atol: float, rtol: float) -> dict[str, Any]:
        if self.worst > atol:
            raise ExportError(f"it is {self.worst} off")
        return {"checked": rtol}


def test_a_policy_may_know_what_it_is_given_draw_and_check(tmp_path: Path) -> None:
    policy = Knowing()
    package = export_policy(policy, tmp_path / "p", picture=False, rtol=1e-4)
    manifest = package.manifest
    assert manifest.metadata["checked"] == 1e-4
    assert manifest.inputs["luck"].kind == "noise"
    assert set(manifest.outputs) == {"raw", "action"}
    assert "unused.bin" not in manifest.files
    assert policy.imagined
    given = {name: one.numpy() for name, one in example().items()}
    out = load(package).step(given | {"luck": np.zeros((1, 1, ACTION), np.float32)})
    assert np.abs(out["action"] - policy.chunk(example()).numpy()).max() < 1e-5
    assert np.abs(denormalised(torch.from_numpy(out["raw"])).numpy() - out["action"]).max() < 1e-5


def test_a_package_that_its_policy_rejects_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"it is 0\.1 off"):
        export_policy(Knowing(0.1), tmp_path / "p", picture=False)
    assert not list(tmp_path.iterdir())


def test_most_policies_need_an_example(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected an example_batch, to see what a robot gives"):
        export_policy(Policy(), tmp_path / "p")
