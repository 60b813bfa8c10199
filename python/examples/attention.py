"""Attention that computes the scores tile by tile, so that no array holds all scores. The script executes the kernel on the CPU, compares
the result with numpy, predicts the time, and writes a page with all stages.

    python attention.py [PAGE.html]
"""
import sys

import cuda.tile as ct
import numpy as np

import tileworks


@ct.kernel
def attention(q, k, v, out, scale: float, M: ct.Constant[int], N: ct.Constant[int], D: ct.Constant[int]):
    head, i = ct.bid(1), ct.bid(0)
    queries = ct.reshape(ct.load(q, index=(head, i, 0), shape=(1, M, D)), (M, D))
    row_max = ct.full((M, 1), -np.inf, dtype=ct.float32)
    row_sum = ct.full((M, 1), 0.0, dtype=ct.float32)
    acc = ct.full((M, D), 0.0, dtype=ct.float32)
    for j in range(ct.num_tiles(k, axis=1, shape=(1, N, D))):
        keys = ct.reshape(ct.load(k, index=(head, j, 0), shape=(1, N, D)), (N, D))
        scores = ct.mma(queries, ct.transpose(keys), ct.full((M, N), 0.0, dtype=ct.float32)) * scale
        new_max = ct.maximum(row_max, ct.max(scores, axis=1, keepdims=True))
        weights = ct.exp(scores - new_max)
        # Rescale the earlier partial sums, because they are relative to an earlier, smaller maximum.
        rescale = ct.exp(row_max - new_max)
        row_sum = row_sum * rescale + ct.sum(weights, axis=1, keepdims=True)
        values = ct.reshape(ct.load(v, index=(head, j, 0), shape=(1, N, D)), (N, D))
        acc = ct.mma(ct.astype(weights, ct.float16), values, acc * rescale)
        row_max = new_max
    result = ct.astype(acc / row_sum, ct.float16)
    ct.store(out, index=(head, i, 0), tile=ct.reshape(result, (1, M, D)))


def main():
    heads, length, width = 2, 256, 64
    random = np.random.default_rng(1)
    q, k, v = (random.standard_normal((heads, length, width)).astype(np.float16) for _ in range(3))
    out = np.zeros_like(q)
    scale = 1 / np.sqrt(width)
    arguments, grid = (q, k, v, out, float(scale), 64, 64, width), (length // 64, heads)
    tileworks.launch(grid, attention, arguments, check=True)

    scores = np.einsum("hid,hjd->hij", q, k, dtype=np.float32) * scale
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    expected = np.einsum("hij,hjd->hid", weights / weights.sum(axis=2, keepdims=True), v.astype(np.float32))
    print("largest difference from numpy:", np.abs(out - expected).max())
    assert np.abs(out - expected).max() < 5e-3

    compiled = np.zeros_like(out)
    tileworks.launch(grid, attention, (*arguments[:3], compiled, *arguments[4:]), stage="ptx")
    print("largest difference of what was compiled:", np.abs(compiled.astype(np.float32) - out).max())
    assert np.abs(compiled.astype(np.float32) - out).max() < 5e-3
    print(str(tileworks.time(grid, attention, arguments)).split("\n")[1].strip())
    if len(sys.argv) > 1 and sys.argv[1].endswith(".html"):
        tileworks.view(attention, arguments, grid=grid).save(sys.argv[1])


if __name__ == "__main__":
    main()
