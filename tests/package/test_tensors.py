from __future__ import annotations

import typing

import numpy as np
import pytest

from ashore.errors import PackageError
from ashore.package.tensors import load_arrays, save_arrays
from ashore.spec import DType


@pytest.mark.parametrize("dtype", typing.get_args(DType))
@pytest.mark.parametrize("shape", [(), (3,), (2, 1, 3)])
def test_every_dtype_survives_the_round_trip(dtype: str, shape: tuple[int, ...]) -> None:
    array = (np.random.default_rng(0).standard_normal(shape) * 3).astype(dtype)
    back = load_arrays(save_arrays({"a/b c": np.asarray(array)}), "here")["a/b c"]
    assert back.dtype == array.dtype
    assert back.shape == shape
    np.testing.assert_array_equal(back, array)


def test_arrays_that_are_not_contiguous_are_saved_as_they_look() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4).T[::2]
    np.testing.assert_array_equal(load_arrays(save_arrays({"a": array}), "here")["a"], array)


@pytest.mark.parametrize("data", [b"", b"\xff" * 40, b"\x08\0\0\0\0\0\0\0{}", b"\x80\x04cos\nsystem\n."])
def test_what_is_no_safetensors_file_is_refused(data: bytes) -> None:
    if data.endswith(b"{}"):
        data = b"\x7f\0\0\0\0\0\0\0{}"
    with pytest.raises(PackageError, match="here: not a readable safetensors file"):
        load_arrays(data, "here")
