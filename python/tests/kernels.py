"""Kernels of the tests. They are in a separate file, so that a test can search this file for the source line that a message names."""
from typing import Annotated

import cuda.tile as ct


@ct.kernel
def vadd(a, b, c, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(c, index=(i,), tile=ct.load(a, index=(i,), shape=(T,)) + ct.load(b, index=(i,), shape=(T,)))


@ct.kernel
def scale_and_offset(a, c, factor, offset, negate, T: ct.Constant[int] = 64):
    i = ct.bid(0)
    x = ct.load(a, index=(i,), shape=(T,)) * factor + ct.astype(offset, ct.float32)
    if negate:
        x = -x
    ct.store(c, index=(i,), tile=x)


@ct.kernel
def copy(a, c, M: ct.Constant[int], N: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(c, index=(i, j), tile=ct.load(a, index=(i, j), shape=(M, N)))


@ct.kernel
def print_block(a):
    ct.printf("block %d\n", ct.bid(0))
    ct.store(a, index=(0,), tile=ct.load(a, index=(0,), shape=(1,)))


@ct.kernel
def gather_from(a, c, at, T: ct.Constant[int]):
    x = ct.gather(a, ct.arange(T, dtype=ct.int32) + at, check_bounds=False)  # reaches outside of `a` if `at` is large
    ct.store(c, index=(0,), tile=x)


@ct.kernel
def normalize(a, c, N: ct.Constant[int], T: ct.Constant[int]):
    row = ct.bid(0)
    total = ct.full((1, 1), 0.0, dtype=ct.float32)
    for j in range(ct.cdiv(N, T)):
        x = ct.load(a, index=(row, j), shape=(1, T), padding_mode=ct.PaddingMode.ZERO)
        total = total + ct.sum(x, axis=1, keepdims=True)
    for j in range(ct.cdiv(N, T)):
        y = ct.load(a, index=(row, j), shape=(1, T), padding_mode=ct.PaddingMode.ZERO)
        ct.store(c, index=(row, j), tile=y / total)


@ct.kernel
def add_to(a, c, T: ct.Constant[int]):
    x = ct.astype(ct.load(a, index=(0,), shape=(T,)), ct.bfloat16)
    ct.atomic_add(c, ct.arange(T, dtype=ct.int32), x)


@ct.kernel
def add_number(a, c, n: ct.ScalarInt64, T: ct.Constant[int]):
    ct.store(c, index=(0,), tile=ct.load(a, index=(0,), shape=(T,)) + ct.full((T,), n, dtype=ct.int64))


@ct.kernel
def load_last_tile(a: Annotated[ct.Array, ct.ArrayAnnotation(static_shape_dims=(-1,))], c, T: ct.Constant[int]):
    # The annotation makes the extent of `a` a constant, so the index of the last tile is a constant too.
    ct.static_assert(a.shape[0] == 96)
    ct.store(c, index=(0,), tile=ct.load(a, index=(a.shape[0] // T - 1,), shape=(T,)))


@ct.kernel
def load_with_int64_index(a: ct.IndexedWithInt64, c, T: ct.Constant[int]):
    ct.store(c, index=(0,), tile=ct.load(a, index=(ct.bid(0),), shape=(T,)))


@ct.kernel
def endless(a):
    x, n = ct.load(a, index=(0,), shape=(1,)), 0
    while n >= 0:
        x, n = x + 1.0, (n + 1) % 1000
    ct.store(a, index=(0,), tile=x)


def doubled(x):
    return x + x


@ct.kernel
def statements(a, c, T: ct.Constant[int]):
    m = ct.bid(0); n = ct.bid(1)  # noqa: E702
    x = ct.load(a, index=(m + n,), shape=(T,))
    ct.store(c, index=(m + n,), tile=doubled(x))
