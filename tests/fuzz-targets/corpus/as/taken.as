//!tile tileas 7 atoms
//!tile target sm_100
//!tile option clc=on
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 2, 512], lane: [4, 8, 16, 32, 64], warp: [128, 256])
func "scaled"(%0: ptr<f32>, %1: ptr<f32>, %2: i32) (warps: 4) @0 {
  type !0 = memref<?x?xf32, strides: [?, 1], scope: 1>
  type !1 = view<16x64, !0, padding: zero>
  type !2 = memref<?x?xf32, strides: [?, 1], scope: 2>
  type !3 = view<16x64, !2>
  %3 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f32> @0
  %4 = assume(value: %1, fact: div_by(divisor: 16)) : ptr<f32> @0
  %5 = assume(value: %2, fact: div_by(divisor: 16)) : i32 @0
  %6 = make_memref(base: %3, sizes: [%5, %5], strides: [%5]) : !0 @0
  %7 = make_view(memref: %6) : !1 @0
  %8 = make_memref(base: %4, sizes: [%5, %5], strides: [%5]) : !2 @0
  %9 = make_view(memref: %8) : !3 @0
  %10 = constant(0) : i32 @0
  %11 = constant(1) : i32 @0
  %12 = clc_block_count : i32 @0
  for(lower: %10, upper: %12, step: %11) @0 {
    (%13: i32)
    %14 = clc_block_id(iteration: %13, axis: 0) : i32 @0
    %15 = clc_block_id(iteration: %13, axis: 2) : i32 @0
    %16 = make_token : token @0
    %17, %18 = load_view(view: %7, index: [%14, %15], token: %16, order: (semantics: weak), atom: vector(vector_bits: 2)) : tile<16x64xf32, #0>, token @0
    %19 = constant(2.0) : tile<16x64xf32, #0> @0
    %20 = binary(kind: mul_f(rounding: nearest_even), lhs: %17, rhs: %19) : tile<16x64xf32, #0> @0
    %21 = store_view(tile: %20, view: %9, index: [%14, %15], token: %16, order: (semantics: weak), atom: vector(vector_bits: 2)) : token @0
    continue @0
  }
  return @0
}
//!tile function "scaled"
//!tile log (pass: "clc", outcome: Passed, name: "ClusterLaunchControl", category: Other, function: 0, loc: @0, message: "blocks take over others that have not begun, as --clc says")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits a thread")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 0, loc: @0, message: "store of 128 bits a thread")
