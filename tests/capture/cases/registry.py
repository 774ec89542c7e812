"""The list of cases, and how one of them is run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch

import ashore
from ashore import Policy
from ashore.capture.assembly import Assembly
from ashore.capture.export import understand
from ashore.capture.operations import Ref
from ashore.capture.options import ExportOptions
from ashore.capture.record import NODE, Recorder
from ashore.capture.session import Session
from ashore.errors import ExportError

EXACT = "exact"
WITHOUT_EFFECT = ("allow", "validation_steps", "description")
"""Options that say nothing about the file of a stage."""

Draw = Callable[[torch.Generator], torch.Tensor]


class Code:
    """User code: what a case is made of. Its constructor takes nothing; everything random in it is seeded."""

    inputs: ClassVar[Mapping[str, tuple[int, ...] | Draw]] = {"x": (1, 4)}
    """Name -> shape of normally distributed numbers, or a function that draws the tensor."""

    options: ClassVar[Mapping[str, Any]] = {}
    """Further arguments of `ashore.record`."""

    steps: ClassVar[int] = 7
    resets: ClassVar[tuple[int, ...]] = (4,)
    """Recorded steps before which the code is reset."""

    tolerance: ClassVar[float] = 1e-5

    def reset(self) -> None:
        """Start a new episode."""

    def step(self, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        """Compute the outputs by name."""
        raise NotImplementedError


@dataclass(frozen=True)
class Case:
    """A piece of code, and what must become of it."""

    title: str
    topic: str
    make: type[Code]
    outcome: str
    """``exact``, or the name of the finding that stops the export."""

    spelling: bool = False
    """Whether it is one more spelling of something that another case shows, and listed apart."""

    @property
    def name(self) -> str:
        """What it is called among all of them."""
        return f"{self.topic}: {self.title}"


CASES: list[Case] = []
_Made = TypeVar("_Made", bound=type[Code])


def case(topic: str, title: str, outcome: str = EXACT, *, spelling: bool = False) -> Callable[[_Made], _Made]:
    """Add a class to the list."""

    def add(made: _Made) -> _Made:
        CASES.append(Case(title, topic, made, outcome, spelling))
        return made

    return add


def draw(made: type[Code], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Inputs for one step."""
    return {
        name: torch.randn(how, generator=generator) if isinstance(how, tuple) else how(generator)
        for name, how in made.inputs.items()
    }


def record(made: type[Code], session: Session) -> None:
    """Run a case in a session, with its resets."""
    generator = torch.Generator().manual_seed(1)
    torch.manual_seed(0)
    code, recorder = made(), Recorder(session)
    for step in range(made.steps):
        if step in made.resets:
            recorder.reset()
            code.reset()
        given = draw(made, generator)
        with recorder.step():
            given = {name: recorder.input(name, tensor) for name, tensor in given.items()}
            for name, tensor in code.step(**given).items():
                recorder.output(name, tensor)


def recorded(made: type[Code]) -> Assembly:
    """What is understood of a case: its program, before any file is written."""
    session = Session()
    session.nodes = [NODE]
    session.start()
    try:
        record(made, session)
    finally:
        session.stop()
    return understand(session, ExportOptions.of(made.options))


def export(made: type[Code], out: Path) -> Path:
    """Record a case and export it; the path of the package."""
    with ashore.record("case", out, picture=False, summary=False, **made.options) as recorder:
        record(made, recorder.session)
    return out / "case"


class ProgramPolicy:
    """The recorded operations as they are, called like a policy."""

    def __init__(self, assembly: Assembly) -> None:
        self._program, self._states = assembly.programs["policy"], assembly.states
        self._initial = {name: assembly.start(name) for name in self._states}
        self._current = dict(self._initial)

    def reset(self) -> None:
        """Start a new episode."""
        for name, state in self._states.items():
            if state.reset == "initial":
                self._current[name] = self._initial[name]

    def step(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Compute the outputs by name."""
        given = {(NODE, name): torch.from_numpy(array) for name, array in inputs.items()}
        outputs, self._current = self._program.run(given, self._current)
        return {name: tensor.numpy() for (_, name), tensor in outputs.items()}


def worst_error(
    made: type[Code], policy: Policy | ProgramPolicy, *, steps: int = 30, resets: tuple[int, ...] = (6, 7, 19)
) -> float:
    """The largest difference between a policy and a fresh instance of the code, relative to values above one."""
    generator = torch.Generator().manual_seed(2)
    torch.manual_seed(0)
    code, worst = made(), 0.0
    for step in range(steps):
        if step in resets:
            code.reset()
            policy.reset()
        given = draw(made, generator)
        got = policy.step({name: tensor.numpy().copy() for name, tensor in given.items()})
        wanted = code.step(**given)
        assert got.keys() == wanted.keys()
        for name, tensor in wanted.items():
            expected, ours = tensor.detach().cpu(), torch.from_numpy(got[name])
            assert expected.shape == ours.shape, name
            assert expected.dtype == ours.dtype, name
            assert torch.equal(expected.isnan(), ours.isnan()), name
            scale = expected.double().abs().clamp(min=1.0)
            apart = ((expected.double() - ours.double()).abs() / scale)[expected != ours]
            worst = max(worst, float(apart.nan_to_num(0.0).max()) if apart.numel() else 0.0)
    return worst


def outcome(made: type[Code], out: Path) -> str:
    """What becomes of a case: ``exact``, the findings that stopped it, or by how much it is wrong."""
    try:
        path = export(made, out)
    except ExportError as error:
        return " ".join(sorted({finding.name for finding in error.findings}))
    return _judged(made, worst_error(made, ashore.load(path)))


def outcome_of_program(made: type[Code], assembly: Assembly) -> str:
    """The same of what was recorded, before any file is written."""
    return _judged(made, worst_error(made, ProgramPolicy(assembly)))


def _judged(made: type[Code], error: float) -> str:
    return EXACT if error <= made.tolerance else f"wrong by {error:.3g}"


def kinds_of_operations(made: type[Code], assembly: Assembly) -> set[str]:
    """What an exporter has to know for a case: each kind of operation in it, as a short digest.

    Of one kind are the same operator, on tensors of the same dtypes and ranks, with the same arguments beside them;
    only numbers with a point may differ. How the file is asked for counts too: opset, batch, exporter.

        torch.cat((joint_pos, command), dim=-1)    aten.cat.default, two float32 of rank 2, [tensor, tensor], -1
    """
    program, values = assembly.programs["policy"], assembly.values["policy"]
    asked = sorted((name, str(value)) for name, value in made.options.items() if name not in WITHOUT_EFFECT)
    kinds: list[object] = [("ports", asked)]
    for op in program.ops:
        tensors = [(str(values[value].dtype), values[value].dim()) for value in op.reads()]
        arguments = [type(leaf).__name__ if isinstance(leaf, Ref | float) else repr(leaf) for leaf in op.leaves]
        kinds.append((str(op.target), tensors, arguments, asked))
    return {hashlib.sha256(repr(kind).encode()).hexdigest()[:10] for kind in kinds}
