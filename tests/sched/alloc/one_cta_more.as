// RUN: tile-sched --format=text % | grep -oE 'func "[a-z_]*"|occupancy: [0-9]+|message: "a thread has[^"]*"'
//!tile tileas 7 atoms
//!tile target sm_100
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [128, 256, 512, 1024, 2048, 4096], lane: [1, 2, 4, 8, 16], warp: [32, 64])
layout #1 = (register: [128, 256], lane: [1, 2, 4, 8, 16], warp: [32, 64])
layout #2 = (register: [1, 2, 1024, 2048, 4096], lane: [4, 8, 16, 32, 64], warp: [128, 256, 512])
layout #3 = (register: [256, 512, 1024, 2048, 4096], lane: [1, 2, 4, 8, 16], warp: [32, 64, 128])
func "tiles_that_nearly_fit"(%0: ptr<f32>, %1: i32) (warps: 4) @0 {
  type !0 = memref<?xf32, strides: [1], scope: 1>
  type !1 = view<8192, !0>
  %2 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f32> @0
  %3 = assume(value: %1, fact: bounded(low: 0)) : i32 @0
  %4 = make_token : token @0
  %5 = block_id(axis: 0) : i32 @0
  %6 = make_memref(base: %2, sizes: [%3]) : !0 @0
  %7 = make_view(memref: %6) : !1 @0
  %8, %9 = load_view(view: %7, index: [%5], token: %4, order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<8192xf32, #0>, token @0
  %10 = unary(kind: exp(rounding: full), x: %8) : tile<8192xf32, #0> @0
  %11 = binary(kind: mul_f(rounding: nearest_even), lhs: %8, rhs: %10) : tile<8192xf32, #0> @0
  %12 = store_view(tile: %11, view: %7, index: [%5], token: %4, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
func "small_tiles"(%0: ptr<f32>, %1: i32) (warps: 4) @0 {
  type !0 = memref<?xf32, strides: [1], scope: 1>
  type !1 = view<512, !0>
  %2 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f32> @0
  %3 = assume(value: %1, fact: bounded(low: 0)) : i32 @0
  %4 = make_token : token @0
  %5 = block_id(axis: 0) : i32 @0
  %6 = make_memref(base: %2, sizes: [%3]) : !0 @0
  %7 = make_view(memref: %6) : !1 @0
  %8, %9 = load_view(view: %7, index: [%5], token: %4, order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<512xf32, #1>, token @0
  %10 = unary(kind: exp(rounding: full), x: %8) : tile<512xf32, #1> @0
  %11 = store_view(tile: %10, view: %7, index: [%5], token: %4, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
func "with_a_loop"(%0: ptr<f32>, %1: i32) (warps: 4) @0 {
  type !0 = memref<?xf32, strides: [1], scope: 1>
  type !1 = view<8192, !0>
  %2 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f32> @0
  %3 = assume(value: %1, fact: bounded(low: 0)) : i32 @0
  %4 = make_token : token @0
  %5 = constant(0) : i32 @0
  %6 = constant(1) : i32 @0
  %7 = make_memref(base: %2, sizes: [%3]) : !0 @0
  %8 = make_view(memref: %7) : !1 @0
  for(lower: %5, upper: %3, step: %6) @0 {
    (%9: i32)
    %10, %11 = load_view(view: %8, index: [%9], token: %4, order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<8192xf32, #0>, token @0
    %12 = unary(kind: exp(rounding: full), x: %10) : tile<8192xf32, #0> @0
    %13 = binary(kind: mul_f(rounding: nearest_even), lhs: %10, rhs: %12) : tile<8192xf32, #0> @0
    %14 = store_view(tile: %13, view: %8, index: [%9], token: %4, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
    continue @0
  }
  return @0
}
func "round_the_grid"(%0: ptr<f32>, %1: i32) (
  warps: 8,
  buffers: [
    (elem: f32, shape: [8192], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096], align: 128), // buffer 0
  ],
) @0 {
  type !0 = memref<?xf32, strides: [1], scope: 1>
  type !1 = view<8192, !0>
  %2 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f32> @0
  %3 = assume(value: %1, fact: bounded(low: 0)) : i32 @0
  %4 = make_token : token @0
  %5 = block_id(axis: 0) : i32 @0
  %6 = block_count(axis: 0) : i32 @0
  %7 = make_memref(base: %2, sizes: [%3]) : !0 @0
  %8 = make_view(memref: %7) : !1 @0
  for(lower: %5, upper: %3, step: %6) @0 {
    (%9: i32)
    %10 = copy_view(view: %8, index: [%9], token: %4, order: (semantics: weak), buffer: 0, layout: 2, atom: async(bytes: 16)) : token @0
    %11 = shared_load(buffer: 0, atom: matrix) : tile<8192xf32, #3> @0
    %12 = unary(kind: exp(rounding: full), x: %11) : tile<8192xf32, #3> @0
    %13 = binary(kind: mul_f(rounding: nearest_even), lhs: %11, rhs: %12) : tile<8192xf32, #3> @0
    %14 = store_view(tile: %13, view: %8, index: [%9], token: %4, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
    continue @0
  }
  return @0
}
//!tile function "tiles_that_nearly_fit"
//!tile log (pass: "convert", outcome: Missed, name: "LoadNotVectorized", category: Memory, function: 0, loc: @0, message: "load of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile function "small_tiles"
//!tile log (pass: "convert", outcome: Missed, name: "LoadNotVectorized", category: Memory, function: 1, loc: @0, message: "load of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 1, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile function "with_a_loop"
//!tile log (pass: "convert", outcome: Missed, name: "LoadNotVectorized", category: Memory, function: 2, loc: @0, message: "load of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 2, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile function "round_the_grid"
//!tile log (pass: "convert", outcome: Missed, name: "LoadNotVectorized", category: Memory, function: 3, loc: @0, message: "load of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 3, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 3, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
