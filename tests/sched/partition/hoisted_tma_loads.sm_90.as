// RUN: tile-sched -v --format=text % 2>&1 | grep -oE '^func.*"|TMA copies.*|^ +\(buffers.*|(warp_role|for|tma_load|pipeline_[a-z]+|barrier|async_fence|mma|shared_[a-z]+)(\(|$| @)(role: [0-9]+|id: [0-9]+, threads: [0-9]+|pipeline: [0-9]+)?'
//!tile tileas 7 atoms
//!tile target sm_90
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 512, 8, 16, 32], lane: [2, 4, 64, 128, 256], warp: [1024, 2048])
layout #1 = (register: [128, 256, 512, 1024, 2048], lane: [1, 2, 4, 8, 16], warp: [32, 64])
layout #2 = (register: [1, 2, 4, 1024], lane: [8, 16, 32, 64, 128], warp: [256, 512])
layout #3 = (register: [1, 2, 4, 1024, 2048], lane: [8, 16, 32, 64, 128], warp: [256, 512])
func "one_operand_for_all_iterations"(%0: ptr<f16>, %1: ptr<f32>, %2: i32, %3: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048], align: 1024), // buffer 0
    (elem: f16, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048], align: 1024), // buffer 1
    (elem: f32, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 260, 512, 1024, 2048], align: 128), // buffer 2
  ],
  maps: [
    (base: param(0), element: f16, dims: [max(param(2), const(1)), max(param(2), const(1))], strides: [product(param(2), const(2))], extent: [64, 64], swizzle: bytes128), // map 0
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf32, strides: [?, 1], scope: 2>
  type !2 = view<64x64, !0, padding: zero>
  type !3 = view<64x64, !1>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %2, fact: div_by(divisor: 16)) : i32 @0
  %6 = assume(value: %5, fact: bounded(low: 0)) : i32 @0
  %7 = make_token : token @0
  %8 = make_memref(base: %4, sizes: [%6, %6], strides: [%6]) : !0 @0
  %9 = make_memref(base: %1, sizes: [%6, %6], strides: [%6]) : !1 @0
  %10 = make_view(memref: %8) : !2 @0
  %11 = make_view(memref: %8) : !2 @0
  %12 = make_view(memref: %9) : !3 @0
  %13 = constant(0) : i32 @0
  %14 = constant(1) : i32 @0
  %15 = tma_load(view: %10, index: [%3, %3], token: %7, order: (semantics: weak), buffer: 0, map: 0) : token @0
  %16 = constant(0.0) : tile<64x64xf32, #0> @0
  %17 = for(lower: %13, upper: %6, step: %14, init: [%16]) : tile<64x64xf32, #0> @0 {
    (%18: i32, %19: tile<64x64xf32, #0>)
    %20 = tma_load(view: %11, index: [%18, %3], token: %7, order: (semantics: weak), buffer: 1, map: 0) : token @0
    %21 = compare(kind: int(predicate: equal, signedness: signed), lhs: %18, rhs: %13) : i1 @0
    %22 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%19), zero_init: %21, atom: "wgmma.m64k16.f32") : tile<64x64xf32, #0> @0
    continue(values: [%22]) @0
  }
  shared_store(x: %17, buffer: 2, atom: vector(vector_bits: 1)) @0
  %23 = shared_load(buffer: 2, atom: matrix) : tile<64x64xf32, #1> @0
  %24 = store_view(tile: %23, view: %12, index: [%3, %3], token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
func "few_bytes"(%0: ptr<f16>, %1: ptr<f32>, %2: i32, %3: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [32, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024], align: 1024), // buffer 0
    (elem: f16, shape: [64, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512, 1024], align: 1024), // buffer 1
    (elem: f32, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 260, 512, 1024, 2048], align: 128), // buffer 2
  ],
  maps: [
    (base: param(0), element: f16, dims: [max(param(2), const(1)), max(param(2), const(1))], strides: [product(param(2), const(2))], extent: [64, 32], swizzle: bytes128), // map 0
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf32, strides: [?, 1], scope: 2>
  type !2 = view<64x32, !0, padding: zero>
  type !3 = view<32x64, !0, padding: zero>
  type !4 = view<64x64, !1>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %2, fact: div_by(divisor: 16)) : i32 @0
  %6 = assume(value: %5, fact: bounded(low: 0)) : i32 @0
  %7 = make_token : token @0
  %8 = make_memref(base: %4, sizes: [%6, %6], strides: [%6]) : !0 @0
  %9 = make_memref(base: %1, sizes: [%6, %6], strides: [%6]) : !1 @0
  %10 = make_view(memref: %8) : !2 @0
  %11 = make_view(memref: %8) : !3 @0
  %12 = make_view(memref: %9) : !4 @0
  %13 = constant(0) : i32 @0
  %14 = constant(1) : i32 @0
  %15, %16 = load_view(view: %10, index: [%3, %3], token: %7, order: (semantics: weak), atom: vector(vector_bits: 3)) : tile<64x32xf16, #2>, token @0
  %17 = constant(0.0) : tile<64x64xf32, #0> @0
  shared_store(x: %15, buffer: 1, atom: vector(vector_bits: 3)) @0
  %18 = for(lower: %13, upper: %6, step: %14, init: [%17]) : tile<64x64xf32, #0> @0 {
    (%19: i32, %20: tile<64x64xf32, #0>)
    %21 = tma_load(view: %11, index: [%19, %3], token: %7, order: (semantics: weak), buffer: 0, map: 0) : token @0
    %22 = compare(kind: int(predicate: equal, signedness: signed), lhs: %19, rhs: %13) : i1 @0
    %23 = mma(lhs: memory(buffer: 1), rhs: memory(buffer: 0), acc: registers(%20), zero_init: %22, atom: "wgmma.m64k16.f32") : tile<64x64xf32, #0> @0
    continue(values: [%23]) @0
  }
  shared_store(x: %18, buffer: 2, atom: vector(vector_bits: 1)) @0
  %24 = shared_load(buffer: 2, atom: matrix) : tile<64x64xf32, #1> @0
  %25 = store_view(tile: %24, view: %12, index: [%3, %3], token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
func "written_meanwhile"(%0: ptr<f16>, %1: ptr<f32>, %2: i32, %3: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048], align: 1024), // buffer 0
    (elem: f16, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048], align: 1024), // buffer 1
    (elem: f32, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 260, 512, 1024, 2048], align: 128), // buffer 2
  ],
  maps: [
    (base: param(0), element: f16, dims: [max(param(2), const(1)), max(param(2), const(1))], strides: [product(param(2), const(2))], extent: [64, 64], swizzle: bytes128), // map 0
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf32, strides: [?, 1], scope: 2>
  type !2 = view<64x64, !0, padding: zero>
  type !3 = view<64x64, !1>
  type !4 = view<64x64, !0>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %2, fact: div_by(divisor: 16)) : i32 @0
  %6 = assume(value: %5, fact: bounded(low: 0)) : i32 @0
  %7 = make_token : token @0
  %8 = make_memref(base: %4, sizes: [%6, %6], strides: [%6]) : !0 @0
  %9 = make_memref(base: %1, sizes: [%6, %6], strides: [%6]) : !1 @0
  %10 = make_view(memref: %8) : !2 @0
  %11 = make_view(memref: %8) : !2 @0
  %12 = make_view(memref: %9) : !3 @0
  %13 = constant(0) : i32 @0
  %14 = constant(1) : i32 @0
  %15, %16 = load_view(view: %10, index: [%3, %3], token: %7, order: (semantics: weak), atom: vector(vector_bits: 3)) : tile<64x64xf16, #3>, token @0
  %17 = make_view(memref: %8) : !4 @0
  %18 = constant(0.0) : tile<64x64xf16, #3> @0
  %19 = store_view(tile: %18, view: %17, index: [%3, %3], token: %16, order: (semantics: weak), atom: vector(vector_bits: 3)) : token @0
  %20 = constant(0.0) : tile<64x64xf32, #0> @0
  shared_store(x: %15, buffer: 1, atom: vector(vector_bits: 3)) @0
  %21 = for(lower: %13, upper: %6, step: %14, init: [%20]) : tile<64x64xf32, #0> @0 {
    (%22: i32, %23: tile<64x64xf32, #0>)
    %24 = tma_load(view: %11, index: [%22, %3], token: %7, order: (semantics: weak), buffer: 0, map: 0) : token @0
    %25 = compare(kind: int(predicate: equal, signedness: signed), lhs: %22, rhs: %13) : i1 @0
    %26 = mma(lhs: memory(buffer: 1), rhs: memory(buffer: 0), acc: registers(%23), zero_init: %25, atom: "wgmma.m64k16.f32") : tile<64x64xf32, #0> @0
    continue(values: [%26]) @0
  }
  shared_store(x: %21, buffer: 2, atom: vector(vector_bits: 1)) @0
  %27 = shared_load(buffer: 2, atom: matrix) : tile<64x64xf32, #1> @0
  %28 = store_view(tile: %27, view: %12, index: [%3, %3], token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
func "ends_early"(%0: ptr<f16>, %1: ptr<f32>, %2: i32, %3: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048], align: 1024), // buffer 0
    (elem: f16, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048], align: 1024), // buffer 1
    (elem: f32, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 260, 512, 1024, 2048], align: 128), // buffer 2
  ],
  maps: [
    (base: param(0), element: f16, dims: [max(param(2), const(1)), max(param(2), const(1))], strides: [product(param(2), const(2))], extent: [64, 64], swizzle: bytes128), // map 0
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf32, strides: [?, 1], scope: 2>
  type !2 = view<64x64, !0, padding: zero>
  type !3 = view<64x64, !1>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %2, fact: div_by(divisor: 16)) : i32 @0
  %6 = assume(value: %5, fact: bounded(low: 0)) : i32 @0
  %7 = make_token : token @0
  %8 = make_memref(base: %4, sizes: [%6, %6], strides: [%6]) : !0 @0
  %9 = make_memref(base: %1, sizes: [%6, %6], strides: [%6]) : !1 @0
  %10 = make_view(memref: %8) : !2 @0
  %11 = make_view(memref: %8) : !2 @0
  %12 = make_view(memref: %9) : !3 @0
  %13 = constant(0) : i32 @0
  %14 = constant(1) : i32 @0
  %15, %16 = load_view(view: %10, index: [%3, %3], token: %7, order: (semantics: weak), atom: vector(vector_bits: 3)) : tile<64x64xf16, #3>, token @0
  %17 = constant(0) : i32 @0
  %18 = compare(kind: int(predicate: equal, signedness: signed), lhs: %3, rhs: %17) : i1 @0
  if(cond: %18) @0 {
    return @0
  } {
    yield @0
  }
  %19 = constant(0.0) : tile<64x64xf32, #0> @0
  shared_store(x: %15, buffer: 1, atom: vector(vector_bits: 3)) @0
  %20 = for(lower: %13, upper: %6, step: %14, init: [%19]) : tile<64x64xf32, #0> @0 {
    (%21: i32, %22: tile<64x64xf32, #0>)
    %23 = tma_load(view: %11, index: [%21, %3], token: %7, order: (semantics: weak), buffer: 0, map: 0) : token @0
    %24 = compare(kind: int(predicate: equal, signedness: signed), lhs: %21, rhs: %13) : i1 @0
    %25 = mma(lhs: memory(buffer: 1), rhs: memory(buffer: 0), acc: registers(%22), zero_init: %24, atom: "wgmma.m64k16.f32") : tile<64x64xf32, #0> @0
    continue(values: [%25]) @0
  }
  shared_store(x: %20, buffer: 2, atom: vector(vector_bits: 1)) @0
  %26 = shared_load(buffer: 2, atom: matrix) : tile<64x64xf32, #1> @0
  %27 = store_view(tile: %26, view: %12, index: [%3, %3], token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
//!tile function "one_operand_for_all_iterations"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
//!tile function "few_bytes"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 1, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 1, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 1, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 1, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 1, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 4096 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 1, loc: @0, message: "the tile is not copied by TMA: loading so few bytes through registers is faster")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 1, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
//!tile function "written_meanwhile"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 2, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 2, loc: @0, message: "store of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 2, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 2, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 2, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 2, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 2, loc: @0, message: "the tile is not copied by TMA: memory is written before MMAs have read it")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 2, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
//!tile function "ends_early"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 3, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 3, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 3, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 3, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 3, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 3, loc: @0, message: "the tile is not copied by TMA: the function may end before MMAs read it")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 3, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
