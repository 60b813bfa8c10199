"""Tests of a kernel that need no GPU: `pytest -p tileworks.cpu examples/ci`."""
import cuda.tile as ct
import numpy as np
import pytest
from kernels import softmax

STREAM = 0


@pytest.mark.parametrize("rows, columns", [(4, 128), (7, 100), (1, 1)])
def test_softmax(rows, columns):
    x = np.random.default_rng(1).standard_normal((rows, columns)).astype(np.float32)
    y = np.zeros_like(x)
    ct.launch(STREAM, (rows,), softmax, (x, y, 128))
    exponential = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, exponential / exponential.sum(axis=1, keepdims=True), rtol=1e-5)
