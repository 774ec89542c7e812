from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ashore.errors import InputError
from ashore.package import decode_text, encode_text

WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


@given(st.lists(WORDS, max_size=4), st.integers(0, 9))
def test_what_is_written_is_read_back(texts: list[str], room: int) -> None:
    width = max([len(text.encode()) for text in texts], default=0) + room
    rows = encode_text(texts, width)
    assert rows.dtype == np.uint8
    assert rows.shape == (len(texts), width)
    assert [decode_text(row) for row in rows] == texts


@given(st.binary(max_size=8))
def test_bytes_are_text_that_is_written_back_as_it_was_or_an_error(data: bytes) -> None:
    row = np.frombuffer(data, np.uint8)
    try:
        text = decode_text(row)
    except InputError:
        return
    np.testing.assert_array_equal(encode_text(text, len(data))[0], row)


def test_one_text_is_one_row_that_zeros_fill_up() -> None:
    np.testing.assert_array_equal(encode_text("hé", 5), [[104, 0xC3, 0xA9, 0, 0]])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("pick up", "^task: expected at most 6 bytes of UTF-8, got 7: 'pick up'…"),
        (["", "éééé"], r"^task\[1\]: expected at most 6 bytes of UTF-8, got 8"),
        ("a\0b", "^task: expected text without the character 0, which marks its end; got 'a"),
        ("\ud800", "^task: expected text that UTF-8 can hold: .*surrogates not allowed"),
        ([b"pick"], r"^task\[0\]: expected text, got bytes"),
        ([None], r"^task\[0\]: expected text, got NoneType"),
    ],
)
def test_what_would_not_come_back_is_refused(texts: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        encode_text(texts, 6, "task")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (np.array([104, 0, 105, 0], np.uint8), "^task: expected zeros up to the end after the first, at byte 1"),
        (np.array([0, 105], np.uint8), "expected zeros up to the end after the first, at byte 0"),
        (np.array([0xC3, 0], np.uint8), "^task: expected UTF-8: .*unexpected end of data"),
        (np.array([0xED, 0xA0, 0x80], np.uint8), "expected UTF-8: .*invalid continuation byte"),
        (np.array([104], np.int64), r"^task: expected a row of uint8, got int64 \[1\]"),
        (np.zeros((1, 3), np.uint8), r"^task: expected a row of uint8, got uint8 \[1, 3\]"),
    ],
)
def test_what_is_no_text_is_refused(row: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        decode_text(row, "task")
