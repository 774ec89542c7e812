"""What drawings, pages and commands say: the parts of a manifest as short texts."""

from __future__ import annotations

from collections.abc import Sequence

from ashore.spec import SINGLE_PASS, Frozen, Limits, Manifest, NonFinite, Port, Stage, State
from ashore.view.cleaning import ELLIPSIS

_NAMED = 4
"""So many elements are all named; of more, the first two and the last."""

_FEW_FROZEN = 16
"""So many values of a constant are all said: a person has to recognise a command among them."""


def array(array: Port | State) -> str:
    """``float32 [1, 12]``."""
    return f"{array.dtype} [{', '.join(str(dim) for dim in array.shape)}]"


def measure(port: Port) -> str:
    """Dtype, shape, unit and frame: ``float32 [1, 3] · rad/s · base frame``."""
    parts = [array(port)]
    if port.unit:
        parts.append(port.unit if isinstance(port.unit, str) else few(port.unit))
    if port.frame:
        parts.append(f"{port.frame} frame")
    return " · ".join(parts)


def elements(port: Port) -> str | None:
    """The names of the elements, axis by axis: ``x, y, z`` or ``12: FL_hip, FL_thigh, … RR_calf``."""
    axes = [few(names) for names in port.element_names or () if names]
    return " | ".join(axes) if axes else None


def all_elements(port: Port) -> str | None:
    """The names of the elements, none left out."""
    axes = [", ".join(names) for names in port.element_names or () if names]
    return " | ".join(axes) if axes else None


def unit(port: Port) -> str | None:
    """``rad``, also where each element has its unit and all are the same."""
    if port.unit is None or isinstance(port.unit, str):
        return port.unit
    return port.unit[0] if len(set(port.unit)) == 1 else few(port.unit)


def few(names: Sequence[str]) -> str:
    """Names, those in the middle left out where there are many."""
    if len(names) > 1 and len(set(names)) == 1:
        return f"{len(names)}: all {names[0]}"
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{len(names)}: {names[0]}, {names[1]}, {ELLIPSIS} {names[-1]}"


def memory(state: State) -> str:
    """What a state is for, and what a reset does to it."""
    rule = {"initial": "reset to initial", "keep": "kept on reset"}[state.reset]
    return f"{state.role.replace('_', ' ')} · {rule}"


def rate(stage: Stage, manifest: Manifest) -> str:
    """How often a stage runs: ``policy · 50 Hz``."""
    timing = manifest.timing
    if stage.rate == "loop" or stage.runner is not None:
        return "loop · inside a decision"
    if stage.rate == "substep":
        return f"substep · {frequency(timing.physics_dt_s)}" if timing and timing.physics_dt_s else "substep"
    known = timing and timing.policy_dt_s
    return f"policy · {frequency(known)}" if known else "policy · once a decision"


def frequency(period_s: float) -> str:
    """``50 Hz`` of 0.02 s."""
    return f"{1.0 / period_s:.4g} Hz"


def engine(stage: Stage) -> str:
    """What computes a stage."""
    if stage.processor is not None:
        return f"processor {stage.processor.type}"
    if stage.runner is not None:
        return f"{stage.runner.type} of {', '.join(stage.runner.stages)}"
    return ", ".join(sorted(stage.artifacts)) or "no artifact"


def timing(manifest: Manifest) -> str:
    """How often the package decides and acts, and how its stages are run."""
    parts: list[str] = []
    if manifest.timing is None:
        parts.append("timing not stated")
    else:
        beat = manifest.timing
        if beat.policy_dt_s is not None:
            parts.append(f"policy {frequency(beat.policy_dt_s)} ({beat.policy_dt_s:g} s)")
        if beat.physics_dt_s is not None:
            parts.append(f"physics {frequency(beat.physics_dt_s)} ({beat.physics_dt_s:g} s)")
        if beat.decimation != 1:
            parts.append(f"{beat.decimation} substeps a decision")
    if manifest.runner.type != SINGLE_PASS:
        parts.append(f"runner {manifest.runner.type}")
    return " · ".join(parts)


def number(value: float | NonFinite | None) -> str:
    """Six digits of a number; ``-`` for none."""
    return "-" if value is None else value if isinstance(value, str) else f"{value:.6g}"


def span(low: str, high: str) -> str:
    """``0 … 1``, or ``all 0``."""
    return f"all {low}" if low == high else f"{low} … {high}"


def limits(bounds: Limits) -> str:
    """The range a port should stay in, element by element where the elements differ."""
    sides = (side if isinstance(side, tuple) else (side,) for side in (bounds.lower, bounds.upper))
    return " … ".join(" ".join(number(value) for value in side) for side in sides)


def constant(frozen: Frozen) -> str:
    """What a frozen tensor holds: its values if they are few, else their range."""
    if frozen.values is not None and len(frozen.values) <= _FEW_FROZEN:
        return " ".join(map(number, frozen.values)) or "empty"
    if frozen.lowest is None:
        return "not recorded"
    if "nan" in (frozen.lowest, frozen.highest):
        return "holds NaN, so it has no range"
    return span(number(frozen.lowest), number(frozen.highest))


def spoken(mode: str) -> str:
    """``free-running`` of free_running."""
    return mode.replace("_", "-")


def duration(microseconds: float) -> str:
    """``35.2 µs``, ``1.4 ms``, ``2.1 s``."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= size:
            return f"{microseconds / size:.3g} {unit}"
    return f"{microseconds:.3g} µs"


def size(count: int) -> str:
    """``412 kB`` of so many bytes."""
    for unit, one in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= one:
            return f"{count / one:.3g} {unit}"
    return f"{count} bytes"
