"""What to compare a backend with on inputs that nobody recorded.

The environment is not in the package, so the next best thing is whatever else can run its files: torch, where the
package has its files and torch is there; another runtime; and at the least the same runtime without its optimisations.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ashore.errors import AshoreError
from ashore.package import Arrays, Package
from ashore.runtime import BACKENDS, Options, Policy, load, open_stages
from ashore.runtime.backend import UNSAFE, artifact_of
from ashore.runtime.loading import assemble
from ashore.spec import RATES, Manifest, Rate, Stage

_FIRST = ("torchscript",)
"""What is closest to the environment."""


@dataclass(frozen=True)
class Reference:
    """Something that runs the same package in another way."""

    name: str
    """Such as ``"torchscript"`` or ``"onnx, not optimised"``."""

    policy: Policy


def find_reference(package: Package, used: Mapping[str, str], *, batch: int) -> tuple[Reference | None, list[str]]:
    """The best thing to compare with, and why better ones were passed over.

    Args:
        package: what to run.
        used: stage -> the backend that is compared.
        batch: the length of the symbolic batch axis.
    """
    refused: list[str] = []
    for name in _candidates(package, used):
        policy = _loaded(package, name, batch)
        if isinstance(policy, Policy):
            return Reference(name, policy), refused
        refused.append(f"{name}: {policy}")
    if set(used.values()) == {"onnx"}:
        sessions = open_stages(package, None, Options(optimise=False))
        return Reference("onnx, not optimised", assemble(package, sessions, batch=batch)), refused
    return None, refused


def _loaded(package: Package, backend: str, batch: int) -> Policy | Exception:
    try:
        return load(package, backend=backend, batch=batch)
    except (AshoreError, ModuleNotFoundError) as error:
        return error


def _candidates(package: Package, used: Mapping[str, str]) -> Iterator[str]:
    """Backends that have or open an artifact of every stage, and run none of them yet."""
    stages = {name: stage for name, stage in package.manifest.stages.items() if stage.artifacts}
    for name in dict.fromkeys((*_FIRST, *BACKENDS)):
        if not stages or name in UNSAFE or name in used.values():
            continue
        if name == "torchscript" and importlib.util.find_spec("torch") is None:
            continue
        if all(_opens(name, stage) for stage in stages.values()):
            yield name


def _opens(backend: str, stage: Stage) -> bool:
    try:
        artifact_of("", stage, backend)
    except AshoreError:
        return False
    return True


def run_tick(policy: Policy, rate: Rate, inputs: Arrays) -> Arrays:
    """One run of a rate."""
    return policy.step(inputs) if rate == "policy" else policy.substep(inputs)


def schedule(manifest: Manifest, decisions: int) -> Iterator[Rate]:
    """The rates of the ticks of an episode: each decision, and the substeps that belong to it."""
    substeps = any(stage.rate == "substep" for stage in manifest.stages.values())
    decimation = manifest.timing.decimation if manifest.timing else 1
    for _ in range(decisions):
        yield RATES[0]
        for _ in range(decimation if substeps else 0):
            yield RATES[1]
