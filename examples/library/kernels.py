"""The cuTile kernel `scale`, which CMakeLists.txt compiles into the library. `tileworks_exports` lists it for `tileworks export`."""
import cuda.tile as ct
import numpy as np
from tiles import TILE


@ct.kernel
def scale(x, y, factor, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(y, index=(i,), tile=ct.load(x, index=(i,), shape=(T,)) * factor)


vector = np.zeros(1024, np.float32)
tileworks_exports = {"scale": (scale, (vector, vector.copy(), np.float32(1), TILE))}
