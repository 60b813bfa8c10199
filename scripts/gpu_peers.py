#!/usr/bin/env python3
"""gpu_peers.py [--json FILE] [--seconds N]: times kernels of other libraries on the GPU, for a comparison with kernels of Tileworks.

The peers are cuBLAS, cuBLASLt, cuDNN and flash attention through torch, and kernels in Triton that follow its tutorials. Each row names the
production kernel of Tileworks (`perf/<name>` in the FOLDER of scripts/on-gpu) that computes the same result on the same shapes. Times are
medians of single launches.
"""
import argparse, json, statistics, sys, time

ROWS = []


def peer(name, kernel, flops=None):
    """Registers a peer library for a production kernel. The decorated function `build` allocates the inputs and returns the callable to time."""
    def register(build):
        ROWS.append((name, kernel, flops, build))
        return build
    return register


def median_seconds(call, repeat=20):
    """Returns the median time of a call in seconds, after three calls that are not timed."""
    import torch
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    seconds = []
    for _ in range(repeat):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        call()
        last.record()
        torch.cuda.synchronize()
        seconds.append(first.elapsed_time(last) / 1e3)
    return statistics.median(seconds)


def uniform(*shape, dtype):
    """Returns a tensor on the GPU with uniformly distributed numbers from -1 to 1."""
    import torch
    return (torch.rand(*shape, device='cuda', dtype=torch.float32) * 2 - 1).to(dtype)


def matmul(m, n, k, kind, transposed=''):
    """Returns a call of torch.matmul. `transposed` names the operands (`a`, `b`) that are stored transposed."""
    import torch
    dtype = getattr(torch, kind)
    a = uniform(k, m, dtype=dtype).t() if 'a' in transposed else uniform(m, k, dtype=dtype)
    b = uniform(n, k, dtype=dtype).t() if 'b' in transposed else uniform(k, n, dtype=dtype)
    out = torch.empty(m, n, device='cuda', dtype=dtype)
    return lambda: torch.matmul(a, b, out=out)


MATMULS = [
    ('matmul_f16_f16_prod_128x128x64', 4096, 4096, 4096, 'float16', ''),
    ('matmul_f16_f16_prod_128x256x64', 8192, 8192, 8192, 'float16', ''),
    ('matmul_bf16_bf16_prod_128x128x64', 4096, 28672, 8192, 'bfloat16', ''),
    ('matmul_bf16_bf16_prod_256x128x64', 8192, 8192, 8192, 'bfloat16', ''),
    ('tg_pmatmul_nt_prod', 8192, 14336, 4096, 'bfloat16', 'b'),
    ('tg_pmatmul_tn_prod', 4096, 14336, 8192, 'float16', 'a'),
    ('bf16_4096', 4096, 4096, 4096, 'bfloat16', ''),
]
# Each row: kernel, M, N, K, element type, and the operands that are stored transposed.
for row in MATMULS:
    peer('cublas', row[0], 2 * row[1] * row[2] * row[3])(lambda row=row: matmul(*row[1:]))


def batched_matmul(batch, size, kind):
    """Returns a call of torch.bmm on square matrices."""
    import torch
    a, b = (uniform(batch, size, size, dtype=getattr(torch, kind)) for _ in range(2))
    out = torch.empty_like(a)
    return lambda: torch.bmm(a, b, out=out)


peer('cublas', 'bmm_bf16_prod', 32 * 2 * 2048 ** 3)(lambda: batched_matmul(32, 2048, 'bfloat16'))
peer('cublas', 'tg_pbmm_prod', 16 * 2 * 2048 ** 3)(lambda: batched_matmul(16, 2048, 'float16'))


def scaled_matmul(m, n, k, a_kind, b_kind, out, fast):
    """Returns a call of cuBLASLt's MMA of 8-bit floats. `fast` accumulates with fewer bits than f32."""
    import torch
    a = uniform(m, k, dtype=getattr(torch, a_kind))
    b = uniform(n, k, dtype=getattr(torch, b_kind)).t()
    unit_scale = torch.ones((), device='cuda')
    return lambda: torch._scaled_mm(a, b, scale_a=unit_scale, scale_b=unit_scale, out_dtype=getattr(torch, out), use_fast_accum=fast)


for fast in (True, False):
    name = 'cublaslt_fast_accumulation' if fast else 'cublaslt'
    peer(name, 'mm_generic_e4m3_prod_128x256x128', 2 * 8192 ** 3)(lambda fast=fast: scaled_matmul(8192, 8192, 8192, 'float8_e4m3fn', 'float8_e4m3fn', 'float16', fast))
    peer(name, 'mm_generic_e5m2_prod_128x128x64', 2 * 4096 ** 3)(lambda fast=fast: scaled_matmul(4096, 4096, 4096, 'float8_e5m2', 'float8_e4m3fn', 'float16', fast))


@peer('cublaslt', 'mm_generic_i8_prod_128x128x64', 2 * 4096 ** 3)
def int8_matmul():
    import torch
    a, b = (torch.randint(-127, 127, (4096, 4096), device='cuda', dtype=torch.int8) for _ in range(2))
    return lambda: torch._int_mm(a, b.t())


@peer('cublas', 'tf32_4096', 2 * 4096 ** 3)
def tf32():
    import torch
    torch.backends.cuda.matmul.allow_tf32 = True
    a, b = (uniform(4096, 4096, dtype=torch.float32) for _ in range(2))
    return lambda: torch.matmul(a, b)


ATTENTIONS = [
    # Columns: kernel, batch, heads, heads of K and V, sequence length, head dimension, type, whether the mask is causal.
    ('fmha_f16_prod', 4, 32, 32, 8192, 128, 'float16', False),
    ('fmha_f16_causal_prod', 4, 32, 8, 8192, 128, 'float16', True),
    ('tg_fmha_bf16_prod', 4, 32, 8, 8192, 128, 'bfloat16', True),
    ('tg_fmha_lse_prod', 4, 16, 16, 4096, 128, 'float16', True),
    ('attention_d64', 4, 32, 32, 4096, 64, 'float16', False),
    ('attention_d64_causal', 4, 32, 32, 4096, 64, 'float16', True),
]


def attention(backend, backward, batch, heads, kv_heads, length, dimension, kind, causal):
    """Returns a call of torch's attention on a backend (`cudnn` or `flash2`): the forward pass, or with `backward` the gradients."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    dtype = getattr(torch, kind)
    q = uniform(batch, heads, length, dimension, dtype=dtype).requires_grad_(backward)
    k, v = (uniform(batch, kv_heads, length, dimension, dtype=dtype) for _ in range(2))
    if kv_heads != heads:
        k, v = (x.repeat_interleave(heads // kv_heads, 1) for x in (k, v))
    k, v = (x.requires_grad_(backward) for x in (k, v))
    sdpa_backend = SDPBackend.CUDNN_ATTENTION if backend == 'cudnn' else SDPBackend.FLASH_ATTENTION

    def forward():
        with sdpa_kernel(sdpa_backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    if not backward:
        return forward
    out = forward()
    gradient = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True)


for backend in ('cudnn', 'flash2'):
    for row in ATTENTIONS:
        flops = 4 * row[1] * row[2] * row[4] ** 2 * row[5] // (2 if row[7] else 1)
        peer(backend, row[0], flops)(lambda backend=backend, row=row: attention(backend, False, *row[1:]))
    for causal in (True, False):
        name = 'fmha_bwd' if causal else 'fmha_bwd_full'
        flops = 10 * 4 * 16 * 4096 ** 2 * 64 // (2 if causal else 1)
        peer(backend, name, flops)(lambda backend=backend, causal=causal: attention(backend, True, 4, 16, 16, 4096, 64, 'float16', causal))


def apply_to_rows(rows, columns, operation, kind='bfloat16'):
    """Returns the call that `operation` creates for a random matrix."""
    import torch
    x = uniform(rows, columns, dtype=getattr(torch, kind))
    return operation(torch, x)


def softmax(torch, x):
    return lambda: torch.softmax(x, -1)


def layer_norm(torch, x):
    weight, bias = (torch.ones(x.shape[1], device='cuda', dtype=x.dtype) for _ in range(2))
    return lambda: torch.nn.functional.layer_norm(x, x.shape[1:], weight, bias)


def rms_norm(torch, x):
    weight = torch.ones(x.shape[1], device='cuda', dtype=x.dtype)
    return lambda: torch.nn.functional.rms_norm(x, x.shape[1:], weight)


peer('torch', 'tg_softmax_tma_prod')(lambda: apply_to_rows(8192, 8192, softmax))
peer('torch', 'tg_softmax_regcached_prod')(lambda: apply_to_rows(65536, 2048, softmax))
peer('torch', 'tg_softmax_chunked_prod')(lambda: apply_to_rows(8192, 65536, softmax, 'float32'))
peer('torch', 'layer_norm_prod')(lambda: apply_to_rows(16384, 8192, layer_norm))
peer('torch', 'tg_layer_norm_persist_prod')(lambda: apply_to_rows(65536, 512, layer_norm))
peer('torch', 'tg_rms_cached_prod')(lambda: apply_to_rows(32768, 4096, rms_norm))
peer('torch', 'transpose_f32_prod')(lambda: apply_to_rows(8192, 8192, lambda torch, x: lambda: x.t().contiguous(), 'float32'))
peer('torch', 'vadd_f32_prod')(lambda: apply_to_rows(1 << 14, 1 << 14, lambda torch, x: (lambda y, out: lambda: torch.add(x, y, out=out))(x + 1, torch.empty_like(x)), 'float32'))
peer('inductor', 'tg_silu_mul_prod')(lambda: apply_to_rows(16384, 16384, lambda torch, x: compiled_silu_mul(torch, x)))


def compiled_silu_mul(torch, x):
    """Returns a call of torch.compile's code for silu of the left half of a matrix, times the right half."""
    gate = torch.compile(lambda x: torch.nn.functional.silu(x[:, :8192]) * x[:, 8192:])
    return lambda: gate(x)


def register_triton_peers():
    """Registers the kernels in Triton. Raises ImportError without Triton."""
    import gpu_triton
    for name, kernel, flops, build in gpu_triton.ROWS:
        ROWS.append((name, kernel, flops, build))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--json', default='peers.json', help='output file of the times')
    parser.add_argument('--seconds', type=float, default=150, help='start no peer after this time')
    given = parser.parse_args()
    start, results = time.monotonic(), []
    import torch
    try:
        register_triton_peers()
    except Exception as error:
        print(f'Triton: {error}', flush=True)
    about = {'torch': torch.__version__, 'cuda': torch.version.cuda, 'cudnn': torch.backends.cudnn.version()}
    for name, kernel, flops, build in ROWS:
        if time.monotonic() - start > given.seconds:
            print('out of time', flush=True)
            break
        row = {'peer': name, 'kernel': kernel, 'flops': flops}
        try:
            row['seconds'] = median_seconds(build())
            print(f'{name:28} {kernel:40} {row["seconds"] * 1e3:9.4f} ms', f'{flops / row["seconds"] / 1e12:7.1f} TFLOP/s' if flops else '', flush=True)
        except Exception as error:
            row['complaint'] = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
            print(f'{name:28} {kernel:40} {row["complaint"]}', flush=True)
        results.append(row)
        torch.cuda.empty_cache()
        with open(given.json, 'w') as file:
            json.dump({'about': about, 'peers': results}, file, indent=1)


if __name__ == '__main__':
    sys.exit(main())
