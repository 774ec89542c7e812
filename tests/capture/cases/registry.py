"""The list of cases, and how one of them is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch

import ashore
from ashore.errors import ExportError

EXACT = "exact"
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


def export(made: type[Code], out: Path) -> Path:
    """Record a case and export it; the path of the package."""
    generator = torch.Generator().manual_seed(1)
    torch.manual_seed(0)
    code = made()
    with ashore.record("case", out, picture=False, summary=False, **made.options) as rec:
        for step in range(made.steps):
            if step in made.resets:
                rec.reset()
                code.reset()
            given = draw(made, generator)
            with rec.step():
                given = {name: rec.input(name, tensor) for name, tensor in given.items()}
                for name, tensor in code.step(**given).items():
                    rec.output(name, tensor)
    return out / "case"


def worst_error(made: type[Code], path: Path, *, steps: int = 30, resets: tuple[int, ...] = (6, 7, 19)) -> float:
    """The largest difference between the package and a fresh instance of the code, relative to values above one."""
    generator = torch.Generator().manual_seed(2)
    torch.manual_seed(0)
    code, policy, worst = made(), ashore.load(path), 0.0
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
    error = worst_error(made, path)
    return EXACT if error <= made.tolerance else f"wrong by {error:.3g}"
