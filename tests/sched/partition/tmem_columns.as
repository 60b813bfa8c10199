// RUN: tile-sched --format=text % | grep -E '^ +(warps|occupancy|\(name|tensor:)'
//!tile tileas 7 atoms
//!tile target sm_100
//!tile option opt-level=3
//!tile option warps=8
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (lane: [1, 2, 4, 8, 16], warp: [32, 0, 0])
layout #1 = (register: [1, 2, 1024, 2048, 4096], lane: [4, 8, 16, 32, 64], warp: [128, 256, 512])
layout #2 = (register: [1, 2, 4, 8], lane: [64, 128, 256, 512, 32], warp: [1024, 2048, 16])
layout #3 = (lane: [1, 2, 4, 8, 0], warp: [16, 32, 0])
layout #4 = (register: [8, 16, 32], lane: [0, 0, 0, 0, 0], warp: [1, 2, 4])
layout #5 = (register: [1, 2, 4, 8, 16], lane: [128, 256, 512, 1024, 64], warp: [2048, 4096, 32])
layout #6 = (register: [256, 512, 1024, 2048, 4096], lane: [1, 2, 4, 8, 16], warp: [32, 64, 128])
func "ctas_that_tmem_columns_allow"(%0: ptr<bf16>, %1: ptr<f32>, %2: i32, %3: i32) (
  warps: 8,
  buffers: [
    (elem: bf16, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 64], align: 1024), // buffer 0
    (elem: bf16, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 0, 1024, 2048], align: 32, space: tensor), // buffer 1
    (elem: f32, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 0, 2048, 4096], align: 32, space: tensor), // buffer 2
    (elem: f32, shape: [64, 1], offsets: [1, 2, 4, 8, 16, 32], align: 128), // buffer 3
    (elem: f32, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 0, 2048, 4096], align: 32, space: tensor), // buffer 4
    (elem: f32, shape: [64, 1], offsets: [1, 2, 4, 8, 16, 32], align: 128), // buffer 5
    (elem: f32, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 132, 264, 528, 1024, 2048, 4096], align: 128), // buffer 6
    (elem: f32, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 132, 264, 528, 1024, 2048, 4096], align: 128), // buffer 7
  ],
  maps: [
    (base: param(0), element: bf16, dims: [max(param(2), const(1)), max(param(2), const(1))], strides: [product(param(2), const(2))], extent: [64, 64], swizzle: bytes128), // map 0
  ],
) @0 {
  type !0 = memref<?x?xbf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf32, strides: [?, 1], scope: 2>
  type !2 = view<64x128, !0>
  type !3 = view<64x128, !1>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<bf16> @0
  %5 = assume(value: %2, fact: div_by(divisor: 16)) : i32 @0
  %6 = assume(value: %5, fact: bounded(low: 0)) : i32 @0
  %7 = make_token : token @0
  %8 = make_memref(base: %4, sizes: [%6, %6], strides: [%6]) : !0 @0
  %9 = make_memref(base: %1, sizes: [%6, %6], strides: [%6]) : !1 @0
  %10 = make_view(memref: %8) : !2 @0
  %11 = make_view(memref: %9) : !3 @0
  %12 = constant(0) : i32 @0
  %13 = constant(1) : i32 @0
  %14 = constant(true) : i1 @0
  %15 = constant(true) : i1 @0
  %16 = constant(0.0) : tile<64x1xf32, #0> @0
  %17 = constant(0.0) : tile<64x128xf32, #1> @0
  %18, %19, %20, %21 = for(lower: %12, upper: %13, step: %13, init: [%14, %15, %16, %17]) : i1, i1, tile<64x1xf32, #0>, tile<64x128xf32, #1> @0 {
    (%22: i32, %23: i1, %24: i1, %25: tile<64x1xf32, #0>, %26: tile<64x128xf32, #1>)
    %27 = tma_load(view: %10, index: [%22, %12], token: %7, order: (semantics: weak), buffer: 0, map: 0) : token @0
    %28 = unary(kind: exp(rounding: full), x: %25) : tile<64x1xf32, #0> @0
    %29 = constant(1.0) : tile<64x64xbf16, #2> @0
    tmem_store(x: %29, buffer: 1, from: 0, atom: "16x32bx2") @0
    shared_store(x: %28, buffer: 3, atom: vector(vector_bits: 0)) @0
    %30 = shared_load(buffer: 3, atom: vector(vector_bits: 0)) : tile<64x1xf32, #3> @0
    tmem_scale(by: %30, buffer: 2, zero_init: %23, atom: "16x32bx2") @0
    %31 = constant(false) : i1 @0
    mma(lhs: memory(buffer: 1), rhs: memory(buffer: 0), acc: memory(buffer: 2), zero_init: %31, atom: "tcgen05.k16.f32") @0
    %32 = constant(false) : i1 @0
    tmem_store(x: %29, buffer: 1, from: 0, atom: "16x32bx2") @0
    tmem_scale(by: %30, buffer: 4, zero_init: %24, atom: "16x32bx2") @0
    %33 = constant(false) : i1 @0
    mma(lhs: memory(buffer: 1), rhs: memory(buffer: 0), acc: memory(buffer: 4), zero_init: %33, atom: "tcgen05.k16.f32") @0
    %34 = constant(false) : i1 @0
    shared_store(x: %28, buffer: 5, atom: vector(vector_bits: 0)) @0
    %35 = shared_load(buffer: 5, atom: vector(vector_bits: 0)) : tile<64x1xf32, #4> @0
    %36 = broadcast(x: %35) : tile<64x128xf32, #1> @0
    %37 = binary(kind: add_f(rounding: nearest_even), lhs: %26, rhs: %36) : tile<64x128xf32, #1> @0
    continue(values: [%32, %34, %28, %37]) @0
  }
  %38 = tmem_load(buffer: 2, from: 0, atom: "16x32bx2") : tile<64x128xf32, #5> @0
  %39 = tmem_load(buffer: 4, from: 0, atom: "16x32bx2") : tile<64x128xf32, #5> @0
  %40 = binary(kind: add_f(rounding: nearest_even), lhs: %38, rhs: %39) : tile<64x128xf32, #5> @0
  shared_store(x: %21, buffer: 6, atom: vector(vector_bits: 2)) @0
  %41 = shared_load(buffer: 6, atom: vector(vector_bits: 2)) : tile<64x128xf32, #5> @0
  %42 = binary(kind: add_f(rounding: nearest_even), lhs: %40, rhs: %41) : tile<64x128xf32, #5> @0
  shared_store(x: %42, buffer: 7, atom: vector(vector_bits: 2)) @0
  %43 = shared_load(buffer: 7, atom: matrix) : tile<64x128xf32, #6> @0
  %44 = store_view(tile: %43, view: %11, index: [%3, %3], token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
//!tile function "ctas_that_tmem_columns_allow"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
