// RUN: tile-sched --stop-after=prefetch-loads --format=text %
// The first kernel does not read its block index, so its grid has one CTA and no other CTA hides the latency of its loads. Its loop
// loads one iteration ahead. The loop of the second kernel depends on the block index.
// CHECK: func "one"
// CHECK: load(
// CHECK: for(
// CHECK: load(
// CHECK: func "many"
// CHECK-NOT: load(
// CHECK: for(
// CHECK: load(
//!tile tileas 7 atoms
//!tile target sm_90
//!tile option opt-level=3
layout #0 = (register: [128], lane: [1, 2, 4, 8, 16], warp: [32, 64])
func "one"(%0: ptr<f32>, %1: ptr<f32>, %2: i32) (warps: 4) @0 {
  %3 = constant(0) : i32 @0
  %4 = constant(1) : i32 @0
  %5 = constant(256) : i32 @0
  %6 = constant(0.0) : tile<256xf32, #0> @0
  %7 = for(lower: %3, upper: %2, step: %4, init: [%6]) : tile<256xf32, #0> @0 {
    (%8: i32, %9: tile<256xf32, #0>)
    %10 = binary(kind: mul_i(overflow: none), lhs: %8, rhs: %5) : i32 @0
    %11 = broadcast(x: %0) : tile<256xptr<f32>, #0> @0
    %12 = broadcast(x: %10) : tile<256xi32, #0> @0
    %13 = iota : tile<256xi32, #0> @0
    %14 = binary(kind: add_i(overflow: no_wrap), lhs: %12, rhs: %13) : tile<256xi32, #0> @0
    %15 = offset(ptr: %11, offset: %14) : tile<256xptr<f32>, #0> @0
    %16, %17 = load(ptr: %15, order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<256xf32, #0>, token @0
    %18 = binary(kind: add_f(rounding: nearest_even), lhs: %9, rhs: %16) : tile<256xf32, #0> @0
    continue(values: [%18]) @0
  }
  %19 = broadcast(x: %1) : tile<256xptr<f32>, #0> @0
  %20 = iota : tile<256xi32, #0> @0
  %21 = offset(ptr: %19, offset: %20) : tile<256xptr<f32>, #0> @0
  %22 = store(ptr: %21, value: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
func "many"(%0: ptr<f32>, %1: ptr<f32>, %2: i32) (warps: 4) @0 {
  %3 = block_id(axis: 0) : i32 @0
  %4 = constant(1) : i32 @0
  %5 = constant(256) : i32 @0
  %6 = constant(0.0) : tile<256xf32, #0> @0
  %7 = for(lower: %3, upper: %2, step: %4, init: [%6]) : tile<256xf32, #0> @0 {
    (%8: i32, %9: tile<256xf32, #0>)
    %10 = binary(kind: mul_i(overflow: none), lhs: %8, rhs: %5) : i32 @0
    %11 = broadcast(x: %0) : tile<256xptr<f32>, #0> @0
    %12 = broadcast(x: %10) : tile<256xi32, #0> @0
    %13 = iota : tile<256xi32, #0> @0
    %14 = binary(kind: add_i(overflow: no_wrap), lhs: %12, rhs: %13) : tile<256xi32, #0> @0
    %15 = offset(ptr: %11, offset: %14) : tile<256xptr<f32>, #0> @0
    %16, %17 = load(ptr: %15, order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<256xf32, #0>, token @0
    %18 = binary(kind: add_f(rounding: nearest_even), lhs: %9, rhs: %16) : tile<256xf32, #0> @0
    continue(values: [%18]) @0
  }
  %19 = broadcast(x: %1) : tile<256xptr<f32>, #0> @0
  %20 = iota : tile<256xi32, #0> @0
  %21 = offset(ptr: %19, offset: %20) : tile<256xptr<f32>, #0> @0
  %22 = store(ptr: %21, value: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
