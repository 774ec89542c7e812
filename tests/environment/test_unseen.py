"""What does nothing while it is recorded, and something later: it must be refused, with its name and its line.

In each of these worlds a limit, a branch or a reset has no effect on the numbers of the recording. An export that only
compared numbers would pass, and be wrong on the robot.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import torch

from ashore.errors import ExportError
from environment.worlds import World, check_exact, export_world, linear, refuse

FAR = 50.0
"""A limit that nothing in a recording reaches."""


class Filtered(World):
    """A filter at the substep rate."""

    def make(self) -> None:
        self.filtered = torch.zeros(self.rows, 2)
        self.count = 0

    def reset_parts(self) -> None:
        self.filtered[:] = 0.0
        self.count = 0

    def process_actions(self, actions: torch.Tensor) -> None:
        super().process_actions(actions)
        self.count = 0

    def apply_actions(self) -> None:
        self.filtered += 0.3 * (self.target + 0.5 * self.q - self.filtered)
        self.torque = 3.0 * self.filtered - self.qd
        self.count += 1


class LimitedInPlaceAtFirst(Filtered):
    def apply_actions(self) -> None:
        super().apply_actions()
        if self.count == 1:
            self.filtered.clamp_(-FAR, FAR)  # here


class LimitedByRebindingAtFirst(Filtered):
    def apply_actions(self) -> None:
        self.filtered = self.filtered + 0.3 * (self.target - self.filtered)  # here
        self.torque = 3.0 * self.filtered
        if self.count == 0:
            self.filtered = self.filtered.clamp(-FAR, FAR)
        self.count += 1


class LimitedBeforeAtFirst(Filtered):
    def apply_actions(self) -> None:
        if self.count == 0:
            self.filtered = self.filtered.clamp(-FAR, FAR)
        self.filtered = self.filtered + 0.3 * (self.target - self.filtered)  # here
        self.torque = 3.0 * self.filtered
        self.count += 1


class LimitedEverySecondDecision(World):
    def make(self) -> None:
        self.held, self.count = torch.zeros(self.rows, 2), 0

    def reset_parts(self) -> None:
        self.held[:] = 0.0
        self.count = 0

    def process_actions(self, actions: torch.Tensor) -> None:
        self.actions[:] = actions
        self.target = 0.5 * actions + self.held
        if self.count % 2 == 0:
            self.held.clamp_(-FAR, FAR)  # here
        self.held += 0.1 * actions
        self.count += 1


class LimitedInTheFirstDecision(World):
    def make(self) -> None:
        self.first = True

    def reset_parts(self) -> None:
        self.first = True

    def process_actions(self, actions: torch.Tensor) -> None:
        self.actions[:] = actions
        self.target = 0.5 * actions + 0.3 * self.q
        if self.first:
            self.target = self.target.clamp(-FAR, FAR)
        self.first = False


class LimitedBySimulator(Filtered):
    def simulate(self) -> None:
        self.filtered.clamp_(-FAR, FAR)
        super().simulate()


class LimitedByReset(Filtered):
    def reset_parts(self) -> None:
        self.filtered.clamp_(-FAR, FAR)


class Repeating(World):
    """Every episode starts alike, as long as it is recorded."""

    def reset_simulation(self) -> None:
        self.q[:], self.qd[:], self.command[:] = 0.2, 0.0, 0.5


class StartedByFirstTarget(Repeating):
    def make(self) -> None:
        self.filtered: torch.Tensor | None = None

    def reset_parts(self) -> None:
        self.filtered = None

    def apply_actions(self) -> None:
        if self.filtered is None:
            self.filtered = self.target.clone()
        self.filtered = 0.8 * self.filtered + 0.2 * self.target  # here
        self.torque = 3.0 * self.filtered - self.qd


class StartedByCommand(Repeating):
    def make(self) -> None:
        self.slow = torch.full((self.rows, 1), 0.5)

    def reset_parts(self) -> None:
        self.slow[:] = self.command

    def observe(self) -> torch.Tensor:
        return torch.cat([self.q, self.qd * 0.5, self.slow, self.actions], dim=-1)  # here

    def process_actions(self, actions: torch.Tensor) -> None:
        super().process_actions(actions)
        self.slow = 0.8 * self.slow + 0.2 * self.command


class MeasuredFromTheStart(Repeating):
    def make(self) -> None:
        self.origin = torch.full((self.rows, 2), 0.2)

    def reset_parts(self) -> None:
        self.origin = self.q.clone()

    def observe(self) -> torch.Tensor:
        return torch.cat([self.q - self.origin, self.qd * 0.5, self.command, self.actions], dim=-1)  # here


class MeasuredFromTheStartWhenActing(MeasuredFromTheStart):
    def observe(self) -> torch.Tensor:
        return World.observe(self)

    def apply_actions(self) -> None:
        self.torque = 3.0 * self.target - self.q + self.origin  # here


@pytest.mark.parametrize(
    ("world", "finding"),
    [
        (LimitedInPlaceAtFirst, "control_flow"),
        (LimitedByRebindingAtFirst, "control_flow"),
        (LimitedBeforeAtFirst, "control_flow"),
        (LimitedEverySecondDecision, "control_flow"),
        (LimitedInTheFirstDecision, "first_step"),
        (LimitedBySimulator, "outside_write"),
        (LimitedByReset, "reset_value"),
        (StartedByFirstTarget, "first_step"),
        (StartedByCommand, "reset_value"),
        (MeasuredFromTheStart, "reset_value"),
        (MeasuredFromTheStartWhenActing, "reset_value"),
    ],
)
def test_what_has_no_effect_while_it_is_recorded_is_refused(world: type[World], finding: str, tmp_path: Path) -> None:
    findings = refuse(world(seed=1), linear(), tmp_path)
    found = [one for one in findings if one.name == finding]
    assert found, findings
    marked = [one for one in found if one.line is not None and one.line.text.endswith("# here")]
    assert marked or "# here" not in inspect.getsource(world), found


class ClippedSensor(World):
    def observe(self) -> torch.Tensor:
        self.q.clamp_(-0.2, 0.2)
        return super().observe()

    def apply_actions(self) -> None:
        self.torque = 3.0 * self.target - self.q


class ReplacedSensor(World):
    def observe(self) -> torch.Tensor:
        self.q = self.q.clamp(-0.2, 0.2)
        return super().observe()

    def apply_actions(self) -> None:
        self.torque = 3.0 * self.target - self.q


@pytest.mark.parametrize("world", [ClippedSensor, ReplacedSensor])
def test_an_input_that_the_environment_writes_itself_is_refused(world: type[World], tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="the environment writes into the input 'q' itself"):
        export_world(world(seed=1), linear(), tmp_path / "refused")
    assert not (tmp_path / "refused").exists()


class Interpolated(World):
    """Goes from the last target to the new one over the substeps; the last one is what the new one was."""

    def make(self) -> None:
        self.last, self.share = torch.full((self.rows, 2), 0.25), torch.zeros(self.rows, 1)
        self.target = torch.full((self.rows, 2), 0.25)

    def reset_parts(self) -> None:
        self.target = torch.full((self.rows, 2), 0.25)

    def process_actions(self, actions: torch.Tensor) -> None:
        self.last = self.target
        self.actions[:] = actions
        self.target = 0.5 * actions + 0.1
        self.share = torch.zeros(self.rows, 1)

    def apply_actions(self) -> None:
        self.share = self.share + 1.0 / self.decimation
        self.torque = self.last + self.share * (self.target - self.last) - self.qd


def test_what_a_decision_moves_from_one_state_to_another_is_exact(tmp_path: Path) -> None:
    package = check_exact(Interpolated, linear, tmp_path)
    assert {"last", "target"} <= set(package.manifest.states)
