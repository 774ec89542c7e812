from __future__ import annotations

import json
import struct
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import support
from ashore.errors import ManifestError
from ashore.spec import Frozen, decode, encode


def document() -> dict[str, Any]:
    return json.loads(encode(support.arm_manifest()))


def decode_document(value: object) -> object:
    return decode(json.dumps(value).encode())


def test_a_manifest_survives_the_round_trip() -> None:
    manifest = support.arm_manifest()
    assert decode(encode(manifest)) == manifest


def test_the_same_manifest_gives_the_same_bytes() -> None:
    assert encode(support.arm_manifest()) == encode(decode(encode(support.arm_manifest())))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_round_trip_to_the_bit(value: float) -> None:
    manifest = msgspec.structs.replace(support.arm_manifest(), metadata={"x": value})
    back = decode(encode(manifest)).metadata["x"]
    assert struct.pack("<d", back) == struct.pack("<d", value)


def test_an_action_scale_keeps_all_its_digits() -> None:
    scale = float(np.float32(0.372753))
    manifest = msgspec.structs.replace(support.arm_manifest(), metadata={"scale": scale})
    assert decode(encode(manifest)).metadata["scale"] == scale


def test_a_constant_that_is_not_finite_is_kept_as_text() -> None:
    numbers = (float("-inf"), 0.1, float("nan"), float("inf"))
    constant = Frozen(name="m", dtype="float32", shape=(4,), values=numbers, lowest=float("nan"), highest=float("nan"))
    assert constant.values == ("-inf", 0.1, "nan", "inf")
    manifest = msgspec.structs.replace(support.arm_manifest(), constants=(constant,))
    stored = json.loads(encode(manifest), parse_constant=lambda token: pytest.fail(f"{token} is no JSON"))
    assert stored["constants"][0]["values"] == ["-inf", 0.1, "nan", "inf"]
    assert stored["constants"][0]["lowest"] == "nan"
    assert decode(encode(manifest)) == manifest


@pytest.mark.parametrize("value", ["Infinity", "infinity", "1.0", "", None, True])
def test_a_constant_holds_numbers_and_nothing_else(value: object) -> None:
    made = document()
    made["constants"] = [{"name": "m", "dtype": "float32", "shape": [2], "values": [0.5, value]}]
    with pytest.raises(ManifestError, match=r"constants\[0\]\.values\[1\]: "):
        decode_document(made)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("stages", "act", "inputs", "held", "dtype"), "float33", r"stages\.act\.inputs\.held\.dtype: Invalid enum"),
        (("stages", "act", "inputs", "held", "shape"), "2", r"stages\.act\.inputs\.held\.shape: Expected 'array'"),
        (("stages", "act", "inputs", "held", "shape"), [1, "n"], r"stages\.act\.inputs\.held\.shape\[1\]: "),
        (("states", "ticks", "colour"), 1, r"states\.ticks: Object contains unknown field 'colour'"),
        (("joints", 1, "kp"), "20", r"joints\[1\]\.kp: Expected 'float \| null', got 'str'"),
        (("timing", "decimation"), 4.5, r"timing\.decimation: Expected 'int', got 'float'"),
        (("timing", "decimation"), True, r"timing\.decimation: Expected 'int', got 'bool'"),
        (("wires", 3, "target"), None, r"wires\[3\]\.target: Expected 'str', got 'null'"),
        (("runner", "kind"), "guess", r"runner: Object contains unknown field 'kind'"),
        (("outputs", "torque", "element_names", 1, 0), 7, r"outputs\.torque\.element_names\[1\]\[0\]: "),
        (("inputs", "q", "limits"), {"lower": 1, "uper": 2}, r"inputs\.q\.limits: .*unknown field 'uper'"),
        (("files",), {"a/b.onnx": {"sha256": 3, "size": 1}}, r'files\["a/b.onnx"\]\.sha256: '),
        (("surprise",), 1, r"top level: Object contains unknown field 'surprise'"),
    ],
)
def test_what_does_not_fit_is_named_by_its_path(path: tuple[Any, ...], value: object, message: str) -> None:
    broken = document()
    place = broken
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(ManifestError, match=r"manifest\.json: " + message):
        decode_document(broken)


@pytest.mark.parametrize("key", ["name", "inputs", "stages", "wires"])
def test_a_missing_key_is_an_error(key: str) -> None:
    broken = document()
    del broken[key]
    with pytest.raises(ManifestError, match=f"missing required field '{key}'"):
        decode_document(broken)


def test_a_key_given_twice_is_named_by_its_path() -> None:
    text = encode(support.arm_manifest()).decode()
    doubled = text.replace('"kp": 20.0,', '"kp": 20.0, "kp": 25.0,', 1)
    with pytest.raises(ManifestError, match=r"manifest\.json: joints\[0\]\.kp: the key is given twice"):
        decode(doubled.encode())


def test_a_state_given_twice_is_an_error() -> None:
    text = encode(support.sum_manifest()).decode()
    doubled = text.replace('"states": {', '"states": {"h": {"dtype": "bool", "shape": [], "role": "memory"},', 1)
    with pytest.raises(ManifestError, match=r"manifest\.json: states\.h: the key is given twice"):
        decode(doubled.encode())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[1]", "expected an object at the top, got list"),
        (b'"x"', "expected an object at the top, got str"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b'{"format": "\\ud800"}', "not UTF-8"),
        (b'{"x": NaN}', r"manifest\.json: x: NaN is no JSON number"),
        (b'{"a": [0, {"b c": -Infinity}]}', r'manifest\.json: a\[1\]\["b c"\]: -Infinity is no JSON number'),
        (b'{"x": [1e999]}', r"manifest\.json: x\[0\]: the number 1e999 is too large"),
        (b"NaN", r"manifest\.json: top level: NaN is no JSON number"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"x": ' + b"1" * 5000 + b"}", "not valid JSON"),
        (b'{"format": "zip"}', "expected 'ashore-policy-package', got 'zip'"),
        (b"{}", "this is not an Ashore package"),
        (b" " * (16 * 1024 * 1024 + 1), "a manifest has at most"),
    ],
)
def test_what_is_no_manifest_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        decode(data)


@pytest.mark.parametrize("version", [99, 2])
def test_a_newer_version_asks_for_an_update(version: int) -> None:
    with pytest.raises(ManifestError, match=rf"has version {version}, and this Ashore reads up to 1; update ashore"):
        decode_document({**document(), "schema_version": version})


@pytest.mark.parametrize("version", [0, -1, "1", 1.0, None, True])
def test_a_version_is_a_whole_number(version: object) -> None:
    with pytest.raises(ManifestError, match="schema_version: expected a whole number from 1"):
        decode_document({**document(), "schema_version": version})


def test_text_that_drives_a_terminal_is_refused() -> None:
    broken = document()
    broken["inputs"]["q"]["description"] = "\x1b[2J"
    with pytest.raises(ManifestError, match=r"inputs\.q\.description: .* holds control characters"):
        decode_document(broken)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dtype": "float33"}, r"inputs\.q\.dtype: Invalid enum"),
        ({"shape": "12"}, r"inputs\.q\.shape: Expected 'array'"),
    ],
)
def test_structs_made_by_code_are_checked_when_they_are_written(fields: dict[str, Any], message: str) -> None:
    manifest = support.arm_manifest()
    port = msgspec.structs.replace(manifest.inputs["q"], **fields)
    with pytest.raises(ManifestError, match=message):
        encode(msgspec.structs.replace(manifest, inputs={**manifest.inputs, "q": port}))


def test_text_of_any_language_is_fine() -> None:
    text = "歩く\u3000犬 🧑\u200d🔬 \u00a0 naïve\n\ttext"
    manifest = msgspec.structs.replace(support.arm_manifest(), description=text, metadata={text: text})
    assert decode(encode(manifest)).description == text


def test_an_error_that_quotes_the_file_cannot_drive_a_terminal() -> None:
    for key in ("\x1b]0;owned\x07", "a\x9bb"):
        with pytest.raises(ManifestError) as caught:
            decode_document({**document(), key: 1})
        assert not any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in str(caught.value))


def test_metadata_of_any_json_type_is_kept() -> None:
    metadata = {"a": [1, 2.5, None, {"b": "ü"}], "c": True, "d": "x"}
    manifest = msgspec.structs.replace(support.arm_manifest(), metadata=metadata)
    assert decode(encode(manifest)).metadata == metadata


NESTED: list[object] = []
NESTED.append(NESTED)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), r"metadata\.x: nan is no JSON number"),
        ([1.0, float("-inf")], r"metadata\.x\[1\]: -inf is no JSON number"),
        (object(), r"metadata\.x: a value of type object cannot be written"),
        (b"raw", r"metadata\.x: a value of type bytes cannot be written"),
        ({1: 2}, r"metadata\.x: the key 1 is no text"),
        (2**64, r"metadata\.x: 18446744073709551616 does not fit into 64 bits"),
        ("\ud800", r"metadata\.x: .* holds control characters"),
        (NESTED, "metadata: nested too deep"),
    ],
)
def test_what_json_cannot_hold_is_refused_when_writing(value: object, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        encode(msgspec.structs.replace(support.arm_manifest(), metadata={"x": value}))
