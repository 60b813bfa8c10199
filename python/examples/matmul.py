"""A matmul of f16 matrices. The script prints the MMA instructions in its PTX, and the changes that would make the kernel faster."""
import cuda.tile as ct
import numpy as np

import tileworks


@ct.kernel
def matmul(a, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.full((M, N), 0.0, ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, index=(i, k), shape=(M, K), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, index=(k, j), shape=(K, N), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(c, index=(i, j), tile=ct.astype(acc, c.dtype))


random = np.random.default_rng(1)
a, b = (random.standard_normal((256, 256)).astype(np.float16) for _ in range(2))
c = np.empty((256, 256), np.float32)
arguments = (a, b, c, 128, 128, 64)
for stage in ("tile", "ptx"):
    c[:] = 0
    tileworks.launch((2, 2), matmul, arguments, stage=stage)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-3, atol=1e-2)
mma_lines = [line.strip() for line in tileworks.compile(matmul, arguments).stage("ptx").program.splitlines() if "mma" in line]
print(f"{len(mma_lines)} instructions on tensor cores, such as {mma_lines[0]}" if mma_lines else "no tensor cores")
timing = tileworks.time((2, 2), matmul, arguments)
for saved_share, change in timing.advice():
    print(f"{saved_share:.0%} of {timing.seconds * 1e6:.1f} us: {change}")
