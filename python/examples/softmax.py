"""A softmax of each row. The script compiles it for two targets, executes it on the CPU with checks for races, and predicts the times."""
import cuda.tile as ct
import numpy as np

import tileworks


@ct.kernel
def softmax(x, y, N: ct.Constant[int]):
    row = ct.bid(0)
    tile = ct.load(x, index=(row, 0), shape=(1, N), padding_mode=ct.PaddingMode.NEG_INF)
    exponentials = ct.exp(tile - ct.max(tile, axis=1, keepdims=True))
    ct.store(y, index=(row, 0), tile=exponentials / ct.sum(exponentials, axis=1, keepdims=True))


x = np.random.default_rng(1).standard_normal((8, 100), dtype=np.float32)
y = np.empty_like(x)
exponentials = np.exp(x - x.max(1, keepdims=True))
for target in ("sm_80", "sm_100"):
    y[:] = 0
    tileworks.launch((8,), softmax, (x, y, 128), target=target, stage="sched", check=True)
    np.testing.assert_allclose(y, exponentials / exponentials.sum(1, keepdims=True), rtol=1e-5)
    timing = tileworks.time((8,), softmax, (x, y, 128), target=target)
    print(f"{target}: right, {timing.seconds * 1e6:.2f} us on {timing.gpu}")
