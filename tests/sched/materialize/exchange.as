// RUN: tile-sched --format=text % | sed '/^schedule/,$d' | tail -12 | grep -oE '(barrier|shared_load|shared_store|store_view)[(]'
//!tile tileas 7 atoms
//!tile target sm_80
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 512, 1024, 8, 16], lane: [2, 4, 64, 128, 256], warp: [2048, 32])
layout #1 = (register: [1, 2, 4, 1024], lane: [8, 16, 32, 64, 128], warp: [256, 512])
layout #2 = (register: [1, 256, 8, 16, 512], lane: [2, 4, 32, 64, 128], warp: [1024, 0])
layout #3 = (register: [64, 512, 8, 1024, 16], lane: [128, 256, 1, 2, 4], warp: [0, 32])
layout #4 = (register: [128, 256, 512, 1024, 2048], lane: [1, 2, 4, 8, 16], warp: [32, 64])
func "exchange"(%0: ptr<f16>, %1: ptr<f32>, %2: i32, %3: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [64, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512, 1024], align: 128), // buffer 0
    (elem: f16, shape: [32, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024], align: 128), // buffer 1
    (elem: f32, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 260, 512, 1024, 2048], align: 128), // buffer 2
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf32, strides: [?, 1], scope: 2>
  type !2 = view<64x32, !0, padding: zero>
  type !3 = view<32x64, !0, padding: zero>
  type !4 = view<64x64, !1>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %2, fact: div_by(divisor: 16)) : i32 @0
  %6 = make_token : token @0
  %7 = make_memref(base: %4, sizes: [%5, %5], strides: [%5]) : !0 @0
  %8 = make_memref(base: %1, sizes: [%5, %5], strides: [%5]) : !1 @0
  %9 = make_view(memref: %7) : !2 @0
  %10 = make_view(memref: %7) : !3 @0
  %11 = make_view(memref: %8) : !4 @0
  %12 = constant(0) : i32 @0
  %13 = constant(1) : i32 @0
  %14 = constant(0.0) : tile<64x64xf32, #0> @0
  %15 = for(lower: %12, upper: %5, step: %13, init: [%14]) : tile<64x64xf32, #0> @0 {
    (%16: i32, %17: tile<64x64xf32, #0>)
    %18 = copy_view(view: %9, index: [%3, %16], token: %6, order: (semantics: weak), whole: true, buffer: 0, layout: 1, atom: async(bytes: 16)) : token @0
    %19 = copy_view(view: %10, index: [%16, %3], token: %6, order: (semantics: weak), whole: true, buffer: 1, layout: 1, atom: async(bytes: 16)) : token @0
    %20 = shared_load(buffer: 0, atom: matrix) : tile<64x32xf16, #2> @0
    %21 = shared_load(buffer: 1, atom: matrix(trans: true)) : tile<32x64xf16, #3> @0
    %22 = mma(lhs: registers(%20), rhs: registers(%21), acc: registers(%17), atom: "mma.m16n8k16.f32") : tile<64x64xf32, #0> @0
    continue(values: [%22]) @0
  }
  shared_store(x: %15, buffer: 2, atom: vector(vector_bits: 1)) @0
  %23 = shared_load(buffer: 2, atom: matrix) : tile<64x64xf32, #4> @0
  %24 = store_view(tile: %23, view: %11, index: [%3, %3], token: %6, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
//!tile function "exchange"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with mma.sync")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
