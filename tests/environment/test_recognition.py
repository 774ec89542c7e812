"""However an environment's step is written, what is recorded is what it does."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ashore.environment import export_environment_as_onnx
from ashore.errors import ExportError
from environment.worlds import FAST, Adapter, World, check_one_file, check_package, linear, run_alone


class Smooth(World):
    """A filter at the substep rate, which shows at once where something is done twice."""

    def make(self) -> None:
        self.smooth = torch.full((self.rows, 2), 0.25)

    def reset_parts(self) -> None:
        self.smooth = torch.full((self.rows, 2), 0.25)

    def apply_actions(self) -> None:
        self.smooth = 0.8 * self.smooth + 0.2 * self.target
        self.torque = self.smooth * 1.0


def check(kind: type[World], folder: Path, adapter: type[Adapter] = Adapter) -> None:
    export_environment_as_onnx(adapter(kind(seed=1)), linear(), folder, **FAST)
    alone = run_alone(kind(seed=2), linear(), 24)
    check_package(folder / "policy", alone)
    check_one_file(folder, alone)


# --- what the parts are wrapped in -----------------------------------------------------------------------------------


def timed(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator as people write them: one function of its own for all that it decorates."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def decorated(by: Callable[[Callable[..., Any]], Callable[..., Any]]) -> type[World]:
    class Decorated(Smooth):
        @by
        def observe(self) -> torch.Tensor:
            return World.observe(self)

        @by
        def process_actions(self, actions: torch.Tensor) -> None:
            World.process_actions(self, actions)

        @by
        def apply_actions(self) -> None:
            Smooth.apply_actions(self)

    return Decorated


@pytest.mark.parametrize("by", [torch.no_grad(), torch.inference_mode(), timed], ids=["no_grad", "inference", "own"])
def test_decorated_parts_are_recognised(by: Any, tmp_path: Path) -> None:
    check(decorated(by), tmp_path)


class InInference(Smooth):
    def step(self, actions: torch.Tensor) -> tuple[Any, Any]:
        with torch.inference_mode():
            return super().step(actions)


class ByKeyword(Smooth):
    def step(self, actions: torch.Tensor) -> tuple[Any, Any]:
        self.process_actions(actions=actions)
        for _ in range(self.decimation):
            self.apply_actions()
            self.simulate()
        self.since_reset = (self.since_reset + 1) % self.episode
        if done := self.since_reset == 0:
            self.reset()
        return self.observe(), done


class Doing(Smooth):
    """A step of several functions."""

    def step(self, actions: torch.Tensor) -> tuple[Any, Any]:
        self.process_actions(actions)
        self.advance()
        return self.finish()

    def advance(self) -> None:
        for _ in range(self.decimation):
            self.tick()

    def tick(self) -> None:
        self.apply_actions()
        self.simulate()

    def finish(self) -> tuple[Any, Any]:
        self.since_reset = (self.since_reset + 1) % self.episode
        if done := self.since_reset == 0:
            self.reset()
        return self.observe(), done


@pytest.mark.parametrize("kind", [InInference, ByKeyword, Doing])
def test_a_step_may_be_written_in_any_way(kind: type[World], tmp_path: Path) -> None:
    check(kind, tmp_path)


# --- what the adapter calls ------------------------------------------------------------------------------------------


class Term:
    """What is done with one of the actions."""

    def __init__(self, world: World, index: int) -> None:
        self.world, self.index = world, index
        self.raw = self.smooth = torch.zeros(1, 1)

    def process(self, actions: torch.Tensor) -> None:
        self.raw = actions[:, self.index : self.index + 1]

    def apply(self) -> None:
        self.smooth = 0.5 * self.smooth + 0.5 * self.raw
        self.world.torque[:, self.index : self.index + 1] = self.smooth

    def reset(self) -> None:
        self.smooth = torch.zeros(1, 1)


class Terms:
    def __init__(self, world: World) -> None:
        self.all = [Term(world, 0), Term(world, 1)]

    def process(self, actions: torch.Tensor) -> None:
        for term in self.all:
            term.process(actions)

    def apply(self) -> None:
        for term in self.all:
            term.apply()


class Managed(World):
    """A manager with a term for each action, as simulators have them."""

    def make(self) -> None:
        self.terms = Terms(self)

    def reset_parts(self) -> None:
        self.torque.zero_()
        for term in self.terms.all:
            term.reset()

    def observe(self) -> torch.Tensor:
        return torch.cat([self.q, self.qd * 0.5, self.command, self.torque], dim=-1)

    def process_actions(self, actions: torch.Tensor) -> None:
        self.terms.process(actions)

    def apply_actions(self) -> None:
        self.terms.apply()


class OfManager(Adapter):
    def process_actions(self, actions: torch.Tensor) -> None:
        self.world.terms.process(actions)

    def apply_actions(self) -> None:
        self.world.terms.apply()


class OfTerms(Adapter):
    def process_actions(self, actions: torch.Tensor) -> None:
        for term in self.world.terms.all:
            term.process(actions)

    def apply_actions(self) -> None:
        for term in self.world.terms.all:
            term.apply()


@pytest.mark.parametrize("adapter", [Adapter, OfManager, OfTerms])
def test_an_adapter_may_call_what_lies_deeper_than_the_step(adapter: type[Adapter], tmp_path: Path) -> None:
    check(Managed, tmp_path, adapter)


class ByPartial(Smooth):
    def make(self) -> None:
        super().make()
        self.look = functools.partial(World.observe, self)

    def observe(self) -> torch.Tensor:
        return self.look()


class OfPartial(Adapter):
    def compute_observations(self) -> torch.Tensor:
        return self.world.look()


def test_an_adapter_may_call_a_partial_function(tmp_path: Path) -> None:
    check(ByPartial, tmp_path, OfPartial)


# --- observations that nobody decides on -----------------------------------------------------------------------------


class Rewarding(Smooth):
    """Observations are also computed at every substep, for a reward."""

    def simulate(self) -> None:
        super().simulate()
        self.reward = self.observe().sum()


class Terminal(Smooth):
    """And before a reset, for the last step of an episode."""

    def reset(self) -> None:
        self.last = self.observe()
        super().reset()


@pytest.mark.parametrize("kind", [Rewarding, Terminal])
def test_observations_that_nobody_decides_on_do_no_harm(kind: type[World], tmp_path: Path) -> None:
    check(kind, tmp_path)


# --- what is refused -------------------------------------------------------------------------------------------------


class Clipping(Smooth):
    """Its step changes the actions before it hands them on."""

    def step(self, actions: torch.Tensor) -> tuple[Any, Any]:
        return super().step(actions.clamp(-0.1, 0.1))


def test_what_a_step_does_to_the_actions_before_it_takes_them_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError) as error:
        export_environment_as_onnx(Adapter(Clipping(seed=1)), linear(), tmp_path / "out", **FAST)
    assert "actions (float32 1x2) changes between steps, and nobody declared it [undeclared_input]" in str(error.value)


class Lying(World):
    """It acts three times, and says four."""

    def step(self, actions: torch.Tensor) -> tuple[Any, Any]:
        self.process_actions(actions)
        for _ in range(3):
            self.apply_actions()
            self.simulate()
        return self.observe(), False


class Twice(World):
    """It takes the actions twice."""

    def step(self, actions: torch.Tensor) -> tuple[Any, Any]:
        self.process_actions(actions)
        return super().step(actions)


class Otherwise(World):
    """Its step gives other observations than its adapter computes."""

    def step(self, actions: torch.Tensor) -> tuple[Any, Any]:
        obs, done = super().step(actions)
        return obs.clamp(-0.1, 0.1), done


class Wider(World):
    def step(self, actions: torch.Tensor) -> tuple[Any, Any]:
        obs, done = super().step(actions)
        return torch.cat([obs, obs], dim=-1), done


REFUSED: dict[type[World], str] = {
    Lying: r"step\(\) applied the actions 3 times, but decimation says 4",
    Twice: r"step\(\) took the actions 2 times, expected once",
    Otherwise: r"step\(\) gave other observations than compute_observations\(\)",
    Wider: r"step\(\) gave obs of shape \[1, 14\], compute_observations\(\) \[1, 7\]",
}


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.__name__)
def test_a_step_that_contradicts_its_adapter_is_refused(kind: type[World], tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=REFUSED[kind]):
        export_environment_as_onnx(Adapter(kind(seed=1)), linear(), tmp_path / "out", **FAST)
    assert not (tmp_path / "out").exists()
