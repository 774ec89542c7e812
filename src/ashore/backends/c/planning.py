"""Where scratch lies: results in between share room when they are not needed at the same time."""

from __future__ import annotations

from collections.abc import Sequence

from ashore.backends.c.kernel import Kernel
from ashore.backends.c.views import Root

_ALIGNMENT = 64
"""Bytes; a cache line."""


def plan(kernels: Sequence[Kernel], results: Sequence[Root], sizes: dict[str, int]) -> None:
    """Give every scratch root its offset.

    Args:
        kernels: in the order in which they run.
        results: what is read when all have run.
        sizes: dtype -> elements of its arena; grown as needed.
    """
    roots: dict[int, Root] = {}
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for place, kernel in enumerate(kernels):
        for root in (*kernel.writes, *kernel.reads):
            if root.kind == "scratch":
                roots[id(root)] = root
                first.setdefault(id(root), place)
                last[id(root)] = place
    for root in results:
        if id(root) in last:
            last[id(root)] = len(kernels)
    placed: list[Root] = []
    for key in sorted(roots, key=lambda key: first[key]):
        root = roots[key]
        step = _ALIGNMENT // root.dtype.itemsize
        taken = sorted(
            (other.offset, other.offset + other.count)
            for other in placed
            if other.dtype == root.dtype and first[id(other)] <= last[key] and first[key] <= last[id(other)]
        )
        offset = 0
        for start, stop in taken:
            if offset + root.count <= start:
                break
            offset = max(offset, -(-stop // step) * step)
        root.offset = offset
        placed.append(root)
        name = root.dtype.name
        sizes[name] = max(sizes.get(name, 0), offset + root.count)
