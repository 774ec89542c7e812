"""The manifest reader against whatever hypothesis thinks of: a manifest or a `ManifestError`, nothing else."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import support
from ashore.errors import ManifestError
from ashore.spec import Manifest, decode, encode

GOOD = encode(support.arm_manifest())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
SEEN = [
    "policy", "substep", "loop", "batch", "float32", "int64", "inputs/q", "states/action", "decide/action", "act/v",
    "outputs/torque", "single_pass", "recurrent", "keep", "initial", "artifacts/act.onnx", "", "/", "..", 0, 1, -1,
    2**31, 2**63, 1e308, 0.5, None, True, [], {}, [1, 2], ["batch", 2], "shoulder", "state/joint/position", "rad",
]  # fmt: skip


def paths(value: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [prefix] if prefix else []
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        found += paths(child, (*prefix, key))
    return found


PATHS = paths(json.loads(GOOD))


def survives(data: bytes) -> None:
    try:
        manifest = decode(data)
    except ManifestError as error:
        assert str(error).startswith("manifest.json: ")
        return
    assert isinstance(manifest, Manifest)
    assert decode(encode(manifest)) == manifest


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    survives(data)


@given(JSON)
def test_any_json(value: Any) -> None:
    survives(json.dumps(value).encode("utf-8", "surrogatepass"))


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(PATHS), st.sampled_from(SEEN) | JSON), min_size=1, max_size=3))
def test_a_manifest_with_parts_replaced(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    document = json.loads(GOOD)
    for path, value in changes:
        place = document
        try:
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took this place away
    survives(json.dumps(document).encode("utf-8", "surrogatepass"))


@settings(max_examples=200)
@given(st.lists(st.sampled_from(PATHS), min_size=1, max_size=3))
def test_a_manifest_with_parts_removed(gone: list[tuple[Any, ...]]) -> None:
    document = json.loads(GOOD)
    for path in gone:
        place = document
        try:
            for key in path[:-1]:
                place = place[key]
            del place[path[-1]]
        except (KeyError, IndexError, TypeError):
            continue
    survives(json.dumps(document).encode())


@settings(max_examples=300)
@given(st.integers(0, len(GOOD) - 1), st.binary(min_size=0, max_size=6), st.integers(0, 6))
def test_a_manifest_with_bytes_replaced(position: int, fresh: bytes, cut: int) -> None:
    survives(GOOD[:position] + fresh + GOOD[position + cut :])
