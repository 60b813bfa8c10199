"""A vector addition, c = a + b. The script executes the output of every compiler stage, prints the schedule, and predicts the time."""
import cuda.tile as ct
import numpy as np

import tileworks


@ct.kernel
def vadd(a, b, c, T: ct.Constant[int]):
    i = ct.bid(0)
    x = ct.load(a, index=(i,), shape=(T,))
    y = ct.load(b, index=(i,), shape=(T,))
    ct.store(c, index=(i,), tile=x + y)


a, b, c = np.arange(1024, dtype=np.float32), np.ones(1024, np.float32), np.zeros(1024, np.float32)
arguments = (a, b, c, 256)
for stage in ("tile", "aa", "as", "sched", "ptx"):
    c[:] = 0
    tileworks.launch((4,), vadd, arguments, stage=stage)
    assert np.array_equal(c, a + b), stage
print(tileworks.compile(vadd, arguments).stage("sched").program)
print(tileworks.time((4,), vadd, arguments))
