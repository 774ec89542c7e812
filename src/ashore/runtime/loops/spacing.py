"""Evenly spaced numbers, to the last bit those that the training side computed."""

from __future__ import annotations

import numpy as np

from ashore.package import Array


def evenly(start: float, end: float, count: int) -> Array:
    """What ``torch.linspace`` gives, float32 of shape (count,).

    It has a float32 step, goes from both ends to the middle, and rounds each number once. ``np.linspace`` differs in
    the last bit of a third of the numbers, and a running product of a thousand of them in the sixth digit.
    """
    first, last = np.array([start, end], np.float32)
    if count == 1:
        return np.array([first])
    step, middle = float((last - first) / np.float32(count - 1)), count // 2
    index, numbers = np.arange(count, dtype=np.float64), np.empty(count, np.float32)
    numbers[:middle] = first + step * index[:middle]
    numbers[middle:] = last - step * (count - 1 - index[middle:])
    return numbers
