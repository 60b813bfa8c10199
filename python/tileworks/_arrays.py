"""Functions for the memory of numpy arrays: which bytes an array covers, and which arrays overlap."""
from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ._types import Array


def byte_range(array: Array) -> tuple[int, int]:
    """Returns the address of the first byte of an array's elements and the address after the last byte."""
    # numpy 2 moved `byte_bounds` to the module `array_utils`.
    bounds: Callable[[Array], tuple[int, int]] = getattr(np.lib, "array_utils", np).byte_bounds
    return bounds(array)


def overlaps(first: Array, second: Array) -> bool:
    """Returns whether the byte ranges of two arrays overlap."""
    (first_start, first_end), (second_start, second_end) = byte_range(first), byte_range(second)
    return first_start < second_end and second_start < first_end


def covered_bytes(array: Array) -> Array:
    """Returns the bytes from the first to the last element of an array, including the gaps between elements, as a view."""
    if any(stride < 0 for stride in array.strides):
        raise ValueError("an array with a negative stride cannot be passed to a kernel; copy it first")
    start, end = byte_range(array)
    if array.size == 0:
        return np.empty(0, np.uint8)
    # View the element as bytes before as_strided, which looks up the type by name and does not find some types of ml_dtypes.
    first_element = np.atleast_1d(array)[(slice(0, 1),) * max(array.ndim, 1)].reshape(1).view(np.uint8)
    return np.lib.stride_tricks.as_strided(first_element, shape=(end - start,), strides=(1,), writeable=array.flags.writeable)


def overlap_groups(arrays: Sequence[Array]) -> list[int]:
    """Groups overlapping arrays. Returns for each array the number of its group, which is the lowest index of an array in the group. Two
    arrays are in one group if they overlap, or if a chain of overlapping arrays connects them."""
    lowest_index = list(range(len(arrays)))
    for index, array in enumerate(arrays):
        for other_index in range(index):
            if arrays[other_index] is array or overlaps(array, arrays[other_index]):
                merged = lowest_index[index], lowest_index[other_index]
                lowest_index = [min(merged) if index in merged else index for index in lowest_index]
    return lowest_index


def group_offsets(arrays: Sequence[Array]) -> list[int]:
    """Returns for each array its offset in bytes from the first byte of its group of overlapping arrays."""
    groups = overlap_groups(arrays)
    group_start: dict[int, int] = {}
    for group, array in zip(groups, arrays):
        group_start[group] = min(group_start.get(group, byte_range(array)[0]), byte_range(array)[0])
    return [byte_range(array)[0] - group_start[group] for group, array in zip(groups, arrays)]
