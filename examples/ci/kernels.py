"""A softmax over the rows of a matrix, one row per tile block."""
import cuda.tile as ct


@ct.kernel
def softmax(x, y, COLUMNS: ct.Constant[int]):
    row = ct.bid(0)
    tile = ct.load(x, index=(row, 0), shape=(1, COLUMNS), padding_mode=ct.PaddingMode.NEG_INF)
    numerator = ct.exp(tile - ct.max(tile, axis=1, keepdims=True))
    ct.store(y, index=(row, 0), tile=numerator / ct.sum(numerator, axis=1, keepdims=True))
