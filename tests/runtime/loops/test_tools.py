"""What the tools around the runtime say of a package with a loop."""

from __future__ import annotations

import io
from pathlib import Path

import looping
import numpy as np
import pytest
from looping import OBSERVATION, SAMPLE, drawn
from rich.console import Console
from test_flow import DENOISE, DOWN, body, integrate, stage

from ashore.cli.inspecting import _print_stages
from ashore.package import Package, Recording
from ashore.verify import replay
from ashore.view.words import engine, rate


@pytest.fixture
def loop_package(tmp_path: Path) -> Package:
    recording, reference = Recording(), looping.Sum()
    for tick in range(6):
        if tick == 4:
            reference.reset()
            recording.reset()
        seen, noise = drawn(*OBSERVATION.shape), drawn(*SAMPLE.shape)
        actions = integrate(noise, reference.step(seen), DOWN).astype(np.float32)
        recording.step({"seen": seen, "noise": noise}, {"actions": actions}, {"h": reference.h})
    return looping.package(tmp_path / "p", stage(), {"denoise": (body(), DENOISE)}, recording.golden())


def test_a_package_with_a_loop_is_verified_by_its_rollout(loop_package: Package) -> None:
    report = replay(loop_package)
    assert report.passed
    assert report.backend == "onnx"


def test_a_stage_with_a_runner_is_shown_with_what_it_runs(loop_package: Package) -> None:
    text = io.StringIO()
    _print_stages(Console(file=text, width=200), loop_package.manifest)
    (line,) = (line for line in text.getvalue().splitlines() if line.startswith("sample "))
    assert line.split() == ["sample", "policy", "flow", "num_steps=5", "t_start=1.0", "t_end=0.0", "denoise"]


def test_the_picture_says_what_computes_a_stage_with_a_runner(loop_package: Package) -> None:
    stages = loop_package.manifest.stages
    assert engine(stages["sample"]) == "flow of denoise"
    assert rate(stages["denoise"], loop_package.manifest) == "loop · inside a decision"
