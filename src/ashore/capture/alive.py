"""Finds everything alive that is an instance of some classes, among the millions of things in a Python process.

An export asks this twice: for all modules, since their parameters are weights, and for all lists, since a constant
that waits in a list is no constant. Beside a simulator there are two million objects, and asking each of them in Python
takes half a second. So only the *classes* are asked, of which there are thousands; whatever is done for each object is
done in C:

    objects    [leg, 0.25, [x, y], actor, ...]       two million
    classes    {Leg, float, list, Linear, ...}       thousands: which of them are modules? {Linear}
    instances  [actor, ...]                          the objects whose class is one of those
"""

from __future__ import annotations

import gc
from itertools import compress
from typing import Any


def alive(*classes: type) -> list[Any]:
    """Every instance of some classes that the garbage collector knows, as `gc.get_objects` orders them."""
    objects = gc.get_objects()
    kinds = list(map(type, objects))
    # By identity: a class may have a metaclass of its own, which hashes and compares as it likes.
    identities = list(map(id, kinds))
    by_identity = dict(zip(identities, kinds, strict=True))
    wanted = {identity for identity, kind in by_identity.items() if issubclass(kind, classes)}
    return list(compress(objects, map(wanted.__contains__, identities)))
