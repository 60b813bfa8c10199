// RUN: tile-sched  -v -o x % 2>&1 | grep -oE 'the loop is.*'
//!tile tileas 7 atoms
//!tile target sm_80
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 32, 64], lane: [2, 4, 8, 16, 128], warp: [256, 512])
layout #1 = (register: [1, 2], lane: [4, 8, 16, 32, 64], warp: [128, 256])
layout #2 = (register: [128, 256, 512], lane: [1, 2, 4, 8, 16], warp: [32, 64])
func "multiply_adds"(%0: ptr<f32>, %1: ptr<f32>, %2: i32, %3: i32) (
  warps: 4,
  buffers: [
    (elem: f32, shape: [32, 16], offsets: [1, 2, 4, 8, 16, 36, 72, 128, 256], align: 128), // buffer 0
    (elem: f32, shape: [16, 32], offsets: [1, 2, 4, 8, 16, 36, 72, 144, 256], align: 128), // buffer 1
    (elem: f32, shape: [32, 32], offsets: [1, 2, 4, 8, 16, 36, 72, 144, 256, 512], align: 128), // buffer 2
  ],
) @0 {
  type !0 = memref<?x?xf32, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf32, strides: [?, 1], scope: 2>
  type !2 = view<32x16, !0, padding: zero>
  type !3 = view<16x32, !0, padding: zero>
  type !4 = view<32x32, !1>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f32> @0
  %5 = assume(value: %2, fact: div_by(divisor: 16)) : i32 @0
  %6 = make_token : token @0
  %7 = make_memref(base: %4, sizes: [%5, %5], strides: [%5]) : !0 @0
  %8 = make_memref(base: %1, sizes: [%5, %5], strides: [%5]) : !1 @0
  %9 = make_view(memref: %7) : !2 @0
  %10 = make_view(memref: %7) : !3 @0
  %11 = make_view(memref: %8) : !4 @0
  %12 = constant(0) : i32 @0
  %13 = constant(1) : i32 @0
  %14 = constant(0.0) : tile<32x32xf32, #0> @0
  %15 = for(lower: %12, upper: %5, step: %13, init: [%14]) : tile<32x32xf32, #0> @0 {
    (%16: i32, %17: tile<32x32xf32, #0>)
    %18 = copy_view(view: %9, index: [%3, %16], token: %6, order: (semantics: weak), whole: true, buffer: 0, layout: 1, atom: async(bytes: 16)) : token @0
    %19 = copy_view(view: %10, index: [%16, %3], token: %6, order: (semantics: weak), whole: true, buffer: 1, layout: 1, atom: async(bytes: 16)) : token @0
    %20 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%17), atom: "multiply_add.k4") : tile<32x32xf32, #0> @0
    continue(values: [%20]) @0
  }
  shared_store(x: %15, buffer: 2, atom: vector(vector_bits: 1)) @0
  %21 = shared_load(buffer: 2, atom: matrix) : tile<32x32xf32, #2> @0
  %22 = store_view(tile: %21, view: %11, index: [%3, %3], token: %6, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
//!tile function "multiply_adds"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Declined, name: "NoTensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by FMA instructions: no tensor core atom takes these types and sizes")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
