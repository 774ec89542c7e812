from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

import ashore
from ashore.errors import OrderError


@pytest.fixture
def session_closed() -> Iterator[None]:
    """Leave no session of the annotate door open behind a test that failed."""
    yield
    with contextlib.suppress(OrderError):
        ashore.stop()
