"""Every operator that can be compiled, and how."""

from __future__ import annotations

from collections.abc import Mapping

from ashore.backends.c.arithmetic import ARITHMETIC
from ashore.backends.c.lower import Lowering
from ashore.backends.c.movement import MOVEMENT
from ashore.backends.c.products import PRODUCTS
from ashore.backends.c.recurrent import RECURRENT
from ashore.backends.c.rows import ROWS
from ashore.backends.c.windows import WINDOWS

OPERATORS: Mapping[str, Lowering] = {**ARITHMETIC, **MOVEMENT, **ROWS, **PRODUCTS, **RECURRENT, **WINDOWS}
"""Operator -> what makes kernels of it. Those that only make constants are not here."""
