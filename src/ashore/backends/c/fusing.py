"""Joining elementwise loops: a chain of operations goes over its elements once, and keeps them in registers.

Two loops over the same shape become one where the second reads what the first stores, element by element, and nothing
that has to run between them stands in the way. What is then only read inside the loop is not stored at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from ashore.backends.c.kernel import Kernel, Loop, Step
from ashore.backends.c.views import Root, View

_MOST_STEPS = 400
"""A loop with more steps than that is not joined further: compilers are slow on them."""


def fuse(kernels: Sequence[Kernel], results: Sequence[Root]) -> list[Kernel]:
    """Join loops wherever that is allowed, and drop what nobody reads.

    Args:
        kernels: in the order in which they run.
        results: what is read when all have run.
    """
    return _dropped(_joined(list(kernels)), {id(root) for root in results})


def _joined(kernels: list[Kernel]) -> list[Kernel]:
    done: list[Kernel] = []
    for kernel in kernels:
        done.append(kernel)
        place = len(done) - 1
        while isinstance(done[place], Loop):
            joined = _join_one(done, place)
            if joined is None:
                break
            place = joined
    return done


def _join_one(done: list[Kernel], place: int) -> int | None:
    """Join the loop at a place with one that it reads from; where the result is, or None."""
    later = done[place]
    if not isinstance(later, Loop):
        return None
    reads = {id(root) for root in later.reads}
    for before in range(place - 1, -1, -1):
        earlier = done[before]
        if not isinstance(earlier, Loop) or earlier.shape != later.shape:
            continue
        if not reads & {id(root) for root in earlier.writes} or len(earlier.steps) + len(later.steps) > _MOST_STEPS:
            continue
        made = _both(earlier, later)
        if made is None:
            continue
        between = done[before + 1 : place]
        written = {id(root) for root in earlier.writes}
        if not any(written & {id(root) for root in kernel.reads} for kernel in between):
            done[before : place + 1] = [*between, made]  # the earlier one can wait
            return place - 1
        if not any(reads & {id(root) for root in kernel.writes} for kernel in between):
            done[before : place + 1] = [made, *between]  # the later one can go first
            return before
    return None


def _both(earlier: Loop, later: Loop) -> Loop | None:
    """One loop that does what two do; None if an element of the second needs more than that element of the first."""
    stored = {id(view.root): (view, step) for view, step in earlier.stores}
    if len(stored) != len(earlier.stores) and {id(root) for root in later.reads} & stored.keys():
        return None  # several parts of one root
    count = len(earlier.steps)
    steps: list[Step] = []
    for step in later.steps:
        operands: list[object] = []
        for operand in step.operands:
            if isinstance(operand, View) and id(operand.root) in stored:
                view, place = stored[id(operand.root)]
                if not view.same(operand) or not _squeezed_alike(view, operand):
                    return None
                operands.append(place)
            elif isinstance(operand, int):
                operands.append(operand + count)
            else:
                operands.append(operand)
        steps.append(Step(step.dtype, step.expression, tuple(operands)))  # type: ignore[arg-type]
    labels = earlier.label if earlier.label == later.label else f"{earlier.label}, {later.label}"
    stores = [*earlier.stores, *((view, step + count) for view, step in later.stores)]
    return Loop(labels, earlier.shape, [*earlier.steps, *steps], stores)


def _squeezed_alike(one: View, other: View) -> bool:
    return [size for size in one.shape if size != 1] == [size for size in other.shape if size != 1]


def _dropped(kernels: list[Kernel], needed: set[int]) -> list[Kernel]:
    """Without stores that nothing reads, and without kernels that then do nothing."""
    kept: list[Kernel] = []
    for kernel in reversed(kernels):
        writes = [id(root) for root in kernel.writes]
        if not any(root in needed for root in writes):
            continue
        if isinstance(kernel, Loop):
            kernel = _needed_steps(kernel, needed)
        needed |= {id(root) for root in kernel.reads}
        kept.append(kernel)
    return kept[::-1]


def _needed_steps(loop: Loop, needed: set[int]) -> Loop:
    stores = [(view, step) for view, step in loop.stores if id(view.root) in needed]
    used = {step for _, step in stores}
    for place in range(len(loop.steps) - 1, -1, -1):
        if place in used:
            used |= {operand for operand in loop.steps[place].operands if isinstance(operand, int)}
    places = {old: new for new, old in enumerate(sorted(used))}
    steps = [
        Step(
            loop.steps[old].dtype,
            loop.steps[old].expression,
            tuple(places[operand] if type(operand) is int else operand for operand in loop.steps[old].operands),
        )
        for old in sorted(used)
    ]
    return Loop(loop.label, loop.shape, steps, [(view, places[step]) for view, step in stores])
