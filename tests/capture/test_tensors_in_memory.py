"""Tensors as things in memory; of `ashore.capture.tensors` (`tests/package/test_tensors.py` has the shorter name).

buffer = torch.zeros(2, 3)     elements 0 to 5 of its memory
row = buffer[1]                elements 3 to 5 of the same memory
buffer[1] is made anew by each look, and lies at the same place
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ashore.capture.tensors import close, foreign_memory, memory_of, place_of, same, snapshot, span_of, version_of

NAN, INF = float("nan"), float("inf")
MATRIX = torch.arange(12.0).reshape(3, 4)


# --- copies ----------------------------------------------------------------------------------------------------------


def test_a_snapshot_does_not_follow_what_it_was_taken_of() -> None:
    tensor = torch.ones(2, 3)
    copy = snapshot(tensor)
    tensor.add_(1)
    assert torch.equal(copy, torch.ones(2, 3))


def test_a_snapshot_is_plain_whatever_mode_it_is_taken_in() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    with torch.inference_mode():
        made = torch.ones(3)
        copies = [snapshot(weight), snapshot(made), snapshot(weight * 2)]
    copies.append(snapshot(weight * 2))
    for copy in copies:
        assert not copy.is_inference()
        assert not copy.requires_grad
        assert type(copy) is torch.Tensor
        copy.add_(1)


def test_a_snapshot_of_a_view_holds_only_the_view() -> None:
    copy = snapshot(MATRIX[:, 1])
    assert copy.tolist() == [1.0, 5.0, 9.0]
    assert memory_of(copy) != memory_of(MATRIX)


def test_writes_are_counted_where_torch_counts_them() -> None:
    tensor = torch.zeros(3)
    before = version_of(tensor)
    assert before is not None
    tensor[1] = 2.0
    assert version_of(tensor) == before + 1
    with torch.inference_mode():
        assert version_of(torch.zeros(3)) is None


# --- places ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tensor", "span"),
    [
        (MATRIX, (0, 11)),
        (MATRIX[1], (4, 7)),
        (MATRIX[:, 1], (1, 9)),
        (MATRIX[1:, 1:3], (5, 10)),
        (MATRIX.t(), (0, 11)),
        (MATRIX[0, :1].expand(5), (0, 0)),
        (torch.tensor(3.0), (0, 0)),
        (MATRIX[2, 3], (11, 11)),
    ],
)
def test_a_span_is_the_first_and_the_last_element_in_memory(tensor: torch.Tensor, span: tuple[int, int]) -> None:
    assert span_of(tensor) == span


def test_looks_at_the_same_elements_lie_at_the_same_place() -> None:
    assert place_of(MATRIX[1]) == place_of(MATRIX[1])
    assert place_of(MATRIX) == place_of(MATRIX.view(3, 4)) == place_of(MATRIX.detach())
    assert place_of(MATRIX.t().t()) == place_of(MATRIX)


COMPLEX = torch.zeros(3, dtype=torch.complex64)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (MATRIX, MATRIX.clone()),
        (MATRIX[0], MATRIX[1]),
        (MATRIX, MATRIX.t()),
        (MATRIX[:3, :3], MATRIX[:3, :3].t()),
        (MATRIX, MATRIX.reshape(4, 3)),
        (MATRIX, MATRIX.view(torch.int32)),
        (MATRIX[0, :1], MATRIX[0, 0]),
        (COMPLEX, COMPLEX.conj()),
        (torch.view_as_real(COMPLEX)[:, 1], COMPLEX.conj().imag),
    ],
)
def test_what_is_seen_otherwise_lies_at_another_place(left: torch.Tensor, right: torch.Tensor) -> None:
    assert place_of(left) != place_of(right)


def test_views_lie_in_the_memory_of_what_they_are_views_of() -> None:
    assert memory_of(MATRIX) == memory_of(MATRIX[1]) == memory_of(MATRIX.t())
    assert memory_of(MATRIX) != memory_of(MATRIX.clone())


def test_memory_of_another_library_is_known_by_its_address() -> None:
    array = np.zeros(4, np.float32)
    one, other = torch.from_numpy(array), torch.from_numpy(array)
    elsewhere = torch.from_numpy(np.zeros(4, np.float32))
    assert memory_of(one) != memory_of(other)
    with foreign_memory([one.data_ptr()]):
        assert memory_of(one) == memory_of(other) == memory_of(other[1:])
        assert memory_of(one) != memory_of(elsewhere)
        assert place_of(one) == place_of(other)
        assert memory_of(MATRIX) == memory_of(MATRIX.detach())
    assert memory_of(one) != memory_of(other)


def test_foreign_memory_is_forgotten_when_a_recording_fails() -> None:
    array = np.zeros(4, np.float32)
    one, other = torch.from_numpy(array), torch.from_numpy(array)
    with foreign_memory([one.data_ptr()]):
        with pytest.raises(RuntimeError, match="it failed"), foreign_memory(()):
            assert memory_of(one) != memory_of(other)
            raise RuntimeError("it failed")
        assert memory_of(one) == memory_of(other)
    assert memory_of(one) != memory_of(other)


# --- equality --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (torch.tensor([1.0, NAN]), torch.tensor([1.0, NAN]), True),
        (torch.tensor([1.0, NAN]), torch.tensor([NAN, 1.0]), False),
        (torch.tensor([1.0, NAN]), torch.tensor([1.0, 2.0]), False),
        (torch.tensor([INF]), torch.tensor([INF]), True),
        (torch.tensor([INF]), torch.tensor([-INF]), False),
        (torch.tensor([1.0]), torch.tensor([1.0 + 1e-7]), False),
        (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64), False),
        (torch.tensor([1]), torch.tensor([1]), True),
        (torch.tensor([1]), torch.tensor([2]), False),
        (torch.tensor([1]), torch.tensor([True]), False),
        (torch.tensor([True]), torch.tensor([True]), True),
        (torch.zeros(3), torch.zeros(1, 3), False),
        (torch.zeros(3), torch.zeros(1), False),
        (torch.zeros(0), torch.zeros(0), True),
        (torch.zeros(0), torch.zeros(0, 2), False),
        (torch.tensor([complex(NAN, 1)]), torch.tensor([complex(NAN, 1)]), True),
        (torch.tensor([1j]), torch.tensor([2j]), False),
        (MATRIX.t(), MATRIX.t().clone(), True),
        (torch.nn.Parameter(torch.zeros(2)), torch.zeros(2), True),
    ],
    ids=str,
)
def test_two_tensors_hold_the_same_to_the_last_bit_nan_for_nan(
    left: torch.Tensor, right: torch.Tensor, equal: bool
) -> None:
    assert same(left, right) is equal
    assert same(right, left) is equal


@pytest.mark.parametrize(
    ("expected", "got", "equal"),
    [
        (torch.tensor([1.0]), torch.tensor([1.0 + 3e-6]), True),
        (torch.tensor([1.0]), torch.tensor([1.0 + 3e-5]), False),
        (torch.tensor([1e6]), torch.tensor([1e6 + 3.0]), True),
        (torch.tensor([0.0]), torch.tensor([3e-6]), True),
        (torch.tensor([0.0]), torch.tensor([3e-5]), False),
        (torch.tensor([1.0], dtype=torch.float64), torch.tensor([1.0 + 1e-15], dtype=torch.float64), True),
        (torch.tensor([1.0], dtype=torch.float64), torch.tensor([1.0 + 3e-6], dtype=torch.float64), False),
        (torch.tensor([1.0], dtype=torch.float16), torch.tensor([1.01], dtype=torch.float16), True),
        (torch.tensor([NAN, INF]), torch.tensor([NAN, INF]), True),
        (torch.tensor([NAN]), torch.tensor([0.0]), False),
        (torch.tensor([INF]), torch.tensor([-INF]), False),
        (torch.tensor([100]), torch.tensor([100]), True),
        (torch.tensor([1_000_000]), torch.tensor([1_000_001]), False),
        (torch.tensor([1]), torch.tensor([1.0]), False),
        (torch.zeros(3), torch.zeros(1), False),
    ],
    ids=str,
)
def test_results_are_close_that_differ_by_the_order_of_additions(
    expected: torch.Tensor, got: torch.Tensor, equal: bool
) -> None:
    assert close(expected, got) is equal
