"""Registers kernels in Triton for gpu_peers.py in `ROWS`: matmul with tensor descriptors, attention forward, softmax and layer norm."""
import torch, triton
import triton.language as tl

ROWS = []


@triton.autotune(configs=[
    triton.Config({'BM': 128, 'BN': 256, 'BK': 64, 'GROUP': 8}, num_stages=3, num_warps=8),
    triton.Config({'BM': 128, 'BN': 256, 'BK': 64, 'GROUP': 8}, num_stages=4, num_warps=8),
    triton.Config({'BM': 128, 'BN': 128, 'BK': 64, 'GROUP': 8}, num_stages=4, num_warps=8),
    triton.Config({'BM': 128, 'BN': 128, 'BK': 64, 'GROUP': 8}, num_stages=3, num_warps=4),
], key=['m', 'n', 'k'], pre_hook=None)
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    column_tiles = tl.cdiv(n, BN)
    tiles_per_group = GROUP * column_tiles
    first_row = pid // tiles_per_group * GROUP
    group_rows = min(tl.cdiv(m, BM) - first_row, GROUP)
    row = (first_row + pid % tiles_per_group % group_rows) * BM
    column = pid % tiles_per_group // group_rows * BN
    a = tl.make_tensor_descriptor(a_ptr, [m, k], [k, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [k, n], [n, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [m, n], [n, 1], [BM, BN])
    accumulator = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(0, k, BK):
        accumulator = tl.dot(a.load([row, step]), b.load([step, column]), accumulator)
    c.store([row, column], accumulator.to(c_ptr.dtype.element_ty))


def matmul(m, n, k, dtype):
    """Allocates the operands of a matmul and returns the call to time."""
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device='cuda', dtype=torch.int8))
    a, b = (torch.rand(shape, device='cuda').mul(2).sub(1).to(dtype) for shape in ((m, k), (k, n)))
    c = torch.empty(m, n, device='cuda', dtype=dtype)
    grid = lambda meta: (triton.cdiv(m, meta['BM']) * triton.cdiv(n, meta['BN']),)
    return lambda: matmul_kernel[grid](a, b, c, m, n, k)


for name, m, n, k, dtype in (('matmul_f16_f16_prod_128x128x64', 4096, 4096, 4096, torch.float16),
                             ('matmul_bf16_bf16_prod_256x128x64', 8192, 8192, 8192, torch.bfloat16)):
    ROWS.append(('triton', name, 2 * m * n * k, lambda m=m, n=n, k=k, dtype=dtype: matmul(m, n, k, dtype)))


@triton.autotune(configs=[triton.Config({'BM': 128, 'BN': size}, num_stages=stages, num_warps=8) for size in (64, 128) for stages in (2, 3)], key=['length'])
@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, o_ptr, length, scale, CAUSAL: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    start, head = tl.program_id(0) * BM, tl.program_id(1)
    at = head.to(tl.int64) * length * D
    q_view = tl.make_tensor_descriptor(q_ptr + at, [length, D], [D, 1], [BM, D])
    k_view = tl.make_tensor_descriptor(k_ptr + at, [length, D], [D, 1], [BN, D])
    v_view = tl.make_tensor_descriptor(v_ptr + at, [length, D], [D, 1], [BN, D])
    o_view = tl.make_tensor_descriptor(o_ptr + at, [length, D], [D, 1], [BM, D])
    q = q_view.load([start, 0])
    rows = start + tl.arange(0, BM)
    row_max = tl.full((BM,), -float('inf'), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    accumulator = tl.zeros((BM, D), tl.float32)
    last = start + BM if CAUSAL else length
    for step in range(0, last, BN):
        scores = tl.dot(q, k_view.load([step, 0]).T) * scale
        if CAUSAL:
            if step + BN > start:
                scores = tl.where(rows[:, None] >= step + tl.arange(0, BN)[None, :], scores, -float('inf'))
        new_row_max = tl.maximum(row_max, tl.max(scores, 1))
        weights = tl.exp2(scores - new_row_max[:, None])
        factor = tl.exp2(row_max - new_row_max)
        total = total * factor + tl.sum(weights, 1)
        accumulator = tl.dot(weights.to(q.dtype), v_view.load([step, 0]), accumulator * factor[:, None])
        row_max = new_row_max
    o_view.store([start, 0], (accumulator / total[:, None]).to(q.dtype))


def attention(heads, length, dimension, causal):
    """Allocates the operands of an attention kernel and returns the call to time."""
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device='cuda', dtype=torch.int8))
    q, k, v = (torch.rand(heads, length, dimension, device='cuda').mul(2).sub(1).half() for _ in range(3))
    out = torch.empty_like(q)
    grid = lambda meta: (triton.cdiv(length, meta['BM']), heads)
    return lambda: attention_kernel[grid](q, k, v, out, length, 1.4426950408889634 / dimension ** 0.5, causal, dimension)


for name, heads, length, dimension, causal in (('fmha_f16_prod', 128, 8192, 128, False), ('tg_fmha_lse_prod', 64, 4096, 128, True),
                                               ('attention_d64', 128, 4096, 64, False)):
    flops = 4 * heads * length ** 2 * dimension // (2 if causal else 1)
    ROWS.append(('triton', name, flops, lambda *given, shape=(heads, length, dimension, causal): attention(*shape)))


@triton.jit
def softmax_kernel(x_ptr, y_ptr, rows, columns: tl.constexpr):
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        at = row.to(tl.int64) * columns + tl.arange(0, columns)
        x = tl.load(x_ptr + at).to(tl.float32)
        e = tl.exp(x - tl.max(x, 0))
        tl.store(y_ptr + at, (e / tl.sum(e, 0)).to(y_ptr.dtype.element_ty))


def softmax(rows, columns):
    """Allocates a matrix and returns the call to time: a persistent kernel with up to four CTAs per SM of an H100."""
    x = torch.randn(rows, columns, device='cuda', dtype=torch.bfloat16)
    y = torch.empty_like(x)
    return lambda: softmax_kernel[(min(rows, 132 * 4),)](x, y, rows, columns, num_warps=8)


ROWS.append(('triton', 'tg_softmax_tma_prod', None, lambda: softmax(8192, 8192)))
ROWS.append(('triton', 'tg_softmax_regcached_prod', None, lambda: softmax(65536, 2048)))


@triton.jit
def layer_norm_kernel(x_ptr, y_ptr, weight_ptr, bias_ptr, columns: tl.constexpr, eps):
    offsets = tl.arange(0, columns)
    at = tl.program_id(0).to(tl.int64) * columns + offsets
    x = tl.load(x_ptr + at).to(tl.float32)
    centred = x - tl.sum(x, 0) / columns
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / columns + eps)
    y = centred * scale * tl.load(weight_ptr + offsets).to(tl.float32) + tl.load(bias_ptr + offsets).to(tl.float32)
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty))


def layer_norm(rows, columns):
    """Allocates a matrix and returns the call to time: one CTA per row."""
    x = torch.randn(rows, columns, device='cuda', dtype=torch.bfloat16)
    y, weight, bias = torch.empty_like(x), *(torch.ones(columns, device='cuda', dtype=torch.bfloat16) for _ in range(2))
    return lambda: layer_norm_kernel[(rows,)](x, y, weight, bias, columns, 1e-5, num_warps=8)


ROWS.append(('triton', 'layer_norm_prod', None, lambda: layer_norm(16384, 8192)))
