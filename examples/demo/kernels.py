"""The cuTile kernels that the demo (scripts/demo) compiles and executes: a matmul and a softmax."""
import cuda.tile as ct


@ct.kernel
def matmul(a, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.full((M, N), 0.0, dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(M, K))):
        x = ct.load(a, index=(i, k), shape=(M, K), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, index=(k, j), shape=(K, N), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, y, total)
    ct.store(c, index=(i, j), tile=total)


@ct.kernel
def softmax(x, y, T: ct.Constant[int]):
    i = ct.bid(0)
    row = ct.load(x, index=(i, 0), shape=(1, T))
    e = ct.exp(row - ct.max(row, axis=1, keepdims=True))
    ct.store(y, index=(i, 0), tile=e / ct.sum(e, axis=1, keepdims=True))
