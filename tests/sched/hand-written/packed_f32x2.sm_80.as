// RUN: tile-sched --format=text % | grep -oE '(pairs|fma|binary|convert|store_view|load_view)\(.*'
//!tile tileas 7 atoms
//!tile target sm_80
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 2], lane: [4, 8, 16, 32, 64], warp: [128, 256])
func "pairs"(%0: ptr<f32>, %1: ptr<f16>, %2: i32) (warps: 4) @0 {
  type !0 = memref<4096xf32, strides: [1], scope: 1>
  type !1 = memref<4096xf16, strides: [1], scope: 2>
  type !2 = view<512, !0>
  type !3 = view<512, !1>
  %3 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f32> @0
  %4 = assume(value: %1, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = make_token : token @0
  %6 = make_memref(base: %3) : !0 @0
  %7 = make_memref(base: %4) : !1 @0
  %8 = make_view(memref: %6) : !2 @0
  %9 = make_view(memref: %7) : !3 @0
  %10, %11 = load_view(view: %8, index: [%2], token: %5, order: (semantics: weak), in_bounds: [true], atom: vector(vector_bits: 2)) : tile<512xf32, #0>, token @0
  %12 = fma(kind: (rounding: nearest_even), a: %10, b: %10, c: %10) : tile<512xf32, #0> @0
  %13 = store_view(tile: %12, view: %8, index: [%2], token: %11, order: (semantics: weak), in_bounds: [true], atom: vector(vector_bits: 2)) : token @0
  %14, %15 = load_view(view: %9, index: [%2], token: %5, order: (semantics: weak), in_bounds: [true], atom: vector(vector_bits: 2)) : tile<512xf16, #0>, token @0
  %16 = binary(kind: mul_f(rounding: nearest_even), lhs: %14, rhs: %14) : tile<512xf16, #0> @0
  %17 = store_view(tile: %16, view: %9, index: [%2], token: %15, order: (semantics: weak), in_bounds: [true], atom: vector(vector_bits: 2)) : token @0
  %18 = convert(kind: f_to_f(rounding: nearest_even), x: %12) : tile<512xf16, #0> @0
  %19 = binary(kind: add_f(rounding: nearest_even), lhs: %18, rhs: %18) : tile<512xf16, #0> @0
  %20 = convert(kind: f_to_f(rounding: nearest_even), x: %19) : tile<512xf32, #0> @0
  %21 = store_view(tile: %20, view: %8, index: [%2], token: %13, order: (semantics: weak), in_bounds: [true], atom: vector(vector_bits: 2)) : token @0
  return @0
}
//!tile function "pairs"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 0, loc: @0, message: "store of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 64 bits per thread; divisibility, bounds or the tile's size limit the width")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 0, loc: @0, message: "store of 64 bits per thread; divisibility, bounds or the tile's size limit the width")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 0, loc: @0, message: "store of 128 bits per thread")
