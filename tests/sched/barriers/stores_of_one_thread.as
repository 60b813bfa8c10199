// RUN: tile-sched --format=text %
// One thread stores each tile of one element, so the token between two iterations needs no barrier. A tile of 256 elements is
// stored by all threads: an element of one iteration and the same address in the next can belong to different threads.
// CHECK: func "element"
// CHECK: for(
// CHECK-NOT: barrier(
// CHECK: store(
// CHECK: func "tile"
// CHECK: for(
// CHECK: barrier(id: 0, threads: 128)
// CHECK: store(
//!tile tileas 7 atoms
//!tile target sm_90
//!tile option opt-level=3
layout #0 = (register: [128], lane: [1, 2, 4, 8, 16], warp: [32, 64])
func "element"(%0: ptr<i32>, %1: ptr<i32>, %2: i32) (warps: 4) @0 {
  %3 = constant(0) : i32 @0
  %4 = constant(1) : i32 @0
  %5, %6 = load(ptr: %1, order: (semantics: weak), atom: vector(vector_bits: 0)) : i32, token @0
  %7 = make_token : token @0
  %8 = for(lower: %3, upper: %2, step: %4, init: [%7]) : token @0 {
    (%9: i32, %10: token)
    %11 = binary(kind: mul_i(overflow: none), lhs: %9, rhs: %5) : i32 @0
    %12 = offset(ptr: %0, offset: %11) : ptr<i32> @0
    %13 = store(ptr: %12, value: %9, token: %10, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
    continue(values: [%13]) @0
  }
  return @0
}
func "tile"(%0: ptr<i32>, %1: ptr<i32>, %2: i32) (warps: 4) @0 {
  %3 = constant(0) : i32 @0
  %4 = constant(1) : i32 @0
  %5, %6 = load(ptr: %1, order: (semantics: weak), atom: vector(vector_bits: 0)) : i32, token @0
  %7 = make_token : token @0
  %8 = for(lower: %3, upper: %2, step: %4, init: [%7]) : token @0 {
    (%9: i32, %10: token)
    %11 = binary(kind: mul_i(overflow: none), lhs: %9, rhs: %5) : i32 @0
    %12 = broadcast(x: %0) : tile<256xptr<i32>, #0> @0
    %13 = broadcast(x: %11) : tile<256xi32, #0> @0
    %14 = iota : tile<256xi32, #0> @0
    %15 = binary(kind: add_i(overflow: none), lhs: %13, rhs: %14) : tile<256xi32, #0> @0
    %16 = offset(ptr: %12, offset: %15) : tile<256xptr<i32>, #0> @0
    %17 = store(ptr: %16, value: %15, token: %10, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
    continue(values: [%17]) @0
  }
  return @0
}
