// RUN: tile-sched --format=text % | grep -oE '(pairs|fma|unary|convert)\(.*'
//!tile tileas 7 atoms
//!tile target sm_100
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 2], lane: [4, 8, 16, 32, 64], warp: [128, 256])
func "exponentials"(%0: ptr<f32>, %1: i32) (warps: 4) @0 {
  type !0 = memref<4096xf32, strides: [1], scope: 1>
  type !1 = view<512, !0>
  %2 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f32> @0
  %3 = make_token : token @0
  %4 = make_memref(base: %2) : !0 @0
  %5 = make_view(memref: %4) : !1 @0
  %6, %7 = load_view(view: %5, index: [%1], token: %3, order: (semantics: weak), in_bounds: [true], atom: vector(vector_bits: 2)) : tile<512xf32, #0>, token @0
  %8 = unary(kind: exp2(ftz: true), x: %6) : tile<512xf32, #0> @0
  %9 = fma(kind: (rounding: nearest_even), a: %8, b: %8, c: %6) : tile<512xf32, #0> @0
  %10 = unary(kind: exp2(ftz: true), x: %9) : tile<512xf32, #0> @0
  %11 = store_view(tile: %10, view: %5, index: [%1], token: %7, order: (semantics: weak), in_bounds: [true], atom: vector(vector_bits: 2)) : token @0
  return @0
}
func "of_halves"(%0: ptr<f32>, %1: ptr<bf16>, %2: i32) (warps: 4) @0 {
  type !0 = memref<4096xf32, strides: [1], scope: 1>
  type !1 = memref<4096xbf16, strides: [1], scope: 2>
  type !2 = view<512, !0>
  type !3 = view<512, !1>
  %3 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f32> @0
  %4 = assume(value: %1, fact: div_by(divisor: 16)) : ptr<bf16> @0
  %5 = make_token : token @0
  %6 = make_memref(base: %3) : !0 @0
  %7 = make_memref(base: %4) : !1 @0
  %8 = make_view(memref: %6) : !2 @0
  %9 = make_view(memref: %7) : !3 @0
  %10, %11 = load_view(view: %8, index: [%2], token: %5, order: (semantics: weak), in_bounds: [true], atom: vector(vector_bits: 2)) : tile<512xf32, #0>, token @0
  %12, %13 = load_view(view: %9, index: [%2], token: %5, order: (semantics: weak), in_bounds: [true], atom: vector(vector_bits: 2)) : tile<512xbf16, #0>, token @0
  %14 = convert(kind: f_to_f(rounding: nearest_even), x: %12) : tile<512xf32, #0> @0
  %15 = fma(kind: (rounding: nearest_even), a: %14, b: %14, c: %10) : tile<512xf32, #0> @0
  %16 = unary(kind: exp2(ftz: true), x: %15) : tile<512xf32, #0> @0
  %17 = store_view(tile: %16, view: %8, index: [%2], token: %11, order: (semantics: weak), in_bounds: [true], atom: vector(vector_bits: 2)) : token @0
  return @0
}
//!tile function "exponentials"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 0, loc: @0, message: "store of 128 bits per thread")
//!tile function "of_halves"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 1, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 1, loc: @0, message: "load of 64 bits per thread; divisibility, bounds or the tile's size limit the width")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 1, loc: @0, message: "store of 128 bits per thread")
