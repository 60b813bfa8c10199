"""The memory of numpy arrays: the bytes that an array covers, and overlap between arrays."""
from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ._types import Array


def span(array: Array) -> tuple[int, int]:
    """Returns the address of the first byte of an array's elements and the address after the last byte."""
    # numpy 2 moved the function.
    bounds: Callable[[Array], tuple[int, int]] = getattr(np.lib, "array_utils", np).byte_bounds
    return bounds(array)


def overlap(one: Array, other: Array) -> bool:
    (a, b), (c, d) = span(one), span(other)
    return a < d and c < b


def memory(array: Array) -> Array:
    """Returns the bytes that an array covers in memory order, including the gaps between its elements."""
    if any(stride < 0 for stride in array.strides):
        raise ValueError("an array with a negative stride cannot be passed to a kernel; copy it first")
    first, end = span(array)
    if array.size == 0:
        return np.empty(0, np.uint8)
    # As bytes first: as_strided looks up a type in numpy by its name, and numpy does not know some of ml_dtypes.
    corner = np.atleast_1d(array)[(slice(0, 1),) * max(array.ndim, 1)].reshape(1).view(np.uint8)
    return np.lib.stride_tricks.as_strided(corner, shape=(end - first,), strides=(1,), writeable=array.flags.writeable)


def clusters(arrays: Sequence[Array]) -> list[int]:
    """For each array the index of the first one with which it shares memory, directly or through others."""
    first = list(range(len(arrays)))
    for at, one in enumerate(arrays):
        for other in range(at):
            if arrays[other] is one or overlap(one, arrays[other]):
                joined, into = first[at], first[other]
                first = [min(joined, into) if number in (joined, into) else number for number in first]
    return first


def offsets(arrays: Sequence[Array]) -> list[int]:
    """For each array its offset from the first byte of all arrays with which it shares memory."""
    cluster = clusters(arrays)
    start: dict[int, int] = {}
    for number, array in zip(cluster, arrays):
        start[number] = min(start.get(number, span(array)[0]), span(array)[0])
    return [span(array)[0] - start[number] for number, array in zip(cluster, arrays)]
