// RUN: tile-sched --format=text -o whole.sched %; tile-sched --verify-only whole.sched; grep -oE '(barrier|store|load|for|if)\(' whole.sched; for number in 1 2; do awk -v gone=$number '/barrier/ { seen += 1; if (seen == gone) next } { print }' whole.sched > part.sched; tile-sched --verify-only part.sched; done
//!tile tileas 7 atoms
//!tile target sm_80
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [128], lane: [1, 2, 4, 8, 16], warp: [32, 64])
func "ordered"(%0: ptr<i32>, %1: i32) (warps: 4) @0 {
  %2 = constant(0) : i32 @0
  %3 = constant(1) : i32 @0
  %4 = make_token : token @0
  %5 = for(lower: %2, upper: %1, step: %3, init: [%4]) : token @0 {
    (%6: i32, %7: token)
    %8 = broadcast(x: %0) : tile<256xptr<i32>, #0> @0
    %9 = constant(255) : tile<256xi32, #0> @0
    %10 = iota : tile<256xi32, #0> @0
    %11 = binary(kind: sub_i(overflow: none), lhs: %9, rhs: %10) : tile<256xi32, #0> @0
    %12 = offset(ptr: %8, offset: %11) : tile<256xptr<i32>, #0> @0
    %13, %14 = load(ptr: %12, token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<256xi32, #0>, token @0
    %15 = binary(kind: add_i(overflow: none), lhs: %13, rhs: %10) : tile<256xi32, #0> @0
    %16 = offset(ptr: %8, offset: %10) : tile<256xptr<i32>, #0> @0
    %17 = store(ptr: %16, value: %15, token: %14, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
    continue(values: [%17]) @0
  }
  return @0
}
//!tile function "ordered"
//!tile log (pass: "convert", outcome: Missed, name: "LoadNotVectorized", category: Memory, function: 0, loc: @0, message: "load of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
