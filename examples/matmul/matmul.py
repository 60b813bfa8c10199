"""The matmul of 4096 x 4096 matrices that docs/optimizing-a-matmul.md optimizes.

    python matmul.py [TILE_M TILE_N TILE_K]

The script writes the kernel as matmul.tileirbc, and its launch description matmul.json, to the folder of this file. The default tile
sizes are 16 x 16 x 16. The environment variable MATMUL_SIZE sets the number of rows and columns (default 4096). The document
describes how the advice of `tile-time` leads to better tile sizes.
"""
import json
import os
import sys

import cuda.tile as ct
from cuda.tile.compilation import ArrayConstraint, CallingConvention, KernelSignature, export_kernel

SIZE = int(os.environ.get('MATMUL_SIZE', 4096))
TILE_M, TILE_N, TILE_K = map(int, sys.argv[1:4]) if len(sys.argv) > 3 else (16, 16, 16)


@ct.kernel
def matmul(a, b, c):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.full((TILE_M, TILE_N), 0.0, dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(TILE_M, TILE_K))):
        x = ct.load(a, index=(i, k), shape=(TILE_M, TILE_K))
        y = ct.load(b, index=(k, j), shape=(TILE_K, TILE_N))
        total = ct.mma(x, y, total)
    ct.store(c, index=(i, j), tile=ct.astype(total, ct.float16))


def main():
    array = ArrayConstraint(
        ct.float16, 2, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=[], may_alias_internally=False,
        stride_constant=[None, 1], stride_divisible_by=[8, 1], shape_divisible_by=[8, 8], base_addr_divisible_by=16)
    folder = os.path.dirname(os.path.abspath(__file__))
    export_kernel(matmul, [KernelSignature([array] * 3, CallingConvention.cutile_python_v1())], f'{folder}/matmul.tileirbc',
                  gpu_code='sm_100', output_format='tileir_bytecode', bytecode_version='13.1')
    extents = [{'i32': SIZE}, {'i32': SIZE}, {'i32': SIZE}, {'i32': 1}]
    grid = [SIZE // TILE_M, SIZE // TILE_N]
    buffers = [{'name': name, 'bytes': 2 * SIZE * SIZE, 'fill': {'random': 'f16', 'seed': seed, 'scale': 1} if seed else 'empty'}
               for name, seed in (('a', 1), ('b', 2), ('c', 0))]
    launch = {'grid': grid, 'buffers': buffers, 'params': [word for name in 'abc' for word in ({'ptr': name}, *extents)], 'outputs': ['c'],
              'work': {'flops': 2 * SIZE ** 3, 'bytes': 6 * SIZE ** 2, 'shape': f'C = A B, {SIZE} x {SIZE} each, f16'},
              'sample_blocks': [[grid[0] // 2, grid[1] // 2]]}
    with open(f'{folder}/matmul.json', 'w') as file:
        json.dump(launch, file, indent=1)
        file.write('\n')


main()
