"""The cuTile kernels on which `scripts/regret` compares the compiler's default plan with other plans.

The kernels are typical of libraries for inference and training of language models. They vary in tile shape, head size, element type
and problem size. `cases()` yields each kernel with one launch. The kernels have no expected results: `scripts/regret` only compares
their predicted or measured times. Loops are short, so that `tile-time` simulates one CTA in less than a second.
"""
import dataclasses
import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO
SMS = 132  # The SMs of an H100 or H200. Persistent kernels launch a multiple of this number of CTAs.


@dataclasses.dataclass
class Array:
    """An array argument in row-major order. `fill` is the initial contents, in the form of docs/launch-files.md. None means random numbers."""
    type: str
    shape: tuple
    fill: object = None


@dataclasses.dataclass
class Case:
    """A kernel with the arguments and the grid of one launch."""
    name: str
    kernel: object
    arguments: list            # An argument is an `Array`, an int (a compile-time constant), or a scalar such as ('f32', 0.125).
    grid: tuple


# Matmuls

@ct.kernel
def matmul(a, b, c, M: Const, N: Const, K: Const):
    """Computes C = A B with an f32 accumulator; each CTA computes one M x N tile."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(M, K))):
        x = ct.load(a, index=(i, k), shape=(M, K), padding_mode=ZERO)
        y = ct.load(b, index=(k, j), shape=(K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(c, index=(i, j), tile=ct.astype(acc, c.dtype))


@ct.kernel
def matmul_tf32(a, b, c, M: Const, N: Const, K: Const):
    """A matmul of f32 matrices, whose elements the kernel rounds to TF32 before the MMA."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(M, K))):
        x = ct.astype(ct.load(a, index=(i, k), shape=(M, K), padding_mode=ZERO), ct.tfloat32)
        y = ct.astype(ct.load(b, index=(k, j), shape=(K, N), padding_mode=ZERO), ct.tfloat32)
        acc = ct.mma(x, y, acc)
    ct.store(c, index=(i, j), tile=acc)


@ct.kernel
def matmul_nt(a, b, c, M: Const, N: Const, K: Const):
    """A matmul whose right operand is stored transposed."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(M, K))):
        x = ct.load(a, index=(i, k), shape=(M, K), padding_mode=ZERO)
        y = ct.transpose(ct.load(b, index=(j, k), shape=(N, K), padding_mode=ZERO))
        acc = ct.mma(x, y, acc)
    ct.store(c, index=(i, j), tile=ct.astype(acc, c.dtype))


@ct.kernel
def matmul_tn(a, b, c, M: Const, N: Const, K: Const):
    """A matmul whose left operand is stored transposed."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=0, shape=(K, M))):
        x = ct.transpose(ct.load(a, index=(k, i), shape=(K, M), padding_mode=ZERO))
        y = ct.load(b, index=(k, j), shape=(K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(c, index=(i, j), tile=ct.astype(acc, c.dtype))


@ct.kernel
def matmul_i8(a, b, c, M: Const, N: Const, K: Const):
    """A matmul of 8-bit integers with a 32-bit accumulator. The right operand is stored transposed."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), dtype=ct.int32)
    for k in range(ct.num_tiles(a, axis=1, shape=(M, K))):
        x = ct.load(a, index=(i, k), shape=(M, K))
        y = ct.transpose(ct.load(b, index=(j, k), shape=(N, K)))
        acc = ct.mma(x, y, acc)
    ct.store(c, index=(i, j), tile=acc)


@ct.kernel
def matmul_bias_gelu(a, b, bias, residual, c, M: Const, N: Const, K: Const):
    """A matmul with an epilogue: the kernel adds a bias, applies GELU (tanh approximation), and adds a residual."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(M, K))):
        x = ct.load(a, index=(i, k), shape=(M, K), padding_mode=ZERO)
        y = ct.load(b, index=(k, j), shape=(K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    acc = acc + ct.astype(ct.load(bias, index=(0, j), shape=(1, N)), ct.float32)
    acc = 0.5 * acc * (1.0 + ct.tanh(0.79788456 * (acc + 0.044715 * acc * acc * acc)))
    acc = acc + ct.astype(ct.load(residual, index=(i, j), shape=(M, N)), ct.float32)
    ct.store(c, index=(i, j), tile=ct.astype(acc, c.dtype))


@ct.kernel
def matmul_swiglu(a, gate, up, c, M: Const, N: Const, K: Const):
    """Two matmuls with one gate_acc operand, combined by SwiGLU: silu(A gate) * (A up)."""
    i, j = ct.bid(0), ct.bid(1)
    gate_acc = ct.zeros((M, N), dtype=ct.float32)
    up_acc = ct.zeros((M, N), dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(M, K))):
        x = ct.load(a, index=(i, k), shape=(M, K), padding_mode=ZERO)
        gate_acc = ct.mma(x, ct.load(gate, index=(k, j), shape=(K, N), padding_mode=ZERO), gate_acc)
        up_acc = ct.mma(x, ct.load(up, index=(k, j), shape=(K, N), padding_mode=ZERO), up_acc)
    ct.store(c, index=(i, j), tile=ct.astype(gate_acc / (1.0 + ct.exp(-gate_acc)) * up_acc, c.dtype))


@ct.kernel
def matmul_persistent(a, b, c, M: Const, N: Const, K: Const):
    """A matmul with fewer CTAs than output tiles: each CTA computes several output tiles in a loop."""
    columns = ct.cdiv(c.shape[1], N)
    tiles = ct.cdiv(c.shape[0], M) * columns
    for tile in range(ct.bid(0), tiles, ct.num_blocks(0)):
        i, j = tile // columns, tile % columns
        acc = ct.zeros((M, N), dtype=ct.float32)
        for k in range(ct.num_tiles(a, axis=1, shape=(M, K))):
            x = ct.load(a, index=(i, k), shape=(M, K), padding_mode=ZERO)
            y = ct.load(b, index=(k, j), shape=(K, N), padding_mode=ZERO)
            acc = ct.mma(x, y, acc)
        ct.store(c, index=(i, j), tile=ct.astype(acc, c.dtype))


@ct.kernel
def matmul_split_k(a, b, c, M: Const, N: Const, K: Const, S: Const):
    """A matmul that divides K among S CTAs. The CTAs add their partial results to the output with atomics."""
    i, j, s = ct.bid(0), ct.bid(1), ct.bid(2)
    acc = ct.zeros((M, N), dtype=ct.float32)
    steps = ct.num_tiles(a, axis=1, shape=(M, K)) // S
    for k in range(steps):
        x = ct.load(a, index=(i, s * steps + k), shape=(M, K), padding_mode=ZERO)
        y = ct.load(b, index=(s * steps + k, j), shape=(K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    rows, columns = i * M + ct.arange(M, dtype=ct.int32), j * N + ct.arange(N, dtype=ct.int32)
    ct.atomic_add(c, (rows[:, None], columns[None, :]), acc)


@ct.kernel
def matmul_batched(a, b, c, M: Const, N: Const, K: Const):
    """A batched matmul; the third grid dimension is the batch index."""
    n, i, j = ct.bid(2), ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=2, shape=(1, M, K))):
        x = ct.reshape(ct.load(a, index=(n, i, k), shape=(1, M, K), padding_mode=ZERO), (M, K))
        y = ct.reshape(ct.load(b, index=(n, k, j), shape=(1, K, N), padding_mode=ZERO), (K, N))
        acc = ct.mma(x, y, acc)
    ct.store(c, index=(n, i, j), tile=ct.reshape(ct.astype(acc, c.dtype), (1, M, N)))


@ct.kernel
def matmul_masked(a, b, counts, c, M: Const, N: Const, K: Const):
    """A batched matmul with a loaded row count per batch element. CTAs whose rows are all at or after this count do nothing."""
    n, i, j = ct.bid(2), ct.bid(0), ct.bid(1)
    count = ct.load(counts, index=(n,), shape=())
    if i * M < count:
        acc = ct.zeros((M, N), dtype=ct.float32)
        for k in range(ct.num_tiles(a, axis=2, shape=(1, M, K))):
            x = ct.reshape(ct.load(a, index=(n, i, k), shape=(1, M, K), padding_mode=ZERO), (M, K))
            y = ct.reshape(ct.load(b, index=(n, j, k), shape=(1, N, K), padding_mode=ZERO), (N, K))
            acc = ct.mma(x, ct.transpose(y), acc)
        ct.store(c, index=(n, i, j), tile=ct.reshape(ct.astype(acc, c.dtype), (1, M, N)))


@ct.kernel
def matmul_fp8_scaled(a, b, a_scale, b_scale, c, M: Const, N: Const, K: Const):
    """A matmul of 8-bit floats. The left operand has one scale per row and K tile, the right operand one per N x K tile."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(M, K))):
        x = ct.load(a, index=(i, k), shape=(M, K), padding_mode=ZERO)
        y = ct.transpose(ct.load(b, index=(j, k), shape=(N, K), padding_mode=ZERO))
        rows = ct.load(a_scale, index=(i, k), shape=(M, 1), padding_mode=ZERO)
        block = ct.load(b_scale, index=(j, k), shape=(1, 1))
        acc = acc + ct.mma(x, y, ct.zeros((M, N), dtype=ct.float32)) * (rows * block)
    ct.store(c, index=(i, j), tile=ct.astype(acc, c.dtype))


@ct.kernel
def matmul_w8a16(a, b, scale, c, M: Const, N: Const, K: Const):
    """A matmul with 8-bit integer weights, which the kernel converts to 16-bit floats before the MMA."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(M, K))):
        x = ct.load(a, index=(i, k), shape=(M, K), padding_mode=ZERO)
        y = ct.astype(ct.transpose(ct.load(b, index=(j, k), shape=(N, K), padding_mode=ZERO)), a.dtype)
        acc = ct.mma(x, y, acc)
    ct.store(c, index=(i, j), tile=ct.astype(acc * ct.load(scale, index=(0, j), shape=(1, N)), c.dtype))


@ct.kernel
def matmul_w4a16(a, b, scale, c, M: Const, N: Const, K: Const):
    """A matmul with two 4-bit weights per byte, and one scale per weight column and 2 K weights."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), dtype=ct.float32)
    for k in range(ct.num_tiles(b, axis=1, shape=(N, K))):
        packed = ct.load(b, index=(j, k), shape=(N, K))
        low = ct.astype((packed & 15) - 8, a.dtype)
        high = ct.astype((packed >> 4) - 8, a.dtype)
        factor = ct.astype(ct.load(scale, index=(j, k), shape=(N, 1)), a.dtype)
        x = ct.load(a, index=(i, 2 * k), shape=(M, K), padding_mode=ZERO)
        y = ct.load(a, index=(i, 2 * k + 1), shape=(M, K), padding_mode=ZERO)
        acc = ct.mma(x, ct.transpose(low * factor), acc)
        acc = ct.mma(y, ct.transpose(high * factor), acc)
    ct.store(c, index=(i, j), tile=ct.astype(acc, c.dtype))


@ct.kernel
def moe_matmul(a, weights, tokens, experts, factors, c, M: Const, N: Const, K: Const):
    """A matmul for a mixture of experts. The kernel gathers the token rows, which a router has sorted by expert, and multiplies
    each row tile by the matrix of its expert."""
    i, j = ct.bid(0), ct.bid(1)
    rows = ct.gather(tokens, i * M + ct.arange(M, dtype=ct.int32))
    expert = ct.load(experts, index=(i,), shape=())
    acc = ct.zeros((M, N), dtype=ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.gather(a, (rows[:, None], (k * K + ct.arange(K, dtype=ct.int32))[None, :]))
        y = ct.reshape(ct.load(weights, index=(expert, k, j), shape=(1, K, N), padding_mode=ZERO), (K, N))
        acc = ct.mma(x, y, acc)
    factor = ct.gather(factors, i * M + ct.arange(M, dtype=ct.int32))
    out = ct.astype(acc * ct.reshape(factor, (M, 1)), c.dtype)
    columns = j * N + ct.arange(N, dtype=ct.int32)
    ct.scatter(c, ((i * M + ct.arange(M, dtype=ct.int32))[:, None], columns[None, :]), out)


@ct.kernel
def gemv(a, x, y, R: Const, T: Const):
    """A matrix-vector product; each CTA computes R elements of the result."""
    i = ct.bid(0)
    acc = ct.zeros((R, T), dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(R, T))):
        row = ct.astype(ct.load(a, index=(i, k), shape=(R, T)), ct.float32)
        acc = acc + row * ct.astype(ct.load(x, index=(0, k), shape=(1, T)), ct.float32)
    ct.store(y, index=(i,), tile=ct.astype(ct.sum(acc, axis=1), y.dtype))


# Attention

@ct.kernel
def attention(q, k, v, o, scale, M: Const, N: Const, D: Const, CAUSAL: Const):
    """Flash attention of one head and M query rows, with an online softmax."""
    i, h = ct.bid(0), ct.bid(1)
    query = ct.reshape(ct.load(q, index=(h, i, 0), shape=(1, M, D)), (M, D))
    row_max = ct.full((M, 1), -1e30, dtype=ct.float32)
    row_sum = ct.zeros((M, 1), dtype=ct.float32)
    acc = ct.zeros((M, D), dtype=ct.float32)
    rows = i * M + ct.arange(M, dtype=ct.int32)
    key_tiles = ct.cdiv(k.shape[1], N)
    if CAUSAL:
        key_tiles = min(ct.cdiv((i + 1) * M, N), key_tiles)
    for j in range(key_tiles):
        keys = ct.reshape(ct.load(k, index=(h, j, 0), shape=(1, N, D)), (N, D))
        scores = ct.mma(query, ct.transpose(keys), ct.zeros((M, N), dtype=ct.float32)) * scale
        if CAUSAL:
            columns = j * N + ct.arange(N, dtype=ct.int32)
            scores = ct.where(rows[:, None] >= columns[None, :], scores, -1e30)
        new_max = ct.maximum(row_max, ct.max(scores, axis=1, keepdims=True))
        weights, rescale = ct.exp2(scores - new_max), ct.exp2(row_max - new_max)
        row_sum = row_sum * rescale + ct.sum(weights, axis=1, keepdims=True)
        values = ct.reshape(ct.load(v, index=(h, j, 0), shape=(1, N, D)), (N, D))
        acc = ct.mma(ct.astype(weights, v.dtype), values, acc * rescale)
        row_max = new_max
    ct.store(o, index=(h, i, 0), tile=ct.reshape(ct.astype(acc / row_sum, o.dtype), (1, M, D)))


@ct.kernel
def attention_decode(q, k, v, o, lse, scale, G: Const, N: Const, D: Const, SPLIT: Const):
    """Attention of one query token to a range of SPLIT key tiles. G query heads share one key head. The kernel also stores the
    log-sum-exps of the range, with which `merge_splits` combines the ranges."""
    h, s = ct.bid(0), ct.bid(1)
    query = ct.reshape(ct.load(q, index=(h, 0, 0), shape=(1, G, D)), (G, D))
    row_max = ct.full((G, 1), -1e30, dtype=ct.float32)
    row_sum = ct.zeros((G, 1), dtype=ct.float32)
    acc = ct.zeros((G, D), dtype=ct.float32)
    for j in range(s * SPLIT, (s + 1) * SPLIT):
        keys = ct.reshape(ct.load(k, index=(h, j, 0), shape=(1, N, D)), (N, D))
        scores = ct.mma(query, ct.transpose(keys), ct.zeros((G, N), dtype=ct.float32)) * scale
        new_max = ct.maximum(row_max, ct.max(scores, axis=1, keepdims=True))
        weights, rescale = ct.exp2(scores - new_max), ct.exp2(row_max - new_max)
        row_sum = row_sum * rescale + ct.sum(weights, axis=1, keepdims=True)
        values = ct.reshape(ct.load(v, index=(h, j, 0), shape=(1, N, D)), (N, D))
        acc = ct.mma(ct.astype(weights, v.dtype), values, acc * rescale)
        row_max = new_max
    ct.store(o, index=(h, s, 0, 0), tile=ct.reshape(ct.astype(acc / row_sum, o.dtype), (1, 1, G, D)))
    ct.store(lse, index=(h, s, 0), tile=ct.reshape(row_max + ct.log2(row_sum), (1, 1, G)))


@ct.kernel
def attention_decode_paged(q, k, v, table, o, scale, G: Const, P: Const, D: Const, PAGES: Const):
    """Attention of one query token to keys and values in pages of P tokens. A table lists the pages of each sequence."""
    b, h = ct.bid(0), ct.bid(1)
    query = ct.reshape(ct.load(q, index=(b, h, 0, 0), shape=(1, 1, G, D)), (G, D))
    row_max = ct.full((G, 1), -1e30, dtype=ct.float32)
    row_sum = ct.zeros((G, 1), dtype=ct.float32)
    acc = ct.zeros((G, D), dtype=ct.float32)
    for t in range(PAGES):
        page = ct.load(table, index=(b, t), shape=())
        keys = ct.reshape(ct.load(k, index=(page, h, 0, 0), shape=(1, 1, P, D)), (P, D))
        scores = ct.mma(query, ct.transpose(keys), ct.zeros((G, P), dtype=ct.float32)) * scale
        new_max = ct.maximum(row_max, ct.max(scores, axis=1, keepdims=True))
        weights, rescale = ct.exp2(scores - new_max), ct.exp2(row_max - new_max)
        row_sum = row_sum * rescale + ct.sum(weights, axis=1, keepdims=True)
        values = ct.reshape(ct.load(v, index=(page, h, 0, 0), shape=(1, 1, P, D)), (P, D))
        acc = ct.mma(ct.astype(weights, v.dtype), values, acc * rescale)
        row_max = new_max
    ct.store(o, index=(b, h, 0, 0), tile=ct.reshape(ct.astype(acc / row_sum, o.dtype), (1, 1, G, D)))


@ct.kernel
def attention_decode_mla(q, qr, c, cr, o, scale, G: Const, N: Const, D: Const, R: Const, SPLIT: Const):
    """Decoding with multi-head latent attention. The latent matrix `c` provides both keys and values. The keys have R further columns,
    `cr`, with rotary position embeddings."""
    b, s = ct.bid(0), ct.bid(1)
    query = ct.reshape(ct.load(q, index=(b, 0, 0), shape=(1, G, D)), (G, D))
    rope_query = ct.reshape(ct.load(qr, index=(b, 0, 0), shape=(1, G, R)), (G, R))
    row_max = ct.full((G, 1), -1e30, dtype=ct.float32)
    row_sum = ct.zeros((G, 1), dtype=ct.float32)
    acc = ct.zeros((G, D), dtype=ct.float32)
    for j in range(s * SPLIT, (s + 1) * SPLIT):
        latent = ct.reshape(ct.load(c, index=(b, j, 0), shape=(1, N, D)), (N, D))
        rope_keys = ct.reshape(ct.load(cr, index=(b, j, 0), shape=(1, N, R)), (N, R))
        scores = ct.mma(query, ct.transpose(latent), ct.zeros((G, N), dtype=ct.float32))
        scores = ct.mma(rope_query, ct.transpose(rope_keys), scores) * scale
        new_max = ct.maximum(row_max, ct.max(scores, axis=1, keepdims=True))
        weights, rescale = ct.exp2(scores - new_max), ct.exp2(row_max - new_max)
        row_sum = row_sum * rescale + ct.sum(weights, axis=1, keepdims=True)
        acc = ct.mma(ct.astype(weights, c.dtype), latent, acc * rescale)
        row_max = new_max
    ct.store(o, index=(b, s, 0, 0), tile=ct.reshape(ct.astype(acc / row_sum, o.dtype), (1, 1, G, D)))


@ct.kernel
def merge_splits(partial_results, lse, o, S: Const, D: Const):
    """Merges the attention results of S key ranges. The weight of a range is 2 to the power of its log-sum-exp."""
    b = ct.bid(0)
    log_weights = ct.load(lse, index=(b, 0), shape=(1, S))
    factors = ct.exp2(log_weights - ct.max(log_weights, axis=1, keepdims=True))
    factors = factors / ct.sum(factors, axis=1, keepdims=True)
    all_parts = ct.reshape(ct.load(partial_results, index=(b, 0, 0), shape=(1, S, D)), (S, D))
    out = ct.sum(ct.astype(all_parts, ct.float32) * ct.reshape(factors, (S, 1)), axis=0, keepdims=True)
    ct.store(o, index=(b, 0), tile=ct.astype(out, o.dtype))


@ct.kernel
def linear_attention(q, k, v, o, T: Const, D: Const):
    """Causal linear attention of one head in chunks of T tokens. The loop carries a D x D state from chunk to chunk."""
    h = ct.bid(0)
    state = ct.zeros((D, D), dtype=ct.float32)
    token = ct.arange(T, dtype=ct.int32)
    for t in range(ct.num_tiles(q, axis=1, shape=(1, T, D))):
        queries = ct.reshape(ct.load(q, index=(h, t, 0), shape=(1, T, D)), (T, D))
        keys = ct.reshape(ct.load(k, index=(h, t, 0), shape=(1, T, D)), (T, D))
        values = ct.reshape(ct.load(v, index=(h, t, 0), shape=(1, T, D)), (T, D))
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((T, T), dtype=ct.float32))
        scores = ct.where(token[:, None] >= token[None, :], scores, 0.0)
        out = ct.mma(ct.astype(scores, q.dtype), values, ct.zeros((T, D), dtype=ct.float32))
        out = ct.mma(queries, ct.astype(state, q.dtype), out)
        ct.store(o, index=(h, t, 0), tile=ct.reshape(ct.astype(out, o.dtype), (1, T, D)))
        state = ct.mma(ct.transpose(keys), values, state)


@ct.kernel
def delta_rule(q, k, v, gate, beta, o, D: Const, E: Const):
    """A gated delta rule that processes one token per iteration. The loop carries a state of D x E elements."""
    h, column_tile = ct.bid(0), ct.bid(1)
    state = ct.zeros((D, E), dtype=ct.float32)
    for t in range(q.shape[1]):
        key = ct.reshape(ct.astype(ct.load(k, index=(h, t, 0), shape=(1, 1, D)), ct.float32), (D, 1))
        query = ct.reshape(ct.astype(ct.load(q, index=(h, t, 0), shape=(1, 1, D)), ct.float32), (D, 1))
        value = ct.reshape(ct.astype(ct.load(v, index=(h, t, column_tile), shape=(1, 1, E)), ct.float32), (1, E))
        state = state * ct.exp(ct.reshape(ct.load(gate, index=(h, t), shape=(1, 1)), (1, 1)))
        error = (value - ct.sum(state * key, axis=0, keepdims=True)) * ct.load(beta, index=(h, t), shape=(1, 1))
        state = state + key * error
        out = ct.sum(state * query, axis=0, keepdims=True)
        ct.store(o, index=(h, t, column_tile), tile=ct.reshape(ct.astype(out, o.dtype), (1, 1, E)))


# Norms and softmax

@ct.kernel
def rms_norm(x, w, y, R: Const, N: Const):
    """An RMS norm with R complete rows per CTA."""
    i = ct.bid(0)
    row = ct.astype(ct.load(x, index=(i, 0), shape=(R, N), padding_mode=ZERO), ct.float32)
    scale = ct.rsqrt(ct.sum(row * row, axis=1, keepdims=True) / x.shape[1] + 1e-6)
    weight = ct.astype(ct.load(w, index=(0, 0), shape=(1, N), padding_mode=ZERO), ct.float32)
    ct.store(y, index=(i, 0), tile=ct.astype(row * scale * weight, y.dtype))


@ct.kernel
def rms_norm_chunked(x, w, y, T: Const):
    """An RMS norm of one row per CTA, in two loops over tiles of T elements: the sum of squares, then the result."""
    i = ct.bid(0)
    total = ct.zeros((1, T), dtype=ct.float32)
    for j in range(ct.num_tiles(x, axis=1, shape=(1, T))):
        row = ct.astype(ct.load(x, index=(i, j), shape=(1, T), padding_mode=ZERO), ct.float32)
        total = total + row * row
    scale = ct.rsqrt(ct.sum(total, axis=1, keepdims=True) / x.shape[1] + 1e-6)
    for j in range(ct.num_tiles(x, axis=1, shape=(1, T))):
        row = ct.astype(ct.load(x, index=(i, j), shape=(1, T), padding_mode=ZERO), ct.float32)
        weight = ct.astype(ct.load(w, index=(0, j), shape=(1, T), padding_mode=ZERO), ct.float32)
        ct.store(y, index=(i, j), tile=ct.astype(row * scale * weight, y.dtype))


@ct.kernel
def rms_norm_by_gather(x, w, y, T: Const):
    """The computation of `rms_norm_chunked` with `ct.gather` and `ct.scatter` instead of loads and stores of tiles."""
    i = ct.bid(0)
    total = ct.zeros((T,), dtype=ct.float32)
    for j in range(ct.cdiv(x.shape[1], T)):
        columns = j * T + ct.arange(T, dtype=ct.int32)
        row = ct.astype(ct.gather(x, (i, columns)), ct.float32)
        total = total + row * row
    scale = ct.rsqrt(ct.sum(total, axis=0, keepdims=False) / x.shape[1] + 1e-6)
    for j in range(ct.cdiv(x.shape[1], T)):
        columns = j * T + ct.arange(T, dtype=ct.int32)
        row = ct.astype(ct.gather(x, (i, columns)), ct.float32)
        weight = ct.astype(ct.gather(w, (0, columns)), ct.float32)
        ct.scatter(y, (i, columns), ct.astype(row * scale * weight, y.dtype))


@ct.kernel
def rms_norm_persistent(x, w, y, R: Const, N: Const):
    """An RMS norm in which each CTA processes several groups of R rows in a loop."""
    weight = ct.astype(ct.load(w, index=(0, 0), shape=(1, N), padding_mode=ZERO), ct.float32)
    for i in range(ct.bid(0), ct.num_tiles(x, axis=0, shape=(R, N)), ct.num_blocks(0)):
        row = ct.astype(ct.load(x, index=(i, 0), shape=(R, N), padding_mode=ZERO), ct.float32)
        scale = ct.rsqrt(ct.sum(row * row, axis=1, keepdims=True) / x.shape[1] + 1e-6)
        ct.store(y, index=(i, 0), tile=ct.astype(row * scale * weight, y.dtype))


@ct.kernel
def layer_norm(x, w, b, y, R: Const, N: Const):
    """A layer norm with R complete rows per CTA."""
    i = ct.bid(0)
    row = ct.astype(ct.load(x, index=(i, 0), shape=(R, N), padding_mode=ZERO), ct.float32)
    mean = ct.sum(row, axis=1, keepdims=True) / x.shape[1]
    centred = row - mean
    scale = ct.rsqrt(ct.sum(centred * centred, axis=1, keepdims=True) / x.shape[1] + 1e-5)
    weight = ct.astype(ct.load(w, index=(0, 0), shape=(1, N), padding_mode=ZERO), ct.float32)
    bias = ct.astype(ct.load(b, index=(0, 0), shape=(1, N), padding_mode=ZERO), ct.float32)
    ct.store(y, index=(i, 0), tile=ct.astype(centred * scale * weight + bias, y.dtype))


@ct.kernel
def norm_backward_weights(dy, x, rstd, dw, R: Const, N: Const):
    """Computes partial gradients of the weights of an RMS norm. Each CTA adds up the terms of its rows for N columns."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((R, N), dtype=ct.float32)
    rows = ct.num_tiles(x, axis=0, shape=(R, N))
    for r in range(i, rows, ct.num_blocks(0)):
        grad = ct.astype(ct.load(dy, index=(r, j), shape=(R, N), padding_mode=ZERO), ct.float32)
        value = ct.astype(ct.load(x, index=(r, j), shape=(R, N), padding_mode=ZERO), ct.float32)
        total = total + grad * value * ct.reshape(ct.load(rstd, index=(r,), shape=(R,), padding_mode=ZERO), (R, 1))
    ct.store(dw, index=(i, j), tile=ct.sum(total, axis=0, keepdims=True))


@ct.kernel
def softmax(x, y, R: Const, N: Const):
    """A softmax with R complete rows per CTA."""
    i = ct.bid(0)
    row = ct.astype(ct.load(x, index=(i, 0), shape=(R, N), padding_mode=ct.PaddingMode.NEG_INF), ct.float32)
    exponentials = ct.exp(row - ct.max(row, axis=1, keepdims=True))
    ct.store(y, index=(i, 0), tile=ct.astype(exponentials / ct.sum(exponentials, axis=1, keepdims=True), y.dtype))


@ct.kernel
def softmax_chunked(x, y, T: Const):
    """A softmax of one row per CTA, in two loops over tiles of T elements. The first loop computes an online maximum and sum."""
    i = ct.bid(0)
    row_max = ct.full((1, 1), -1e30, dtype=ct.float32)
    row_sum = ct.zeros((1, 1), dtype=ct.float32)
    for j in range(ct.num_tiles(x, axis=1, shape=(1, T))):
        row = ct.astype(ct.load(x, index=(i, j), shape=(1, T), padding_mode=ct.PaddingMode.NEG_INF), ct.float32)
        new_max = ct.maximum(row_max, ct.max(row, axis=1, keepdims=True))
        row_sum = row_sum * ct.exp(row_max - new_max) + ct.sum(ct.exp(row - new_max), axis=1, keepdims=True)
        row_max = new_max
    for j in range(ct.num_tiles(x, axis=1, shape=(1, T))):
        row = ct.astype(ct.load(x, index=(i, j), shape=(1, T), padding_mode=ct.PaddingMode.NEG_INF), ct.float32)
        ct.store(y, index=(i, j), tile=ct.astype(ct.exp(row - row_max) / row_sum, y.dtype))


@ct.kernel
def cross_entropy(logits, labels, loss, T: Const):
    """The cross-entropy loss of one row of logits per CTA, with an online log-sum-exp."""
    i = ct.bid(0)
    label = ct.load(labels, index=(i,), shape=())
    row_max = ct.full((T,), -1e30, dtype=ct.float32)
    row_sum = ct.zeros((T,), dtype=ct.float32)
    for j in range(ct.cdiv(logits.shape[1], T)):
        row = ct.astype(ct.gather(logits, (i, j * T + ct.arange(T, dtype=ct.int32)), padding_value=-1e30), ct.float32)
        new_max = ct.maximum(row_max, row)
        row_sum = row_sum * ct.exp(row_max - new_max) + ct.exp(row - new_max)
        row_max = new_max
    max_logit = ct.max(row_max, axis=0)
    exponential_sum = ct.sum(row_sum * ct.exp(row_max - max_logit), axis=0)
    label_logit = ct.astype(ct.gather(logits, (i, label)), ct.float32)
    ct.store(loss, index=(i,), tile=ct.reshape(max_logit + ct.log(exponential_sum) - label_logit, (1,)))


# Element-wise kernels, quantisers and data movement

@ct.kernel
def silu_mul(x, y, T: Const, H: Const):
    """Computes silu(gate) * up. The two inputs are the left and the right half of the rows of `x`; H is the number of tiles in a half."""
    i, j = ct.bid(0), ct.bid(1)
    gate = ct.astype(ct.load(x, index=(i, j), shape=(1, T), padding_mode=ZERO), ct.float32)
    up = ct.astype(ct.load(x, index=(i, j + H), shape=(1, T), padding_mode=ZERO), ct.float32)
    ct.store(y, index=(i, j), tile=ct.astype(gate / (1.0 + ct.exp(-gate)) * up, y.dtype))


@ct.kernel
def gelu_add(x, y, z, T: Const):
    """Computes gelu(x) + y, with the tanh approximation."""
    i = ct.bid(0)
    a = ct.astype(ct.load(x, index=(i,), shape=(T,), padding_mode=ZERO), ct.float32)
    b = ct.astype(ct.load(y, index=(i,), shape=(T,), padding_mode=ZERO), ct.float32)
    ct.store(z, index=(i,), tile=ct.astype(0.5 * a * (1.0 + ct.tanh(0.79788456 * (a + 0.044715 * a * a * a))) + b, z.dtype))


@ct.kernel
def add_persistent(x, y, z, T: Const):
    """An addition in which each CTA processes several tiles in a loop."""
    for i in range(ct.bid(0), ct.num_tiles(x, axis=0, shape=(T,)), ct.num_blocks(0)):
        a = ct.load(x, index=(i,), shape=(T,), padding_mode=ZERO)
        b = ct.load(y, index=(i,), shape=(T,), padding_mode=ZERO)
        ct.store(z, index=(i,), tile=a + b)


@ct.kernel
def rope(q, cos, sin, y, H: Const, D: Const):
    """Applies rotary position embeddings to all H heads of one token. D is half of the head size."""
    t = ct.bid(0)
    first_half = ct.astype(ct.load(q, index=(t, 0, 0), shape=(1, H, D)), ct.float32)
    second_half = ct.astype(ct.load(q, index=(t, 0, 1), shape=(1, H, D)), ct.float32)
    c = ct.reshape(ct.load(cos, index=(t, 0), shape=(1, D)), (1, 1, D))
    s = ct.reshape(ct.load(sin, index=(t, 0), shape=(1, D)), (1, 1, D))
    ct.store(y, index=(t, 0, 0), tile=ct.astype(first_half * c - second_half * s, y.dtype))
    ct.store(y, index=(t, 0, 1), tile=ct.astype(second_half * c + first_half * s, y.dtype))


@ct.kernel
def transpose(x, y, M: Const, N: Const):
    """Transposes a matrix in tiles of M x N elements."""
    i, j = ct.bid(0), ct.bid(1)
    ct.store(y, index=(j, i), tile=ct.transpose(ct.load(x, index=(i, j), shape=(M, N), padding_mode=ZERO)))


@ct.kernel
def permute_heads(x, y, T: Const, H: Const, D: Const):
    """Permutes an array of (token, head, column) to (head, token, column)."""
    i = ct.bid(0)
    tile = ct.load(x, index=(i, 0, 0), shape=(T, H, D))
    ct.store(y, index=(0, i, 0), tile=ct.permute(tile, (1, 0, 2)))


@ct.kernel
def gather_rows(table, ids, y, R: Const, T: Const):
    """Gathers rows of a table by index, as an embedding layer does."""
    i, j = ct.bid(0), ct.bid(1)
    rows = ct.load(ids, index=(i,), shape=(R,))
    columns = j * T + ct.arange(T, dtype=ct.int32)
    ct.store(y, index=(i, j), tile=ct.gather(table, (rows[:, None], columns[None, :])))


@ct.kernel
def moe_combine(x, expert_rows, factors, y, TOP: Const, T: Const):
    """Combines the outputs of a mixture of experts: adds up the TOP expert rows of a token, each times its factor."""
    i = ct.bid(0)
    for j in range(ct.cdiv(y.shape[1], T)):
        columns = j * T + ct.arange(T, dtype=ct.int32)
        total = ct.zeros((T,), dtype=ct.float32)
        for e in range(TOP):
            row = ct.load(expert_rows, index=(i, e), shape=())
            factor = ct.load(factors, index=(i, e), shape=())
            total = total + ct.astype(ct.gather(x, (row, columns)), ct.float32) * factor
        ct.store(y, index=(i, j), tile=ct.reshape(ct.astype(total, y.dtype), (1, T)))


@ct.kernel
def quantise_groups(x, y, scale, R: Const, G: Const, N: Const):
    """Quantises rows to 8-bit floats with one scale per group of G elements."""
    i, j = ct.bid(0), ct.bid(1)
    tile = ct.astype(ct.load(x, index=(i, j), shape=(R, N)), ct.float32)
    groups = ct.reshape(tile, (R, N // G, G))
    max_magnitude = ct.maximum(ct.max(ct.abs(groups), axis=2, keepdims=True), 1e-10)
    out = ct.reshape(groups * (448.0 / max_magnitude), (R, N))
    ct.store(y, index=(i, j), tile=ct.astype(out, y.dtype))
    ct.store(scale, index=(i, j), tile=ct.reshape(max_magnitude / 448.0, (R, N // G)))


@ct.kernel
def quantise_rows(x, y, scale, T: Const):
    """Quantises rows to 8-bit floats with one scale per row. The first loop over a row computes the scale, the second the result."""
    i = ct.bid(0)
    max_magnitudes = ct.zeros((1, T), dtype=ct.float32)
    for j in range(ct.num_tiles(x, axis=1, shape=(1, T))):
        max_magnitudes = ct.maximum(max_magnitudes, ct.abs(ct.astype(ct.load(x, index=(i, j), shape=(1, T), padding_mode=ZERO), ct.float32)))
    max_magnitude = ct.maximum(ct.max(max_magnitudes, axis=1, keepdims=True), 1e-10)
    for j in range(ct.num_tiles(x, axis=1, shape=(1, T))):
        tile = ct.astype(ct.load(x, index=(i, j), shape=(1, T), padding_mode=ZERO), ct.float32)
        ct.store(y, index=(i, j), tile=ct.astype(tile * (448.0 / max_magnitude), y.dtype))
    ct.store(scale, index=(i, 0), tile=max_magnitude / 448.0)


@ct.kernel
def amax(x, out, T: Const, S: Const):
    """Computes the largest magnitude of S consecutive tiles of T elements per CTA, in a loop over the tiles."""
    i = ct.bid(0)
    max_magnitudes = ct.zeros((T,), dtype=ct.float32)
    for j in range(S):
        max_magnitudes = ct.maximum(max_magnitudes, ct.abs(ct.astype(ct.load(x, index=(i * S + j,), shape=(T,), padding_mode=ZERO), ct.float32)))
    ct.store(out, index=(i,), tile=ct.reshape(ct.max(max_magnitudes, axis=0), (1,)))


@ct.kernel
def row_sums(x, out, R: Const, N: Const):
    """Computes the sums of R complete rows per CTA."""
    i = ct.bid(0)
    ct.store(out, index=(i,), tile=ct.sum(ct.astype(ct.load(x, index=(i, 0), shape=(R, N)), ct.float32), axis=1))


@ct.kernel
def column_sums(x, out, R: Const, N: Const):
    """Computes the sums of N columns per CTA, in a loop over tiles of R rows."""
    j = ct.bid(0)
    total = ct.zeros((R, N), dtype=ct.float32)
    for r in range(ct.num_tiles(x, axis=0, shape=(R, N))):
        total = total + ct.astype(ct.load(x, index=(r, j), shape=(R, N)), ct.float32)
    ct.store(out, index=(0, j), tile=ct.sum(total, axis=0, keepdims=True))


@ct.kernel
def row_scan(x, y, R: Const, N: Const):
    """Computes the prefix sums along R complete rows per CTA."""
    i = ct.bid(0)
    ct.store(y, index=(i, 0), tile=ct.cumsum(ct.load(x, index=(i, 0), shape=(R, N)), axis=1))


@ct.kernel
def row_scan_chunked(x, y, R: Const, T: Const):
    """Computes the prefix sums along R rows per CTA, in a loop over tiles of T columns."""
    i = ct.bid(0)
    preceding_sum = ct.zeros((R, 1), dtype=ct.float32)
    for j in range(ct.num_tiles(x, axis=1, shape=(R, T))):
        tile = ct.astype(ct.load(x, index=(i, j), shape=(R, T)), ct.float32)
        ct.store(y, index=(i, j), tile=ct.astype(ct.cumsum(tile, axis=1) + preceding_sum, y.dtype))
        preceding_sum = preceding_sum + ct.sum(tile, axis=1, keepdims=True)


@ct.kernel
def router_top1(logits, best, weight, R: Const, E: Const):
    """A router of a mixture of experts: computes the best expert of each token and its softmax weight."""
    i = ct.bid(0)
    tile = ct.astype(ct.load(logits, index=(i, 0), shape=(R, E)), ct.float32)
    exponentials = ct.exp(tile - ct.max(tile, axis=1, keepdims=True))
    ct.store(best, index=(i,), tile=ct.astype(ct.argmax(tile, axis=1), ct.int32))
    ct.store(weight, index=(i,), tile=ct.max(exponentials, axis=1) / ct.sum(exponentials, axis=1))


CUTILE_TYPES = {'f16': ct.float16, 'bf16': ct.bfloat16, 'f32': ct.float32, 'e4m3': ct.float8_e4m3fn, 'i8': ct.int8, 'i32': ct.int32}
ELEMENT_BYTES = {'f16': 2, 'bf16': 2, 'f32': 4, 'e4m3': 1, 'i8': 1, 'i32': 4}


def matmul_cases():
    """Yields the matmuls, also those with one column or few rows."""
    tiles = [(64, 64, 32), (64, 64, 64), (64, 128, 64), (128, 64, 64), (128, 128, 32), (128, 128, 64), (128, 128, 128), (128, 256, 64),
             (256, 128, 64), (256, 256, 64), (64, 256, 64), (32, 128, 128), (16, 128, 128), (16, 64, 256)]
    for index, (m, n, k) in enumerate(tiles):
        for element_type in ('f16', 'bf16'):
            rows, columns, depth = [(2048, 4096, 2048), (4096, 2048, 1024), (1024, 1024, 4096)][(index + (element_type == 'bf16')) % 3]
            rows = min(rows, m * 8) if m <= 32 else rows
            grid = (-(-rows // m), -(-columns // n), 1)
            yield Case(f'matmul_{element_type}_{m}x{n}x{k}', matmul,
                       [Array(element_type, (rows, depth)), Array(element_type, (depth, columns)), Array(element_type, (rows, columns)), m, n, k], grid)
    for m, n, k in [(64, 64, 32), (128, 64, 32), (128, 128, 32), (64, 128, 32), (128, 256, 32), (32, 64, 32)]:
        rows, columns, depth = 2048, 2048, 1024
        yield Case(f'tf32_{m}x{n}x{k}', matmul_tf32, [Array('f32', (rows, depth)), Array('f32', (depth, columns)), Array('f32', (rows, columns)), m, n, k],
                   (rows // m, columns // n, 1))
    for m, n, k in [(64, 64, 64), (128, 128, 64), (128, 256, 64), (64, 256, 64), (16, 128, 128)]:
        rows, columns, depth = (2048 if m > 16 else 64), 4096, 2048
        grid = (rows // m, columns // n, 1)
        out = Array('bf16', (rows, columns))
        yield Case(f'nt_bf16_{m}x{n}x{k}', matmul_nt, [Array('bf16', (rows, depth)), Array('bf16', (columns, depth)), out, m, n, k], grid)
        yield Case(f'tn_bf16_{m}x{n}x{k}', matmul_tn, [Array('bf16', (depth, rows)), Array('bf16', (depth, columns)), out, m, n, k], grid)
        yield Case(f'gelu_bf16_{m}x{n}x{k}', matmul_bias_gelu,
                   [Array('bf16', (rows, depth)), Array('bf16', (depth, columns)), Array('bf16', (1, columns)), Array('bf16', (rows, columns)), out, m, n, k], grid)
    for m, n, k in [(64, 64, 64), (128, 64, 64), (128, 128, 64), (64, 128, 64), (32, 64, 128)]:
        rows, columns, depth = 2048, 2048, 2048
        yield Case(f'swiglu_f16_{m}x{n}x{k}', matmul_swiglu,
                   [Array('f16', (rows, depth)), Array('f16', (depth, columns)), Array('f16', (depth, columns)), Array('f16', (rows, columns)), m, n, k],
                   (rows // m, columns // n, 1))
        yield Case(f'split_k_f16_{m}x{n}x{k}', matmul_split_k,
                   [Array('f16', (256, 8192)), Array('f16', (8192, 1024)), Array('f32', (256, 1024), 'zero'), m, n, k, 8], (256 // m, 1024 // n, 8))
        yield Case(f'masked_bf16_{m}x{n}x{k}', matmul_masked,
                   [Array('bf16', (16, 256, depth)), Array('bf16', (16, columns, depth)), Array('i32', (16,), {'constant': 'i32', 'value': 200}),
                    Array('bf16', (16, 256, columns)), m, n, k], (256 // m, columns // n, 16))
    for m, n, k in [(64, 128, 64), (128, 128, 64), (128, 256, 64), (256, 128, 64)]:
        for element_type in ('f16', 'bf16'):
            rows, columns, depth = 4096, 2048 if element_type == 'f16' else 4096, 512
            yield Case(f'persistent_{element_type}_{m}x{n}x{k}', matmul_persistent,
                       [Array(element_type, (rows, depth)), Array(element_type, (depth, columns)), Array(element_type, (rows, columns)), m, n, k],
                       (min(SMS, rows // m * (columns // n)), 1, 1))
    for b, (m, n, k) in [(64, (64, 64, 32)), (32, (128, 128, 64)), (128, (32, 32, 32)), (48, (64, 128, 64))]:
        for element_type in ('f16', 'e4m3'):
            yield Case(f'batched_{element_type}_{b}_{m}x{n}x{k}', matmul_batched,
                       [Array(element_type, (b, 512, 512)), Array(element_type, (b, 512, 512)), Array('f16', (b, 512, 512)), m, n, k], (512 // m, 512 // n, b))
    for m, n, k in [(64, 64, 128), (64, 128, 128), (128, 128, 128), (128, 64, 128), (32, 128, 128), (16, 128, 128)]:
        rows, columns, depth = (2048 if m > 32 else 128), 2048, 2048
        grid = (rows // m, columns // n, 1)
        yield Case(f'fp8_scaled_{m}x{n}x{k}', matmul_fp8_scaled,
                   [Array('e4m3', (rows, depth)), Array('e4m3', (columns, depth)), Array('f32', (rows, depth // k)), Array('f32', (columns // n, depth // k)),
                    Array('bf16', (rows, columns)), m, n, k], grid)
        yield Case(f'i8_{m}x{n}x{k}', matmul_i8, [Array('i8', (rows, depth)), Array('i8', (columns, depth)), Array('i32', (rows, columns)), m, n, k], grid)
        yield Case(f'w8a16_{m}x{n}x64', matmul_w8a16,
                   [Array('f16', (rows, depth)), Array('i8', (columns, depth)), Array('f32', (1, columns)), Array('f16', (rows, columns)), m, n, 64], grid)
        yield Case(f'w4a16_{m}x{n}x64', matmul_w4a16,
                   [Array('f16', (rows, depth)), Array('i8', (columns, depth // 2)), Array('f32', (columns, depth // 128)), Array('f16', (rows, columns)), m, n, 64], grid)
    for m, n, k in [(16, 128, 64), (32, 128, 64), (64, 64, 64), (64, 128, 64), (128, 128, 64), (128, 256, 64)]:
        for element_type, depth in (('bf16', 2048), ('f16', 1024)):
            rows = 4096 if m > 32 else 1024
            yield Case(f'moe_{element_type}_{m}x{n}x{k}', moe_matmul,
                       [Array(element_type, (1024, depth)), Array(element_type, (8, depth, 2048)), Array('i32', (rows,), {'iota': 'i32', 'modulo': 1024}),
                        Array('i32', (rows // m,), {'iota': 'i32', 'modulo': 8}), Array('f32', (rows,)), Array(element_type, (rows, 2048)), m, n, k],
                       (rows // m, 2048 // n, 1))
    for r, t in [(1, 1024), (4, 512), (8, 256), (16, 512), (4, 2048)]:
        yield Case(f'gemv_{r}x{t}', gemv, [Array('bf16', (8192, 4096)), Array('bf16', (1, 4096)), Array('bf16', (8192,)), r, t], (8192 // r, 1, 1))


def attention_cases():
    """Yields the attention kernels, and the recurrent kernels that replace attention."""
    for d in (32, 64, 128, 256):
        for m, n in [(64, 64), (128, 64), (128, 128), (64, 32), (256, 64)]:
            if m * d > 32768 or n * d > 16384:
                continue
            for causal in (0, 1):
                element_type = 'bf16' if (d + n + causal) % 3 else 'f16'
                heads, length = (32, 2048) if d <= 128 else (16, 1024)
                yield Case(f'attention{"_causal" if causal else ""}_{element_type}_d{d}_{m}x{n}', attention,
                           [*(Array(element_type, (heads, length, d)) for _ in range(4)), ('f32', 0.125), m, n, d, causal], (length // m, heads, 1))
    for d in (64, 128):
        for g, n in [(16, 64), (16, 128), (32, 128), (64, 64)]:
            for split, heads in ((8, 128), (4, 32)):
                length = 2048
                parts = length // n // split
                yield Case(f'decode_d{d}_g{g}_n{n}_s{split}', attention_decode,
                           [Array('bf16', (heads, g, d)), Array('bf16', (heads, length, d)), Array('bf16', (heads, length, d)),
                            Array('f32', (heads, parts, g, d)), Array('f32', (heads, parts, g)), ('f32', 0.125), g, n, d, split], (heads, parts, 1))
    for d in (64, 128, 256):
        for g, p in [(16, 16), (16, 32), (16, 64), (32, 64)]:
            batch, heads, pages = 64, 8, 1024 // p
            yield Case(f'decode_paged_d{d}_g{g}_p{p}', attention_decode_paged,
                       [Array('f16', (batch, heads, g, d)), Array('f16', (256, heads, p, d)), Array('f16', (256, heads, p, d)),
                        Array('i32', (batch, pages), {'iota': 'i32', 'modulo': 256}), Array('f16', (batch, heads, g, d)), ('f32', 0.125), g, p, d, pages],
                       (batch, heads, 1))
    for g, n, split in [(16, 32, 16), (16, 64, 8), (64, 32, 16), (64, 64, 8), (128, 32, 16)]:
        parts = 2048 // n // split
        yield Case(f'mla_g{g}_n{n}_s{split}', attention_decode_mla,
                   [Array('bf16', (32, g, 512)), Array('bf16', (32, g, 64)), Array('bf16', (32, 2048, 512)), Array('bf16', (32, 2048, 64)),
                    Array('bf16', (32, parts, g, 512)), ('f32', 0.07), g, n, 512, 64, split], (32, parts, 1))
    for s, d in [(8, 128), (16, 512), (32, 128), (64, 64)]:
        yield Case(f'merge_{s}x{d}', merge_splits, [Array('f32', (4096, s, d)), Array('f32', (4096, s)), Array('bf16', (4096, d)), s, d], (4096, 1, 1))
    for t, d in [(64, 64), (64, 128), (128, 64), (32, 128)]:
        yield Case(f'linear_attention_{t}x{d}', linear_attention, [Array('f16', (256, 1024, d))] * 4 + [t, d], (256, 1, 1))
    for d, e in [(64, 64), (128, 32), (128, 64), (128, 128)]:
        heads = 64
        yield Case(f'delta_rule_{d}x{e}', delta_rule,
                   [Array('bf16', (heads, 64, d)), Array('bf16', (heads, 64, d)), Array('bf16', (heads, 64, 128)), Array('f32', (heads, 64)), Array('f32', (heads, 64)),
                    Array('f32', (heads, 64, 128)), d, e], (heads, 128 // e, 1))


def norm_and_reduction_cases():
    """Yields the norms, softmaxes, reductions and quantisers that work on rows or columns."""
    for n in (1024, 2048, 4096, 8192, 16384):
        for element_type in ('bf16', 'f32') if n <= 8192 else ('bf16',):
            rows = 8192 if n <= 4096 else 2048
            x, w, y = Array(element_type, (rows, n)), Array(element_type, (1, n)), Array(element_type, (rows, n))
            yield Case(f'rms_{element_type}_{n}', rms_norm, [x, w, y, 1, n], (rows, 1, 1))
            yield Case(f'layer_norm_{element_type}_{n}', layer_norm, [x, w, Array(element_type, (1, n)), y, 1, n], (rows, 1, 1))
            yield Case(f'softmax_{element_type}_{n}', softmax, [x, y, 1, n], (rows, 1, 1))
    for r, n in [(4, 512), (16, 256), (4, 1024), (64, 128), (2, 4096)]:
        x, y = Array('bf16', (32768, n)), Array('bf16', (32768, n))
        yield Case(f'rms_rows_{r}x{n}', rms_norm, [x, Array('bf16', (1, n)), y, r, n], (32768 // r, 1, 1))
        yield Case(f'softmax_rows_{r}x{n}', softmax, [x, y, r, n], (32768 // r, 1, 1))
        yield Case(f'rms_persistent_{r}x{n}', rms_norm_persistent, [Array('bf16', (8192, n)), Array('bf16', (1, n)), Array('bf16', (8192, n)), r, n], (SMS * 2, 1, 1))
    for t in (256, 512, 1024, 2048, 4096):
        width, rows = 8192, 2048
        x, w, y = Array('bf16', (rows, width)), Array('bf16', (1, width)), Array('bf16', (rows, width))
        yield Case(f'rms_chunked_{t}', rms_norm_chunked, [x, w, y, t], (rows, 1, 1))
        yield Case(f'rms_gathered_{t}', rms_norm_by_gather, [x, w, y, t], (rows, 1, 1))
        yield Case(f'softmax_chunked_{t}', softmax_chunked, [x, y, t], (rows, 1, 1))
        yield Case(f'quantise_rows_{t}', quantise_rows, [x, Array('e4m3', (rows, width)), Array('f32', (rows, 1)), t], (rows, 1, 1))
        yield Case(f'cross_entropy_{t}', cross_entropy, [Array('bf16', (2048, 32000)), Array('i32', (2048,), {'iota': 'i32', 'modulo': 32000}), Array('f32', (2048,)), t],
                   (2048, 1, 1))
    for r, n in [(8, 256), (16, 128), (32, 64), (4, 1024), (64, 256)]:
        yield Case(f'norm_backward_{r}x{n}', norm_backward_weights,
                   [Array('bf16', (8192, 2048)), Array('bf16', (8192, 2048)), Array('f32', (8192,)), Array('f32', (32, 2048)), r, n], (32, 2048 // n, 1))
        yield Case(f'column_sums_{r}x{n}', column_sums, [Array('f32', (1024, 16384)), Array('f32', (1, 16384)), r, n], (16384 // n, 1, 1))
        yield Case(f'row_sums_{r}x{n}', row_sums, [Array('bf16', (65536, n)), Array('f32', (65536,)), r, n], (65536 // r, 1, 1))
        yield Case(f'row_scan_{r}x{n}', row_scan, [Array('f32', (16384, n)), Array('f32', (16384, n)), r, n], (16384 // r, 1, 1))


def elementwise_and_data_movement_cases():
    """Yields element-wise kernels, kernels that move data, group quantisers, scans and routers."""
    for t in (256, 1024, 2048, 4096, 8192):
        n = 1 << 24
        element_type = 'bf16' if t != 2048 else 'f32'
        yield Case(f'gelu_add_{t}', gelu_add, [Array(element_type, (n,))] * 3 + [t], (n // t, 1, 1))
        yield Case(f'add_persistent_{t}', add_persistent, [Array('f32', (1 << 22,))] * 3 + [t], (SMS * 4, 1, 1))
        if t <= 4096:
            yield Case(f'silu_mul_{t}', silu_mul, [Array('bf16', (4096, 8192)), Array('bf16', (4096, 4096)), t, 4096 // t], (4096, 4096 // t, 1))
    for h, d in [(8, 32), (32, 64), (16, 64), (64, 64), (32, 128)]:
        yield Case(f'rope_{h}x{d}', rope, [Array('bf16', (4096, h, 2 * d)), Array('f32', (4096, d)), Array('f32', (4096, d)), Array('bf16', (4096, h, 2 * d)), h, d], (4096, 1, 1))
    for element_type, m, n in [('f16', 64, 64), ('f32', 32, 32), ('f16', 128, 128), ('i8', 128, 128), ('f32', 64, 64), ('bf16', 32, 128)]:
        yield Case(f'transpose_{element_type}_{m}x{n}', transpose, [Array(element_type, (8192, 4096)), Array(element_type, (4096, 8192)), m, n], (8192 // m, 4096 // n, 1))
    for t, h, d in [(4, 32, 128), (16, 8, 64), (8, 16, 128), (32, 8, 128)]:
        yield Case(f'permute_{t}x{h}x{d}', permute_heads, [Array('f16', (8192, h, d)), Array('f16', (h, 8192, d)), t, h, d], (8192 // t, 1, 1))
    for r, t in [(1, 1024), (4, 256), (16, 128), (8, 1024), (32, 64)]:
        yield Case(f'gather_rows_{r}x{t}', gather_rows,
                   [Array('bf16', (32000, 4096)), Array('i32', (4096,), {'iota': 'i32', 'modulo': 32000}), Array('bf16', (4096, 4096)), r, t], (4096 // r, 4096 // t, 1))
    for top, t in [(2, 1024), (4, 512), (8, 1024), (8, 256), (6, 2048), (8, 4096)]:
        yield Case(f'moe_combine_{top}x{t}', moe_combine,
                   [Array('bf16', (16384, 4096)), Array('i32', (2048, top), {'iota': 'i32', 'modulo': 16384}), Array('f32', (2048, top)), Array('bf16', (2048, 4096)), top, t],
                   (2048, 1, 1))
    for r, g, n in [(1, 128, 4096), (8, 128, 512), (16, 32, 256), (32, 16, 128), (1, 128, 1024), (64, 128, 128)]:
        yield Case(f'quantise_groups_{r}x{n}_{g}', quantise_groups,
                   [Array('bf16', (4096, 4096)), Array('e4m3', (4096, 4096)), Array('f32', (4096, 4096 // g)), r, g, n], (4096 // r, 4096 // n, 1))
    for t, s, blocks in [(256, 16, 64), (1024, 8, 256), (4096, 8, 512), (512, 64, 32), (2048, 32, 132)]:
        yield Case(f'amax_{t}x{s}', amax, [Array('bf16', (t * s * blocks,)), Array('f32', (blocks,)), t, s], (blocks, 1, 1))
    for r, t in [(1, 1024), (8, 256), (32, 128), (64, 64), (4, 2048)]:
        yield Case(f'scan_{r}x{t}', row_scan_chunked, [Array('f32', (2048, 8192)), Array('f32', (2048, 8192)), r, t], (2048 // r, 1, 1))
    for r, e in [(64, 128), (16, 256), (128, 8), (32, 64), (8, 512)]:
        yield Case(f'router_{r}x{e}', router_top1, [Array('bf16', (16384, e)), Array('i32', (16384,)), Array('f32', (16384,)), r, e], (16384 // r, 1, 1))


def cases():
    """Yields all cases. In the functions that this function calls, one-letter variables are constants of the kernels: `m` is `M`."""
    for family in (matmul_cases, attention_cases, norm_and_reduction_cases, elementwise_and_data_movement_cases):
        yield from family()


def signature(case):
    """Returns the signature with which cuTile compiles the kernel of a case. It states what cuTile would derive from the arguments:
    contiguous rows, divisors of extents and strides, and 16-byte alignment."""
    from cuda.tile.compilation import ArrayConstraint, CallingConvention, ConstantConstraint, KernelSignature, ScalarConstraint
    parameters = []
    for argument in case.arguments:
        match argument:
            case Array(element_type, shape):
                elements_per_16_bytes, rank = 16 // ELEMENT_BYTES[element_type], len(shape)
                divisor = lambda n: elements_per_16_bytes if n % elements_per_16_bytes == 0 else 1
                strides = [1] * rank
                for axis in reversed(range(rank - 1)):
                    strides[axis] = strides[axis + 1] * shape[axis + 1]
                parameters.append(ArrayConstraint(
                    CUTILE_TYPES[element_type], rank, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=[], may_alias_internally=False,
                    stride_constant=[None] * (rank - 1) + [1], stride_divisible_by=[divisor(s) for s in strides[:-1]] + [1],
                    shape_divisible_by=[divisor(d) for d in shape], base_addr_divisible_by=16))
            case (element_type, _):
                parameters.append(ScalarConstraint(CUTILE_TYPES[element_type]))
            case constant:
                parameters.append(ConstantConstraint(constant))
    return KernelSignature(parameters, CallingConvention.cutile_python_v1())


def launch(case):
    """Returns the launch description of a case, which `tile-time` reads (docs/launch-files.md)."""
    buffers, parameters = [], []
    for index, argument in enumerate(case.arguments):
        if isinstance(argument, tuple):
            parameters.append({argument[0]: argument[1]})
        if not isinstance(argument, Array):
            continue
        size, strides = ELEMENT_BYTES[argument.type], []
        for extent in reversed(argument.shape):
            strides.insert(0, size // ELEMENT_BYTES[argument.type])
            size *= extent
        fill = argument.fill or {'random': argument.type, 'seed': index + 1, 'scale': 1}
        buffers.append({'name': f'arg{index}', 'bytes': size, 'fill': fill, 'align': 256})
        parameters += [{'ptr': f'arg{index}'}, *({'i32': n} for n in argument.shape), *({'i32': n} for n in strides)]
    return {'entry': None, 'grid': list(case.grid), 'buffers': buffers, 'params': parameters}
