"""Small cuTile kernels with their expected results, for tests/run and for the test of cuTile Python as a client.

Each case has a name, a kernel, its arguments (arrays, then constants), the grid, its output arrays with their expected
contents, and tolerances. Inputs come from a fixed seed, so a case has the same inputs in every run.
"""
import dataclasses
import cuda.tile as ct
import numpy as np

ConstInt = ct.Constant[int]


@dataclasses.dataclass
class Case:
    name: str
    kernel: object
    arguments: list            # numpy arrays and integers; integers are constants of the kernel
    grid: tuple
    outputs: dict              # index of an output argument -> its expected contents
    rtol: float = 0.0
    atol: float = 0.0


@ct.kernel
def vadd(a, b, c, T: ConstInt):
    i = ct.bid(0)
    x = ct.load(a, index=(i,), shape=(T,))
    y = ct.load(b, index=(i,), shape=(T,))
    ct.store(c, index=(i,), tile=x + y)


@ct.kernel
def vadd_padded(a, b, c, T: ConstInt):
    i = ct.bid(0)
    x = ct.load(a, index=(i,), shape=(T,), padding_mode=ct.PaddingMode.ZERO)
    y = ct.load(b, index=(i,), shape=(T,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(c, index=(i,), tile=x + y)


@ct.kernel
def vadd_2d(a, b, c, M: ConstInt, N: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    x = ct.load(a, index=(i, j), shape=(M, N))
    y = ct.load(b, index=(i, j), shape=(M, N))
    ct.store(c, index=(i, j), tile=x + y)


@ct.kernel
def polynomial(a, c, T: ConstInt):
    i = ct.bid(0)
    x = ct.load(a, index=(i,), shape=(T,))
    ct.store(c, index=(i,), tile=(x * x - 3.0) * x + 0.5)


@ct.kernel
def divide(a, b, c, T: ConstInt):
    i = ct.bid(0)
    x = ct.load(a, index=(i,), shape=(T,))
    y = ct.load(b, index=(i,), shape=(T,))
    ct.store(c, index=(i,), tile=x / y)


@ct.kernel
def clamp(a, c, T: ConstInt):
    i = ct.bid(0)
    x = ct.load(a, index=(i,), shape=(T,))
    ct.store(c, index=(i,), tile=ct.minimum(ct.maximum(x, -0.5), 0.5))


@ct.kernel
def absolute(a, c, T: ConstInt):
    i = ct.bid(0)
    x = ct.load(a, index=(i,), shape=(T,))
    ct.store(c, index=(i,), tile=ct.where(x < 0.0, -x, x))


@ct.kernel
def exponential(a, c, T: ConstInt):
    i = ct.bid(0)
    x = ct.load(a, index=(i,), shape=(T,))
    ct.store(c, index=(i,), tile=ct.exp(x))


@ct.kernel
def root(a, c, T: ConstInt):
    i = ct.bid(0)
    x = ct.load(a, index=(i,), shape=(T,))
    ct.store(c, index=(i,), tile=ct.sqrt(x))


@ct.kernel
def integers(a, b, c, T: ConstInt):
    i = ct.bid(0)
    x = ct.load(a, index=(i,), shape=(T,))
    y = ct.load(b, index=(i,), shape=(T,))
    ct.store(c, index=(i,), tile=((x * y) ^ x) + (y & 255) - (x | 1))


@ct.kernel
def row_sum(a, c, N: ConstInt):
    i = ct.bid(0)
    x = ct.load(a, index=(i, 0), shape=(1, N))
    ct.store(c, index=(i,), tile=ct.sum(x, axis=1))


@ct.kernel
def softmax(a, c, N: ConstInt):
    i = ct.bid(0)
    x = ct.load(a, index=(i, 0), shape=(1, N))
    e = ct.exp(x - ct.max(x, axis=1, keepdims=True))
    ct.store(c, index=(i, 0), tile=e / ct.sum(e, axis=1, keepdims=True))


@ct.kernel
def transpose(a, c, M: ConstInt, N: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    x = ct.load(a, index=(i, j), shape=(M, N))
    ct.store(c, index=(j, i), tile=ct.transpose(x))


@ct.kernel
def matmul(a, b, c, M: ConstInt, N: ConstInt, K: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    accumulator = ct.full((M, N), 0.0, dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(M, K))):
        x = ct.load(a, index=(i, k), shape=(M, K), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, index=(k, j), shape=(K, N), padding_mode=ct.PaddingMode.ZERO)
        accumulator = ct.mma(x, y, accumulator)
    ct.store(c, index=(i, j), tile=accumulator)


@ct.kernel
def matmul_dequantised(a, b, c, M: ConstInt, N: ConstInt, K: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    accumulator = ct.full((M, N), 0.0, dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(M, K))):
        x = ct.load(a, index=(i, k), shape=(M, K), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, index=(k, j), shape=(K, N), padding_mode=ct.PaddingMode.ZERO)
        accumulator = ct.mma(x, ct.astype(y, ct.float16) * 0.125, accumulator)
    ct.store(c, index=(i, j), tile=accumulator)


@ct.kernel
def matmul_gathered(a, rows, b, c, M: ConstInt, N: ConstInt, K: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    row = ct.load(rows, index=(i,), shape=(M,))
    accumulator = ct.full((M, N), 0.0, dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(M, K))):
        columns = k * K + ct.arange(K, dtype=ct.int32)
        x = ct.gather(a, (row[:, None], columns[None, :]))
        y = ct.load(b, index=(k, j), shape=(K, N), padding_mode=ct.PaddingMode.ZERO)
        accumulator = ct.mma(x, y, accumulator)
    ct.store(c, index=(i, j), tile=accumulator)


@ct.kernel
def matmul_bytes(a, b, c, M: ConstInt, N: ConstInt, K: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    accumulator = ct.full((M, N), 0, dtype=ct.int32)
    for k in range(ct.num_tiles(a, axis=0, shape=(K, M))):
        x = ct.transpose(ct.load(a, index=(k, i), shape=(K, M)))
        y = ct.load(b, index=(k, j), shape=(K, N))
        accumulator = ct.mma(x, y, accumulator)
    ct.store(c, index=(i, j), tile=accumulator)


@ct.kernel
def matmul_small_floats(a, b, c, M: ConstInt, N: ConstInt, K: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    accumulator = ct.full((M, N), 0.0, dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=0, shape=(K, M))):
        x = ct.transpose(ct.bitcast(ct.load(a, index=(k, i), shape=(K, M)), ct.float8_e4m3fn))
        y = ct.bitcast(ct.load(b, index=(k, j), shape=(K, N)), ct.float8_e4m3fn)
        accumulator = ct.mma(x, y, accumulator)
    ct.store(c, index=(i, j), tile=accumulator)


@ct.kernel
def matmul_transposed(a, b, c, M: ConstInt, N: ConstInt, K: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    accumulator = ct.full((M, N), 0.0, dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=0, shape=(K, M))):
        x = ct.transpose(ct.load(a, index=(k, i), shape=(K, M), padding_mode=ct.PaddingMode.ZERO))
        y = ct.transpose(ct.load(b, index=(j, k), shape=(N, K), padding_mode=ct.PaddingMode.ZERO))
        accumulator = ct.mma(x, y, accumulator)
    ct.store(c, index=(i, j), tile=accumulator)


@ct.kernel
def relu_attention(q, k, v, c, M: ConstInt, N: ConstInt, D: ConstInt):
    i = ct.bid(0)
    x = ct.load(q, index=(i, 0), shape=(M, D))
    accumulator = ct.full((M, D), 0.0, dtype=ct.float32)
    for j in range(ct.num_tiles(k, axis=0, shape=(N, D))):
        scores = ct.mma(x, ct.transpose(ct.load(k, index=(j, 0), shape=(N, D))), ct.full((M, N), 0.0, dtype=ct.float32))
        weights = ct.astype(ct.maximum(scores, 0.0) * 0.0625, ct.float16)
        accumulator = ct.mma(weights, ct.load(v, index=(j, 0), shape=(N, D)), accumulator)
    ct.store(c, index=(i, 0), tile=accumulator)


@ct.kernel
def paged_attention(q, keys, values, table, c, L: ConstInt, G: ConstInt, P: ConstInt, D: ConstInt):
    # Attention of G query heads over L keys and values that are stored in pages of P rows; `table` has the page numbers.
    query = ct.load(q, index=(0, 0), shape=(G, D))
    current_max = ct.full((G, 1), -1e30, dtype=ct.float32)
    weight_sum = ct.zeros((G, 1), dtype=ct.float32)
    output = ct.zeros((G, D), dtype=ct.float32)
    for t in range(ct.cdiv(L, P)):
        page = ct.load(table, index=(t,), shape=())
        k = ct.load(keys, index=(page, 0, 0), shape=(1, P, D)).reshape((P, D))
        v = ct.load(values, index=(page, 0, 0), shape=(1, P, D)).reshape((P, D))
        scores = ct.mma(query, ct.transpose(k), ct.zeros((G, P), dtype=ct.float32)) * 0.125
        scores = ct.where(t * P + ct.arange(P, dtype=ct.int32)[None, :] < L, scores, -1e30)
        new_max = ct.maximum(current_max, ct.max(scores, axis=1, keepdims=True))
        weights, rescale = ct.exp(scores - new_max), ct.exp(current_max - new_max)
        weight_sum = weight_sum * rescale + ct.sum(weights, axis=1, keepdims=True)
        output = ct.mma(ct.astype(weights, ct.float16), v, output * rescale)
        current_max = new_max
    ct.store(c, index=(0, 0), tile=output / weight_sum)


@ct.kernel
def differential_attention(q, k, v, c, M: ConstInt, N: ConstInt, D: ConstInt):
    i = ct.bid(0)
    first = ct.reshape(ct.load(q, index=(0, i, 0), shape=(1, M, D)), (M, D))
    second = ct.reshape(ct.load(q, index=(1, i, 0), shape=(1, M, D)), (M, D))
    zeros = ct.full((M, N), 0.0, dtype=ct.float32)
    max1 = ct.full((M, 1), -np.inf, dtype=ct.float32)
    max2 = ct.full((M, 1), -np.inf, dtype=ct.float32)
    sum1 = ct.full((M, 1), 0.0, dtype=ct.float32)
    sum2 = ct.full((M, 1), 0.0, dtype=ct.float32)
    output1 = ct.full((M, 2 * D), 0.0, dtype=ct.float32)
    output2 = ct.full((M, 2 * D), 0.0, dtype=ct.float32)
    for j in range(ct.num_tiles(k, axis=1, shape=(1, N, D))):
        values = ct.load(v, index=(j, 0), shape=(N, 2 * D))
        scores = ct.mma(first, ct.transpose(ct.reshape(ct.load(k, index=(0, j, 0), shape=(1, N, D)), (N, D))), zeros)
        new_max = ct.maximum(max1, ct.max(scores, axis=1, keepdims=True))
        weights, rescale, max1 = ct.exp(scores - new_max), ct.exp(max1 - new_max), new_max
        sum1 = sum1 * rescale + ct.sum(weights, axis=1, keepdims=True)
        output1 = ct.mma(ct.astype(weights, ct.float16), values, output1 * rescale)
        scores = ct.mma(second, ct.transpose(ct.reshape(ct.load(k, index=(1, j, 0), shape=(1, N, D)), (N, D))), zeros)
        new_max = ct.maximum(max2, ct.max(scores, axis=1, keepdims=True))
        weights, rescale, max2 = ct.exp(scores - new_max), ct.exp(max2 - new_max), new_max
        sum2 = sum2 * rescale + ct.sum(weights, axis=1, keepdims=True)
        output2 = ct.mma(ct.astype(weights, ct.float16), values, output2 * rescale)
    ct.store(c, index=(i, 0), tile=output1 / sum1 - 0.5 * (output2 / sum2))


@ct.kernel
def linear_attention(q, k, v, fades, c, T: ConstInt, D: ConstInt):
    state = ct.full((D, D), 0.0, dtype=ct.float32)
    for t in range(ct.num_tiles(q, axis=0, shape=(T, D))):
        queries, keys = ct.load(q, index=(t, 0), shape=(T, D)), ct.load(k, index=(t, 0), shape=(T, D))
        values, fade = ct.load(v, index=(t, 0), shape=(T, D)), ct.load(fades, index=(t,), shape=(1,))
        scores = ct.mma(queries, ct.transpose(keys), ct.full((T, T), 0.0, dtype=ct.float32))
        row = ct.arange(T, dtype=ct.int32)
        scores = ct.where(row[:, None] >= row[None, :], scores, 0.0)
        out = ct.mma(ct.astype(scores, ct.float16), values, ct.full((T, D), 0.0, dtype=ct.float32))
        ct.store(c, index=(t, 0), tile=ct.mma(queries, ct.astype(state, ct.float16), out))
        state = ct.mma(ct.transpose(keys), values, state * ct.reshape(fade, (1, 1)))


@ct.kernel
def matmul_gradients(g, a, b, da, db, M: ConstInt, N: ConstInt, K: ConstInt):
    right = ct.load(b, index=(0, 0), shape=(K, N))
    accumulator = ct.full((K, N), 0.0, dtype=ct.float32)
    for m in range(ct.num_tiles(g, axis=0, shape=(M, N))):
        x = ct.load(g, index=(m, 0), shape=(M, N), padding_mode=ct.PaddingMode.ZERO)
        left = ct.load(a, index=(m, 0), shape=(M, K), padding_mode=ct.PaddingMode.ZERO)
        ct.store(da, index=(m, 0), tile=ct.mma(x, ct.transpose(right), ct.full((M, K), 0.0, dtype=ct.float32)))
        accumulator = ct.mma(ct.transpose(left), x, accumulator)
    ct.store(db, index=(0, 0), tile=accumulator)


@ct.kernel
def mlp_in_place(a, w, M: ConstInt, N: ConstInt):
    for t in range(ct.num_tiles(w, axis=0, shape=(1, N, N))):
        for i in range(ct.num_tiles(a, axis=0, shape=(M, N))):
            x = ct.load(a, index=(i, 0), shape=(M, N), padding_mode=ct.PaddingMode.ZERO)
            y = ct.reshape(ct.load(w, index=(t, 0, 0), shape=(1, N, N)), (N, N))
            y = ct.mma(x, y, ct.full((M, N), 0.0, dtype=ct.float32))
            ct.store(a, index=(i, 0), tile=ct.astype(ct.maximum(y, 0.0), ct.float16))


@ct.kernel
def running_sum(a, c, T: ConstInt):
    total = ct.full((T,), 0.0, dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=0, shape=(T,))):
        total = total + ct.load(a, index=(k,), shape=(T,))
        ct.store(c, index=(k,), tile=total)


@ct.kernel
def clamped_columns(x, rows, y, W: ConstInt, B: ConstInt):
    """Each tile block copies a part of a row. It clamps the columns to the width of the row."""
    row, part = ct.bid(0), ct.bid(1)
    columns = ct.minimum(part * B + ct.arange(B, dtype=ct.int32), W - 1)
    tile = ct.gather(x, (ct.gather(rows, (row,)) * W + columns,))
    ct.scatter(y, (row, part * B + ct.arange(B, dtype=ct.int32)), tile)


@ct.kernel
def persistent_rows(x, scale, bias, y, acc, R: ConstInt, N: ConstInt):
    """Each CTA iterates over tiles of rows. It loads the rows and their factors through views, and the addends through pointers."""
    block = ct.bid(0)
    total = ct.full((1, N), 0.0, ct.float32)
    for i in range(block, ct.num_tiles(x, axis=0, shape=(R, N)), ct.num_blocks(0)):
        rows = ct.load(x, index=(i, 0), shape=(R, N), padding_mode=ct.PaddingMode.ZERO)
        factors = ct.load(scale, index=(i,), shape=(R,), padding_mode=ct.PaddingMode.ZERO)
        added = ct.gather(bias, i * N + ct.arange(N, dtype=ct.int32))
        out = rows * ct.reshape(factors, (R, 1)) + ct.reshape(added, (1, N))
        ct.store(y, index=(i, 0), tile=out - ct.sum(out, axis=1, keepdims=True))
        total = total + ct.sum(out, axis=0, keepdims=True)
    ct.store(acc, index=(block, 0), tile=total)


@ct.kernel
def scale_f16(a, c, T: ConstInt):
    i = ct.bid(0)
    x = ct.load(a, index=(i,), shape=(T,))
    ct.store(c, index=(i,), tile=ct.astype(ct.astype(x, ct.float32) * 0.5, ct.float16))


@ct.kernel
def row_max(a, c, N: ConstInt):
    i = ct.bid(0)
    x = ct.load(a, index=(i, 0), shape=(1, N))
    ct.store(c, index=(i,), tile=ct.max(x, axis=1))


@ct.kernel
def outer(a, b, c, T: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    x = ct.load(a, index=(i,), shape=(T,))
    y = ct.load(b, index=(j,), shape=(T,))
    ct.store(c, index=(i, j), tile=ct.reshape(x, (T, 1)) * ct.reshape(y, (1, T)))


@ct.kernel
def grouped(a, b, lengths, c, G: ConstInt, M: ConstInt, N: ConstInt, K: ConstInt):
    """A persistent loop over the row tiles of groups. It skips tiles after the loaded length of a group."""
    tiles = ct.num_tiles(a, axis=1, shape=(1, M, K))
    for t in range(ct.bid(0), G * tiles, ct.num_blocks(0)):
        g, i = t // tiles, t % tiles
        if i * M >= ct.load(lengths, index=(g,), shape=(1,)).item():
            continue
        accumulator = ct.full((M, N), 0.0, dtype=ct.float32)
        for k in range(ct.num_tiles(a, axis=2, shape=(1, M, K))):
            x = ct.reshape(ct.load(a, index=(g, i, k), shape=(1, M, K)), (M, K))
            y = ct.reshape(ct.load(b, index=(g, k, 0), shape=(1, K, N)), (K, N))
            accumulator = ct.mma(x, y, accumulator)
        ct.store(c, index=(g, i, 0), tile=ct.reshape(accumulator, (1, M, N)))


@ct.kernel
def depth_limited(a, b, depths, c, M: ConstInt, N: ConstInt, K: ConstInt):
    """A matmul whose number of K tiles is loaded. If the number is zero, the kernel returns early. Its loop has no counter."""
    i = ct.bid(0)
    depth = ct.load(depths, index=(i,), shape=(1,)).item()
    if depth == 0:
        return
    total, k = ct.full((M, N), 0.0, dtype=ct.float32), 0
    while True:
        x = ct.load(a, index=(i, k), shape=(M, K))
        y = ct.load(b, index=(k, 0), shape=(K, N))
        total = ct.mma(x, y, total)
        k = k + 1
        if k >= depth:
            break
    ct.store(c, index=(i, 0), tile=total)


@ct.kernel
def ragged_matmul(a, b, starts, c, M: ConstInt, N: ConstInt, K: ConstInt):
    """Multiplies the rows of a group, between two loaded row numbers, by the matrix of the group."""
    g = ct.bid(0)
    start = ct.load(starts, index=(g,), shape=(1,)).item()
    stop = ct.load(starts, index=(g + 1,), shape=(1,)).item()
    rows, out = a.slice(axis=0, start=start, stop=stop), c.slice(axis=0, start=start, stop=stop)
    for i in range(ct.cdiv(stop - start, M)):
        accumulator = ct.full((M, N), 0.0, dtype=ct.float32)
        for k in range(ct.num_tiles(a, axis=1, shape=(M, K))):
            x = ct.load(rows, index=(i, k), shape=(M, K), padding_mode=ct.PaddingMode.ZERO)
            y = ct.reshape(ct.load(b, index=(g, k, 0), shape=(1, K, N)), (K, N))
            accumulator = ct.mma(x, y, accumulator)
        ct.store(out, index=(i, 0), tile=accumulator)


@ct.kernel
def scaled_groups(a, b, a_scale, b_scale, c, M: ConstInt, N: ConstInt, K: ConstInt):
    """Scales the partial results of each group of K elements: by row and group for A, by group for B. The last group is partial."""
    for i in range(ct.bid(0), ct.num_tiles(a, axis=0, shape=(M, K)), ct.num_blocks(0)):
        total = ct.full((M, N), 0.0, dtype=ct.float32)
        for k in range(ct.num_tiles(a, axis=1, shape=(M, K))):
            x = ct.load(a, index=(i, k), shape=(M, K), padding_mode=ct.PaddingMode.ZERO)
            y = ct.load(b, index=(k, 0), shape=(K, N), padding_mode=ct.PaddingMode.ZERO)
            partial = ct.mma(x, y, ct.full((M, N), 0.0, dtype=ct.float32))
            total += partial * ct.load(a_scale, index=(i, k), shape=(M, 1)) * ct.load(b_scale, index=(k, 0), shape=(1, 1))
        ct.store(c, index=(i, 0), tile=total)


@ct.kernel
def masked_last_tile(q, keys, values, length, c, M: ConstInt, N: ConstInt, D: ConstInt):
    """Attention over a loaded number of keys. Only the last, partial tile of keys has a mask."""
    i = ct.bid(0)
    count = ct.load(length, index=(0,), shape=(1,)).item()
    x = ct.load(q, index=(i, 0), shape=(M, D))
    accumulator, top, total = ct.full((M, D), 0.0, dtype=ct.float32), ct.full((M, 1), -1e30, dtype=ct.float32), ct.full((M, 1), 0.0, dtype=ct.float32)
    for j in range(ct.cdiv(count, N)):
        k = ct.load(keys, index=(j, 0), shape=(N, D), padding_mode=ct.PaddingMode.ZERO)
        scores = ct.mma(x, ct.permute(k, (1, 0)), ct.full((M, N), 0.0, dtype=ct.float32)) * 0.125
        if j * N + N > count:
            scores = ct.where((ct.arange(N, dtype=ct.int32) + j * N < count).reshape((1, N)), scores, -1e30)
        new_top = ct.maximum(top, ct.max(scores, 1, keepdims=True))
        weights, factor = ct.exp(scores - new_top), ct.exp(top - new_top)
        total = total * factor + ct.sum(weights, 1, keepdims=True)
        v = ct.load(values, index=(j, 0), shape=(N, D), padding_mode=ct.PaddingMode.ZERO)
        accumulator = ct.mma(ct.astype(weights, q.dtype), v, accumulator * factor)
        top = new_top
    rows, columns = ct.arange(M, dtype=ct.int32) + i * M, ct.arange(D, dtype=ct.int32)
    ct.scatter(c, (rows.reshape((M, 1)), columns.reshape((1, D))), accumulator / total)


@ct.kernel
def ragged_keys(q, k, starts, c, M: ConstInt, N: ConstInt, D: ConstInt):
    """Attention without softmax: the scores of a sequence's keys, which are between two loaded row numbers, times these keys."""
    g, h = ct.bid(0), ct.bid(1)
    start = ct.load(starts, index=(g,), shape=(1,)).item()
    stop = ct.load(starts, index=(g + 1,), shape=(1,)).item()
    keys = k.slice(axis=0, start=start, stop=stop)
    x = ct.reshape(ct.load(q, index=(g, 0, 0), shape=(1, M, D)), (M, D))
    accumulator = ct.full((M, D), 0.0, dtype=ct.float32)
    for n in range(ct.cdiv(stop - start, N)):
        y = ct.reshape(ct.load(keys, index=(n, h, 0), shape=(N, 1, D), padding_mode=ct.PaddingMode.ZERO), (N, D))
        scores = ct.mma(x, ct.permute(y, (1, 0)), ct.full((M, N), 0.0, dtype=ct.float32))
        accumulator = ct.mma(ct.astype(scores, ct.float16), y, accumulator)
    ct.store(c, index=(g, h, 0, 0), tile=ct.reshape(accumulator, (1, 1, M, D)))


def cases():
    random = np.random.default_rng(1)
    normal = lambda *shape: random.standard_normal(shape, dtype=np.float32)
    empty = lambda *shape, dtype=np.float32: np.full(shape, 7, dtype)
    f32 = np.float32
    a, b = normal(1024), normal(1024)
    yield Case('vadd', vadd, [a, b, empty(1024), 256], (4, 1, 1), {2: a + b})
    yield Case('vadd_tile32', vadd, [a, b, empty(1024), 32], (32, 1, 1), {2: a + b})
    t, u = normal(1000), normal(1000)
    yield Case('vadd_tail', vadd_padded, [t, u, empty(1000), 256], (4, 1, 1), {2: t + u})
    m, n = normal(32, 64), normal(32, 64)
    yield Case('vadd_2d', vadd_2d, [m, n, empty(32, 64), 16, 32], (2, 2, 1), {2: m + n})
    x = normal(512)
    yield Case('polynomial', polynomial, [x, empty(512), 128], (4, 1, 1), {1: (x * x - f32(3)) * x + f32(0.5)}, 1e-6, 1e-6)
    y = normal(512)
    yield Case('divide', divide, [x, y, empty(512), 128], (4, 1, 1), {2: x / y}, 1e-6, 0)
    yield Case('clamp', clamp, [x, empty(512), 128], (4, 1, 1), {1: np.minimum(np.maximum(x, f32(-0.5)), f32(0.5))})
    yield Case('absolute', absolute, [x, empty(512), 128], (4, 1, 1), {1: np.abs(x)})
    yield Case('exponential', exponential, [x, empty(512), 128], (4, 1, 1), {1: np.exp(x)}, 1e-5, 0)
    yield Case('root', root, [np.abs(x), empty(512), 128], (4, 1, 1), {1: np.sqrt(np.abs(x))}, 1e-6, 0)
    p, q = (random.integers(-2**31, 2**31, 512, dtype=np.int32) for _ in range(2))
    with np.errstate(over='ignore'):
        yield Case('integers', integers, [p, q, empty(512, dtype=np.int32), 128], (4, 1, 1), {2: ((p * q) ^ p) + (q & 255) - (p | 1)})
    r = normal(8, 128)
    yield Case('row_sum', row_sum, [r, empty(8), 128], (8, 1, 1), {1: r.sum(1)}, 1e-5, 1e-5)
    e = np.exp(r - r.max(1, keepdims=True))
    yield Case('softmax', softmax, [r, empty(8, 128), 128], (8, 1, 1), {1: e / e.sum(1, keepdims=True)}, 1e-5, 1e-7)
    yield Case('transpose', transpose, [m, empty(64, 32), 16, 32], (2, 2, 1), {1: np.ascontiguousarray(m.T)})
    for dtype, name in ((np.float16, 'matmul_f16'), (np.float32, 'matmul_f32')):
        g, h = normal(64, 48).astype(dtype), normal(48, 64).astype(dtype)
        product = g.astype(f32) @ h.astype(f32)
        yield Case(name, matmul, [g, h, empty(64, 64), 32, 32, 16], (2, 2, 1), {2: product}, 1e-4 if dtype == np.float16 else 4e-3, 4e-3)
    s = normal(512)
    yield Case('running_sum', running_sum, [s, empty(512), 128], (1, 1, 1), {1: np.cumsum(s.reshape(4, 128), 0, dtype=f32).ravel()}, 1e-6, 1e-6)


    h = normal(512).astype(np.float16)
    yield Case('scale_f16', scale_f16, [h, empty(512, dtype=np.float16), 128], (4, 1, 1), {1: (h.astype(f32) * f32(0.5)).astype(np.float16)})
    yield Case('row_max', row_max, [r, empty(8), 128], (8, 1, 1), {1: r.max(1)})
    v, w = normal(64), normal(64)
    yield Case('outer', outer, [v, w, empty(64, 64), 16], (4, 4, 1), {2: np.outer(v, w)})
    # A matmul with gathered rows of the left operand; some row indices are out of bounds.
    g, h = normal(24, 80).astype(np.float16), normal(80, 32).astype(np.float16)
    rows = random.integers(0, 30, 32, dtype=np.int32)
    picked = np.where(rows[:, None] < 24, g[np.minimum(rows, 23)], np.float16(0)).astype(f32)
    yield Case('matmul_gathered', matmul_gathered, [g, rows, h, empty(32, 32), 32, 32, 16], (1, 1, 1), {3: picked @ h.astype(f32)}, 1e-4, 4e-3)
    # A matmul with 8-bit weights, which the loop converts to f16 before the MMA.
    g, h = normal(32, 144).astype(np.float16), random.integers(-8, 8, (144, 64), dtype=np.int8)
    yield Case('matmul_dequantised', matmul_dequantised, [g, h, empty(32, 64), 32, 64, 16], (1, 1, 1),
               {2: g.astype(f32) @ (h.astype(f32) * f32(0.125))}, 1e-4, 4e-3)
    # A matmul whose operand tiles are too large for two pipeline stages in shared memory.
    g, h = normal(16, 2048).astype(np.float16), normal(2048, 16).astype(np.float16)
    yield Case('matmul_long', matmul, [g, h, empty(16, 16), 16, 16, 2048], (1, 1, 1), {2: g.astype(f32) @ h.astype(f32)}, 1e-4, 4e-3)
    # Two kernels with tiles that are large enough for `wgmma`: one transposes both operands, and one uses the result of an MMA as an operand.
    g, h = normal(80, 128).astype(np.float16), normal(64, 80).astype(np.float16)
    yield Case('matmul_transposed', matmul_transposed, [g, h, empty(128, 64), 128, 64, 32], (1, 1, 1), {2: g.T.astype(f32) @ h.T.astype(f32)}, 1e-4, 4e-3)
    q, k, v = (normal(n, 64).astype(np.float16) for n in (64, 96, 96))
    weights = (np.maximum(q.astype(f32) @ k.T.astype(f32), 0) * f32(0.0625)).astype(np.float16).astype(f32)
    yield Case('relu_attention', relu_attention, [q, k, v, empty(64, 64), 64, 32, 64], (1, 1, 1), {3: weights @ v.astype(f32)}, 2e-3, 2e-3)
    # Matmuls of 8-bit integers and of 8-bit floats; threads must transpose operands for the MMA.
    g, h = (random.integers(-128, 128, (96, 64), dtype=np.int8) for _ in range(2))
    yield Case('matmul_bytes', matmul_bytes, [g, h, empty(64, 64, dtype=np.int32), 32, 32, 32], (2, 2, 1),
               {2: g.T.astype(np.int32) @ h.astype(np.int32)})
    g, h = (random.integers(0, 0x40, (96, 64), dtype=np.int8) | random.integers(-1, 1, (96, 64), dtype=np.int8) & np.int8(-128)
            for _ in range(2))
    yield Case('matmul_small_floats', matmul_small_floats, [g, h, empty(64, 64), 32, 32, 32], (2, 2, 1), {2: decode_e4m3(g).T @ decode_e4m3(h)}, 1e-5, 1e-5)
    # Differential attention: a loop rescales two accumulators. They need so much tensor memory that no second CTA fits on the SM.
    small_normal = lambda *shape: (normal(*shape) * f32(0.3)).astype(np.float16)
    q, k, v = small_normal(2, 64, 64), small_normal(2, 128, 64), small_normal(128, 128)
    def attention_of_head(head):
        weights = np.exp(q[head].astype(f32) @ k[head].astype(f32).T)
        return weights / weights.sum(1, keepdims=True) @ v.astype(f32)
    yield Case('differential_attention', differential_attention, [q, k, v, empty(64, 128), 64, 64, 64], (1, 1, 1), {3: attention_of_head(0) - f32(0.5) * attention_of_head(1)}, 2e-3, 2e-3)
    # A loop-carried accumulator that is also an operand: in each iteration, an MMA reads it before another MMA adds to it.
    q, k, v = small_normal(128, 64), small_normal(128, 64), small_normal(128, 64)
    fades, state, expected = np.array([0.5, 0.75], f32), np.zeros((64, 64), f32), empty(128, 64)
    for t in range(2):
        x, y, z = (each[64 * t:64 * t + 64].astype(f32) for each in (q, k, v))
        expected[64 * t:64 * t + 64] = np.tril(x @ y.T).astype(np.float16).astype(f32) @ z + x @ state.astype(np.float16).astype(f32)
        state = state * fades[t] + y.T @ z
    yield Case('linear_attention', linear_attention, [q, k, v, fades, empty(128, 64), 64, 64], (1, 1, 1), {4: expected}, 2e-3, 4e-3)
    # The gradients of a matmul: the output gradient is an operand of two MMAs, and one of them reads it transposed.
    g, a, b = small_normal(100, 64), small_normal(100, 64), small_normal(64, 64)
    yield Case('matmul_gradients', matmul_gradients, [g, a, b, empty(100, 64), empty(64, 64), 64, 64, 64], (1, 1, 1),
               {3: g.astype(f32) @ b.astype(f32).T, 4: a.astype(f32).T @ g.astype(f32)}, 1e-4, 2e-3)
    # A multilayer perceptron in place: each layer overwrites the array from which the next layer loads its operand.
    a, w = small_normal(96, 64), small_normal(2, 64, 64)
    first = np.maximum(a.astype(f32) @ w[0].astype(f32), 0).astype(np.float16).astype(f32)
    yield Case('mlp_in_place', mlp_in_place, [a, w, 64, 64], (1, 1, 1), {0: np.maximum(first @ w[1].astype(f32), 0).astype(np.float16)}, 4e-3, 4e-3)
    # Attention over pages of keys and values in any order; the last page is partial.
    q, keys, values = normal(64, 64).astype(np.float16), normal(6, 16, 64).astype(np.float16), normal(6, 16, 64).astype(np.float16)
    table = np.array([4, 0, 5, 2], np.int32)
    k, v = (pages[table].reshape(64, 64)[:50].astype(f32) for pages in (keys, values))
    e = np.exp(q.astype(f32) @ k.T * f32(0.125))
    yield Case('paged_attention', paged_attention, [q, keys, values, table, empty(64, 64), 50, 64, 16, 64], (1, 1, 1), {4: e @ v / e.sum(1, keepdims=True)}, 2e-3, 2e-3)
    # Matmul tiles with few rows or few columns. The MMA instruction is larger than such a tile, so it computes unused elements.
    g, h = normal(16, 48).astype(np.float16), normal(48, 64).astype(np.float16)
    yield Case('matmul_few_rows', matmul, [g, h, empty(16, 64), 8, 32, 16], (2, 2, 1), {2: g.astype(f32) @ h.astype(f32)}, 1e-4, 4e-3)
    g, h = normal(4, 96).astype(np.float16), normal(96, 8).astype(np.float16)
    yield Case('matmul_small', matmul, [g, h, empty(4, 8), 2, 4, 32], (2, 2, 1), {2: g.astype(f32) @ h.astype(f32)}, 1e-4, 4e-3)
    # A persistent kernel with more tiles than CTAs, and one with fewer tiles than CTAs; the last tile is partial.
    for name, count, blocks in (('persistent_rows', 43, 3), ('persistent_few', 7, 3)):
        whole = lambda *shape: random.integers(-4, 5, shape).astype(f32)
        x, scale, tiles = whole(count, 128), whole(count), -(-count // 4)
        bias = whole(tiles * 128)
        padded, factors = np.pad(x, ((0, tiles * 4 - count), (0, 0))), np.pad(scale, (0, tiles * 4 - count))
        out = padded * factors[:, None] + np.repeat(bias.reshape(tiles, 128), 4, axis=0)
        acc = np.stack([out.reshape(tiles, 4, 128)[block::blocks].sum((0, 1)) for block in range(blocks)])
        yield Case(name, persistent_rows, [x, scale, bias, empty(count, 128), empty(blocks, 128), 4, 128], (blocks, 1, 1),
                   {3: (out - out.sum(1, keepdims=True))[:count], 4: acc})

    # Kernels with conditions on loaded values: skipped tiles of a persistent loop, an early return, a loop without a counter.
    a, b, lengths = small_normal(3, 128, 128), small_normal(3, 128, 64), np.array([64, 0, 100], np.int32)
    expected = empty(3, 128, 64)
    for group, tile in ((0, 0), (2, 0), (2, 1)):
        rows = slice(64 * tile, 64 * tile + 64)
        expected[group, rows] = a[group, rows].astype(f32) @ b[group].astype(f32)
    yield Case('grouped', grouped, [a, b, lengths, empty(3, 128, 64), 3, 64, 64, 64], (2, 1, 1), {3: expected}, 1e-4, 4e-3)
    a, b, depths = small_normal(256, 192), small_normal(192, 64), np.array([2, 0, 1, 3], np.int32)
    expected = empty(256, 64)
    for tile in (0, 2, 3):
        rows, inner = slice(64 * tile, 64 * tile + 64), slice(64 * depths[tile])
        expected[rows] = a[rows, inner].astype(f32) @ b[inner].astype(f32)
    yield Case('depth_limited', depth_limited, [a, b, depths, empty(256, 64), 64, 64, 64], (4, 1, 1), {3: expected}, 1e-4, 4e-3)

    # Slices at loaded bounds: an empty one, partial last tiles, and rows of other groups next to a slice.
    a, b, starts = small_normal(200, 128), small_normal(4, 128, 64), np.array([3, 67, 67, 140, 195], np.int32)
    expected = empty(200, 64)
    for group in range(4):
        rows = slice(starts[group], starts[group + 1])
        expected[rows] = a[rows].astype(f32) @ b[group].astype(f32)
    yield Case('ragged_matmul', ragged_matmul, [a, b, starts, empty(200, 64), 64, 64, 64], (4, 1, 1), {3: expected}, 1e-4, 4e-3)
    signs = lambda *shape: random.integers(-1, 2, shape).astype(np.float16)
    q, k, starts = signs(3, 64, 64), signs(150, 2, 64), np.array([5, 5, 50, 149], np.int32)
    expected = empty(3, 2, 64, 64)
    for group in range(3):
        for head in range(2):
            keys = k[starts[group]:starts[group + 1], head].astype(f32)
            expected[group, head] = q[group].astype(f32) @ keys.T @ keys
    yield Case('ragged_keys', ragged_keys, [q, k, starts, empty(3, 2, 64, 64), 64, 64, 64], (3, 2, 1), {3: expected})
    # Rows by index with clamped columns. The last part of a row is partial. Rows of 513 elements start at odd elements.
    g, rows = normal(8, 600).astype(np.float16), random.integers(0, 8, 8, dtype=np.int32)
    yield Case('clamped_columns', clamped_columns, [g.ravel(), rows, empty(8, 600, dtype=np.float16), 600, 256], (8, 3, 1), {2: g[rows]})
    yield Case('clamped_unaligned', clamped_columns, [g[:, :513].ravel(), rows, empty(8, 513, dtype=np.float16), 513, 256], (8, 3, 1), {2: g[rows, :513]})

    # Threads scale the partial results of groups of K elements, in a persistent loop with 3 tiles and 2 CTAs. All values are exact.
    a, b = (random.integers(-4, 5, shape).astype(np.float16) for shape in ((384, 304), (304, 64)))
    a_scale, b_scale = (np.exp2(random.integers(-3, 4, shape)).astype(f32) for shape in ((384, 5), (5, 1)))
    groups = [a[:, k:k + 64].astype(f32) @ b[k:k + 64].astype(f32) for k in range(0, 304, 64)]
    expected = sum(part * a_scale[:, [k]] * b_scale[k] for k, part in enumerate(groups))
    yield Case('scaled_groups', scaled_groups, [a, b, a_scale, b_scale, empty(384, 64), 128, 64, 64], (2, 1, 1), {4: expected})

    # Attention over 330 of 336 keys; the mask is in a condition of the loop. No TMA store needs a warp.
    q, keys, values = normal(256, 64).astype(np.float16), normal(336, 64).astype(np.float16), normal(336, 64).astype(np.float16)
    e = np.exp(q.astype(f32) @ keys[:330].astype(f32).T * f32(0.125))
    yield Case('masked_last_tile', masked_last_tile, [q, keys, values, np.array([330], np.int32), empty(256, 64), 128, 128, 64], (2, 1, 1),
               {4: e @ values[:330].astype(f32) / e.sum(1, keepdims=True)}, 2e-3, 2e-3)


def decode_e4m3(codes):
    """Decodes bytes as e4m3 floats."""
    codes = codes.view(np.uint8).astype(np.int32)
    exponent, fraction = codes >> 3 & 15, codes & 7
    value = np.where(exponent == 0, fraction * 2.0**-9, (8 + fraction) * 2.0 ** (exponent - 10))
    return np.where(codes >= 128, -value, value).astype(np.float32)


def signature(case):
    """Returns the constraints that cuTile derives from the arrays of a case: contiguous rows, 16-byte alignment."""
    from cuda.tile.compilation import ArrayConstraint, ConstantConstraint, KernelSignature
    from cuda.tile.compilation import CallingConvention
    types = {np.dtype(np.float32): ct.float32, np.dtype(np.float16): ct.float16, np.dtype(np.int32): ct.int32, np.dtype(np.int8): ct.int8}
    parameters = []
    for argument in case.arguments:
        if not isinstance(argument, np.ndarray):
            parameters.append(ConstantConstraint(argument))
            continue
        rank, per16 = argument.ndim, 16 // argument.dtype.itemsize
        parameters.append(ArrayConstraint(
            types[argument.dtype], rank, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=[], may_alias_internally=False,
            stride_constant=[None] * (rank - 1) + [1], stride_divisible_by=[per16] * (rank - 1) + [1],
            shape_divisible_by=[per16 if d % per16 == 0 else 1 for d in argument.shape], base_addr_divisible_by=16))
    return KernelSignature(parameters, CallingConvention.cutile_python_v1())


def kernel_parameters(case):
    """Yields the parameters of the compiled kernel. An array becomes several parameters: its address, extents and strides."""
    for index, argument in enumerate(case.arguments):
        if isinstance(argument, np.ndarray):
            yield {'ptr': f'arg{index}'}
            yield from ({'i32': d} for d in argument.shape)
            yield from ({'i32': s // argument.itemsize} for s in argument.strides)
