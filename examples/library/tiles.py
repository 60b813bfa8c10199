"""The tile size of the kernels. If this file changes, the build compiles all kernels again that import it."""
TILE = 256
