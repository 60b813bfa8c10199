"""The tile size of the kernels. A change of this file rebuilds the kernels that import it."""
TILE = 256
