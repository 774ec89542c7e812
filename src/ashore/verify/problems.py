"""What a verification has to say besides numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Weight: TypeAlias = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Problem:
    """Something that a person should know. An error means that the package did not pass."""

    part: str
    """Which part of the verification says so: ``"contract"``, ``"gains"``, ``"sensitivity"``, …"""

    severity: Weight
    where: str
    """A path such as ``joints/FR_hip/kp``, a port, or a stage."""

    message: str
