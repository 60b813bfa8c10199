// RUN: tile-sched --roles=on --stop-after=alloc --format=text % | grep -oE '^func "[a-z]+"|depth: [0-9]+|latency: [0-9]+'
//!tile tileas 7 atoms
//!tile target sm_80
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 512, 1024, 8, 16], lane: [2, 4, 64, 128, 256], warp: [2048, 32])
layout #1 = (register: [1, 2, 4, 1024], lane: [8, 16, 32, 64, 128], warp: [256, 512])
layout #2 = (register: [1, 256, 8, 16, 512], lane: [2, 4, 32, 64, 128], warp: [1024, 0])
layout #3 = (register: [64, 512, 8, 1024, 16], lane: [128, 256, 1, 2, 4], warp: [0, 32])
layout #4 = (register: [1, 2, 512, 1024, 2048], lane: [4, 8, 16, 32, 64], warp: [128, 256])
func "unsaid"(%0: ptr<f16>, %1: ptr<f16>, %2: ptr<f32>, %3: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [64, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512, 1024], align: 128), // buffer 0
    (elem: f16, shape: [32, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024], align: 128), // buffer 1
    (elem: f32, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 260, 512, 1024, 2048], align: 128), // buffer 2
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf16, strides: [?, 1], scope: 2>
  type !2 = memref<?x?xf32, strides: [?, 1], scope: 3>
  type !3 = view<64x32, !0, padding: zero>
  type !4 = view<32x64, !1, padding: zero>
  type !5 = view<64x64, !2>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %1, fact: div_by(divisor: 16)) : ptr<f16> @0
  %6 = assume(value: %2, fact: div_by(divisor: 16)) : ptr<f32> @0
  %7 = assume(value: %3, fact: div_by(divisor: 16)) : i32 @0
  %8 = assume(value: %7, fact: bounded(low: 0)) : i32 @0
  %9 = make_token : token @0
  %10 = make_memref(base: %4, sizes: [%8, %8], strides: [%8]) : !0 @0
  %11 = make_memref(base: %5, sizes: [%8, %8], strides: [%8]) : !1 @0
  %12 = make_memref(base: %6, sizes: [%8, %8], strides: [%8]) : !2 @0
  %13 = make_view(memref: %10) : !3 @0
  %14 = make_view(memref: %11) : !4 @0
  %15 = make_view(memref: %12) : !5 @0
  %16 = constant(0) : i32 @0
  %17 = constant(1) : i32 @0
  %18 = constant(0.0) : tile<64x64xf32, #0> @0
  %19 = for(lower: %16, upper: %8, step: %17, init: [%18]) : tile<64x64xf32, #0> @0 {
    (%20: i32, %21: tile<64x64xf32, #0>)
    %22 = copy_view(view: %13, index: [%16, %20], token: %9, order: (semantics: weak), whole: true, buffer: 0, layout: 1, atom: async(bytes: 16)) : token @0
    %23 = copy_view(view: %14, index: [%20, %16], token: %9, order: (semantics: weak), whole: true, buffer: 1, layout: 1, atom: async(bytes: 16)) : token @0
    %24 = shared_load(buffer: 0, atom: matrix) : tile<64x32xf16, #2> @0
    %25 = shared_load(buffer: 1, atom: matrix(trans: true)) : tile<32x64xf16, #3> @0
    %26 = mma(lhs: registers(%24), rhs: registers(%25), acc: registers(%21), atom: "mma.m16n8k16.f32") : tile<64x64xf32, #0> @0
    continue(values: [%26]) @0
  }
  shared_store(x: %19, buffer: 2, atom: vector(vector_bits: 1)) @0
  %27 = shared_load(buffer: 2, atom: vector(vector_bits: 2)) : tile<64x64xf32, #4> @0
  %28 = store_view(tile: %27, view: %15, index: [%16, %16], token: %9, order: (semantics: weak), atom: vector(vector_bits: 2)) : token @0
  return @0
}
func "soon"(%0: ptr<f16>, %1: ptr<f16>, %2: ptr<f32>, %3: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [64, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512, 1024], align: 128), // buffer 0
    (elem: f16, shape: [32, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024], align: 128), // buffer 1
    (elem: f32, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 260, 512, 1024, 2048], align: 128), // buffer 2
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf16, strides: [?, 1], scope: 2>
  type !2 = memref<?x?xf32, strides: [?, 1], scope: 3>
  type !3 = view<64x32, !0, padding: zero>
  type !4 = view<32x64, !1, padding: zero>
  type !5 = view<64x64, !2>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %1, fact: div_by(divisor: 16)) : ptr<f16> @0
  %6 = assume(value: %2, fact: div_by(divisor: 16)) : ptr<f32> @0
  %7 = assume(value: %3, fact: div_by(divisor: 16)) : i32 @0
  %8 = assume(value: %7, fact: bounded(low: 0)) : i32 @0
  %9 = make_token : token @0
  %10 = make_memref(base: %4, sizes: [%8, %8], strides: [%8]) : !0 @0
  %11 = make_memref(base: %5, sizes: [%8, %8], strides: [%8]) : !1 @0
  %12 = make_memref(base: %6, sizes: [%8, %8], strides: [%8]) : !2 @0
  %13 = make_view(memref: %10) : !3 @0
  %14 = make_view(memref: %11) : !4 @0
  %15 = make_view(memref: %12) : !5 @0
  %16 = constant(0) : i32 @0
  %17 = constant(1) : i32 @0
  %18 = constant(0.0) : tile<64x64xf32, #0> @0
  %19 = for(lower: %16, upper: %8, step: %17, init: [%18]) : tile<64x64xf32, #0> @0 {
    (%20: i32, %21: tile<64x64xf32, #0>)
    %22 = copy_view(view: %13, index: [%16, %20], token: %9, order: (semantics: weak), whole: true, buffer: 0, layout: 1, latency: 1, atom: async(bytes: 16)) : token @0
    %23 = copy_view(view: %14, index: [%20, %16], token: %9, order: (semantics: weak), whole: true, buffer: 1, layout: 1, latency: 2, atom: async(bytes: 16)) : token @0
    %24 = shared_load(buffer: 0, atom: matrix) : tile<64x32xf16, #2> @0
    %25 = shared_load(buffer: 1, atom: matrix(trans: true)) : tile<32x64xf16, #3> @0
    %26 = mma(lhs: registers(%24), rhs: registers(%25), acc: registers(%21), atom: "mma.m16n8k16.f32") : tile<64x64xf32, #0> @0
    continue(values: [%26]) @0
  }
  shared_store(x: %19, buffer: 2, atom: vector(vector_bits: 1)) @0
  %27 = shared_load(buffer: 2, atom: vector(vector_bits: 2)) : tile<64x64xf32, #4> @0
  %28 = store_view(tile: %27, view: %15, index: [%16, %16], token: %9, order: (semantics: weak), atom: vector(vector_bits: 2)) : token @0
  return @0
}
func "late"(%0: ptr<f16>, %1: ptr<f16>, %2: ptr<f32>, %3: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [64, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512, 1024], align: 128), // buffer 0
    (elem: f16, shape: [32, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024], align: 128), // buffer 1
    (elem: f32, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 260, 512, 1024, 2048], align: 128), // buffer 2
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf16, strides: [?, 1], scope: 2>
  type !2 = memref<?x?xf32, strides: [?, 1], scope: 3>
  type !3 = view<64x32, !0, padding: zero>
  type !4 = view<32x64, !1, padding: zero>
  type !5 = view<64x64, !2>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %1, fact: div_by(divisor: 16)) : ptr<f16> @0
  %6 = assume(value: %2, fact: div_by(divisor: 16)) : ptr<f32> @0
  %7 = assume(value: %3, fact: div_by(divisor: 16)) : i32 @0
  %8 = assume(value: %7, fact: bounded(low: 0)) : i32 @0
  %9 = make_token : token @0
  %10 = make_memref(base: %4, sizes: [%8, %8], strides: [%8]) : !0 @0
  %11 = make_memref(base: %5, sizes: [%8, %8], strides: [%8]) : !1 @0
  %12 = make_memref(base: %6, sizes: [%8, %8], strides: [%8]) : !2 @0
  %13 = make_view(memref: %10) : !3 @0
  %14 = make_view(memref: %11) : !4 @0
  %15 = make_view(memref: %12) : !5 @0
  %16 = constant(0) : i32 @0
  %17 = constant(1) : i32 @0
  %18 = constant(0.0) : tile<64x64xf32, #0> @0
  %19 = for(lower: %16, upper: %8, step: %17, init: [%18]) : tile<64x64xf32, #0> @0 {
    (%20: i32, %21: tile<64x64xf32, #0>)
    %22 = copy_view(view: %13, index: [%16, %20], token: %9, order: (semantics: weak), whole: true, buffer: 0, layout: 1, latency: 1, atom: async(bytes: 16)) : token @0
    %23 = copy_view(view: %14, index: [%20, %16], token: %9, order: (semantics: weak), whole: true, buffer: 1, layout: 1, latency: 3, atom: async(bytes: 16)) : token @0
    %24 = shared_load(buffer: 0, atom: matrix) : tile<64x32xf16, #2> @0
    %25 = shared_load(buffer: 1, atom: matrix(trans: true)) : tile<32x64xf16, #3> @0
    %26 = mma(lhs: registers(%24), rhs: registers(%25), acc: registers(%21), atom: "mma.m16n8k16.f32") : tile<64x64xf32, #0> @0
    continue(values: [%26]) @0
  }
  shared_store(x: %19, buffer: 2, atom: vector(vector_bits: 1)) @0
  %27 = shared_load(buffer: 2, atom: vector(vector_bits: 2)) : tile<64x64xf32, #4> @0
  %28 = store_view(tile: %27, view: %15, index: [%16, %16], token: %9, order: (semantics: weak), atom: vector(vector_bits: 2)) : token @0
  return @0
}
//!tile function "unsaid"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with mma.sync")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 0, loc: @0, message: "store of 128 bits per thread")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile function "soon"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 1, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 1, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 1, loc: @0, message: "MMA by tensor cores, with mma.sync")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 1, loc: @0, message: "store of 128 bits per thread")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 1, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 1, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile function "late"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 2, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 2, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 2, loc: @0, message: "MMA by tensor cores, with mma.sync")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 2, loc: @0, message: "store of 128 bits per thread")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 2, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 2, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
