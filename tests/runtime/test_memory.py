from __future__ import annotations

import numpy as np

from ashore.runtime.memory import Layout, Slot, first_bad
from ashore.spec import Endpoint

SIDE = {
    Endpoint("outputs", "y"): Slot("float32", (1, 3), finite=True),
    Endpoint("states", "h"): Slot("float32", (5,), finite=True),
    Endpoint("states", "n"): Slot("int64", (1,), finite=True),
    Endpoint("states", "d"): Slot("float64", (2,), finite=True),
    Endpoint("states", "free"): Slot("float32", (2,), finite=False),
}
INPUTS = {
    Endpoint("inputs", "x"): Slot("float32", (1, 7), finite=True),
    Endpoint("inputs", "z"): Slot("float32", (), finite=True),
}


def test_arrays_have_their_shapes_start_at_cache_lines_and_do_not_overlap() -> None:
    layout = Layout([SIDE, INPUTS, SIDE], check_finite=True)
    views = [(part, key, view) for part, found in enumerate(layout.views) for key, view in found.items()]
    assert len(views) == 12
    for number, (_, key, view) in enumerate(views):
        assert view.shape == (SIDE | INPUTS)[key].shape
        assert view.dtype == (SIDE | INPUTS)[key].dtype
        assert view.ctypes.data % 64 == 0
        assert view.flags.c_contiguous
        view[...] = number
    for number, (_, _, view) in enumerate(views):
        assert (view == number).all()


def test_a_check_covers_its_parts_and_only_them() -> None:
    layout = Layout([SIDE, INPUTS, SIDE], check_finite=True)
    left, right = layout.checks(0, 1), layout.checks(1, 2)
    assert {key for check in left for key, _ in check.arrays} == {
        Endpoint("outputs", "y"),
        Endpoint("states", "h"),
        Endpoint("states", "d"),
        Endpoint("inputs", "x"),
        Endpoint("inputs", "z"),
    }
    for part, key, hits in (
        (0, Endpoint("states", "h"), (True, False)),
        (2, Endpoint("states", "d"), (False, True)),
        (1, Endpoint("inputs", "z"), (True, True)),
        (0, Endpoint("states", "free"), (False, False)),
    ):
        for bad in (np.nan, np.inf, -np.inf):
            layout.views[part][key].flat[-1] = bad
            for checks, hit in zip((left, right), hits, strict=True):
                found = False
                for values, mask, find, _ in checks:
                    np.isfinite(values, mask)
                    found = found or find(0) >= 0
                assert found is hit, (part, key, bad)
            layout.views[part][key].flat[-1] = 0


def test_the_first_bad_value_is_an_input_if_there_is_one() -> None:
    layout = Layout([SIDE, INPUTS, SIDE], check_finite=True)
    checks = layout.checks(0, 1)
    assert first_bad(checks) is None
    layout.views[0][Endpoint("states", "h")][3] = np.inf
    bad = first_bad(checks)
    assert bad is not None
    assert (bad.where, bad.element, bad.value) == (Endpoint("states", "h"), (3,), np.inf)
    layout.views[1][Endpoint("inputs", "x")][0, 6] = -np.inf
    bad = first_bad(checks)
    assert bad is not None
    assert (bad.where, bad.element, bad.value) == (Endpoint("inputs", "x"), (0, 6), -np.inf)


def test_nothing_is_checked_when_checks_are_off() -> None:
    assert Layout([SIDE, INPUTS, SIDE], check_finite=False).checks(0, 1) == ()
