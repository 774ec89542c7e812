"""Backends that run a whole package, not one stage of it.

Such a backend makes one thing of all stages, wires, states and rates of a manifest, so there is nothing left to plan.
What it gives stands where a `Plan` would: `Policy` cannot tell the two apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast

from ashore.errors import BackendError
from ashore.package import Arrays, Package
from ashore.plugins import load_object
from ashore.runtime.backend import WHOLE, Options
from ashore.runtime.memory import slot_of
from ashore.runtime.single_pass import Contract, Run
from ashore.spec import CALLS, Manifest, Rate, Wiring


class States(Protocol):
    """The states of a policy, wherever they are; see `ashore.runtime.memory.Memory`."""

    @property
    def decided(self) -> bool:
        """Whether something has been decided since the last reset."""
        ...

    def current(self) -> dict[str, Any]:
        """Every state as it is now, by name."""
        ...

    def replace(self, values: Arrays, *, decided: bool) -> None:
        """Give every state a new value, all at once or not at all."""
        ...


class Runnable(Protocol):
    """What a policy runs."""

    @property
    def memory(self) -> States:
        """The states, and what is written with them."""
        ...

    @property
    def runs(self) -> Mapping[Rate, Run]:
        """Rate -> the function that runs it; rates without stages are left out."""
        ...


def whole_backend(package: Package, choice: str | Mapping[str, str] | None) -> str | None:
    """The backend that runs the whole package, if that is what was chosen.

    Args:
        package: whose stages they are.
        choice: as for `ashore.load`.
    """
    if choice is None or isinstance(choice, str):
        return choice if choice in WHOLE else None
    named = {stage: name for stage, name in choice.items() if name in WHOLE}
    if not named:
        return None
    name = next(iter(named.values()))
    stages = package.manifest.stages
    others = [stage for stage, spec in stages.items() if stage not in named and spec.artifacts]
    if others or len(set(named.values())) > 1:
        raise BackendError(
            f"{package.path}: the backend {name!r} runs all stages of a package or none, and was chosen for "
            f"{sorted(named)} only; say backend={name!r}"
        )
    return name


def check_whole_options(name: str, options: Options) -> None:
    """Refuse options that mean nothing to a backend that runs a whole package on one thread of the CPU."""
    if options.threads != 1:
        raise BackendError(f"threads: the backend {name!r} runs on one thread, got {options.threads}; leave it out")
    if options.device is not None and options.device.lower() != "cpu":
        raise BackendError(f"device {options.device!r} is not there; the backend {name!r} runs on ['cpu']")
    for option in ("providers", "properties"):
        if getattr(options, option) is not None:
            raise BackendError(f"{option}: the backend {name!r} has none; leave them out")


def open_whole(name: str, package: Package, *, batch: int, check_finite: bool) -> Runnable:
    """Open a package with a backend of `WHOLE`."""
    opened = load_object(WHOLE[name])(package, batch=batch, check_finite=check_finite)
    return cast("Runnable", opened)


def contract_of(manifest: Manifest, rate: Rate, batch: int) -> Contract:
    """What callers of a rate hand in and get back."""
    graph = Wiring(manifest)
    inputs = {name: manifest.inputs[name] for name in graph.inputs_of(rate)}
    outputs = {name: manifest.outputs[name] for name in graph.outputs_of(rate)}
    slots = {name: slot_of(port, batch) for name, port in inputs.items()}
    return Contract(CALLS[rate], inputs, outputs, slots, graph.aliases_of(rate))
